"""Static sliders: every frame drawn beforehand; the page moves between them without a kernel.

A control's ``index`` is linked in the front end (``jslink``) to the ``selected_index`` of a Stack of images. For two sliders the
outer Stack holds one inner Stack for each value of the first slider, and the second slider is linked to every inner Stack.
"""

import base64
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import ipywidgets as w

from ..drawing.figure_data import text
from .panel import Frame, Panel, Slider, draw, picture, selection

#: Most characters of the numbers of all frames; beyond, only those of the frame at the start are kept.
MAX_NUMBERS = 1_000_000
#: Where each slider stands, by index.
Place = tuple[int, ...]


class StaticPanel(Panel):
    """A panel of precomputed frames.

    Attributes:
        about: what the page says below the figure and what the browser test needs to know, for the output's metadata: which frame belongs to
            which slider indices (``frames``), the numbers as ``csv`` and which ``numbers`` these are.
    """

    def control(self, slider: Slider, start: Any) -> w.Widget:
        return selection(slider, start)

    def figure(self) -> list[w.Widget]:
        drawn: dict[Place, tuple[Frame, str]] = {}
        like = None
        for place in product(*(range(len(slider.values)) for slider in self.sliders)):
            values, shown = self._at(place, "values"), self._at(place, "labels")
            frame = draw(self.frame, values, like=like)
            drawn[place] = frame, self.words(values, list(shown.values()))
            like = max(like or frame, frame, key=lambda each: each.narrow or (0, 0))
        for place, (frame, words) in drawn.items():
            if frame.narrow and frame.narrow != like.narrow:
                drawn[place] = draw(self.frame, self._at(place, "values"), like=like), words
        sizes = {(frame.width, frame.height) for frame, _ in drawn.values()}
        assert len(sizes) == 1, f"slider frames of different sizes: {sizes}"
        # equal frames share a widget
        pictures = {content: picture(*content) for content in dict.fromkeys(drawn.values())}
        self.links: list[w.Widget] = []
        self.stack = self._stack({place: pictures[content] for place, content in drawn.items()}, ())
        self.about = {
            "title": self.title,
            "sliders": [{"label": slider.label, "labels": list(slider.labels)} for slider in self.sliders],
            "start": list(self.indices()),
            "frames": {",".join(map(str, place)): frame.sha256 for place, (frame, _) in drawn.items()},
            "pictures": self._pictures([frame for frame, _ in drawn.values()]),
            "description": self.description,
            **self._numbers({place: frame for place, (frame, _) in drawn.items()}),
        }
        if not all("narrow" in others for others in self.about["pictures"].values()):
            self.add_class("iclbook-scrolls")  # on a phone it is moved sideways
        return [self.stack]

    def _at(self, place: Place, what: str) -> dict[str, Any]:
        """The ``values`` or ``labels`` of the sliders by their names."""
        return {slider.name: getattr(slider, what)[i] for slider, i in zip(self.sliders, place, strict=True)}

    def _stack(self, pictures: Mapping[Place, w.HTML], place: Place) -> w.Stack:
        """The Stack of the slider number ``len(place)``, whose earlier sliders stand at ``place``."""
        control = self.controls[len(place)]
        inner = [(*place, index) for index in range(len(control.options))]
        stack = w.Stack([pictures.get(p) or self._stack(pictures, p) for p in inner], selected_index=control.index)
        self.links.append(w.jslink((control, "index"), (stack, "selected_index")))
        return stack

    def _pictures(self, drawn: Sequence[Frame]) -> dict[str, dict[str, Any]]:
        """The pictures for phones and the dark page by the hash of each frame; none for phones if one frame lacks it."""
        sizes = {frame.narrow for frame in drawn}
        narrow = {} if len(sizes) > 1 or None in sizes else {"size": list(drawn[0].narrow)}
        return {
            frame.sha256: narrow
            | {k: base64.b64encode(png).decode() for k, png in frame.others.items() if narrow or k == "dark"}
            for frame in drawn
        }

    def _numbers(self, drawn: Mapping[Place, Frame]) -> dict[str, str]:
        """The numbers of all frames as one CSV with a column for each slider, or those of the start frame if all are too many; and a label that says which."""
        found = []
        for place, frame in drawn.items():
            stand = {f"slider: {s.label}": s.values[i] for s, i in zip(self.sliders, place, strict=True)}
            found += [stand | row for row in frame.numbers]
        written = text(found, [f"slider: {slider.label}" for slider in self.sliders])
        if len(written) <= MAX_NUMBERS:
            return {"csv": written, "numbers": "Numbers of all frames"}
        return {"csv": text(drawn[self.indices()].numbers), "numbers": "Numbers of the frame at the start"}

    def indices(self) -> Place:
        """Where the sliders stand."""
        return tuple(control.index for control in self.controls)
