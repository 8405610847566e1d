"""Figures of the statistics of descent by layers, of kernels and of signed pairs."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import numpy as np
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure

from ....drawing import style
from ....models.kernels import KERNELS
from ...nagy2026.ladder_figures import in_words
from ..measures.descent import OTHERWISE, area
from ..measures.descent_ladder import Ladder
from ..measures.heads_as_steps import Pairs

Array = np.ndarray
STATISTICS = {"slope": "slope", "r2": "$r^2$", "signs": "signs", "reduction": "error", "rate": "rate"}
KINDS = {
    "sharpening": "sharpening smoother",
    "averaging": "mean of noisy answers",
    "mean": "walk to the context's mean",
    "strides": "walk to the right answer",
    "jump": "jump to the right answer",
    "reordered": "layers reordered",
    "others": "answers to other prompts",
}
#: Area under the ROC curve from which on a statistic tells two kinds apart.
USEFUL = 0.9


def areas(by: Mapping[str, Mapping[str, Array]]) -> Figure:
    """Area under the ROC curve of every statistic against every kind of stack that does not descend, and the least of each; coloured
    below :data:`USEFUL`, darker where a coin does better."""
    table = np.array([[area(by[s]["descend"], by[s][kind]) for s in STATISTICS] for kind in OTHERWISE])
    table = np.vstack([table, table.min(0)])
    fig, ax = style.figure(aspect=0.55)
    tones = ListedColormap([*style.DIVERGING([0.72, 0.6]), style.GROUND])
    ax.imshow(table, cmap=tones, norm=BoundaryNorm([0, 0.5, USEFUL, 1.01], 3), aspect="auto")
    ax.axhline(len(OTHERWISE) - 0.5, color=style.INK, lw=1.6)
    for (i, j), value in np.ndenumerate(table):
        weight = "bold" if i == len(OTHERWISE) else "normal"
        ax.text(j, i, f"{value:.2f}", ha="center", va="center", weight=weight)
    ax.set_xticks(range(len(STATISTICS)), list(STATISTICS.values()))
    ax.set_yticks(range(len(table)), [*(textwrap.fill(KINDS[kind], 14) for kind in OTHERWISE), "the worst"])
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    ax.grid(False)
    return fig


MODELS = {"h1": "one head", "h2": "two heads", "linear": "linear attention"}


def kernels(found: Mapping[str, Mapping[str, Array]]) -> Figure:
    """What the best step with each kernel leaves unexplained of trained heads, one mark a run; models are named at their best kernel."""
    fig, ax = style.figure(aspect=0.62)
    names = [*KERNELS, "centred"]
    for i, (group, label) in enumerate(MODELS.items()):
        look = {"ls": "", "marker": "osD"[i], "color": style.PALETTE[(0, 3, 2)[i]], "label": label}
        rows = np.arange(len(names)) + 0.22 * (i - 1)
        for run in range(len(found[group]["linear"])):
            ax.plot([found[group][k][run] for k in names], rows, **look)
        best = names.index(min(names, key=lambda kernel: found[group][kernel].mean()))
        below = group == "linear"
        at = found[group][names[best]].min(), rows[best] + (0.15 if below else -0.15)
        ax.text(*at, label, color=look["color"], va="top" if below else "bottom")
    ax.axvline(0.01, color=style.INK, ls=":")
    ax.text(0.0105, len(names) - 0.5, "one per cent", va="bottom", fontsize=9)
    ax.set_yticks(range(len(names)), [*KERNELS, "linear,\ncentred"])
    ax.set(xscale="log", xlabel="share left unexplained", ylim=(len(names) - 0.4, -0.8))
    return fig


#: Rows of :func:`signed_pairs`.
PLACES = {
    "embedded": "four heads,\nembedding",
    "linear": "four linear\nheads",
    "wide": "two heads,\n10 covariates",
    "short": "two heads,\n10 examples",
    "descent": "two heads,\nplain descent",
    "affine": "two heads,\nlabels $a + \\beta x$",
}


def signed_pairs(found: Mapping[str, Pairs]) -> Figure:
    """One dot a run: how far the heads' outputs are from cancelling, and what a debiased step leaves of the answers over what the plain one leaves."""
    fig, (sums, shares) = style.figure(2, aspect=0.95, sharey=True)
    for row, name in enumerate(PLACES):
        of = found[name]
        shift = row + np.linspace(-0.25, 0.25, len(of.sums))
        kinds = {"softmax, both signs": (of.both, 0), "softmax, one sign": (~of.both, 6)}
        if name == "linear":
            kinds = {"linear": (np.full(len(of.sums), True), 3)}
        for label, (runs, colour) in kinds.items():
            for ax, values in ((sums, of.sums), (shares, 1 - of.taken)):
                ax.plot(values[runs], shift[runs], "o", color=style.PALETTE[colour], ms=4, label=label)
    sums.axvline(0.05, color=style.INK, ls=":")
    sums.text(0.045, -0.45, "cancel", ha="right", fontsize=9)
    shares.axvline(1, color=style.INK, ls=":")
    shares.text(0.95, -0.45, "debiased", ha="right", fontsize=9)
    shares.text(1.05, -0.45, "plain", fontsize=9)
    sums.set(xscale="log", xlabel=r"$|\sum \mu|\, /\, \sum |\mu|$", title="do the outputs cancel?")
    shares.set(xscale="log", xlabel="error of debiased step over plain", title="which step fits better?")
    style.log_ticks(shares, "x", [0.1, 0.2, 0.5, 1, 2, 5])
    sums.set_yticks(range(len(PLACES)), list(PLACES.values()))
    sums.set_ylim(len(PLACES) - 0.5, -0.75)
    handles, labels = sums.get_legend_handles_labels()
    shown = dict(zip(labels, handles, strict=True))
    fig.legend(shown.values(), shown, loc="outside upper center", ncols=3)
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
    look = {"ls": "", "marker": "o", "ms": 5, "color": style.PALETTE[3]}
    for i, (name, said) in enumerate(found.ladder.items()):
        row = len(known) + i
        ax.plot(said, row - 0.15 + _apart(said), **look, label=None if i else "language model")
        if name in found.twins:
            alone = found.twins[name]
            ax.plot(
                alone, row + 0.2 + _apart(alone), **look, mfc="none", label=None if i else "copy without regression"
            )
    ax.axhline(len(known) - 0.5, color=style.INK, lw=0.9)
    ax.axvline(0.5, color=style.INK, lw=0.9, ls=":")
    ax.set_yticks(range(len(known) + len(found.ladder)), [*known, *map(in_words, found.ladder)], fontsize=8)
    ax.set(xlim=(-0.03, 1.03), xlabel="share of the 25 nearest stacks that descend")
    ax.invert_yaxis()
    fig.legend(loc="outside upper center", ncols=2)
    return fig


def _apart(said: list[float]) -> np.ndarray:
    """Small shifts, so that equal scores do not hide one another."""
    return 0.11 * (np.arange(len(said)) - (len(said) - 1) / 2)
