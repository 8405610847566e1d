"""Figures of the statistics of descent by layers, of kernels and of signed pairs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from ....drawing import style
from ....models.kernels import KERNELS
from ...nagy2026.ladder_figures import in_words
from ..measures.descent import OTHERWISE, area
from ..measures.descent_ladder import Ladder
from ..measures.heads_as_steps import Pairs

Array = np.ndarray
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
    "mean": "walk to the context's mean",
    "strides": "walk to the right answer",
    "jump": "jump to the right answer",
    "reordered": "layers reordered",
    "others": "answers to other prompts",
}


def areas(by: Mapping[str, Mapping[str, Array]]) -> Figure:
    """Area under the ROC curve of every statistic against every kind of stack that does not descend, and the least of each."""
    table = np.array([[area(by[s]["descend"], by[s][kind]) for s in STATISTICS] for kind in OTHERWISE])
    table = np.vstack([table, table.min(0)])
    fig, ax = style.figure(aspect=0.55)
    image = ax.imshow(table - 0.5, cmap=style.DIVERGING, vmin=-0.5, vmax=0.5, aspect="auto")
    ax.axhline(len(OTHERWISE) - 0.5, color=style.INK, lw=1.6)
    for (i, j), value in np.ndenumerate(table):
        ax.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if abs(value - 0.5) > 0.35 else style.INK)
    ax.set_xticks(range(len(STATISTICS)), list(STATISTICS.values()))
    ax.set_yticks(range(len(table)), [*(KINDS[kind] for kind in OTHERWISE), "the worst of them"])
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


def ladder(found: Ladder) -> Figure:
    """Share of descending stacks among the nearest: quartiles (bar) and median (line) of fresh stacks of each kind, all depths together; models as discs, twins open."""
    known = {"stacks that descend": [judge.yes for judge in found.judges.values()]}
    known |= {label: [judge.no[kind] for judge in found.judges.values()] for kind, label in KINDS.items()}
    fig, ax = style.figure(height=4.5)
    for row, every in enumerate(known.values()):
        low, middle, high = np.quantile(np.concatenate(every), (0.25, 0.5, 0.75))
        colour = style.COLOURS["measured"] if row == 0 else style.COLOURS["dummy"]
        ax.plot([low, high], [row, row], color=colour, lw=9, alpha=0.45, solid_capstyle="butt")
        ax.plot([middle, middle], [row - 0.28, row + 0.28], color=colour, lw=2.4)
    for i, (name, said) in enumerate(found.ladder.items()):
        row, look = len(known) + i, {"ls": "", "marker": "o", "ms": 5, "color": style.PALETTE[i]}
        ax.plot(said, row - 0.15 + _apart(said), **look, label=None if i else "a model")
        if name in found.twins:
            alone = found.twins[name]
            ax.plot(alone, row + 0.2 + _apart(alone), **look, mfc="none", label=None if i else "its twin")
    ax.axvline(0.5, color=style.INK, lw=0.9, ls=":")
    ax.set_yticks(range(len(known) + len(found.ladder)), [*known, *map(in_words, found.ladder)])
    ax.set(xlim=(-0.03, 1.03), xlabel="share of descending stacks among the 25 nearest (1: looks like descent)")
    ax.invert_yaxis()
    ax.legend(loc="lower right", fontsize=8)
    return fig


def _apart(said: list[float]) -> np.ndarray:
    """Small shifts, so that equal scores do not hide one another."""
    return 0.11 * (np.arange(len(said)) - (len(said) - 1) / 2)
