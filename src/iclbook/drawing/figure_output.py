"""Output of a figure in a notebook: a small PNG, the numbers in it, the stored trainings that it draws, and pictures for phones and for the dark page.

``style.use`` switches this on where a chapter runs headless; in JupyterLab figures are shown as usual.
The tests of the chapters set ``ICLBOOK_FIGURES``: ``measured`` also notes what is broken in a picture; ``draft`` saves time: one picture, and a
larger file.
"""

import base64
import io
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from itertools import combinations, groupby
from operator import itemgetter
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from IPython.core.formatters import JSONFormatter
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.path import Path as Outline
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Affine2D
from PIL import Image

from ..project import FIGURE
from ..sources import short
from ..store import Results
from . import figure_data
from .dark import draw_dark
from .phone_layout import phone_layout

#: zlib's level for PNGs: one more halves the speed for two or three bytes in a hundred.
LEVEL = 8


def keep(shell: Any) -> None:
    """From now on every figure that a notebook with this IPython shell shows carries its numbers and its origin; a second call changes nothing."""
    formatters = shell.display_formatter.formatters
    if FIGURE in formatters:
        return
    asked = os.environ.get("ICLBOOK_FIGURES")
    measure, draft = asked == "measured", asked == "draft"
    css_dpi, dpi = rcParams["figure.dpi"], rcParams["savefig.dpi"]

    def picture(figure: Figure) -> tuple[str, dict[str, int]]:
        drawn = png(pixels(figure, dpi), None if draft else 256)
        return _text(drawn), dict(zip(("width", "height"), _size(figure, css_dpi), strict=True))

    def about(figure: Figure) -> dict[str, Any]:
        found: dict[str, Any] = {
            "csv": figure_data.text(figure_data.rows(figure)),
            "looks": figure_data.looks(figure),
            "origin": origin(drawn_from.get(figure, ())),
        }
        broken = faults(figure, dpi) if measure else []
        pictures, small = versions(figure, dpi)
        found |= {name: _text(picture) for name, picture in pictures.items()}
        if small is not None:
            found |= {"size": _size(small, css_dpi)}
            broken += [f"on a phone: {fault}" for fault in (faults(small, dpi) if measure else ())]
        return found | ({"faults": broken} if broken else {})

    formatters["image/png"].for_type(Figure, picture)
    formatters[FIGURE] = JSONFormatter(parent=shell.display_formatter, format_type=FIGURE)
    formatters[FIGURE].for_type(Figure, about)


def versions(figure: Figure, dpi: float, least: float = 0) -> tuple[dict[str, bytes], Figure | None]:
    """The other pictures of a figure that has been drawn, as PNGs: "dark", and where it can be laid out for a phone (``least`` inches high or more) "narrow" and "narrow dark", with the figure so laid out."""
    if os.environ.get("ICLBOOK_FIGURES") == "draft":
        return {}, None
    found, small = {"dark": png(pixels(figure, dpi, draw_dark))}, phone_layout(figure, dpi, least)
    if small is not None:
        found |= {"narrow": png(pixels(small, dpi)), "narrow dark": png(pixels(small, dpi, draw_dark))}
    return found, small


def _size(figure: Figure, dpi: float) -> list[int]:
    return [round(inches * dpi) for inches in figure.get_size_inches()]


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


# -- pixels ---------------------------------------------------------------------------------------------------------------


def draw_light(figure: Figure) -> np.ndarray:
    """Draw a figure at its own resolution; RGBA bytes, shape (rows, columns, 4).

    The pixels of ``figure.savefig``, which walks through all artists once more, and goes by way of a PNG.
    """
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def pixels(figure: Figure, dpi: float, draw: Callable[[Figure], np.ndarray] = draw_light) -> np.ndarray:
    """Draw a figure at a resolution, light or dark; RGB bytes, shape (rows, columns, 3)."""
    before, figure.dpi = figure.dpi, dpi
    drawn = draw(figure)
    figure.dpi = before  # a function may give the same figure again, changed
    return drawn[:, :, :3].copy()


def png(pixels: np.ndarray, colours: int | None = 256) -> bytes:
    """RGB bytes as a PNG with a palette of so many colours; ``None`` keeps every colour, and is quick and large.

    Not dithered: that would add noise, and bytes. Fewer colours than 256 let the light tones of a heat map merge.
    """
    image, file = Image.fromarray(pixels), io.BytesIO()
    if colours is not None:
        image = image.quantize(colours, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    image.save(file, "png", compress_level=1 if colours is None else LEVEL)
    return file.getvalue()


# -- origin ---------------------------------------------------------------------------------------------------------------


#: The stored results that a figure draws, from the argument ``of`` of ``style.show``.
drawn_from: WeakKeyDictionary[Figure, tuple[Results, ...]] = WeakKeyDictionary()


def origin(of: Iterable[Results]) -> dict[str, Any] | None:
    """Origin of a figure that is drawn from stored results: papers, studies, seeds, dates and versions; ``None`` of no results.

    A study that is named twice, or of which a copy is named, stands once.
    """
    studies = {(each.provenance["config"]["paper"], each.provenance["config"]["name"]): each.provenance for each in of}
    if not studies:
        return None
    versions = {name: version(name) for name in ("torch", "numpy", "matplotlib")}
    return {
        "studies": [_study(*key, studies[key]) for key in sorted(studies)],
        "versions": {"Python": platform.python_version(), **versions},
    }


def _study(paper: str, name: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """Origin of a stored training, by the seed of every run, or of a computation, by every member of every group."""
    config = about["config"]
    if "count" in config:
        seeds = [config["first"] + k for _ in config["groups"] for k in range(config["count"])]
    else:
        seeds = [run["seed"] for group in config["groups"] for run in group["runs"]]
    return {
        "paper": paper,
        "study": name,
        "runs": len(seeds),
        "seeds": ranges({*seeds}),
        "steps": config.get("steps"),
        "date": about.get("date", "day not recorded"),
        "clock": about.get("clock", "wall clock"),
        **{key: about[key] for key in ("seconds", "device", "python", "torch", "numpy")},
        "source": short(about["source"]),
    }


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers in few words: ``0-4, 7``."""
    # in a run of neighbours, number minus place is constant
    found = [
        [*map(itemgetter(1), run)] for _, run in groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0])
    ]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in found)


# -- what a reader would call broken in a drawn figure: words cut by its edge, words over words, a legend over data ---------

#: CSS pixels by which matplotlib's text box is larger than the glyphs on each side: beside them, and above and below.
BESIDE, ABOVE = 1.0, 2.5
#: Share of a curve's points that a legend may cover: behind its ground, which lets one pixel in seven shine through, a reader still follows the curve.
COVERED = 0.1


def faults(figure: Figure, dpi: float) -> list[str]:
    """Faults of a figure that has been drawn at a resolution, each in a few words; empty if it has none."""
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
    """Texts that are drawn, and legends as wholes, each with its name."""
    texts = [("words", text) for text in figure.texts]
    legends = [*figure.legends, *(ax.get_legend() for ax in figure.axes if ax.get_legend())]
    for ax in figure.axes:
        texts += [("title", text) for text in figure_data.titles_of(ax)]
        texts += [("words", text) for text in ax.texts]
        for axis in (ax.xaxis, ax.yaxis) if ax.axison else ():
            name = axis.axis_name
            texts += [(f"{name} label", axis.label), (f"{name} exponent", axis.offsetText)]
            texts += [(f"{name} tick", text) for text in _tick_labels(axis)]
    for kind, text in texts:
        hidden = isinstance(text, Annotation) and not np.isfinite(text.get_tightbbox().extents).all()
        if text.get_text().strip() and text.get_visible() and not hidden:
            yield f"{kind} {' '.join(text.get_text().split())[:40].strip()!r}", text
    yield from ((f"legend {legend.get_texts()[0].get_text()!r}", legend) for legend in legends)


def _tick_labels(axis: Axis) -> list[Text]:
    """Labels of the ticks within an axis's limits, on both of its sides."""
    axis.get_ticklabels(which="both")  # puts every tick in its place
    scale = axis.get_transform().transform
    low, high = sorted(scale(axis.get_view_interval()))
    rounding = 1e-10 * (high - low)
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    inside = [tick for tick in ticks if low - rounding <= scale(tick.get_loc()) <= high + rounding]
    return [label for tick in inside for label in (tick.label1, tick.label2)]


def _outline(artist: Text | Legend) -> Outline:
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
    return turn.transform_path(Outline([(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)]))


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
