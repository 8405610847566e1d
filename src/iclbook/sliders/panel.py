"""What both modes of a slider figure share: what a slider is, frames drawn as PNGs, the widget with controls over a figure, and a test that moves every control."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import ipywidgets as w
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ..drawing.figure_data import Row, rows
from ..drawing.shown import pixels, png
from ..drawing.style import DPI
from ..numbers import number

MOST = 60  # combinations through which a test moves two sliders
POINTS = 11  # where a test stops on a continuous slider, both ends included
FRAME_DPI = 1.5 * DPI  # sharp enough beside the figures at twice the resolution, at half their bytes


@dataclass(frozen=True)
class Slider:
    """One slider, for both modes.

    Args:
        name: the keyword by which the frame function takes this slider's value.
        label: what stands beside the slider: plain text, with Greek letters typed as such.
        values: what the static slider steps through, in order; the live one too, unless ``live`` is given. Names become a choice of buttons.
        labels: how each value is shown; by default the number to three digits.
        live: (smallest, largest, step): with a kernel, any value in this range, not only those in ``values``.
            Three integers give whole numbers.
        log: space the live slider by powers of ten; ``step`` is then in powers of ten (0.1: ten steps a decade).
    """

    name: str
    label: str
    values: Sequence[Any]
    labels: Sequence[str] | None = None
    live: tuple[float, float, float] | None = None
    log: bool = False

    def __post_init__(self) -> None:
        # Arrays are welcome, but their elements must not be: numpy scalars neither compare nor print as numbers do.
        values = tuple(v.item() if hasattr(v, "item") else v for v in self.values)
        labels = self.labels or [number(v) if isinstance(v, int | float) else str(v) for v in values]
        where = f"slider {self.name!r}"
        assert values, f"{where} has no values"
        assert len(set(values)) == len(values), f"{where} has the same value twice: {values}"
        assert len(labels) == len(set(labels)) == len(values), f"{where} needs a label for each value: {labels}"
        if self.live:  # whoever has a kernel must find what the page shows
            low, high, _ = self.live
            assert all(low <= value <= high for value in values), f"{where} leaves a value out of {self.live}"
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "labels", tuple(labels))


@dataclass(frozen=True)
class Frame:
    """One drawn frame: PNG bytes, size in CSS pixels, the numbers that it shows, and the hash by which tests recognise it."""

    png: bytes
    width: int
    height: int
    numbers: list[Row] = field(default_factory=list, compare=False)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.png).hexdigest()


def draw(frame: Callable[..., Figure], values: dict[str, Any], *, small: bool = True) -> Frame:
    """Call ``frame(**values)`` and turn its figure into a PNG; every figure that the call opened is closed, also when it fails.

    Args:
        small: for a page, in a palette, and with the numbers that it shows; a live frame goes to a browser on the same machine, and is quick.

    Raises:
        Exception: whatever the function raises, with a note that names the values.
    """
    before = set(plt.get_fignums())
    try:
        figure = frame(**values)
        assert isinstance(figure, Figure), f"the frame function returned {type(figure).__name__}, no figure"
        width, height = (round(inches * DPI) for inches in figure.get_size_inches())
        drawn = pixels(figure, FRAME_DPI)
        shown = rows(figure) if small else []
    except Exception as error:
        error.add_note(f"while drawing the slider frame at {values}")
        raise
    finally:
        for opened in set(plt.get_fignums()) - before:
            plt.close(opened)
    return Frame(png(drawn) if small else png(drawn, None), width, height, shown)


class Panel(w.VBox):
    """A figure under sliders; to a front end a plain VBox. A subclass makes the controls and the figure.

    Args:
        frame: takes the sliders' values by name and returns a matplotlib Figure, always of the same size.
        sliders: one or two; in a live panel any number.
        start: slider name -> value at which it begins; by default its first value.
        title, description: plain text over the controls, and under the figure.
        alt: takes what ``frame`` takes and returns the picture's text for readers who do not see it; by default title and values.
        play: name of the slider that also gets a play button.

    Attributes:
        moves: (control, trait, positions) of each slider, for :func:`exercise`.

    Raises:
        Exception: whatever ``frame`` raises.
    """

    interval: int  # milliseconds a step of the play button

    def __init__(
        self,
        frame: Callable[..., Figure],
        sliders: Sequence[Slider],
        start: dict[str, Any] | None = None,
        title: str | None = None,
        description: str | None = None,
        alt: Callable[..., str] | None = None,
        play: str | None = None,
    ) -> None:
        names = [slider.name for slider in sliders]
        assert len(set(names)) == len(names) > 0, f"one slider or more, each with a name of its own: {names}"
        assert {*(start or {}), play or names[0]} <= {*names}, f"start and play name sliders: {names}"
        super().__init__()
        self.frame, self.sliders, self.title, self.description, self.alt = frame, sliders, title, description, alt
        self.controls = [self.control(slider, (start or {}).get(slider.name, slider.values[0])) for slider in sliders]
        self.moves = [(control, *_positions(control)) for control in self.controls]
        shown = [
            _with_play(control, self.interval) if name == play and hasattr(control, "options") else control
            for name, control in zip(names, self.controls, strict=True)
        ]
        self.children = lay_out(shown, self.figure(), title, description)
        self.add_class("iclbook-sliders")

    def control(self, slider: Slider, start: Any) -> w.Widget:
        """The control of a slider, which stands at ``start``."""
        raise NotImplementedError

    def figure(self) -> list[w.Widget]:
        """Draw at the start; what stands below the controls."""
        raise NotImplementedError

    def visible(self) -> bytes:
        """The PNG that the reader sees now."""
        raise NotImplementedError

    def follow(self) -> None:
        """Do what the front end does after a control moved (nothing where the kernel answers itself)."""

    def is_right(self, sha: str) -> bool:
        """Whether the frame with this hash belongs to where the sliders stand; any, where the kernel draws it."""
        return True

    def words(self, values: dict[str, Any], shown: Sequence[str]) -> str:
        """Alt text of the frame at these values, which the controls show in these words."""
        if self.alt:
            return self.alt(**values)
        said = ", ".join(f"{slider.label} {label}" for slider, label in zip(self.sliders, shown, strict=True))
        return f"{self.title}: {said}" if self.title else said

    def __repr__(self) -> str:
        # text/plain of the executed notebook, read where widgets are not shown
        return f"[slider figure: {self.title or 'untitled'}]"


def lay_out(
    controls: Sequence[w.Widget], figure: Sequence[w.Widget], title: str | None, description: str | None
) -> list[w.Widget]:
    """The children of a panel, from top to bottom; texts are plain text."""
    box = w.VBox(list(controls))
    box.add_class("iclbook-controls")
    above = [text(title, "iclbook-title")] if title else []
    below = [text(description, "iclbook-description")] if description else []
    return [*above, box, *figure, *below]


def text(content: str, style: str) -> w.HTML:
    """A line of plain text in the class ``style``."""
    line = w.HTML(html.escape(content, quote=False))
    line.add_class(style)
    return line


def picture(frame: Frame, alt: str) -> w.HTML:
    """A frame as a widget.

    HTML rather than an Image widget, because only HTML can carry alt text. Width and height keep the page from jumping while the
    browser decodes the next frame; the style lets it shrink on a narrow page.
    """
    holder = w.HTML(picture_html(frame, alt), layout=w.Layout(width="100%", max_width=f"{frame.width}px"))
    holder.add_class("iclbook-frame")
    return holder


def picture_html(frame: Frame, alt: str) -> str:
    """The image element of a frame, its PNG inside."""
    data = base64.b64encode(frame.png).decode()
    return (
        f'<img alt="{html.escape(alt)}" width="{frame.width}" height="{frame.height}" '
        f'style="width: 100%; height: auto" src="data:image/png;base64,{data}">'
    )


def png_of(holder: w.HTML) -> bytes:
    """The PNG inside a picture."""
    return base64.b64decode(holder.value.rpartition("base64,")[2].rstrip('">'))


def selection(slider: Slider, start: Any, **options: Any) -> w.SelectionSlider | w.ToggleButtons:
    """A slider through ``slider.values`` that shows their labels; names, which have no order, are buttons."""
    assert start in slider.values, f"slider {slider.name!r} cannot start at {start!r}, only at {slider.values}"
    named = list(zip(slider.labels, slider.values, strict=True))
    look = control_look(slider) | {"options": named, "index": slider.values.index(start)}
    if all(isinstance(value, str) for value in slider.values):
        buttons = w.ToggleButtons(**look | {"style": {"description_width": "initial", "button_width": "auto"}})
        buttons.add_class("iclbook-choice")
        return buttons
    return w.SelectionSlider(**look, **options)


def control_look(slider: Slider) -> dict[str, Any]:
    """Options that every control shares."""
    return {
        "description": slider.label,
        "style": {"description_width": "initial"},
        "layout": w.Layout(width="100%", max_width="700px"),
    }


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


def _with_play(control: w.SelectionSlider, interval: int) -> w.HBox:
    play = w.Play(min=0, max=len(control.options) - 1, value=control.index, interval=interval, show_repeat=False)
    w.jslink((play, "value"), (control, "index"))
    row = w.HBox([play, control])
    row.add_class("iclbook-play")
    return row


# -- moving every slider: one that nobody moved may hide an error until a reader moves it -----------------------------------


def exercise(panel: Panel, ends: bool = False) -> int:
    """Move the sliders of ``panel`` through all combinations; beyond :data:`MOST` of them, through those of their first, start
    and last positions, and each slider through its range while the other stands at its start. The sliders end where they began.

    Args:
        panel: of either mode.
        ends: move each slider to its first, its start and its last position only.

    Returns:
        How many different frames were seen.

    Raises:
        Exception: the first error of a callback.
        RuntimeError: a static slider shows another frame than the one drawn for its position.
    """
    began = [getattr(control, trait) for control, trait, _ in panel.moves]
    ranges = [positions for _, _, positions in panel.moves]
    rests = [list(dict.fromkeys([r[0], at, r[-1]])) for r, at in zip(ranges, began, strict=True)]
    places = list(product(*(rests if ends else ranges)))
    if len(places) > MOST:
        places = list(product(*rests))
        for moved, positions in enumerate(ranges):
            places += product(*(positions if i == moved else [at] for i, at in enumerate(began)))
    seen = set()
    try:
        for place in dict.fromkeys(places):
            _move(panel, place)
            sha = hashlib.sha256(panel.visible()).hexdigest()
            if not panel.is_right(sha):
                raise RuntimeError(f"{panel!r} shows the wrong frame with its sliders at {place}")
            seen.add(sha)
    finally:
        _move(panel, began)
    return len(seen)


def _move(panel: Panel, place: Sequence) -> None:
    for (control, trait, _), position in zip(panel.moves, place, strict=True):
        setattr(control, trait, position)
    panel.follow()
