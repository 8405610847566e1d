"""Waits, time scales and rates: their figures, the slider of laws and models, and the product of factors that waits in the page."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ....draw import numpy_rng
from ....drawing import style
from ....sliders import PageModel
from ....statistics import interval
from ....training import gradient_flow
from ..measures.rates import Race
from ..measures.time_scales import Leads
from ..measures.waits import LOGARITHMIC
from ..measures.waits import SIZES as WAIT_SIZES
from ..theory import product

Array = np.ndarray
NAMES = {
    "recall": "associative recall",
    "reduced": "reduced heads",
    "heads": "two heads",
    "linear": "linear attention",
    "tasks": "multi-task",
    "layer": "layer with embedding",
    "chain": "sticky chain",
    "descent": "GD block",
    "known": "Trained TF, embeddings held",
    "trained": "Trained TF",
    "deep": "three layers",
    "few": "two heads, plain prompts",
}


#: Model -> p, how many factors must grow together.
FACTORS = (
    dict.fromkeys(LOGARITHMIC, 2)
    | dict.fromkeys(("heads", "linear", "tasks", "trained"), 4)
    | {"recall": 3, "layer": 8}
)
#: p -> its colour, and how waits grow.
DEGREE_LOOKS = {
    2: (style.PALETTE[0], r"$p = 2$: $\log 1/\epsilon$"),
    3: (style.PALETTE[2], r"$p = 3$: $1/\epsilon$"),
    4: (style.PALETTE[1], r"$p = 4$: $1/\epsilon^2$"),
    8: (style.PALETTE[3], r"$p = 8$: $1/\epsilon^6$"),
}


def waits(found: Mapping[str, Array]) -> Figure:
    """Waits against initial size, means over draws, relative to the largest size: all models, a colour each degree, then those of degree 2 on a linear axis.

    Dotted: the predicted growth, through the smallest size.
    """
    fig, (every, logarithms) = style.figure(2, aspect=0.95)
    drawn = dict.fromkeys(DEGREE_LOOKS, 0)
    for name, sizes_of in WAIT_SIZES.items():
        p, times = FACTORS[name], found[name]
        smaller = sizes_of.scale / np.array(sizes_of.scales())
        growth = np.exp(np.log(times / times[:, :1]).mean(0))
        colour, law = DEGREE_LOOKS[p]
        look = {"marker": "os^Dv"[drawn[p]], "ls": "", "ms": 5, "color": colour, "label": NAMES[name]}
        drawn[p] += 1
        every.plot(smaller, growth, **look)
        if p == 2:
            tenth = np.diff(times).mean(0)[-1] / np.log10(sizes_of.factor)
            logarithms.plot(smaller, (times - times[:, :1]).mean(0) / tenth, **look)
            continue
        every.plot(smaller, growth[-1] * (smaller / smaller[-1]) ** (p - 2), color=style.INK, ls=":", lw=1)
        if drawn[p] == 1:
            every.text(1.3 * smaller[-1], growth[-1], law, va="center")
    every.text(40, 1.15, DEGREE_LOOKS[2][1])
    logarithms.plot([1, 1e3], [0, 3], color=style.INK, ls=":", label="predicted")
    every.set(xscale="log", yscale="log", xlim=(0.8, 1500), ylabel="wait: times longer", title="all models")
    logarithms.set(xscale="log", ylabel="added wait (tenfold step: 1)", title="$p = 2$, on a linear axis")
    for ax in (every, logarithms):
        ax.set_xlabel("start: times smaller")
    return fig


def leads(found: Mapping[str, Leads]) -> Figure:
    """Time at which attention is half-way over that of values: faint marks are draws, a disc their median, with the share in which attention is first."""
    fig, ax = style.figure(aspect=0.55)
    for row, of in enumerate(found.values()):
        for values, label, marker, colour, shift in (
            (of.equal, "equal rates", "o", style.PALETTE[0], -0.17),
            (of.quicker, "queries and keys ten times faster", "s", style.PALETTE[3], 0.17),
        ):
            ax.plot(np.exp(values), np.full(len(values), row + shift), "|", color=colour, ms=9, alpha=0.12)
            mark = {"ms": 8, "mec": style.GROUND, "color": colour, "label": None if row else label}
            ax.plot(np.exp(np.median(values)), row + shift, marker, zorder=4, **mark)
            first = f"{np.mean(np.asarray(values) < 0):.0%}"
            ax.text(0.13, row + shift, first, color=colour, va="center", fontsize=9)
    ax.set_yticks(range(len(found)), [textwrap.fill(NAMES[name], 16) for name in found])
    ax.set(xscale="log", xlabel="time of attention over time of values", ylim=(-0.5, len(found)), xlim=(0.12, 18))
    _sides(ax, "attention first", "values first")
    style.log_ticks(ax, "x", [0.25, 0.5, 1, 2, 4, 8])
    fig.legend(loc="outside upper center", ncols=2)
    return fig


def _sides(ax: Axes, below: str, above: str) -> None:
    """A dotted line at ratio 1, with what it means to lie on either side, at the top of the panel."""
    ax.axvline(1, color=style.INK, ls=":")
    for words, shift, side in ((f"← {below}", -5, "right"), (f"{above} →", 5, "left")):
        at = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points"}
        ax.annotate(words, (1, 0.99), (shift, 0), **at, ha=side, va="top", fontsize=9)


def path(paths: Mapping[float, tuple[Array, Array, float]], heads: int, size: float) -> Figure:
    """Loss along the flows from starts of all sizes (times, losses, wait), the wait from one of them marked."""
    fig, ax = style.figure(aspect=0.42)
    for each, (times, losses, wait) in paths.items():
        look = {"color": style.COLOURS["measured" if each == size else "dummy"], "lw": 2.2 if each == size else 1.2}
        ax.semilogx(times[1:], losses[1:] / losses[0], **look)
        ax.text(wait, 1.01, f"{each:g}", fontsize=9, va="bottom", ha="right", color=look["color"])
    for one, longer in pairwise(wait for _, _, wait in paths.values()):
        ax.annotate("", (longer, 0.9), (one, 0.9), arrowprops={"arrowstyle": "->", "color": style.INK})
        ax.text(np.sqrt(one * longer), 0.905, f"× {longer / one:.1f}", ha="center", va="bottom")
    ax.axvline(paths[size][2], color=style.INK, ls=":")
    ax.set(xlabel="time", ylabel="loss over its start", ylim=(0.75, 1.05), xlim=(1e1, 1e4))
    ax.set_title(f"{heads} head{'s' if heads > 1 else ''}, size {size:g}")
    return fig


MARKS = {
    "values": ("values and outputs ten times faster", "o", style.PALETTE[0], -0.22),
    "routing": ("queries and keys ten times faster", "s", style.PALETTE[3], 0.16),
}


def rates(found: Mapping[str, Race]) -> Figure:
    """Ratios of steps with 95 % intervals over seeds. Left: both arms at the plain base rate, over the plain rate; the best uniform rate is a diamond.
    Right: each at its best base rate, over the best uniform rate, which is the dotted line."""
    fig, (left, right) = style.figure(2, aspect=1.05, sharey=True)
    for row, of in enumerate(found.values()):
        logs = of.logs()
        for arm, (label, marker, colour, shift) in MARKS.items():
            right_of = logs["uniform" if arm == "values" else "routing_uniform"]
            for ax, values in ((left, logs[f"{arm}_plain"]), (right, right_of)):
                mean, low, high = np.exp(interval(values))
                ax.plot(np.exp(values), np.full(len(values), row + shift + 0.14), "|", color=colour, ms=5, alpha=0.5)
                ax.plot([low, high], [row + shift] * 2, color=colour, lw=2)
                ax.plot(mean, row + shift, marker, color=colour, ms=7, label=None if row else label)
        best = np.exp(logs["uniform_plain"].mean())
        left.plot(best, row, "D", color=style.INK, mfc="none", label=None if row else "one best rate for all")
    left.set(xscale="log", xlabel="steps, over steps at the plain rate", title="all at a low base rate")
    right.set(xscale="log", xlabel="steps, over steps at the\nbest rate for all", title="each at its best base rate")
    for ax in (left, right):
        _sides(ax, "faster", "slower")
    lowest = right.get_xlim()[0]
    right.axvspan(lowest, 0.5, color=style.GRID, alpha=0.5, lw=0)
    right.text(1.2 * lowest, len(found) - 0.3, "twice as fast", fontsize=9)
    style.log_ticks(left, "x", [0.1, 0.3, 1])
    style.log_ticks(right, "x", [0.1, 1, 10])
    left.set_yticks(range(len(found)), [textwrap.fill(NAMES[name], 16) for name in found])
    left.set(ylim=(len(found) - 0.2, -0.75), xlim=(None, 2.2))
    right.set_xlim(left=lowest)
    fig.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8)
    return fig


#: Laws that are asked of all of :data:`ACROSS`.
LAWS = {"wait": "the wait of a small start", "lead": "attention before values", "rates": "ten times the rate on values"}
#: Models of which each of :data:`LAWS` is asked.
ACROSS = ("heads", "chain", "known")


def law_on(
    law: str, model: str, waits: Mapping[str, Array], leads: Mapping[str, Leads], races: Mapping[str, Race]
) -> Figure:
    """A law on a model: waits against size, leads of attention, or steps saved by quicker matrices; every draw or seed is shown.

    Args:
        law, model: of :data:`LAWS` and :data:`ACROSS`.
        waits: ``(draws, 4)`` at the sizes of :data:`WAIT_SIZES`.
        leads, races: as their measures give them.
    """
    fig, ax = style.figure(aspect=0.45)
    if law == "wait":
        _wait(ax, model, waits[model])
    elif law == "lead":
        _lead(ax, leads[model])
    else:
        _rates(ax, races[model])
    ax.set_title(f"{NAMES[model]}: {LAWS[law]}")
    return fig


def _wait(ax: Axes, model: str, times: Array) -> None:
    sizes = WAIT_SIZES[model]
    over = sizes.scale / np.array(sizes.scales())
    grown = times / times[:, :1]
    for row, values in enumerate(grown):
        ax.plot(over, values, "o-", lw=0.8, color=style.PALETTE[0], label=None if row else "each draw of prompts")
    x, last = np.geomspace(1, over[-1], 50), grown[:, -2:].mean(0)
    logarithmic = FACTORS[model] == 2
    scale = "linear" if logarithmic else "log"
    tenth = (last[1] - last[0]) / np.log(sizes.factor)
    law = last[1] + tenth * np.log(x / x[-1]) if logarithmic else last[1] * (x / x[-1]) ** (FACTORS[model] - 2)
    ax.plot(x, law, color=style.INK, ls=":", label=f"predicted: {'a logarithm' if logarithmic else 'a square'}")
    ax.set(xscale="log", yscale=scale, xlabel="start: times smaller", ylabel="wait: times longer")
    ax.legend(loc="upper left", fontsize=9)


def _lead(ax: Axes, of: Leads) -> None:
    rows = {"equal rates": of.equal, "queries and keys\nten times faster": of.quicker}
    _strips(ax, rows, "time of attention over time of values", [0.25, 0.5, 1, 2, 4])
    _sides(ax, "attention first", "values first")


def _rates(ax: Axes, of: Race) -> None:
    logs = of.logs()
    rows = {
        "values and outputs\nten times faster": logs["values_plain"],
        "queries and keys\nten times faster": logs["routing_plain"],
        "best rate for all": logs["uniform_plain"],
    }
    _strips(ax, rows, "steps, over steps at the plain rate", [0.03, 0.1, 0.3, 1])
    ax.set_xlim(right=2)
    _sides(ax, "faster", "slower")


def _strips(ax: Axes, rows: Mapping[str, Array], what: str, ticks: Sequence[float]) -> None:
    """Exponentials of logarithms, a row for each kind: single values, and their geometric mean with its 95 % interval."""
    for row, values in enumerate(rows.values()):
        mean, low, high = np.exp(interval(values))
        ax.plot(np.exp(values), np.full(len(values), row), "o", color=style.PALETTE[0], ms=4, alpha=0.4)
        ax.plot([low, high], [row, row], color=style.PALETTE[3], lw=2.5)
        ax.plot(mean, row, "D", color=style.PALETTE[3], label=None if row else "mean, 95 % interval")
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set(xscale="log", xlabel=what, ylim=(len(rows) + 0.2, -0.8))
    style.log_ticks(ax, "x", ticks)
    ax.legend(loc="lower left", fontsize=9)  # in the room under the last row


# -- in the page

#: Numbers of factors, sizes of the start that a reader may choose, and what stands there at first.
DEGREES, PAGE_SIZES = (2, 3, 4, 8), (0.01, 0.3)
BEGIN = {"degree": 3, "size": 0.05, "from": "equal", "kept": {"degree": 3, "size": 0.2, "from": "equal"}}
#: The wait ends when this share of the loss is left.
LEFT = 0.5


def directions() -> dict[str, dict[str, np.ndarray]]:
    """Starts at size one, by kind and degree: all factors equal, and each its own."""
    rng = numpy_rng(0)
    own = {str(p): rng.uniform(0.5, 1.5, p) for p in DEGREES}
    return {"equal": {str(p): np.ones(p) for p in DEGREES}, "own": own}


def waiting_time() -> PageModel:
    """Loss against time for a start of any size, and how the wait grows, beside what the degree predicts."""
    starts = directions()
    laws = {kind: {p: product.constant(u) for p, u in by_degree.items()} for kind, by_degree in starts.items()}
    data = {"degrees": DEGREES, "sizes": PAGE_SIZES, "left": LEFT, "starts": starts, "laws": laws, "begin": BEGIN}

    def still() -> Figure:
        fig, (left, right) = style.figure(2, height=2.9)
        for at, dashes in ((BEGIN["kept"], "--"), (BEGIN, "-")):
            start = np.full(at["degree"], at["size"])
            wait = product.wait(start, LEFT)
            times = np.geomspace(0.1, 20 * wait, 300)
            states = gradient_flow(product.gradient, start, times[-1], times).states
            label = f"start of size {at['size']:g}"
            left.plot(times, product.loss(states), dashes, color=style.INK, label=label)
            left.axvline(wait, color=style.INK, ls=":", lw=1)
            right.plot(1 / at["size"], wait, "o", color=style.INK, mfc="none" if dashes == "--" else None)
        sizes = np.geomspace(*PAGE_SIZES, 40)
        for p, colour in zip(DEGREES, style.PALETTE, strict=False):
            waits = [product.wait(np.full(p, size), LEFT) for size in sizes]
            right.plot(1 / sizes, waits, color=colour, label=f"{p} factors")
            law = np.log(1 / sizes) if p == 2 else sizes ** (2.0 - p)
            right.plot(1 / sizes, law / law[0] * waits[0], ":", color=style.INK, lw=1)
        left.set(xscale="log", xlabel="time", ylabel="loss")
        right.set(xscale="log", yscale="log", xlabel=r"$1/\epsilon$", ylabel="wait until half is left")
        left.legend(fontsize=8, loc="center left")
        right.legend(fontsize=8)
        return fig

    alt = "Left: loss of three factors against time; from a quarter of the size the plateau is several times as long. Right: waits of two, three, four and eight factors against one over the size, a logarithm and powers one, two and six."
    title = "A product of small factors waits: choose how many, and how small"
    description = (
        "The smaller the start and the more factors, the longer the wait. Gradient flow of the loss (1 − x₁x₂⋯xₚ)²/2 from factors of size ε. The plateau ends at the vertical line, when half of the loss is gone. "
        "Dotted: the predicted growth, log(1/ε) for two factors and the power p − 2 of 1/ε for more. "
        "Try: keep a curve, then halve the size."
    )
    return PageModel("waiting_time", data, still, alt, title, description)
