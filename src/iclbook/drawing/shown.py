"""What a notebook keeps of every figure that it shows: a small PNG, the numbers in it, where they come from, and a picture for phones.

``style.use`` switches this on where a chapter runs headless; in JupyterLab figures are shown as usual.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from IPython.core.formatters import JSONFormatter
from matplotlib.figure import Figure
from traitlets import Unicode

from ..marks import FIGURE
from .figure_data import table
from .narrow import narrow
from .origin import Stored, summary
from .pixels import png

COLOURS = 200

#: The stored results that a figure draws, as ``style.show`` was told.
_drawn_from: WeakKeyDictionary[Figure, tuple[Stored, ...]] = WeakKeyDictionary()


class AboutFormatter(JSONFormatter):
    """Formats figures as :data:`FIGURE`."""

    format_type = Unicode(FIGURE)


def draws(figure: Figure, of: Iterable[Stored]) -> None:
    """Note that a figure draws these stored results."""
    _drawn_from[figure] = tuple(of)


def keep(shell: Any, css_dpi: float, scale: int) -> None:
    """From now on every figure that this notebook shows carries its numbers and its origin; a second call changes nothing.

    Args:
        shell: the notebook's IPython shell.
        css_dpi, scale: CSS pixels an inch, and pixels of a PNG a CSS pixel.
    """
    if FIGURE in shell.display_formatter.formatters:
        return

    def picture(figure: Figure) -> tuple[str, dict[str, int]]:
        width, height = (round(inches * css_dpi) for inches in figure.get_size_inches())
        return _text(png(figure, css_dpi * scale, COLOURS)), {"width": width, "height": height}

    def about(figure: Figure) -> dict[str, Any]:
        found: dict[str, Any] = {"csv": table(figure), "origin": summary(_drawn_from.get(figure, ()))}
        small = narrow(figure, css_dpi * scale)
        if small is not None:
            found["narrow"] = _text(png(small, css_dpi * scale, COLOURS))
            found["size"] = [round(inches * css_dpi) for inches in small.get_size_inches()]
        return found

    formatters = shell.display_formatter.formatters
    formatters["image/png"].for_type(Figure, picture)
    formatters[FIGURE] = AboutFormatter(parent=shell.display_formatter)
    formatters[FIGURE].for_type(Figure, about)


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
