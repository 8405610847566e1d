"""Figures 8 to 11: the quadrants."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ....drawing import style
from ..measures.matrices import Learned
from ..measures.square import Maps
from ..runs.specs import Scores

NAMES = {
    "rbf": "RBF",
    "softmax": "softmax",
    "laplacian": "Laplacian",
    "exponential": "exponential",
    "linear": "linear",
}


def accuracy_courses(found: Mapping[str, Mapping[str, Scores]], bound: float) -> Figure:
    """Figure 8 (and linear attention): test accuracy along training, every seed and their mean; dashes: mean maximum probability."""
    fig, axes = style.figure(len(NAMES), height=2.6, sharey=True)
    for ax, (kernel, name) in zip(axes, NAMES.items(), strict=True):
        for model, colour in (("GD", style.PALETTE[0]), ("TF", style.PALETTE[1])):
            s = found[kernel][model]
            ax.plot(s.steps[1:], s.accuracy[1:], color=colour, lw=0.6, alpha=0.5)
            label = "GD" if model == "GD" else "Trained TF"
            ax.plot(s.steps[1:], s.accuracy[1:].mean(1), color=colour, lw=2, label=label)
        ax.axhline(bound, color=style.COLOURS["theory"], ls=":", lw=1.3)
        ax.set(xscale="log", title=name, ylim=(0, 0.65))
        ax.set_xticks([30, 100, 500], ["30", "100", "500"])
        ax.minorticks_off()
    axes[0].set_ylabel("test accuracy")
    axes[2].set_xlabel("minibatches")
    axes[0].legend(fontsize=7.5, loc="lower right")
    return fig


def _samples(ax: Axes, points: np.ndarray, labels: np.ndarray, shown: tuple[int, ...]) -> None:
    other = ~np.isin(labels, shown)
    ax.plot(*points[other].T, "o", ms=2.5, mfc="none", mec="white", mew=0.7)
    for c in shown:
        for x, y in points[labels == c]:
            ax.text(x, y, str(c), color="white", fontsize=6, ha="center", va="center", weight="bold")


def probability_maps(m: Maps) -> Figure:
    """Figure 9: rows the data's law, GD and Trained TF; columns three categories."""
    rows = {"true": m.truth, "GD": m.gd, "Trained TF": m.tf}
    fig, axes = style.figure(3, 3, width=6.2, height=5.4)
    for r, (name, maps) in enumerate(rows.items()):
        for c, category in enumerate(m.shown):
            ax = axes[r, c]
            image = ax.imshow(
                maps[category], origin="lower", extent=(-1, 1, -1, 1), cmap="viridis", vmin=0, vmax=1
            )
            _samples(ax, m.points, m.labels, m.shown)
            ax.axhline(0, color="white", lw=0.5)
            ax.axvline(0, color="white", lw=0.5)
            ax.set(xticks=[], yticks=[])
            ax.grid(False)
            if r == 0:
                ax.set_title(f"c = {category}")
        axes[r, 0].set_ylabel(name)
    fig.colorbar(image, ax=axes, shrink=0.7, label="p(Y = c | x)")
    return fig


def learned_matrices(one: Learned, run: int = 0) -> Figure:
    """Figure 10: the four matrices of one run; hatched: entries that no gradient reaches."""
    names = ("W_Q", "W_K", "W_V", "P")
    size = one.matrices["W_Q"].shape[-1]
    w, d = one.matrices["embed"].shape[1], one.Q.shape[-1]
    never = {
        "W_Q": [(d - 0.5, -0.5, size - d, size)],
        "W_K": [(d + w - 0.5, -0.5, w, size)],
        "W_V": [(d + w - 0.5, -0.5, w, size)],
        "P": [(-0.5, -0.5, size, d + w)],
    }
    fig, axes = style.heatmap_row([one.matrices[n][run] for n in names], [f"${n}$" for n in names])
    for ax, name in zip(axes, names, strict=True):
        for x, y, width, height in never[name]:
            ax.add_patch(_rectangle((x, y), width, height, fill=False, hatch="////", ec="#9A9A94", lw=0))
        ax.set_xticks([0, d, d + w], ["x", "w", "f"])
    return fig


def _rectangle(*args, **kwargs):
    from matplotlib.patches import Rectangle

    return Rectangle(*args, **kwargs)


def products(found: Mapping[str, Learned], run: int = 0) -> Figure:
    """Figure 11 for four trainings: ``Q = A^T B`` and ``E D``, each divided by its largest entry."""
    names = {
        "code": r"$W_e$ learned, $0.002\,N(0,1)$",
        "true": r"$W_e$ true, $0.002\,N(0,1)$",
        "glorot": r"$W_e$ learned, Glorot",
        "true-glorot": r"$W_e$ true, Glorot",
    }
    fig, axes = style.figure(4, 2, height=3.6)
    for column, (name, title) in enumerate(names.items()):
        for row, matrix in enumerate((found[name].Q[run], found[name].ED[run])):
            style.heatmap(axes[row, column], matrix / np.abs(matrix).max(), 1.0, annotate=".1f")
        axes[0, column].set_title(title, fontsize=9)
    axes[0, 0].set_ylabel("$Q$")
    axes[1, 0].set_ylabel("$E D$")
    return fig
