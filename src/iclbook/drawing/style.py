"""One look for every figure of the book: sizes, fonts, colours and the few shapes that all chapters share.

A figure fills the text column of 700 CSS pixels and keeps the size that it was given (no tight bounding box): frames of one slider must not jump. It is opaque, near-white
ground and dark ink; the dark page has a second drawing of it, whose colours ``dark.py`` derives from those here.

Give a figure of a notebook its alt text in the cell's metadata, which MyST-NB passes on to the image::

    # %% mystnb={"image": {"alt": "Error against context length: two heads overlap with gradient descent."}}
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import rc_params_from_file
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter

from ..numbers import number
from ..store import Results
from .figure_output import drawn_from, keep

#: The look of every figure as matplotlib's parameters.
RC = rc_params_from_file(Path(__file__).with_name("book.mplstyle"), use_default_template=False)
WIDTH, DPI = RC["figure.figsize"][0], RC["figure.dpi"]  # inches; CSS pixels an inch
GROUND, INK, GRID = RC["figure.facecolor"], RC["text.color"], RC["grid.color"]
PALETTE = tuple(RC["axes.prop_cycle"].by_key()["color"])

#: What a colour means, the same in every chapter. Integers are head counts.
COLOURS = {heads: PALETTE[heads % len(PALETTE)] for heads in range(100)} | {
    "paper": "#A03070",  # the paper's own number, always dashed
    "theory": "#1F2328",  # a closed form
    "measured": "#0072B2",
    "positive": "#D55E00",  # heads by the sign of omega; the same hues as DIVERGING
    "negative": "#0072B2",
    "adds": "#D55E00",  # such a head's share of the answer
    "subtracts": "#0072B2",
    "schedule": "#009E73",  # of learning rates, EM-like; SGD is "sgd"
    "sgd": "#735300",
    "dummy": "#8C8C8C",
    "gd": "#009E73",
    "debiased": "#332288",
    "ridge": "#1F2328",
    1: "#4D4D4D",  # no count has the colour of a sign
    2: "#332288",
    3: "#009E73",
    4: "#735300",
    8: "#7A8B00",
}
#: A second cue beside colour, for prints in grey and for colour-blind readers.
MARKERS = {heads: "hpPX*<>"[heads % 7] for heads in range(100)} | {1: "o", 2: "s", 3: "^", 4: "D", 8: "v"}

#: Signed values: blue below zero, vermilion above, the ground's own light tone at zero. Lightness falls evenly on both sides.
DIVERGING = LinearSegmentedColormap.from_list(
    "iclbook_diverging", ["#053B66", "#0072B2", "#8CC0DF", "#F7F7F4", "#F3B48E", "#D55E00", "#7A2E00"]
)

#: Values from nothing to much: from the ground to the ink, lightness falls evenly; on the dark page from the dark ground to bright.
SEQUENTIAL = LinearSegmentedColormap.from_list(
    "iclbook_sequential", ["#F7F7F4", "#CFE3DC", "#84BFC0", "#3A8FB0", "#1D5C93", "#26306B", "#1B1447"]
)


def strength(colour: str) -> LinearSegmentedColormap:
    """From the ground to a colour: its hue says which thing, its strength how much of it, from 0 to 1."""
    return LinearSegmentedColormap.from_list(colour, [GROUND, colour])


def show(*figures: Figure, of: Iterable[Results] = ()) -> None:
    """Show a cell's finished figures here, before the badge that follows them. A notebook shows, and closes, all that are open.

    Args:
        figures: open figures; what is passed changes nothing, so that ``show(plot_circuits(iso))`` draws and shows.
        of: the stored results that they draw; the page names these trainings below each figure.
    """
    of = tuple(of)
    for each in map(plt.figure, plt.get_fignums()):
        drawn_from[each] = of
    if plt.get_backend().lower() == "agg":  # a program with no window
        return plt.close("all")
    plt.show()


def use() -> None:
    """Set the book's style for matplotlib and seaborn, and for the notebook's inline figures if there is a notebook."""
    import seaborn as sns  # takes a second, which only those who draw need to spend

    plt.rcdefaults()  # a reader's own matplotlibrc moves nothing
    sns.set_theme(context="paper", style="ticks", palette=list(PALETTE), rc=RC)
    from IPython import get_ipython

    if get_ipython() is not None:
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        # twice the pixels, and the figure's own size, which is cropped to its content otherwise
        set_matplotlib_formats("retina", bbox_inches=None)
        if os.environ.get("ICLBOOK_HEADLESS") == "1":
            keep(get_ipython())


def figure(
    ncols: int = 1,
    nrows: int = 1,
    *,
    aspect: float = 0.62,
    width: float = WIDTH,
    height: float | None = None,
    **subplots: Any,
) -> tuple[Figure, Axes | np.ndarray]:
    """A figure of a fixed size with a grid of axes: ``plt.subplots`` (``sharey=True``, ``width_ratios=...``) with its columns first.

    Args:
        aspect: height over width of one panel's share of the figure; a single panel is drawn as if it had half as much more width.
        width: inches; leave it so that all the figures of the book share their edges.
    """
    columns = max(ncols, 1.5)  # a single panel at full aspect would be taller than a reader's screen needs
    height = round(aspect * width / columns * nrows + 0.3, 2) if height is None else height
    return plt.subplots(nrows, ncols, figsize=(width, height), layout="constrained", **subplots)


def paper_line(ax: Axes, value: float, label: str | None = "paper", *, axis: str = "y") -> Line2D:
    """Draw the paper's own number as a dashed line across ``ax`` (at y, or at x with ``axis="x"``)."""
    draw = ax.axhline if axis == "y" else ax.axvline
    return draw(value, color=COLOURS["paper"], linestyle=(0, (5, 3)), linewidth=1.2, label=label, zorder=1.5)


def theory_line(ax: Axes, x: Sequence[float], y: Sequence[float], label: str | None = "theory") -> Line2D:
    """Draw a closed form, ``y`` against ``x`` (same length), as a thin dark dotted line over the measured curves."""
    return ax.plot(x, y, color=COLOURS["theory"], linestyle=(0, (1, 1.6)), linewidth=1.5, label=label, zorder=3)[0]


def name_lines(ax: Axes, places: Mapping[str, float], up: float = 0) -> None:
    """Write the names of lines on them, or ``up`` points above, in their colours, in place of a legend: label -> the ``x`` at which it stands."""
    box = {"fc": GROUND, "ec": "none", "alpha": 0.85, "pad": 1}
    look = {"fontsize": 8, "ha": "center", "va": "center", "bbox": box, "textcoords": "offset points"}
    for line in ax.lines:
        if (name := line.get_label()) in places:
            at = (places[name], np.interp(places[name], *line.get_data()))
            ax.annotate(name, at, (0, up), color=line.get_color(), **look)


def name_ends(ax: Axes, apart: float = 0.08) -> None:
    """Write the names of lines at their right ends, in their colours, in place of a legend: at least a share ``apart`` of the panel's height from each other.
    The limits of the panel must stand."""
    to_axes = ax.transData + ax.transAxes.inverted()
    lines = [line for line in ax.lines if not line.get_label().startswith("_")]
    ends = sorted((float(to_axes.transform(line.get_xydata()[-1])[1]), n) for n, line in enumerate(lines))
    heights = [height for height, _ in ends]
    for i in list(range(len(ends) - 1)) * 40:  # neighbours push each other away until all have room
        push = max(apart - heights[i + 1] + heights[i], 0) / 2
        heights[i], heights[i + 1] = heights[i] - push, heights[i + 1] + push
    for height, (_, n) in zip(heights, ends, strict=True):
        look = {"xycoords": "axes fraction", "xytext": (4, 0), "textcoords": "offset points", "va": "center"}
        ax.annotate(lines[n].get_label(), (1, height), fontsize=8.5, color=lines[n].get_color(), **look)


def write(ax: Axes, x: float, y: float, words: str, color: str = INK, **look: Any) -> None:
    """Write words at data coordinates on the colour of the ground, so that no line strikes them."""
    box = {"fc": GROUND, "ec": "none", "alpha": 0.85, "pad": 1}
    ax.text(x, y, words, **{"color": color, "fontsize": 9, "va": "center", "bbox": box} | look)


def log_ticks(ax: Axes, axis: str, ticks: Sequence[float]) -> None:
    """A logarithmic axis with these ticks only, written as plain numbers (for less than about two decades)."""
    line = ax.xaxis if axis == "x" else ax.yaxis
    (ax.set_xscale if axis == "x" else ax.set_yscale)("log")
    line.set_major_locator(FixedLocator(ticks))
    line.set_major_formatter(FixedFormatter([number(t) for t in ticks]))
    line.set_minor_formatter(NullFormatter())


def heatmap(
    ax: Axes,
    matrix: np.ndarray,
    vmax: float | None = None,
    *,
    row_labels: Sequence[str] | None = None,
    col_labels: Sequence[str] | None = None,
    title: str | None = None,
    annotate: str | None = None,
) -> AxesImage:
    """Draw a signed matrix with zero at the light middle of the scale.

    Args:
        vmax: the value of the darkest colour on both sides; by default the largest magnitude.
        annotate: a format such as ``".2f"`` to print every entry; for small matrices only.
    """
    matrix = np.asarray(matrix, dtype=float)
    assert np.isfinite(matrix).all(), "a heat map needs a finite matrix"
    limit = (float(np.abs(matrix).max()) or 1.0) if vmax is None else vmax  # a scale is never empty
    image = ax.imshow(matrix, cmap=DIVERGING, vmin=-limit, vmax=limit, interpolation="nearest")
    ax.grid(False)
    ax.spines[:].set(visible=True, color="#B9BABD", linewidth=0.8)
    ax.set_xticks(range(len(col_labels)) if col_labels else [], col_labels or [])
    ax.set_yticks(range(len(row_labels)) if row_labels else [], row_labels or [])
    ax.tick_params(length=0, labelsize=8)
    if title:
        ax.set_title(title)
    for (row, col), value in np.ndenumerate(matrix) if annotate else ():
        text = format(value, annotate)
        text = text if text.strip("-0.%") else text.lstrip("-")  # no "-0.00"
        colour = "white" if abs(value) > 0.55 * limit else INK  # on a dark field
        ax.text(col, row, text, ha="center", va="center", fontsize=7, color=colour)
    return image
