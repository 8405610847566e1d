"""Sliders over figures, in two modes from one definition.

``static``: every frame is drawn when the notebook runs; the built page moves between them with no kernel.
``live``: with a kernel, the figure is drawn anew for any value.
``show_model``: a model that itself runs in the page, with no kernel (:mod:`iclbook.sliders.page_model`).

Example:
    >>> def frame(gamma):
    ...     fig, ax = style.figure()
    ...     ax.plot(...)
    ...     return fig
    >>> show(frame, [Slider("gamma", "scale γ", [0.05, 0.1, 0.2], live=(0.01, 0.5, 0.01))], title="...")

Environment: ``ICLBOOK_HEADLESS=1`` means static (``iclbook run`` sets it). ``ICLBOOK_EXERCISE_SLIDERS=1`` makes every
``show`` also move all the sliders of both modes, so that running a notebook tests them: static ones through their whole range, live ones, which
draw anew at every move, to their ends and back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from IPython.display import display
from matplotlib.figure import Figure

from ..project import SLIDERS
from ..store import Results
from . import live, static
from .page_model import PageModel, show_model
from .panel import Panel, Slider, exercise

__all__ = ["PageModel", "Panel", "Slider", "build", "exercise", "show", "show_model"]
MODES = {"static": static.build, "live": live.build}


def build(
    frame: Callable[..., Figure],
    sliders: Sequence[Slider],
    mode: str,
    start: dict[str, Any] | None = None,
    title: str | None = None,
    description: str | None = None,
    alt: Callable[..., str] | None = None,
    play: str | None = None,
) -> Panel:
    """Make the widget of a figure under one or two sliders.

    Args:
        frame: takes the sliders' values by name and returns a matplotlib Figure, always of the same size.
        sliders: one or two.
        mode: "static" or "live".
        start: slider name -> value at which it begins; by default its first value.
        title: plain text over the controls.
        description: plain text under the figure.
        alt: takes what ``frame`` takes and returns the picture's text for readers who do not see it; by default title and values.
        play: name of the slider that also gets a play button.

    Raises:
        UserError: more frames or bytes than a page may hold.
        Exception: whatever ``frame`` raises.
    """
    names = [slider.name for slider in sliders]
    assert 1 <= len(set(names)) == len(names) <= 2, f"one or two sliders, each with a name of its own: {names}"
    assert {*(start or {}), play or names[0]} <= {*names}, f"start and play name sliders: {names}"
    return MODES[mode](frame, sliders, start, title, description, alt, play)


def show(frame: Callable[..., Figure], sliders: Sequence[Slider], of: Iterable[Results] = (), **options: Any) -> None:
    """Show a figure under one or two sliders: static when the notebook runs headless, live otherwise.

    Args:
        frame, sliders, options: as for :func:`build`.
        of: the stored results that the frames draw, as in ``style.show``.
    """
    mode, other = ("static", "live") if os.environ.get("ICLBOOK_HEADLESS") == "1" else ("live", "static")
    panel = build(frame, sliders, mode, **options)
    if os.environ.get("ICLBOOK_EXERCISE_SLIDERS") == "1":
        for each in (panel, build(frame, sliders, other, **options)):
            exercise(each, ends=isinstance(each, live.LivePanel))
    display(panel, metadata={SLIDERS: static.metadata(panel, sliders, of)} if mode == "static" else None)
