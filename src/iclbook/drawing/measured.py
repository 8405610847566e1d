"""What a reader would call broken in a drawn figure: words cut by its edge, words over words, a legend over the data of its panel."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
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
    words = [(kind, text, _outline(text)) for kind, text in _words(figure)]
    page = figure.bbox.padded(1)
    yield from (f"{_name(kind, text)} is cut" for kind, text, path in words if not _holds(page, path))
    for (kind, text, path), (other_kind, other, other_path) in combinations(words, 2):
        near = path.get_extents().overlaps(other_path.get_extents())
        if near and path.intersects_path(other_path, filled=True):
            yield f"{_name(kind, text)} over {_name(other_kind, other)}"
    for ax in figure.axes:
        yield from (f"the legend of {ax.get_title()!r} over {label!r}" for label in _covered(ax))


def _words(figure: Figure) -> Iterator[tuple[str, Text]]:
    """Every text that is drawn, with its kind."""
    found = [("words", text) for text in figure.texts]
    found += [("legend", text) for legend in figure.legends for text in legend.get_texts()]
    for ax in figure.axes:
        found += [("title", text) for text in (ax.title, ax._left_title, ax._right_title)]
        found += [("words", text) for text in ax.texts]
        found += [("legend", text) for text in (ax.get_legend().get_texts() if ax.get_legend() else ())]
        for axis in (ax.xaxis, ax.yaxis) if ax.axison else ():
            name = axis.axis_name
            found += [(f"{name} label", axis.label), (f"{name} exponent", axis.offsetText)]
            found += [(f"{name} tick", text) for tick in axis._update_ticks() for text in (tick.label1, tick.label2)]
    for kind, text in found:
        hidden = isinstance(text, Annotation) and not text._check_xy()
        if text.get_text().strip() and text.get_visible() and not hidden:
            yield kind, text


def _outline(text: Text) -> Path:
    """The rectangle of a text's letters, turned as the text is: the box of turned words is the box around it, about the same centre."""
    around, angle = text.get_window_extent(), text.get_rotation()
    text.set_rotation(0)
    flat = text.get_window_extent()
    text.set_rotation(angle)
    pixel = text.get_figure(root=True).dpi / 100
    half = np.maximum([flat.width / 2 - BESIDE * pixel, flat.height / 2 - ABOVE * pixel], 0.5)
    turn = Affine2D().scale(*half).rotate_deg(angle).translate((around.x0 + around.x1) / 2, (around.y0 + around.y1) / 2)
    return turn.transform_path(Path([(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)]))


def _holds(page, path: Path) -> bool:
    return all(page.contains(*corner) for corner in path.vertices)


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


def _name(kind: str, text: Text) -> str:
    return f"{kind} {' '.join(text.get_text().split())[:40].strip()!r}"
