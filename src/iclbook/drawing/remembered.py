"""What matplotlib works out again and again while it lays out and draws a figure, worked out once.

Nothing here changes a pixel. On another matplotlib than the one that this was written for, what is not found is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.mathtext import MathTextParser


def remember() -> None:
    """Remember formulas, and the ticks of panels that stand still; a second call changes nothing."""
    _remember_formulas()
    _remember_ticks()


def _remember_formulas() -> None:
    """Typeset each formula once: matplotlib remembers fifty, and those of one renderer only, while every picture has a new one."""
    parse = getattr(getattr(MathTextParser, "_parse_cached", None), "__wrapped__", None)
    if parse is None:  # ours already, or another matplotlib
        return
    kept = lru_cache(4096)(lambda output, *formula: parse(MathTextParser(output), *formula))
    outputs = {"raster": "agg", "vector": "path"}
    MathTextParser._parse_cached = lambda self, *formula: kept(outputs[self._output_type], *formula)


#: What is known of the axes of the panel that is measured or drawn now: (axis, what) -> value. Panels may stand in panels.
_known: list[dict[tuple[Any, ...], Any]] = []


def _remember_ticks() -> None:
    """Find the ticks of an axis, and the places of their labels, once each time that its panel is measured or drawn, where matplotlib does so for
    the axis, its label, each spine and the titles anew: a panel does not move meanwhile."""
    steps = (Axis, "_update_ticks"), (Axis, "_get_ticklabel_bboxes"), (Axes, "get_tightbbox"), (Axes, "draw")
    if any(hasattr(getattr(owner, name, None), _OURS) or not hasattr(owner, name) for owner, name in steps):
        return
    Axis._update_ticks = _once(Axis._update_ticks)
    Axis._get_ticklabel_bboxes = _once(Axis._get_ticklabel_bboxes)
    Axes.get_tightbbox = _standing(Axes.get_tightbbox)
    Axes.draw = _standing(Axes.draw)


_OURS = "_iclbook"


def _standing(method: Callable) -> Callable:
    """A method of a panel that does not move it but at its beginning."""

    @wraps(method)
    def call(panel: Axes, *args: Any, **options: Any) -> Any:
        _known.append({})
        try:
            return method(panel, *args, **options)
        finally:
            _known.pop()

    setattr(call, _OURS, True)
    return call


def _once(method: Callable) -> Callable:
    """A method of an axis whose answer is kept as long as the panel stands still; nobody changes the lists that it gives."""
    name = method.__name__

    @wraps(method)
    def call(axis: Axis, *args: Any) -> Any:
        if not _known:
            return method(axis, *args)
        key = (axis, name)
        if key not in _known[-1]:
            _known[-1][key] = method(axis, *args)
        return _known[-1][key]

    setattr(call, _OURS, True)
    return call
