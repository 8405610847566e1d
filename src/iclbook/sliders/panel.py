"""Common parts of both modes of a slider figure: sliders, frames drawn as PNGs, the widget with controls over a figure, ."""

import base64
import hashlib
import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ipywidgets as w
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ..drawing.figure_data import Row, rows
from ..drawing.figure_output import pixels, png, versions
from ..drawing.style import DPI
from ..numbers import number

FRAME_DPI = 1.5 * DPI  # sharp enough beside the figures at twice the resolution, at half their bytes


@dataclass(frozen=True)
class Slider:
    """One slider, for both modes.

    Args:
        label: what stands beside the slider: plain text, with Greek letters typed as such.
        values: what the static slider steps through, in order; the live one too, unless ``live`` is given. Names become a choice of buttons.
        labels: how each value is shown; by default the number to three digits.
        live: (smallest, largest, step): with a kernel, any value in this range, of three integers any whole number.
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
        assert len(labels) == len(set(labels)) == len(values), f"{where} needs a label for each value: {labels}"
        if self.live:  # whoever has a kernel must find what the page shows
            low, high, _ = self.live
            assert all(low <= value <= high for value in values), f"{where} leaves a value out of {self.live}"
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "labels", tuple(labels))


@dataclass(frozen=True)
class Frame:
    """One drawn frame: PNG bytes, size in CSS pixels, the numbers that it shows, its ``others`` for the dark page and for phones (:func:`.versions`), the size of
    the ``narrow`` ones, and the hash by which tests recognise it."""

    png: bytes
    width: int
    height: int
    numbers: list[Row] = field(default_factory=list, compare=False)
    others: dict[str, bytes] = field(default_factory=dict, compare=False)
    narrow: tuple[int, int] | None = field(default=None, compare=False)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.png).hexdigest()


def draw(
    frame: Callable[..., Figure], values: dict[str, Any], *, small: bool = True, like: Frame | None = None
) -> Frame:
    """Call ``frame(**values)`` and turn its figure into a PNG; every figure that the call opened is closed, also when it fails.

    Args:
        small: for a page, in a palette, and with the numbers that it shows; a live frame goes to a browser on the same machine, and is quick.
        like: another frame of the same slider, than which this one is not lower on a phone.
    """
    before = set(plt.get_fignums())
    try:
        figure = frame(**values)
        assert isinstance(figure, Figure), f"the frame function returned {type(figure).__name__}, no figure"
        width, height = (round(inches * DPI) for inches in figure.get_size_inches())
        drawn = pixels(figure, FRAME_DPI)
        shown = rows(figure) if small else []
        least = like.narrow[1] / DPI if like is not None and like.narrow else 0
        others, phone = versions(figure, FRAME_DPI, least) if small else ({}, None)
        narrow = None if phone is None else (round(phone.get_figwidth() * DPI), round(phone.get_figheight() * DPI))
    except Exception as error:
        error.add_note(f"while drawing the slider frame at {values}")
        raise
    finally:
        for opened in set(plt.get_fignums()) - before:
            plt.close(opened)
    return Frame(png(drawn) if small else png(drawn, None), width, height, shown, others, narrow)


class Panel(w.VBox):
    """A figure under sliders; to a front end a plain VBox. A subclass has ``control(slider, start)``, the control of a slider, and ``figure()``, which draws
    at the start and returns what stands below the controls.

    Args:
        frame: takes the sliders' values by name and returns a matplotlib Figure, always of the same size.
        sliders: one or two; in a live panel any number.
        start: slider name -> value at which it begins; by default its first value.
        title, description: plain text over the controls, and under the figure.
        alt: takes what ``frame`` takes and returns the picture's text for readers who do not see it; by default title and values.
        play: name of the slider that also gets a play button.
    """

    def __init__(
        self,
        frame: Callable[..., Figure],
        sliders: Sequence[Slider],
        start: dict[str, Any] | None = None,
        title: str = "",
        description: str = "",
        alt: Callable[..., str] | None = None,
        play: str | None = None,
    ) -> None:
        names = [slider.name for slider in sliders]
        assert len(set(names)) == len(names) > 0, f"one slider or more, each with a name of its own: {names}"
        assert {*(start or {}), play or names[0]} <= {*names}, f"start and play name sliders: {names}"
        super().__init__()
        self.frame, self.sliders, self.title, self.description, self.alt = frame, sliders, title, description, alt
        self.controls = [self.control(slider, (start or {}).get(slider.name, slider.values[0])) for slider in sliders]
        shown = [
            _with_play(control) if name == play and hasattr(control, "options") else control
            for name, control in zip(names, self.controls, strict=True)
        ]
        self.children = lay_out(shown, self.figure(), title, description)
        self.add_class("iclbook-sliders")

    def words(self, values: dict[str, Any], shown: Sequence[str]) -> str:
        """Alt text of the frame at these values, which the controls show in these words."""
        if self.alt:
            return self.alt(**values)
        said = ", ".join(f"{slider.label} {label}" for slider, label in zip(self.sliders, shown, strict=True))
        return f"{self.title}: {said}"

    def __repr__(self) -> str:
        # text/plain of the executed notebook, read where widgets are not shown
        return f"[slider figure: {self.title}]"


def lay_out(controls: Sequence[w.Widget], figure: Sequence[w.Widget], title: str, description: str) -> list[w.Widget]:
    """The children of a panel, from top to bottom; texts are plain text."""
    box = w.VBox(list(controls), _dom_classes=["iclbook-controls"])
    return [text(title, "iclbook-title"), box, *figure, text(description, "iclbook-description")]


def text(content: str, style: str) -> w.HTML:
    """A line of plain text in the class ``style``."""
    return w.HTML(html.escape(content, quote=False), _dom_classes=[style])


def picture(frame: Frame, alt: str) -> w.HTML:
    """A frame as a widget: HTML, which can carry alt text. Width and height keep the page from jumping while the browser decodes the next frame."""
    layout = w.Layout(width="100%", max_width=f"{frame.width}px")
    return w.HTML(picture_html(frame, alt), layout=layout, _dom_classes=["iclbook-frame"])


def picture_html(frame: Frame, alt: str) -> str:
    """The image element of a frame, its PNG inside."""
    data = base64.b64encode(frame.png).decode()
    return (
        f'<img alt="{html.escape(alt)}" width="{frame.width}" height="{frame.height}" '
        f'style="width: 100%; height: auto" src="data:image/png;base64,{data}">'
    )


def selection(slider: Slider, start: Any, **options: Any) -> w.SelectionSlider | w.ToggleButtons:
    """A slider through ``slider.values`` that shows their labels; names, which have no order, are buttons."""
    assert start in slider.values, f"slider {slider.name!r} cannot start at {start!r}, only at {slider.values}"
    named = list(zip(slider.labels, slider.values, strict=True))
    look = control_look(slider) | {"options": named, "index": slider.values.index(start)}
    if all(isinstance(value, str) for value in slider.values):
        look |= {"style": {"description_width": "initial", "button_width": "auto"}}
        return w.ToggleButtons(**look, _dom_classes=["iclbook-choice"])
    return w.SelectionSlider(**look, **options)


def control_look(slider: Slider) -> dict[str, Any]:
    """Options that every control shares."""
    return {
        "description": slider.label,
        "style": {"description_width": "initial"},
        "layout": w.Layout(width="100%", max_width="700px"),
    }


def _with_play(control: w.SelectionSlider) -> w.HBox:
    play = w.Play(min=0, max=len(control.options) - 1, value=control.index, interval=600, show_repeat=False)
    w.jslink((play, "value"), (control, "index"))
    return w.HBox([play, control], _dom_classes=["iclbook-play"])
