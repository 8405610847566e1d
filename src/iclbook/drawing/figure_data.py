"""The numbers that a matplotlib figure shows, as a CSV that can be read alone: every row names its panel, its series and its axes."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from zlib import crc32

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cbook import flatten
from matplotlib.collections import Collection, LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.quiver import Quiver
from matplotlib.text import Annotation, Text

from ..formulas import html, plain
from ..numbers import number

Row = dict[str, Any]

#: All columns, in order; those that a figure leaves empty are left out.
COLUMNS = (
    *("panel", "title", "series", "kind", "x axis", "y axis"),
    *("x", "y", "low", "high", "to x", "to y", "value", "x name", "y name"),
)
#: A longer line is thinned to about so many points, one for each pixel of a panel; its kind says so.
POINTS = 300


def rows(figure: Figure) -> list[Row]:
    """Data of a figure that has been drawn, one row a number or point; columns as in :data:`COLUMNS`."""
    found = []
    panels = [ax for ax in panels_of(figure) if ax.get_visible()]
    for place, ax in enumerate(panels, start=1):
        title = ax.get_title() or ax.get_title(loc="left") or ax.get_title(loc="right")
        about = {"panel": place, "title": title, "x axis": _axis_label(ax, "x"), "y axis": _axis_label(ax, "y")}
        words = {name: _words(getattr(ax, f"{name}axis")) for name in "xy"}
        for row in _rows(ax, figure):
            found.append(about | row | {f"{name} name": words[name].get(row.get(name), "") for name in "xy"})
    return found


def panels_of(figure: Figure) -> list[Axes]:
    """Axes of a figure, without those of colour bars."""
    artists = [artist for ax in figure.axes for artist in (*ax.images, *ax.collections)]
    bars = [artist.colorbar.ax for artist in artists if artist.colorbar is not None]
    return [ax for ax in figure.axes if ax not in bars]


def titles_of(ax: Axes) -> list[Text]:
    """Titles of a panel: in the middle, left and right."""
    return [child for child in ax.get_children() if isinstance(child, Text) and child not in ax.texts]


def looks(figure: Figure) -> dict[str, list[int]]:
    """A checksum a panel of its ``words``, without measured numbers, and of its ``colours``: by them a reader knows what is what."""
    found: dict[str, list[int]] = {"words": [], "colours": []}
    for ax in figure.axes:
        legends = [*filter(None, [ax.get_legend()]), *figure.legends]
        texts = [*titles_of(ax), ax.xaxis.label, ax.yaxis.label, *ax.texts, *figure.texts]
        texts += [word for legend in legends for word in legend.get_texts()]
        words = [text.get_text() for text in texts] + [*_words(ax.xaxis).values(), *_words(ax.yaxis).values()]
        shown = [line.get_color() for line in ax.lines] + [patch.get_facecolor() for patch in ax.patches]
        shown += [of.get_facecolor() for of in ax.collections if len(of.get_facecolor()) == 1]
        found["words"].append(_checksum(re.sub(r"\d*\.\d+|\d+e[+-]?\d+", "", word) for word in words))
        found["colours"].append(_checksum(map(_hex, shown)))
    return found


def _checksum(parts: Iterable[str]) -> int:
    return crc32("\0".join(parts).encode())


def text(found: Sequence[Row], before: Sequence[str] = ()) -> str:
    """Rows as CSV, columns of other names ``before`` the usual ones; the empty string where there are none."""
    if not found:
        return ""
    columns = [*before, *(name for name in COLUMNS if any(row.get(name, "") != "" for row in found))]
    written = io.StringIO()
    writer = csv.DictWriter(written, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in found:
        writer.writerow({k: _entry(v) for k, v in row.items()})
    return written.getvalue()


def _entry(value: Any) -> Any:
    """A number in seven digits; a word that a spreadsheet would compute stands behind an apostrophe."""
    if isinstance(value, float | np.floating):
        return f"{value:.7g}"
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) and not _is_number(value)
    return f"'{value}" if is_formula else value


def _axis_label(ax: Axes, axis: str) -> str:
    """The label of an axis; where panels share it, that of the panel or of the figure that bears it."""
    together = getattr(ax, f"get_shared_{axis}_axes")().get_siblings(ax)
    labels = [getattr(other, f"get_{axis}label")() for other in (ax, *together)]
    return next(filter(None, [*labels, getattr(ax.figure, f"get_sup{axis}label")()]), "")


def _words(axis: Any) -> Mapping[float, str]:
    """Tick -> the word at it, of an axis whose ticks are not all numbers."""
    words = {float(t): text.get_text() for t, text in zip(axis.get_ticklocs(), axis.get_ticklabels())}  # noqa: B905
    return words if any(word and not _is_number(word) for word in words.values()) else {}


def _is_number(text: str) -> bool:
    plain = text.replace("−", "-").strip("$%").replace("\\mathdefault", "").strip("{}")
    try:
        float(plain)
    except ValueError:
        return plain.startswith(("10^", "-10^"))
    return True


def _rows(ax: Axes, figure: Figure) -> Iterator[Row]:
    legend = _Series(ax, figure)
    inside: set[int] = set()
    for container in ax.containers:
        inside |= {id(part) for part in flatten(container)}
        if isinstance(container, BarContainer):
            yield from _bars(container, legend)
        elif isinstance(container, ErrorbarContainer):
            yield from _error_bars(container, legend)
    for artist in (*ax.lines, *ax.collections, *ax.images, *ax.texts):
        if id(artist) in inside or not artist.get_visible():
            continue
        if isinstance(artist, Line2D):
            yield from _line(ax, artist, legend)
        elif isinstance(artist, Collection):
            yield from _collection(artist, ax, legend)
        elif isinstance(artist, AxesImage):
            yield from _image(artist, legend)
        elif isinstance(artist, Annotation) and artist.arrow_patch is not None and artist.anncoords == "data":
            ends = dict(zip(("x", "y", "to x", "to y"), (*artist.xyann, *artist.xy), strict=True))
            yield {"series": artist.get_text(), "kind": "arrow"} | ends


class _Series:
    """Names of artists in a legend: by the artist's own label, or by the entry of the same looks."""

    def __init__(self, ax: Axes, figure: Figure) -> None:
        legends = [a.get_legend() for a in (ax, *figure.axes)] + list(figure.legends)
        self.entries: dict[Any, str] = {}
        for legend in filter(None, legends):
            for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=False):
                self.entries.setdefault(_looks(handle), text.get_text())
        self.unnamed = 0

    def of(self, artist: Any, colour: Any = None) -> str:
        label = str(artist.get_label() or "")
        if label and not label.startswith("_"):
            return label
        looks = _looks(artist) if colour is None else ("", _hex(colour), "")
        found = self.entries.get(looks) or self.entries.get(("", looks[1], ""))
        if found is None:
            self.unnamed += 1
        return found or f"series {self.unnamed}"


def _looks(artist: Any) -> tuple[str, str, str]:
    if isinstance(artist, Line2D):
        return str(artist.get_linestyle()), _hex(artist.get_color()), str(artist.get_marker())
    colour = artist.get_facecolor() if hasattr(artist, "get_facecolor") else "none"
    return "", _hex(colour), ""


def _hex(colour: Any) -> str:
    """A colour as text; of several, the first."""
    if not isinstance(colour, str) and np.ndim(colour) == 2:
        colour = colour[0] if len(colour) else "none"
    return to_hex(colour)


def _line(ax: Axes, line: Line2D, legend: _Series) -> Iterator[Row]:
    across = ((ax.get_yaxis_transform(which="grid"), "y"), (ax.get_xaxis_transform(which="grid"), "x"))
    series = legend.of(line)
    x, y = (np.atleast_1d(np.asarray(v, dtype=float)) for v in (line.get_xdata(), line.get_ydata()))
    for transform, name in across:
        if line.get_transform() == transform and len(x):
            yield {"series": series, "kind": "line across", name: float({"x": x, "y": y}[name][0])}
            return
    if line.get_transform() != ax.transData:
        return
    joined = line.get_linestyle() not in ("None", " ", "")
    every = -(-len(x) // POINTS) if joined else 1
    kind = ("line" if joined else "points") + (f", every {every}th point" if every > 1 else "")
    keep = sorted({*range(0, len(x), every), len(x) - 1}) if len(x) else []
    for i in keep:
        if np.isfinite(x[i]) and np.isfinite(y[i]):
            yield {"series": series, "kind": kind, "x": x[i], "y": y[i]}


def _bars(bars: BarContainer, legend: _Series) -> Iterator[Row]:
    for bar in bars.patches:
        (x, y), width, height = bar.get_xy(), bar.get_width(), bar.get_height()
        if bars.orientation == "horizontal":
            x, y, low = x + width, y + height / 2, x
        else:
            x, y, low = x + width / 2, y + height, y
        series = legend.of(bars, bar.get_facecolor())
        yield {"series": series, "kind": "bar", "x": x, "y": y} | ({"low": low} if low else {})


def _error_bars(container: ErrorbarContainer, legend: _Series) -> Iterator[Row]:
    line, _, sticks = container
    colour = line.get_color() if line is not None else sticks[0].get_color()
    own = line is not None and not str(line.get_label()).startswith("_")  # a name of the line, without its bars
    series = legend.of(line if own else container, colour)
    for (x0, y0), (x1, y1) in (segment for stick in sticks for segment in stick.get_segments()):
        place, ends = ({"x": x0}, (y0, y1)) if x0 == x1 else ({"y": y0}, (x0, x1))
        yield {"series": series, "kind": "error bar", **place, "low": min(ends), "high": max(ends)}
    if line is not None:
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True):
            yield {"series": series, "kind": "points", "x": float(x), "y": float(y)}


def _collection(artist: Collection, ax: Axes, legend: _Series) -> Iterator[Row]:
    if isinstance(artist, Quiver):
        for (x, y), u, v in zip(artist.XY, np.ravel(artist.U), np.ravel(artist.V), strict=True):
            yield {"series": legend.of(artist), "kind": "arrow", "x": x, "y": y, "to x": x + u, "to y": y + v}
    elif isinstance(artist, QuadMesh):
        edges = np.asarray(artist.get_coordinates())  # (rows + 1, columns + 1, 2)
        for (i, j), value in np.ndenumerate(np.asarray(artist.get_array(), dtype=float)):
            x, y = edges[i : i + 2, j : j + 2].mean((0, 1))
            yield {"kind": "heat map", "x": float(x), "y": float(y), "value": value}
    elif isinstance(artist, PathCollection):
        series, values = legend.of(artist), artist.get_array()
        for i, (x, y) in enumerate(np.asarray(artist.get_offsets(), dtype=float)):
            value = {} if values is None else {"value": float(values[i])}
            yield {"series": series, "kind": "points", "x": x, "y": y} | value
    elif isinstance(artist, LineCollection) and artist.get_transform().contains_branch(ax.transData):
        series = legend.of(artist, artist.get_color())
        for ends in artist.get_segments():
            yield from ({"series": series, "kind": "segment", "x": x, "y": y} for x, y in ends)
    elif isinstance(artist, PolyCollection):
        yield from _band(artist, legend)


def _band(band: PolyCollection, legend: _Series) -> Iterator[Row]:
    """The lower and the upper edge of a band at each place, which a filled curve has along x."""
    series = legend.of(band)
    edges: dict[float, list[float]] = {}
    for x, y in (vertex for path in band.get_paths() for vertex in path.vertices):
        if np.isfinite(y):
            edges.setdefault(float(x), []).append(float(y))
    every = -(-len(edges) // POINTS) if edges else 1
    kind = "band" + (f", every {every}th point" if every > 1 else "")
    for x in sorted(edges)[::every]:
        yield {"series": series, "kind": kind, "x": x, "low": min(edges[x]), "high": max(edges[x])}


def _image(image: AxesImage, legend: _Series) -> Iterator[Row]:
    values = image.get_array()
    if values is None or np.ndim(values) != 2:
        return  # a photograph, not numbers
    left, right, bottom, top = image.get_extent()
    rows, columns = values.shape
    xs = left + (np.arange(columns) + 0.5) * (right - left) / columns
    ys = np.arange(rows) + 0.5
    ys = top + ys * (bottom - top) / rows if image.origin == "upper" else bottom + ys * (top - bottom) / rows
    name = {} if image.get_label().startswith("_") else {"series": image.get_label()}
    for (i, j), value in np.ndenumerate(np.ma.filled(np.ma.asarray(values).astype(float), np.nan)):
        if np.isfinite(value):
            yield name | {"kind": "heat map", "x": float(xs[j]), "y": float(ys[i]), "value": value}


# -- tables of text: HTML that scrolls in its own box, and plain text where there is no page -----------------------------

#: Words that are marked as good or bad wherever they fill a cell; symbol and word, so that colour only repeats them.
GOOD = ("proved", "follows")
BAD = ("refuted", "needs hypothesis", "vacuous", "does not follow")


@dataclass(repr=False)
class Table:
    """Rows as a table; the last expression of a cell shows it.

    Args:
        columns: key of each column and its heading; both may hold formulas, as in a ledger (:mod:`iclbook.formulas`).
    """

    rows: Sequence[Mapping[str, Any]]
    columns: Mapping[str, str]
    label: str
    folded: bool = False

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{html(name)}</th>' for name in self.columns.values())
        names = {key: escape(plain(name)) for key, name in self.columns.items()}
        body = ""
        for row in self.rows:
            cells = [f'<td data-label="{name}">{_cell(row.get(key, ""))}</td>' for key, name in names.items()]
            body += f"<tr>{''.join(cells)}</tr>"
        table = (
            f'<div class="iclbook-scroll" role="region" aria-label="{escape(self.label)}" tabindex="0">'
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )
        return f"<details><summary>{escape(self.label)}</summary>{table}</details>" if self.folded else table

    def __repr__(self) -> str:
        lines = [
            "; ".join(plain(f"{name}: {row.get(key, '')}") for key, name in self.columns.items()) for row in self.rows
        ]
        return "\n".join([self.label, *lines])


def _cell(value: Any) -> str:
    text = number(value) if isinstance(value, int | float) else html(str(value))
    if text in GOOD:
        return f'<span class="iclbook-holds">\u2713 {text}</span>'
    if text in BAD:
        return f'<span class="iclbook-fails" style="white-space: normal">\u2717 {text}</span>'
    return text
