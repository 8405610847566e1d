"""Live sliders: a kernel draws the frame for any value.

An error while drawing is shown under the figure and raised again: what went wrong is never hidden from the reader nor from a test.
"""

import math
import traceback
from itertools import product
from typing import Any

import ipywidgets as w

from ..numbers import number
from .panel import Frame, Panel, Slider, control_look, draw, picture, picture_html, selection


class LivePanel(Panel):
    """A panel that redraws its figure, ``picture``, whenever a control changes; ``output`` below it says what went wrong in the last redraw."""

    def control(self, slider: Slider, start: Any) -> w.Widget:
        # One redraw when the reader lets go: a kernel that redraws at every pixel falls behind.
        if slider.live is None:
            return selection(slider, start, continuous_update=False)
        low, high, step = slider.live
        assert low <= start <= high, f"slider {slider.name!r} cannot start at {start!r}, outside of {slider.live}"
        options = {**control_look(slider), "value": start, "step": step, "continuous_update": False}
        if all(isinstance(number, int) for number in slider.live):
            return w.IntSlider(min=low, max=high, **options)
        options["readout_format"] = ",.3r"
        if slider.log:
            return w.FloatLogSlider(min=math.log10(low), max=math.log10(high), **options)
        return w.FloatSlider(min=low, max=high, **options)

    def figure(self) -> list[w.Widget]:
        self.picture, self.output = picture(*self._drawn()), w.Output()
        for control in self.controls:
            control.observe(self._redraw, names="value")
        return [self.picture, self.output]

    def _drawn(self) -> tuple[Frame, str]:
        """The frame where the controls stand, and its words."""
        values = {slider.name: control.value for slider, control in zip(self.sliders, self.controls, strict=True)}
        shown = [c.label if hasattr(c, "options") else number(c.value) for c in self.controls]
        return draw(self.frame, values, small=False), self.words(values, shown)

    def _redraw(self, _: object) -> None:
        try:
            self.picture.value = picture_html(*self._drawn())
        except Exception:  # the kernel only logs what a callback raises
            self.output.outputs = ({"output_type": "stream", "name": "stderr", "text": traceback.format_exc()},)
            raise
        self.output.outputs = ()

    def move_to_ends(self) -> None:
        """Put the sliders at all combinations of their ends, and back where they were: an error there must not wait for a reader."""
        began = [control.value for control in self.controls]
        for place in (*product(*map(_ends, self.controls)), began):
            for control, value in zip(self.controls, place, strict=True):
                control.value = value


def _ends(control: w.Widget) -> tuple[Any, Any]:
    if hasattr(control, "options"):
        return control.options[0][1], control.options[-1][1]
    low, high = control.min, control.max
    return (10.0**low, 10.0**high) if isinstance(control, w.FloatLogSlider) else (low, high)
