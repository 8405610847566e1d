"""What matplotlib works out again and again while it lays out and draws a figure, worked out once.

Nothing here changes a pixel. On another matplotlib than the one that this was written for, what is not found is left as it is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

from matplotlib.axes._base import _AxesBase
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


class _Known(threading.local):
    """What is known of the axes of the panel that is measured or drawn now, the innermost last: panels may stand in panels."""

    def __init__(self) -> None:
        self.panels: list[dict[tuple[Any, ...], tuple[Any, ...]]] = []


_known = _Known()
_OURS = "_iclbook"


def _remember_ticks() -> None:
    """Find the ticks of an axis, and the places of their labels, once each time that its panel is measured or drawn, where matplotlib does so for
    the axis, its label, each spine and the titles anew: a panel does not move meanwhile."""
    steps = (
        *((Axis, "_update_ticks"), (Axis, "_get_ticklabel_bboxes")),
        *((_AxesBase, "get_tightbbox"), (_AxesBase, "draw")),
    )
    if any(hasattr(getattr(owner, name, None), _OURS) or not hasattr(owner, name) for owner, name in steps):
        return
    Axis._update_ticks = _once(Axis._update_ticks)
    Axis._get_ticklabel_bboxes = _once(Axis._get_ticklabel_bboxes)
    _AxesBase.get_tightbbox = _remembering(_AxesBase.get_tightbbox)
    _AxesBase.draw = _remembering(_AxesBase.draw)


def _remembering(method: Callable) -> Callable:
    """A method of a panel during which the answers of its axes are kept."""

    @wraps(method)
    def call(panel: _AxesBase, *args: Any, **options: Any) -> Any:
        _known.panels.append({})
        try:
            return method(panel, *args, **options)
        finally:
            _known.panels.pop()

    setattr(call, _OURS, True)
    return call


def _once(method: Callable) -> Callable:
    """A method of an axis whose answer to the same arguments is kept as long as its panel stands still, at one resolution, and as long as its formatters
    hold its own ticks: axes may share one. Nobody changes the lists that it gives."""
    name = method.__name__

    @wraps(method)
    def call(axis: Axis, *args: Any) -> Any:
        if not _known.panels:
            return method(axis, *args)
        known = _known.panels[-1]
        key = (axis, name, axis.get_figure(root=True).dpi, *map(id, args))
        answer, held, _ = known.get(key, (None, None, None))
        if held is None or any(now is not then for now, then in zip(_ticks_held(axis), held, strict=True)):
            answer = method(axis, *args)
            known[key] = answer, _ticks_held(axis), args  # the arguments stay, so that their identities do
        return answer

    setattr(call, _OURS, True)
    return call


def _ticks_held(axis: Axis) -> tuple[Any, ...]:
    """The ticks that an axis's formatters hold now."""
    return tuple(getattr(ticker.formatter, "_locs", None) for ticker in (axis.major, axis.minor))
