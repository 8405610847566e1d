"""Theorem 2: gradients with their Monte Carlo errors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ....drawing import style
from ..measures.theorem2 import Gradient

#: Panels: laws of the covariates, and what is not among the scalars at their stationary point.
LAWS = {"sphere": "sphere", "cube": "cube U(-1, 1)", "group": "group of 20", "skewed": "no symmetry"}
ENDS = {
    "fixed_B": "B, $W_e$ fixed",
    "fixed_T": "T, $W_e$ fixed",
    "fixed_S": "F to F, $W_e$ fixed",
    "rotated_T": "T, $W_e$ rotated",
}


def gradients(found: Mapping[str, Gradient], stationary: bool = False) -> Figure:
    """Under each law of the covariates, or where the scalars are stationary. Each panel: all entries of the gradients of both layers with two standard errors; discs on the diagonal, crosses off it."""
    titles = ENDS if stationary else LAWS
    fig, axes = style.figure(len(titles), height=2.9, sharey=False)
    for ax, (name, title) in zip(np.ravel(axes), titles.items(), strict=True):
        g = found[name]
        n = g.mean.shape[-1]
        diagonal = np.eye(n, dtype=bool)
        for layer in range(len(g.mean)):
            colour = style.PALETTE[layer]
            for mask, marker in ((diagonal, "o"), (~diagonal, "x")):
                y, e = g.mean[layer][mask], g.error[layer][mask]
                x = layer * (n * n + 2) + np.flatnonzero(mask.ravel())
                ax.errorbar(x, y, 2 * e, fmt=marker, ms=4, lw=0.8, color=colour)
        ax.axhline(0, color=style.GRID, lw=1)
        ax.set(xticks=[n * n / 2, n * n * 1.5 + 2], xticklabels=["layer 1", "layer 2"], title=title)
        ax.title.set_fontsize(9)
        ax.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2))
        ax.tick_params(labelsize=8)
        ax.grid(axis="x", visible=False)
    np.ravel(axes)[0].set_ylabel("gradient entry, 2 s.e.")
    marks = [Line2D([], [], color=style.INK, ls="", ms=4, marker=marker) for marker in "ox"]
    fig.legend(marks, ["on the diagonal", "off it"], loc="outside upper center", ncols=2, fontsize=8)
    return fig
