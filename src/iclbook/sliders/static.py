"""Static sliders: every frame drawn beforehand; the page moves between them without a kernel.

A control's ``index`` is linked in the front end (``jslink``) to the ``selected_index`` of a Stack of images. For two sliders the
outer Stack holds one inner Stack for each value of the first slider, and the second slider is linked to every inner Stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ipywidgets as w
from matplotlib.figure import Figure

from ..drawing.figure_data import text
from ..drawing.shown import Stored, origin
from ..errors import UserError
from ..numbers import number
from .definition import MAX_BYTES, MAX_FRAMES, Slider, combinations, start_indices, values_at
from .panel import Frame, Panel, describe, draw, lay_out, picture, picture_html, png_of, selection, with_play


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
    expected: dict[tuple[int, ...], str]
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

    def indices(self) -> tuple[int, ...]:
        """Where the sliders stand."""
        return tuple(control.index for control, _, _ in self.moves)


# What this kernel's page holds so far: figure -> (frames, bytes). One kernel runs one notebook, which becomes one page; a cell
# that is run again replaces its own entry.
_page: dict[tuple, tuple[int, int]] = {}


def build(
    frame: Callable[..., Figure],
    sliders: Sequence[Slider],
    start: dict[str, Any] | None = None,
    title: str | None = None,
    description: str | None = None,
    alt: Callable[..., str] | None = None,
    play: str | None = None,
) -> StaticPanel:
    """Draw every frame and link the sliders to them. Arguments as in ``iclbook.sliders.show``.

    Raises:
        UserError: too many frames or bytes for one page; frames of different sizes; a bad start.
    """
    began = start_indices(sliders, start)
    key = (getattr(frame, "__qualname__", repr(frame)), title, tuple(slider.name for slider in sliders))
    _require_frames(key, sliders)
    drawn = {place: draw(frame, values_at(sliders, place), numbers=True) for place in combinations(sliders)}
    _check_size(drawn, sliders)
    contents = {place: (image, _alt(sliders, place, title, alt)) for place, image in drawn.items()}

    panel = StaticPanel()
    panel.title = title
    panel.size = _enter(key, contents)
    panel.about = _numbers(drawn, sliders, began) | {"description": description or ""}
    panel.expected = {place: image.sha256 for place, image in drawn.items()}
    controls = [selection(slider, index) for slider, index in zip(sliders, began, strict=True)]
    panel.links = []
    # equal frames share a widget
    pictures = {content: picture(*content) for content in dict.fromkeys(contents.values())}
    panel.stack = _stack(lambda place: pictures[contents[place]], controls, began, (), panel.links)
    panel.moves = [(control, "index", list(range(len(s.values)))) for control, s in zip(controls, sliders, strict=True)]
    shown = [
        with_play(control, 600) if slider.name == play else control
        for control, slider in zip(controls, sliders, strict=True)
    ]
    panel.children = lay_out(shown, [panel.stack], title, description)
    panel.add_class("iclbook-sliders")
    return panel


#: Most characters of the numbers of all frames; beyond, only those of the first one are kept.
MAX_NUMBERS = 1_000_000


def _numbers(drawn: dict[tuple[int, ...], Frame], sliders: Sequence[Slider], began: tuple[int, ...]) -> dict[str, str]:
    """The frames' numbers as one CSV with a column a slider, or those of the frame at the start where all are too many; and which they are."""
    names = [f"slider: {slider.label}" for slider in sliders]
    found = [
        dict(zip(names, values_at(sliders, place).values(), strict=True)) | row
        for place, image in drawn.items()
        for row in image.numbers
    ]
    written = text(found, names)
    if len(written) <= MAX_NUMBERS:
        return {"csv": written, "numbers": "Numbers of all frames"}
    return {"csv": text(drawn[began].numbers), "numbers": "Numbers of the frame at the start"}


def _require_frames(key: tuple, sliders: Sequence[Slider]) -> None:
    """Refuse more frames than a page may hold."""
    count = len(combinations(sliders))
    before = sum(frames for name, (frames, _) in _page.items() if name != key)
    if before + count > MAX_FRAMES:
        raise UserError(
            f"{count} slider frames{f' after {before} others' if before else ''} on one page, where {MAX_FRAMES} are allowed",
            f"Give slider {max(sliders, key=lambda s: len(s.values)).name!r} fewer values.",
        )


def _enter(key: tuple, contents: dict[tuple[int, ...], tuple[Frame, str]]) -> int:
    """Note that the page holds these frames with their words; their bytes as they stand in it, equal ones once.

    Raises:
        UserError: more bytes than a page may hold.
    """
    size = sum(len(picture_html(image, words)) for image, words in set(contents.values()))
    total = size + sum(held for name, (_, held) in _page.items() if name != key)
    if total > MAX_BYTES:
        raise UserError(
            f"slider frames of {number(total / 1e6, form='.1f')} MB on one page, where {number(MAX_BYTES / 1e6)} MB are allowed",
            "Give the sliders fewer values, or draw a smaller or plainer figure.",
        )
    _page[key] = (len(contents), size)
    return size


def metadata(panel: StaticPanel, sliders: Sequence[Slider], of: Iterable[Stored] = ()) -> dict[str, Any]:
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


def _alt(sliders: Sequence[Slider], place: tuple[int, ...], title: str | None, alt: Callable[..., str] | None) -> str:
    if alt:
        return alt(**values_at(sliders, place))
    return describe(sliders, [slider.labels[index] for slider, index in zip(sliders, place, strict=True)], title)


def _check_size(drawn: dict[tuple[int, ...], Frame], sliders: Sequence[Slider]) -> None:
    sizes = {(image.width, image.height): values_at(sliders, place) for place, image in drawn.items()}
    if len(sizes) > 1:
        (first, at), (second, then) = list(sizes.items())[:2]
        raise UserError(
            f"slider frames of different sizes: {first} px at {at}, {second} px at {then}",
            "Draw every frame with iclbook.drawing.style.figure at one size.",
        )
