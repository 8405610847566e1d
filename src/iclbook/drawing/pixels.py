"""From a figure to pixels, and from pixels to a small PNG that keeps every flat colour."""

from __future__ import annotations

import io

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

#: zlib's level for PNGs: one more halves the speed for two or three bytes in a hundred.
LEVEL = 8
FLAT = 400  # pixels: a colour of a larger area is no shade of a letter's edge, and keeps an entry of the palette for itself


def pixels(figure: Figure, dpi: float) -> np.ndarray:
    """Draw a figure at a resolution; RGB bytes, shape (rows, columns, 3).

    The pixels of ``figure.savefig``, which walks through all artists once more to lay them out, and goes by way of a PNG.
    """
    canvas, layout, before = FigureCanvasAgg(figure), figure.get_layout_engine(), figure.dpi
    figure.dpi = dpi
    ground = mpl.rcParams["savefig.facecolor"]
    if ground != "auto":
        figure.set_facecolor(ground)
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine("none")
    canvas.draw()
    # A function may give the same figure again, changed.
    figure.dpi = before
    if layout is not None:
        figure.set_layout_engine(layout)
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def png(figure: Figure, dpi: float, colours: int) -> bytes:
    """A figure as a PNG with a palette of so many colours."""
    file = io.BytesIO()
    quantised(pixels(figure, dpi), colours).save(file, "png", compress_level=LEVEL)
    return file.getvalue()


def quantised(pixels: np.ndarray, colours: int) -> Image.Image:
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
