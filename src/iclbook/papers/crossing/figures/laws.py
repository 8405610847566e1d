"""One figure a law."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from ....drawing import style
from ....models.kernels import KERNELS
from ..measures.descent import OTHERWISE, area
from ..measures.pairs import Pairs
from ..measures.timing import Leads
from ..runs.waits import CELLS

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
    "few": "two heads, plain prompts",
}


def waits(found: Mapping[str, Array]) -> Figure:
    """Waits against initial size, geometric means over draws and relative to the largest size, for logarithmic growth (left) and powers (right)."""
    fig, axes = style.figure(2, aspect=1.25)
    kinds = {True: axes[0], False: axes[1]}
    count = {True: 0, False: 0}
    for name, cell in CELLS.items():
        sizes, times = np.array(cell.scales()), found[name]
        growth = np.exp(np.log(times / times[:, :1]).mean(0))
        slow = growth[-1] < np.sqrt(sizes[0] / sizes[-1])
        marker, colour = "os^Dv<>P"[count[slow]], style.PALETTE[count[slow] % len(style.PALETTE)]
        count[slow] += 1
        tenth = np.diff(times).mean(0)[0] / np.log10(cell.factor)
        shown = (times - times[:, :1]).mean(0) / tenth if slow else growth
        kinds[slow].plot(sizes[0] / sizes, shown, marker + "-", color=colour, label=NAMES[name])
    x = np.geomspace(1, 1e3, 50)
    axes[0].plot(x, np.log10(x), color=style.INK, ls=":", label="predicted")
    for power, at in ((1, 30), (2, 30), (6, 3.0)):
        x = np.geomspace(1, at, 20)
        axes[1].plot(x, x**power, color=style.INK, ls=":", label="predicted" if power == 1 else None)
        axes[1].text(at, at**power, rf"$\epsilon^{{-{power}}}$", fontsize=9, va="bottom")
    axes[0].set(
        xscale="log", xlabel="largest size over size", ylabel="growth of the wait, in that of the first tenth"
    )
    axes[1].set(
        xscale="log",
        yscale="log",
        xlabel="largest size over size",
        ylabel="wait over wait from the largest size",
    )
    axes[0].set_title("the wait grows as a logarithm")
    axes[1].set_title("as a power")
    for ax in axes:
        ax.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.45, -0.18), ncols=2)
    return fig


def leads(found: Mapping[str, Leads]) -> Figure:
    """Time at which attention is half-way over that of values, one dot a draw."""
    fig, ax = style.figure(aspect=0.4)
    for row, of in enumerate(found.values()):
        for values, label, marker, colour, shift in (
            (of.equal, "equal rates", "o", style.PALETTE[0], -0.12),
            (of.quicker, "queries and keys ten times faster", "s", style.PALETTE[3], 0.12),
        ):
            ax.plot(
                np.exp(values),
                np.full(len(values), row + shift),
                marker,
                color=colour,
                label=None if row else label,
            )
    ax.axvline(1, color=style.INK, ls=":")
    ax.set_yticks(range(len(found)), [NAMES[name] for name in found])
    ax.set(
        xscale="log",
        xlabel="time of attention over time of values (left of 1: attention first)",
        ylim=(-0.6, len(found)),
    )
    style.log_ticks(ax, "x", [0.25, 0.5, 1, 2, 4])
    ax.legend(loc="upper right", ncols=2, fontsize=8)
    return fig


STATISTICS = {
    "slope": "slope",
    "r2": "$r^2$",
    "signs": "signs",
    "reduction": "error\nreduction",
    "rate": "predicted\nrate",
}
KINDS = {
    "sharpening": "sharpening smoother",
    "averaging": "mean of noisy answers",
    "reordered": "layers reordered",
    "others": "answers to other prompts",
}


def areas(by: Mapping[str, Mapping[str, Array]]) -> Figure:
    """Area under the ROC curve of every statistic against every kind of stack that does not descend."""
    table = np.array([[area(by[s]["descend"], by[s][kind]) for s in STATISTICS] for kind in OTHERWISE])
    fig, ax = style.figure(aspect=0.5)
    image = ax.imshow(table - 0.5, cmap=style.DIVERGING, vmin=-0.5, vmax=0.5, aspect="auto")
    for (i, j), value in np.ndenumerate(table):
        ax.text(
            j,
            i,
            f"{value:.2f}",
            ha="center",
            va="center",
            color="white" if abs(value - 0.5) > 0.35 else style.INK,
        )
    ax.set_xticks(range(len(STATISTICS)), list(STATISTICS.values()))
    ax.set_yticks(range(len(OTHERWISE)), [KINDS[kind] for kind in OTHERWISE])
    ax.grid(False)
    bar = fig.colorbar(image, ax=ax, label="area under the ROC curve")
    bar.set_ticks([-0.5, 0, 0.5], labels=["0", "0.5", "1"])
    return fig


MODELS = {"h1": "one head", "h2": "two heads", "linear": "linear attention"}


def kernels(found: Mapping[str, Mapping[str, Array]]) -> Figure:
    """What the best step with each kernel leaves unexplained of trained heads, one dot a run."""
    fig, ax = style.figure(aspect=0.5)
    names = [*KERNELS, "centred"]
    for row, (group, label) in enumerate(MODELS.items()):
        for run in range(len(found[group]["linear"])):
            x = np.arange(len(names)) + 0.2 * (row - 1)
            ax.semilogy(
                x,
                [found[group][k][run] for k in names],
                "osD"[row],
                color=style.PALETTE[row],
                label=None if run else label,
            )
    ax.axhline(0.01, color=style.INK, ls=":")
    ax.text(-0.4, 0.0112, "one per cent", ha="left", fontsize=9)
    ax.set_xticks(range(len(names)), [*KERNELS, "linear,\ncentred"])
    ax.set(ylabel="share left unexplained")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    return fig


def path(times: Array, losses: Array, wait: float, heads: int, size: float) -> Figure:
    """Loss along one flow; the wait is marked."""
    fig, ax = style.figure(aspect=0.45)
    ax.semilogx(times[1:], losses[1:] / losses[0], color=style.COLOURS["measured"])
    ax.axvline(wait, color=style.INK, ls=":")
    ax.text(wait, 1.005, " it leaves", fontsize=9, va="bottom", ha="right")
    ax.set(xlabel="time", ylabel="loss over loss at the start", ylim=(0, 1.1), xlim=(1e-1, 1e7))
    ax.set_title(f"{heads} head{'s' if heads > 1 else ''}, size {size:g}")
    return fig


#: Rows of :func:`signed_pairs`.
PLACES = {
    "embedded": "four heads behind\nan embedding",
    "linear": "linear attention\nthere",
    "wide": "two heads,\nten covariates",
    "short": "two heads,\nten examples",
    "descent": "two heads, plain\ngradient descent",
}


def signed_pairs(found: Mapping[str, Pairs]) -> Figure:
    """One dot a run: how far the heads' outputs are from cancelling (left), and what a debiased step leaves of the answers over what the plain one leaves."""
    fig, axes = style.figure(2, aspect=0.9, sharey=True)
    for row, name in enumerate(PLACES):
        of = found[name]
        shift = row + np.linspace(-0.25, 0.25, len(of.sums))
        colour = style.PALETTE[3 if name == "linear" else 0]
        axes[0].plot(of.sums, shift, "o", color=colour, ms=4)
        axes[1].plot(of.debiased / of.vanilla, shift, "o", color=colour, ms=4)
    axes[0].axvline(0.05, color=style.INK, ls=":")
    axes[1].axvline(1, color=style.INK, ls=":")
    axes[0].set(xscale="log", xlabel=r"$|\sum \mu|\, /\, \sum |\mu|$ (dotted: 0.05)")
    axes[1].set(xscale="log", xlabel="left by a debiased step over\nleft by the plain one")
    style.log_ticks(axes[1], "x", [0.5, 1, 2, 5])
    axes[0].set_yticks(range(len(PLACES)), list(PLACES.values()))
    axes[0].invert_yaxis()
    return fig
