"""The widget that both modes show: controls over a figure, with a title and a line of explanation."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence

import ipywidgets as w

from .definition import Slider
from .rendering import Frame


class Panel(w.VBox):
    """A slider figure. Subclasses say what is visible; ``moves`` lists (control, trait, positions) for the tests.

    To a front end this is a plain VBox.
    """

    title: str | None = None
    moves: list[tuple[w.Widget, str, list]]

    def follow(self) -> None:
        """Do what the front end does after a control moved (nothing where the kernel answers itself)."""

    def visible(self) -> bytes:
        """The PNG that the reader sees now."""
        raise NotImplementedError

    def __repr__(self) -> str:
        # text/plain of the executed notebook, read where widgets are not shown
        return f"[slider figure: {self.title or 'untitled'}]"


def lay_out(
    controls: Sequence[w.Widget], figure: Sequence[w.Widget], title: str | None, description: str | None
) -> list:
    """The children of a panel, from top to bottom; texts are plain text."""
    box = w.VBox(list(controls))
    box.add_class("iclbook-controls")
    children = [box, *figure]
    if title:
        children.insert(0, text(title, "iclbook-title"))
    if description:
        children.append(text(description, "iclbook-description"))
    return children


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


def selection(slider: Slider, index: int, **options) -> w.SelectionSlider:
    """A slider through ``slider.values`` that shows their labels."""
    control = w.SelectionSlider(
        options=list(zip(slider.labels, slider.values, strict=True)),
        index=index,
        **control_look(slider),
        **options,
    )
    return control


def control_look(slider: Slider) -> dict:
    """Options that every control shares."""
    return {
        "description": slider.label,
        "style": {"description_width": "initial"},
        "layout": w.Layout(width="100%", max_width="700px"),
    }


def describe(sliders: Sequence[Slider], shown: Sequence[str], title: str | None) -> str:
    """Alt text of a frame when the author gives none."""
    values = ", ".join(f"{slider.label} {label}" for slider, label in zip(sliders, shown, strict=True))
    return f"{title}: {values}" if title else values


def with_play(control: w.SelectionSlider, interval: int) -> w.HBox:
    """The control with a button that moves it along, ``interval`` milliseconds a step."""
    play = w.Play(
        min=0, max=len(control.options) - 1, value=control.index, interval=interval, show_repeat=False
    )
    w.jslink((play, "value"), (control, "index"))
    row = w.HBox([play, control])
    row.add_class("iclbook-play")
    return row
