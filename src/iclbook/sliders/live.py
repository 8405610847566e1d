"""Live sliders: a kernel draws the frame for any value.

An error while drawing is shown under the figure and raised again: what went wrong is never hidden from the reader nor from a test.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as w
import numpy as np
from matplotlib.figure import Figure

from ..errors import UserError
from ..numbers import number
from .definition import Slider, start_indices
from .panel import Panel, control_look, describe, draw, lay_out, picture, picture_html, png_of, selection, with_play

POINTS = 11  # where a test stops on a continuous slider, both ends included


class LivePanel(Panel):
    """A panel that redraws its figure whenever a control changes.

    Attributes:
        picture: the figure.
        output: below it, what went wrong in the last redraw; empty after one that succeeded.
    """

    picture: w.HTML
    output: w.Output

    def visible(self) -> bytes:
        return png_of(self.picture)

    def redraw(self, drawn: Callable[[], str]) -> None:
        """Put a new figure's HTML in the place of the old one, or show why there is none and raise."""
        try:
            self.picture.value = drawn()
        except Exception:
            # The kernel only logs what a callback raises, so the reader gets it here; raising again keeps log and tests informed.
            self.output.outputs = ({"output_type": "stream", "name": "stderr", "text": traceback.format_exc()},)
            raise
        self.output.outputs = ()


def build(
    frame: Callable[..., Figure],
    sliders: Sequence[Slider],
    start: dict[str, Any] | None = None,
    title: str | None = None,
    description: str | None = None,
    alt: Callable[..., str] | None = None,
    play: str | None = None,
) -> LivePanel:
    """Draw the start frame and observe the sliders. Arguments as in ``iclbook.sliders.show``.

    Raises:
        UserError: a start outside a slider's range.
        Exception: whatever ``frame`` raises at the start values.
    """
    controls = [_control(slider, start) for slider in sliders]

    def values() -> dict[str, Any]:
        return {slider.name: control.value for slider, control in zip(sliders, controls, strict=True)}

    def words() -> str:
        if alt:
            return alt(**values())
        shown = [c.label if hasattr(c, "options") else number(c.value) for c in controls]
        return describe(sliders, shown, title)

    first = draw(frame, values(), small=False)
    panel = LivePanel()
    panel.title = title
    panel.picture = picture(first, words())
    panel.output = w.Output()

    for control in controls:
        control.observe(
            lambda _: panel.redraw(lambda: picture_html(draw(frame, values(), small=False), words())), names="value"
        )
    panel.moves = [(control, *_positions(control)) for control in controls]
    shown = [
        with_play(control, 900) if slider.name == play and isinstance(control, w.SelectionSlider) else control
        for control, slider in zip(controls, sliders, strict=True)
    ]
    panel.children = lay_out(shown, [panel.picture, panel.output], title, description)
    panel.add_class("iclbook-sliders")
    return panel


def _control(slider: Slider, start: dict[str, Any] | None) -> w.Widget:
    if slider.live is None:
        (index,) = start_indices([slider], {slider.name: start[slider.name]} if slider.name in (start or {}) else None)
        return selection(slider, index, continuous_update=False)
    low, high, step = slider.live
    value = (start or {}).get(slider.name, slider.values[0])
    if not isinstance(value, int | float) or not low <= value <= high:
        raise UserError(f"slider {slider.name!r} cannot start at {value!r}", f"Choose a value from {low} to {high}.")
    # One redraw when the reader lets go: a kernel that redraws at every pixel falls behind.
    options = {**control_look(slider), "continuous_update": False}
    if slider.log:
        return w.FloatLogSlider(
            value, base=10, min=math.log10(low), max=math.log10(high), step=step, readout_format=",.3r", **options
        )
    if all(isinstance(number, int) for number in slider.live):
        return w.IntSlider(value, min=low, max=high, step=step, **options)
    return w.FloatSlider(value, min=low, max=high, step=step, readout_format=",.3r", **options)


def _positions(control: w.Widget) -> tuple[str, list]:
    """The trait by which a test moves ``control``, and its positions from end to end."""
    if hasattr(control, "options"):
        return "index", list(range(len(control.options)))
    if isinstance(control, w.IntSlider):
        every = range(control.min, control.max + 1, control.step)
        picked = np.unique(np.linspace(0, len(every) - 1, POINTS).round().astype(int))
        return "value", [every[i] for i in picked]
    ends = np.linspace(control.min, control.max, POINTS)
    return "value", [float(v) for v in (10.0**ends if isinstance(control, w.FloatLogSlider) else ends)]
