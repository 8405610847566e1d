"""What a reader would call broken in a drawn figure: words cut by its edge, words over words, a legend over the data of its panel."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.path import Path
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Affine2D

#: CSS pixels that a box of words is smaller than matplotlib's on each side: a line has so much free ground beside, and above and below, its letters.
BESIDE, ABOVE = 1.0, 2.5
#: Share of a curve's points that a legend may cover: behind its ground, which lets one pixel in seven shine through, a reader still follows the curve.
COVERED = 0.1


def faults(figure: Figure, dpi: float) -> list[str]:
    """All faults of a figure that has been drawn at a resolution, each in a few words; empty if it has none."""
    before, figure.dpi = figure.dpi, dpi
    found = list(_faults(figure))
    figure.dpi = before
    return found


def _faults(figure: Figure) -> Iterator[str]:
    words = [(name, _outline(artist)) for name, artist in _words(figure)]
    page = figure.bbox.padded(1)
    for name, outline in words:
        if not all(page.contains(*corner) for corner in outline.vertices):
            yield f"{name} is cut"
    for (name, outline), (other, its) in combinations(words, 2):
        near = outline.get_extents().overlaps(its.get_extents())
        if near and outline.intersects_path(its, filled=True):
            yield f"{name} over {other}"
    for ax in figure.axes:
        yield from (f"the legend of {ax.get_title()!r} over {label!r}" for label in _covered(ax))


def _words(figure: Figure) -> Iterator[tuple[str, Text | Legend]]:
    """Every text that is drawn, and every legend as a whole, each with its name."""
    texts = [("words", text) for text in figure.texts]
    legends = [*figure.legends, *(ax.get_legend() for ax in figure.axes if ax.get_legend())]
    for ax in figure.axes:
        texts += [("title", text) for text in (ax.title, ax._left_title, ax._right_title)]
        texts += [("words", text) for text in ax.texts]
        for axis in (ax.xaxis, ax.yaxis) if ax.axison else ():
            name = axis.axis_name
            texts += [(f"{name} label", axis.label), (f"{name} exponent", axis.offsetText)]
            texts += [(f"{name} tick", text) for tick in axis._update_ticks() for text in (tick.label1, tick.label2)]
    for kind, text in texts:
        hidden = isinstance(text, Annotation) and not text._check_xy()
        if text.get_text().strip() and text.get_visible() and not hidden:
            yield f"{kind} {' '.join(text.get_text().split())[:40].strip()!r}", text
    yield from ((f"legend {legend.get_texts()[0].get_text()!r}", legend) for legend in legends)


def _outline(artist: Text | Legend) -> Path:
    """The rectangle of an artist's letters, turned as they are: the box of turned words is the box around it, about the same centre."""
    around = flat = artist.get_window_extent()
    angle = 0.0
    if isinstance(artist, Text):
        angle = artist.get_rotation()
        artist.set_rotation(0)
        flat = artist.get_window_extent()
        artist.set_rotation(angle)
    pixel = artist.get_figure(root=True).dpi / 100
    half = np.maximum([flat.width / 2 - BESIDE * pixel, flat.height / 2 - ABOVE * pixel], 0.5)
    turn = Affine2D().scale(*half).rotate_deg(angle).translate((around.x0 + around.x1) / 2, (around.y0 + around.y1) / 2)
    return turn.transform_path(Path([(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)]))


def _covered(ax: Axes) -> Iterator[str]:
    """Names of the curves and clouds of points of which a panel's legend covers more than :data:`COVERED`."""
    if ax.get_legend() is None:
        return
    box = ax.get_legend().get_window_extent()
    drawn = [(line, line.get_transform().transform(line.get_xydata())) for line in ax.lines]
    drawn += [(cloud, cloud.get_offset_transform().transform(cloud.get_offsets())) for cloud in ax.collections]
    for artist, points in drawn:
        seen = points[[ax.bbox.contains(*point) for point in points]] if len(points) else points
        if artist.get_visible() and len(seen) and np.mean([box.contains(*point) for point in seen]) > COVERED:
            yield artist.get_label()
