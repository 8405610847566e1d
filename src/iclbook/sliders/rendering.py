"""From a frame function to PNG bytes of a fixed size, leaving no figure open."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from ..drawing.style import DPI
from ..errors import UserError

FRAME_DPI = 1.5 * DPI  # sharp enough beside the figures at twice the resolution, at half their bytes
# Size of a frame's palette. With 64 colours a heat map's light tones or the ends of its colour bar merge; 128 cost a tenth more
# bytes and keep every cell exact. No dithering: it would add noise, and bytes.
COLOURS = 128
FLAT = 400  # pixels: a colour of a larger area is no shade of a letter's edge, and keeps an entry of the palette for itself


@dataclass(frozen=True)
class Frame:
    """One drawn frame: PNG bytes, size in CSS pixels, and the hash by which tests recognise it."""

    png: bytes
    width: int
    height: int

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.png).hexdigest()


def draw(frame: Callable[..., Figure], values: dict[str, Any], *, colours: int | None = COLOURS) -> Frame:
    """Call ``frame(**values)`` and turn its figure into a PNG.

    Every figure that the call opened is closed, also when it fails.

    Args:
        frame: returns a matplotlib Figure.
        values: its keyword arguments.
        colours: size of the PNG's palette; None keeps full colour.

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
        pixels = _pixels(figure)
    except Exception as error:
        error.add_note(f"while drawing the slider frame at {values}")
        raise
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)
    image = Image.fromarray(pixels) if colours is None else _quantised(pixels, colours)
    png = io.BytesIO()
    # A live frame goes to a browser on the same machine, a static one over the net: quick, or small.
    image.save(png, "png", **({"compress_level": 1} if colours is None else {"optimize": True}))
    return Frame(png.getvalue(), width, height)


def _pixels(figure: Figure) -> np.ndarray:
    """Draw a figure at FRAME_DPI; RGB bytes, shape (rows, columns, 3).

    The pixels of ``figure.savefig``, which walks through all artists once more to lay them out, and goes by way of a PNG.
    """
    canvas, layout, dpi = FigureCanvasAgg(figure), figure.get_layout_engine(), figure.dpi
    figure.dpi = FRAME_DPI
    ground = mpl.rcParams["savefig.facecolor"]
    if ground != "auto":
        figure.set_facecolor(ground)
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine("none")
    canvas.draw()
    # A function may give the same figure again, changed.
    figure.dpi = dpi
    if layout is not None:
        figure.set_layout_engine(layout)
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def _quantised(pixels: np.ndarray, colours: int) -> Image.Image:
    """The picture in a palette: each flat area its own colour, the shades between them by median cut.

    Args:
        pixels: RGB bytes, shape (rows, columns, 3).
        colours: size of the palette.
    """
    rows, columns, _ = pixels.shape
    packed = (pixels.astype(np.int32) @ np.array([1 << 16, 1 << 8, 1], dtype=np.int32)).ravel()
    # Neighbours are mostly equal: sort the runs, not the pixels.
    starts = np.flatnonzero(np.diff(packed, prepend=-1))
    lengths = np.diff(starts, append=packed.size)
    found, which = np.unique(packed[starts], return_inverse=True)
    counts = np.bincount(which, weights=lengths)
    palette, index = _palette(found, counts, colours)
    image = Image.fromarray(np.repeat(index[which], lengths).astype(np.uint8).reshape(rows, columns), "P")
    image.putpalette(palette.tobytes())
    return image


def _palette(found: np.ndarray, counts: np.ndarray, colours: int) -> tuple[np.ndarray, np.ndarray]:
    """A palette for some colours, and the entry of each.

    Args:
        found: distinct colours, red << 16 | green << 8 | blue, shape (distinct,).
        counts: pixels of each, shape (distinct,).
        colours: size of the palette.

    Returns:
        RGB bytes of at most ``colours`` entries, shape (entries, 3), and the index of the one nearest to each colour, shape (distinct,).
    """
    rgb = np.stack([found >> 16, found >> 8 & 255, found & 255], axis=1).astype(np.uint8)
    order = np.argsort(-counts, kind="stable")
    flat = order[: colours // 2][counts[order[: colours // 2]] >= FLAT]
    rest = np.setdiff1d(np.arange(len(found)), flat)
    if len(rest) <= colours - len(flat):
        return rgb, np.arange(len(found))
    shades = np.repeat(rgb[rest], np.minimum(counts[rest], FLAT).astype(int), axis=0)
    # One k-means round moves the palette's entries to the middle of what they stand for.
    cut = Image.fromarray(shades[None]).quantize(
        colours - len(flat), method=Image.Quantize.MEDIANCUT, kmeans=1, dither=Image.Dither.NONE
    )
    palette = np.concatenate([rgb[flat], np.array(cut.getpalette(), dtype=np.uint8).reshape(-1, 3)])
    entries = palette.astype(np.float32)
    distance = (entries**2).sum(1) - 2 * rgb.astype(np.float32) @ entries.T
    return palette, distance.argmin(1)
