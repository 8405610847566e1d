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

from ..numbers import number
from .panel import Panel, Slider, control_look, describe, draw, fill, picture, picture_html, png_of, selection

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


def build(
    frame: Callable[..., Figure],
    sliders: Sequence[Slider],
    start: dict[str, Any] | None,
    title: str | None,
    description: str | None,
    alt: Callable[..., str] | None,
    play: str | None,
) -> LivePanel:
    """Draw the start frame and observe the sliders. Arguments and errors as for :func:`iclbook.sliders.build`."""
    controls = [_control(slider, start) for slider in sliders]

    def values() -> dict[str, Any]:
        return {slider.name: control.value for slider, control in zip(sliders, controls, strict=True)}

    def words() -> str:
        if alt:
            return alt(**values())
        shown = [c.label if hasattr(c, "options") else number(c.value) for c in controls]
        return describe(sliders, shown, title)

    panel = LivePanel()
    panel.picture = picture(draw(frame, values(), small=False), words())
    panel.output = w.Output()

    def redraw(_: object) -> None:
        try:
            panel.picture.value = picture_html(draw(frame, values(), small=False), words())
        except Exception:
            # The kernel only logs what a callback raises, so the reader gets it here; raising again keeps log and tests informed.
            panel.output.outputs = ({"output_type": "stream", "name": "stderr", "text": traceback.format_exc()},)
            raise
        panel.output.outputs = ()

    for control in controls:
        control.observe(redraw, names="value")
    moves = [(control, *_positions(control)) for control in controls]
    played = [slider.name == play and slider.live is None for slider in sliders]
    fill(panel, moves, played, 900, [panel.picture, panel.output], title, description)
    return panel


def _control(slider: Slider, start: dict[str, Any] | None) -> w.Widget:
    # One redraw when the reader lets go: a kernel that redraws at every pixel falls behind.
    if slider.live is None:
        return selection(slider, start, continuous_update=False)
    low, high, step = slider.live
    value = (start or {}).get(slider.name, slider.values[0])
    assert low <= value <= high, f"slider {slider.name!r} cannot start at {value!r}, outside of {slider.live}"
    options = {**control_look(slider), "value": value, "step": step, "continuous_update": False}
    if all(isinstance(number, int) for number in slider.live):
        return w.IntSlider(min=low, max=high, **options)
    options["readout_format"] = ",.3r"
    if slider.log:
        return w.FloatLogSlider(min=math.log10(low), max=math.log10(high), **options)
    return w.FloatSlider(min=low, max=high, **options)


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
