"""From a frame function to PNG bytes of a fixed size, leaving no figure open."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

from ..drawing.figure_data import Row, rows
from ..drawing.pixels import LEVEL, pixels, quantised
from ..drawing.style import DPI
from ..errors import UserError

FRAME_DPI = 1.5 * DPI  # sharp enough beside the figures at twice the resolution, at half their bytes
# Size of a frame's palette. With 64 colours a heat map's light tones or the ends of its colour bar merge; 128 cost a tenth more
# bytes and keep every cell exact. No dithering: it would add noise, and bytes.
COLOURS = 128


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


def draw(
    frame: Callable[..., Figure],
    values: dict[str, Any],
    *,
    colours: int | None = COLOURS,
    numbers: bool = False,
) -> Frame:
    """Call ``frame(**values)`` and turn its figure into a PNG.

    Every figure that the call opened is closed, also when it fails.

    Args:
        frame: returns a matplotlib Figure.
        values: its keyword arguments.
        colours: size of the PNG's palette; None keeps full colour.
        numbers: keep what the figure shows, for a CSV.

    Raises:
        UserError: the function returned something else than a Figure.
        Exception: whatever the function raises, with a note that names the values.
    """
    before = set(plt.get_fignums())
    try:
        figure = frame(**values)
        if not isinstance(figure, Figure):
            raise UserError(
                f"the frame function returned {type(figure).__name__} for {values}",
                "Return the matplotlib figure it draws.",
            )
        width, height = (round(inches * DPI) for inches in figure.get_size_inches())
        drawn = pixels(figure, FRAME_DPI)
        shown = rows(figure) if numbers else []
    except Exception as error:
        error.add_note(f"while drawing the slider frame at {values}")
        raise
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)
    image = Image.fromarray(drawn) if colours is None else quantised(drawn, colours)
    png = io.BytesIO()
    # A live frame goes to a browser on the same machine, a static one over the net: quick, or small.
    image.save(png, "png", compress_level=1 if colours is None else LEVEL)
    return Frame(png.getvalue(), width, height, shown)
