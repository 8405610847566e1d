"""A figure laid out anew for a phone: its panels below each other, its words at the size that they have on a wide page."""

import pickle
import re
import textwrap
import warnings
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.transforms import IdentityTransform, ScaledTranslation, blended_transform_factory

from .figure_data import panels_of, titles_of

WIDTH = 3.6  # inches: the text column of a phone at 100 CSS pixels an inch
#: Inches: least and largest height of a panel, and minimum width of the plotting area beside the labels.
LOW, HIGH, LEAST = 2.2, 2.7, 1.6
LINE = 0.2  # inches of a line of a legend
ROW = 0.25  # inches of a row that has a name, half as much more for each further line: two dots above each other can be told apart
TALL = 3.6  # inches: so high stays a panel that is higher than HIGH on a wide page
TALLEST = 13  # inches of a figure: a reader scrolls through more only in vain


def phone_layout(figure: Figure, dpi: float, least: float = 0) -> Figure | None:
    """A copy for a narrow page; ``None`` where that needs a layout of its own (panels in panels, labels as long as sentences).

    The figure has been drawn, so that its panels have their places, and stays as it is; the copy belongs to no window and is laid out, for good, at a
    resolution, and at a height of ``least`` inches or more: frames of one slider share their size.
    """
    try:
        copy = pickle.loads(pickle.dumps(figure))  # our own bytes, of a moment ago
    except (AttributeError, TypeError, pickle.PicklingError):  # labels made by a function of the notebook
        return None
    plt.close(copy)  # pyplot takes what is read back for one of its own
    FigureCanvasAgg(copy)  # measures all words with one renderer
    copy.dpi = dpi
    copy.set_layout_engine("constrained")
    axes = panels_of(copy)
    panels = [ax for ax in axes if ax.axison or ax.has_data() or ax.texts]
    for ax in {*axes}.difference(panels):
        ax.remove()
    for bar in {*copy.axes}.difference(panels):  # it stands beside those of its panels that are left
        bar._colorbar_info["parents"] = [ax for ax in bar._colorbar_info["parents"] if ax in panels]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # before its lines are broken a figure may have no room
        if not panels or copy.subfigs or not _restack(copy, panels, least):
            return None
        _fit(copy, panels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            copy.get_layout_engine().execute(copy)
        except UserWarning:  # and still has none
            return None
    if any(ax.get_window_extent().width < LEAST * copy.dpi for ax in panels if not ax.images):
        return None
    copy.set_layout_engine("none")
    words = copy.get_tightbbox()
    return copy if words.x0 >= -0.03 and words.x1 <= WIDTH + 0.03 else None  # none leave the page


def _restack(figure: Figure, panels: list[Axes], least: float) -> bool:
    """Put the panels below each other in the order of reading; false if a panel is in no grid, or if the figure would become too tall."""
    if any(ax.get_subplotspec() is None for ax in panels):
        return False
    # where a panel's row begins, from the figure's top: the same for all of a row, whatever their labels
    tops = {ax: round(1 - ax.get_subplotspec().get_position(figure).y1, 2) for ax in panels}
    panels.sort(key=lambda ax: (tops[ax], ax.get_window_extent().x0))
    rows = sorted({*tops.values()})
    places = _places(panels, [rows.index(tops[ax]) for ax in panels])
    below, beside = (1 + max(place[k] for place in places) for k in (0, 1))
    heights = [0.0] * below
    high = min(HIGH, max(1.6, 0.9 * TALLEST / below))  # of many panels each is lower
    for ax, (row, _) in zip(panels, places, strict=True):
        box = ax.get_window_extent()
        heights[row] = max(heights[row], _height(ax, box.height / box.width, WIDTH / beside, high))
    if len(panels) > 1:
        _show_labels(panels)
        grid = GridSpec(below, beside, figure=figure, height_ratios=heights)
        for ax, place in zip(panels, places, strict=True):
            ax.set_subplotspec(grid[place])
    tall = sum(heights) + sum(LINE * len(legend.get_texts()) for legend in figure.legends)
    figure.set_size_inches(WIDTH, max(tall, least))
    return tall <= TALLEST


def _places(panels: list[Axes], rows: list[int]) -> list[tuple[int, int]]:
    """Row and column of every panel: one column of plots; matrices two abreast, those that stood below each other side by side."""
    if len(panels) < 4 or not all(ax.images for ax in panels):
        return [(place, 0) for place in range(len(panels))]
    if max(rows) > 1:  # a table of maps stays one, as far as its maps can be seen
        columns = max(map(rows.count, rows))
        return [(row, rows[:place].count(row)) if columns < 4 else (place, 0) for place, row in enumerate(rows)]
    if max(rows) == 0:
        return [(place // 2, place % 2) for place in range(len(panels))]
    return [(rows[:place].count(row), row) for place, row in enumerate(rows)]


def _height(ax: Axes, shape: float, width: float, high: float) -> float:
    """Height in inches of a panel in a column of this ``width``, the legend below it included; ``shape`` was its height over its width, ``high`` the most for curves."""
    if ax.images and ax.get_aspect() != "auto":
        columns, rows = np.abs(np.diff([ax.get_xlim(), ax.get_ylim()])).ravel()  # maps may stand beside each other
        return float(np.clip((width - 0.6) * rows / columns, 0.3, (WIDTH - 0.8) * (1 + (len(ax.images) > 1)))) + 0.4
    entries = ax.get_legend().get_texts() if ax.get_legend() else ()
    names = [re.sub(r"\$.*?\$", "", text.get_text()) for text in ax.get_yticklabels()]
    rows = sum(1 + name.count("\n") / 2 for name in names if any(map(str.isalpha, name)))
    height = float(np.clip(0.8 * width * shape + 0.6, min(LOW, high), high))
    own = ax.get_window_extent().height / ax.figure.dpi
    height = max(height, ROW * rows + 0.6, min(own + 0.6, TALL) if own > HIGH and high == HIGH else 0)
    return height + LINE * len(entries)


def _show_labels(panels: list[Axes]) -> None:
    """Panels that shared the labels of a neighbour beside or below them get their own."""
    for ax in panels:
        for axis, side, shared in (("x", "bottom", ax.get_shared_x_axes()), ("y", "left", ax.get_shared_y_axes())):
            together = [other for other in shared.get_siblings(ax) if other in panels]
            column = axis == "x" and len(together) == len(panels)  # over one axis, which the last panel bears
            if len(together) > 1 and (not column or ax is panels[-1]):
                ax.tick_params(**{f"label{side}": True})
                if not getattr(ax, f"get_{axis}label")():
                    labels = (getattr(other, f"get_{axis}label")() for other in together)
                    getattr(ax, f"set_{axis}label")(next(filter(None, labels), ""))


def _fit(figure: Figure, panels: list[Axes]) -> None:
    """Break the lines of what is wider than the page, and thin out ticks that touch."""
    for legend in figure.legends[:]:
        words = [text.get_text() for text in legend.get_texts()]
        legend.remove()
        figure.legend(legend.legend_handles, words, loc="outside upper center", ncols=1)
    legends = [ax.get_legend() for ax in panels if ax.get_legend() is not None]
    # the engine alone: to walk through all artists as if they were drawn would take as long again
    for legend in legends:
        legend.set_in_layout(False)  # until it has its place: a wide one would leave the panel no width
    figure.get_layout_engine().execute(figure)
    titles = [text for ax in panels for text in (*titles_of(ax), ax.xaxis.label)]
    titles += [text for text in figure.texts if text.get_text() in (figure.get_suptitle(), figure.get_supxlabel())]
    broken = [_wrap(text, figure) for text in titles]
    broken += [_wrap(ax.yaxis.label, figure, ax.get_window_extent().height * 1.1) for ax in panels]
    if any(broken):
        figure.get_layout_engine().execute(figure)
    slanted = [_thin_ticks(ax) for ax in panels]
    if any(slanted):
        figure.get_layout_engine().execute(figure)
    for legend in legends:
        _put_below(legend.axes, legend, figure)
        legend.set_in_layout(True)


def _put_below(ax: Axes, legend: Legend, figure: Figure) -> None:
    """Move a legend below its panel where it would leave no room for the data."""
    box, words = ax.get_window_extent(), legend.get_window_extent()
    if words.width < 0.45 * box.width and words.height < 0.4 * box.height:
        return
    if words.width > 0.94 * figure.bbox.width:
        for text in legend.get_texts():
            text.set_text("\n".join(textwrap.wrap(text.get_text(), 36)))
    legend.set_loc("upper left")
    axis = ax.xaxis.get_tightbbox()  # none where nothing stands below the panel
    lowest = box.y0 if axis is None else min(axis.y0, box.y0)
    # Inches, not shares of the panel: the next layout changes its height.
    below = ScaledTranslation(0.03, (lowest - box.y0) / figure.dpi - 0.02, figure.dpi_scale_trans)
    legend.set_bbox_to_anchor((0, 0), transform=blended_transform_factory(IdentityTransform(), ax.transAxes) + below)


def _wrap(text: Text, figure: Figure, room: float | None = None) -> bool:
    """Break the lines of words that are wider than the page, or longer than their room; whether any were."""
    box = text.get_window_extent()
    long = max(box.width, box.height) if room is not None else box.width
    room = 0.97 * WIDTH * figure.dpi if room is None else room
    inside = box.x0 >= 0 and box.x1 <= figure.bbox.width
    words = text.get_text()
    if not words or (long <= room and inside):
        return False
    lines = max(2, int(np.ceil(long / room)))
    parts = textwrap.wrap(words, -(-len(words) // lines) + 4, break_long_words=False, break_on_hyphens=False)
    broken = all(part.count("$") % 2 == 0 for part in parts)
    if broken:
        text.set_text("\n".join(parts))
    return broken


def _thin_ticks(ax: Axes) -> bool:
    """Slant the labels of ticks where two touch; whether any do."""
    labels = [label for label in ax.get_xticklabels() if label.get_text() and label.get_visible()]
    boxes, touching = [label.get_window_extent() for label in labels], 0.02 * ax.figure.dpi
    if not any(a.x1 + touching > b.x0 for a, b in pairwise(boxes)):
        return False
    ax.tick_params(axis="x", rotation=40)
    plt.setp(ax.get_xticklabels(), horizontalalignment="right", rotation_mode="anchor")
    return True
