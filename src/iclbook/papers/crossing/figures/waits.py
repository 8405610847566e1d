"""Waits, time scales and rates: their figures, the slider of laws and models, and the product of factors that waits in the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    "known": "Trained TF, known $W_e$",
    "trained": "Trained TF",
    "deep": "three layers",
    "few": "two heads, plain prompts",
}


def waits(found: Mapping[str, Array]) -> Figure:
    """Waits against initial size, geometric means over draws and relative to the largest size, for logarithmic growth (left) and powers (right)."""
    fig, axes = style.figure(2, aspect=1.25)
    kinds = {True: axes[0], False: axes[1]}
    count = {True: 0, False: 0}
    for name, sizes_of in WAIT_SIZES.items():
        sizes, times = np.array(sizes_of.scales()), found[name]
        growth = np.exp(np.log(times / times[:, :1]).mean(0))
        slow = growth[-1] < np.sqrt(sizes[0] / sizes[-1])
        marker, colour = "os^Dv<>P"[count[slow]], style.PALETTE[count[slow] % len(style.PALETTE)]
        count[slow] += 1
        tenth = np.diff(times).mean(0)[0] / np.log10(sizes_of.factor)
        shown = (times - times[:, :1]).mean(0) / tenth if slow else growth
        kinds[slow].plot(sizes[0] / sizes, shown, marker + "-", color=colour, label=NAMES[name])
    x = np.geomspace(1, 1e3, 50)
    axes[0].plot(x, np.log10(x), color=style.INK, ls=":", label="predicted")
    for power, at in ((1, 30), (2, 30), (6, 3.0)):
        x = np.geomspace(1, at, 20)
        axes[1].plot(x, x**power, color=style.INK, ls=":", label="predicted" if power == 1 else None)
        axes[1].text(at, at**power, rf"$\epsilon^{{-{power}}}$", fontsize=9, va="bottom")
    axes[0].set(xscale="log", xlabel="largest size over size", ylabel="growth of the wait, in that of the first tenth")
    axes[1].set(
        xscale="log", yscale="log", xlabel="largest size over size", ylabel="wait over wait from the largest size"
    )
    axes[0].set_title("the wait grows as a logarithm")
    axes[1].set_title("as a power")
    for ax in axes:
        ax.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.45, -0.18), ncols=2)
    return fig


def leads(found: Mapping[str, Leads]) -> Figure:
    """Time at which attention is half-way over that of values: faint marks are draws, a disc their median, with the share in which attention is first."""
    fig, ax = style.figure(aspect=0.45)
    for row, of in enumerate(found.values()):
        for values, label, marker, colour, shift in (
            (of.equal, "equal rates", "o", style.PALETTE[0], -0.12),
            (of.quicker, "queries and keys ten times faster", "s", style.PALETTE[3], 0.12),
        ):
            place = np.full(len(values), row + shift)
            ax.plot(np.exp(values), place, "|", color=colour, ms=9, alpha=0.12)
            mark = {"ms": 8, "mec": style.GROUND, "color": colour, "label": None if row else label}
            ax.plot(np.exp(np.median(values)), row + shift, marker, zorder=4, **mark)
            first = f"{np.mean(np.asarray(values) < 0):.0%} attention first"
            ax.text(6, row + shift, first, color=colour, va="center", fontsize=8)
    ax.axvline(1, color=style.INK, ls=":")
    ax.set_yticks(range(len(found)), [NAMES[name] for name in found])
    ax.set(
        xscale="log",
        xlabel="time of attention over time of values (left of 1: attention first)",
        ylim=(-0.6, len(found) + 0.1),
        xlim=(0.22, 18),
    )
    style.log_ticks(ax, "x", [0.25, 0.5, 1, 2, 4])
    ax.legend(loc="upper right", ncols=2, fontsize=8)
    return fig


def path(paths: Mapping[float, tuple[Array, Array, float]], heads: int, size: float) -> Figure:
    """Loss along the flows from starts of all sizes (times, losses, wait), the wait from one of them marked."""
    fig, ax = style.figure(aspect=0.42)
    for each, (times, losses, wait) in paths.items():
        look = {"color": style.COLOURS["measured" if each == size else "dummy"], "lw": 2.2 if each == size else 1.2}
        ax.semilogx(times[1:], losses[1:] / losses[0], **look)
        ax.text(wait, 1.01, f"{each:g}", fontsize=9, va="bottom", ha="right", color=look["color"])
    ax.axvline(paths[size][2], color=style.INK, ls=":")
    ax.set(xlabel="time", ylabel="loss over its start", ylim=(0.75, 1.05), xlim=(1e1, 1e4))
    ax.set_title(f"{heads} head{'s' if heads > 1 else ''}, size {size:g}")
    return fig


MARKS = {
    "values": ("values and outputs ten times faster", "o", style.PALETTE[0], -0.15),
    "routing": ("queries and keys ten times faster", "s", style.PALETTE[3], 0.15),
}


def rates(found: Mapping[str, Race]) -> Figure:
    """Ratios of steps with 95 % intervals over seeds. Left: both arms at the plain base rate, over the plain rate; the best uniform rate is a diamond.
    Right: each at its best base rate, over the best uniform rate, which is the dotted line."""
    fig, (left, right) = style.figure(2, aspect=0.85, sharey=True)
    for row, of in enumerate(found.values()):
        logs = of.logs()
        for arm, (label, marker, colour, shift) in MARKS.items():
            right_of = logs["uniform" if arm == "values" else "routing_uniform"]
            for ax, values in ((left, logs[f"{arm}_plain"]), (right, right_of)):
                mean, low, high = np.exp(interval(values))
                shown = None if row else label
                ax.plot([low, high], [row + shift] * 2, color=colour, lw=2)
                ax.plot(mean, row + shift, marker, color=colour, label=shown)
                ax.plot(np.exp(values), np.full(len(values), row + shift), marker, color=colour, ms=3, alpha=0.4)
        best = np.exp(logs["uniform_plain"].mean())
        left.plot(best, row, "D", color=style.INK, mfc="none", label=None if row else "best uniform rate")
    left.axvline(1, color=style.INK, ls=":")
    right.axvline(1, color=style.INK, ls=":")
    left.set(xscale="log", xlabel="steps over steps at the plain rate\n(left: faster)", title="at a low base rate")
    right.set(
        xscale="log",
        xlabel="steps over steps at the best\nuniform rate (left: faster)",
        title="each at its best base rate",
    )
    style.log_ticks(left, "x", [0.03, 0.1, 0.3, 1])
    style.log_ticks(right, "x", [0.1, 0.3, 1, 3, 10])
    left.set_yticks(range(len(found)), [NAMES[name] for name in found])
    left.set_ylim(len(found) - 0.5, -0.5)
    handles, labels = left.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=3, fontsize=8)
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
        ax.plot(over, values, "o-", color=style.PALETTE[0], label=None if row else "each draw of prompts")
    x = np.geomspace(1, over[-1], 50)
    tenth = (grown[:, 1] - 1).mean() / np.log(sizes.factor)
    ax.plot(
        x,
        1 + tenth * np.log(x) if model in LOGARITHMIC else x**2,
        color=style.INK,
        ls=":",
        label="predicted: a logarithm" if model in LOGARITHMIC else "predicted: a square",
    )
    scale = "linear" if model in LOGARITHMIC else "log"
    ax.set(xscale="log", yscale=scale, xlabel="largest size over size", ylabel="wait over the shortest")
    ax.legend(loc="upper left", fontsize=9)


def _lead(ax: Axes, of: Leads) -> None:
    rows = {"equal rates": of.equal, "queries and keys\nten times faster": of.quicker}
    what = "time of attention over time of values (left of 1: attention first)"
    _strips(ax, rows, what, [0.25, 0.5, 1, 2, 4])


def _rates(ax: Axes, of: Race) -> None:
    logs = of.logs()
    rows = {
        "values and outputs\nten times faster": logs["values_plain"],
        "queries and keys\nten times faster": logs["routing_plain"],
        "best uniform rate": logs["uniform_plain"],
    }
    _strips(ax, rows, "steps over steps at the plain rate", [0.03, 0.1, 0.3, 1])


def _strips(ax: Axes, rows: Mapping[str, Array], what: str, ticks: Sequence[float]) -> None:
    """Exponentials of logarithms, a row for each kind: single values, and their geometric mean with its 95 % interval."""
    for row, values in enumerate(rows.values()):
        mean, low, high = np.exp(interval(values))
        ax.plot(np.exp(values), np.full(len(values), row), "o", color=style.PALETTE[0], ms=4, alpha=0.4)
        ax.plot([low, high], [row, row], color=style.PALETTE[3], lw=2.5)
        ax.plot(mean, row, "D", color=style.PALETTE[3], label=None if row else "mean, 95 % interval")
    ax.axvline(1, color=style.INK, ls=":")
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set(xscale="log", xlabel=what, ylim=(len(rows) + 0.2, -0.6))
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
        "Gradient flow of the loss (1 − x₁x₂⋯xₚ)²/2 from factors of size ε. The plateau ends at the vertical line, when half of the loss is gone. "
        "Dotted: the predicted growth, log(1/ε) for two factors and the power p − 2 of 1/ε for more. "
        "Keep a curve, then move the size, and compare."
    )
    return PageModel("waiting_time", data, still, alt, title, description)
