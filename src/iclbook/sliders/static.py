"""Static sliders: every frame drawn beforehand; the page moves between them without a kernel.

A control's ``index`` is linked in the front end (``jslink``) to the ``selected_index`` of a Stack of images. For two sliders the
outer Stack holds one inner Stack for each value of the first slider, and the second slider is linked to every inner Stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import ipywidgets as w
from matplotlib.figure import Figure

from ..drawing.figure_data import text
from ..drawing.shown import origin
from ..errors import UserError
from ..numbers import number
from ..store import Results
from .panel import Frame, Panel, Slider, describe, draw, fill, picture, picture_html, png_of, selection

MAX_FRAMES = 60  # precomputed frames a page
MAX_BYTES = 3_000_000  # their size in the page, where they stand in base64
#: Most characters of the numbers of all frames; beyond, only those of the frame at the start are kept.
MAX_NUMBERS = 1_000_000
#: Where each slider stands, by index.
Place = tuple[int, ...]


class StaticPanel(Panel):
    """A panel of precomputed frames.

    Attributes:
        links: the front end's links, as (source, target) widgets with trait names.
        expected: slider indices -> sha256 of the frame that must then be visible.
        size: bytes of all distinct frames as they stand in the page.
        about: what the page says below the figure: ``description``, the numbers as ``csv``, which ``numbers`` these are, and their ``origin`` if known.
    """

    stack: w.Stack
    links: list[w.Widget]
    expected: dict[Place, str]
    size: int
    about: dict[str, Any]

    def follow(self) -> None:
        """Apply the links as the front end would."""
        for link in self.links:
            (source, trait), (target, target_trait) = link.source, link.target
            setattr(target, target_trait, getattr(source, trait))

    def visible(self) -> bytes:
        shown = self.stack
        while isinstance(shown, w.Stack):
            shown = shown.children[shown.selected_index]
        return png_of(shown)

    def is_right(self, sha: str) -> bool:
        return sha == self.expected[self.indices()]

    def indices(self) -> Place:
        """Where the sliders stand."""
        return tuple(control.index for control, _, _ in self.moves)


# What this kernel's page holds so far: figure -> (frames, bytes). One kernel runs one notebook, which becomes one page; a cell
# that is run again replaces its own entry.
_page: dict[tuple, tuple[int, int]] = {}


def build(
    frame: Callable[..., Figure],
    sliders: Sequence[Slider],
    start: dict[str, Any] | None,
    title: str | None,
    description: str | None,
    alt: Callable[..., str] | None,
    play: str | None,
) -> StaticPanel:
    """Draw every frame and link the sliders to them. Arguments and errors as for :func:`iclbook.sliders.build`."""
    controls = [selection(slider, start) for slider in sliders]
    began = tuple(control.index for control in controls)
    drawn, contents = {}, {}
    for place in product(*(range(len(slider.values)) for slider in sliders)):
        drawn[place] = draw(frame, _values_at(sliders, place), numbers=True)
        shown = [slider.labels[index] for slider, index in zip(sliders, place, strict=True)]
        words = alt(**_values_at(sliders, place)) if alt else describe(sliders, shown, title)
        contents[place] = (drawn[place], words)
    sizes = {(image.width, image.height) for image in drawn.values()}
    assert len(sizes) == 1, f"slider frames of different sizes: {sizes}"

    panel = StaticPanel()
    panel.size = _enter((getattr(frame, "__qualname__", repr(frame)), title), contents)
    panel.about = _numbers(drawn, sliders, began) | {"description": description or ""}
    panel.expected = {place: image.sha256 for place, image in drawn.items()}
    panel.links = []
    # equal frames share a widget
    pictures = {content: picture(*content) for content in dict.fromkeys(contents.values())}
    panel.stack = _stack(lambda place: pictures[contents[place]], controls, began, (), panel.links)
    moves = [(control, "index", list(range(len(s.values)))) for control, s in zip(controls, sliders, strict=True)]
    fill(panel, moves, [slider.name == play for slider in sliders], 600, [panel.stack], title, description)
    return panel


def _values_at(sliders: Sequence[Slider], place: Place) -> dict[str, Any]:
    """The frame function's arguments."""
    return {slider.name: slider.values[index] for slider, index in zip(sliders, place, strict=True)}


def _numbers(drawn: dict[Place, Frame], sliders: Sequence[Slider], began: Place) -> dict[str, str]:
    """The numbers of all frames as one CSV with a column for each slider, or those of the start frame if all are too many; and a label that says which."""
    names = [f"slider: {slider.label}" for slider in sliders]
    found = [
        dict(zip(names, _values_at(sliders, place).values(), strict=True)) | row
        for place, image in drawn.items()
        for row in image.numbers
    ]
    written = text(found, names)
    if len(written) <= MAX_NUMBERS:
        return {"csv": written, "numbers": "Numbers of all frames"}
    return {"csv": text(drawn[began].numbers), "numbers": "Numbers of the frame at the start"}


def _enter(key: tuple, contents: dict[Place, tuple[Frame, str]]) -> int:
    """Note that the page holds these frames with their words; their bytes as they stand in it, equal ones once.

    Raises:
        UserError: more frames or bytes than a page may hold.
    """
    size = sum(len(picture_html(image, words)) for image, words in set(contents.values()))
    _page[key] = (len(contents), size)
    frames, total = map(sum, zip(*_page.values(), strict=True))
    if frames > MAX_FRAMES or total > MAX_BYTES:
        raise UserError(
            f"{frames} slider frames of {number(total / 1e6, form='.1f')} MB on one page, where {MAX_FRAMES} of {number(MAX_BYTES / 1e6)} MB are allowed",
            "Give the sliders fewer values, or draw a smaller or plainer figure.",
        )
    return size


def metadata(panel: StaticPanel, sliders: Sequence[Slider], of: Iterable[Results] = ()) -> dict[str, Any]:
    """What the browser test needs to know, for the output's metadata: which frame belongs to which slider indices."""
    return {
        "title": panel.title,
        "sliders": [{"name": s.name, "label": s.label, "labels": list(s.labels)} for s in sliders],
        "start": list(panel.indices()),
        "frames": {",".join(map(str, place)): sha for place, sha in panel.expected.items()},
        "bytes": panel.size,
        **panel.about,
        "origin": origin(of),
    }


def _stack(show: Callable, controls: list, began: tuple[int, ...], place: tuple[int, ...], links: list) -> w.Stack:
    """The Stack of the slider number ``len(place)``, whose earlier sliders stand at ``place``."""
    level = len(place)
    control = controls[level]
    inner = [(*place, index) for index in range(len(control.options))]
    last = level == len(controls) - 1
    children = [show(p) if last else _stack(show, controls, began, p, links) for p in inner]
    stack = w.Stack(children, selected_index=began[level])
    links.append(w.jslink((control, "index"), (stack, "selected_index")))
    return stack
