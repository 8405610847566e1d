"""The task (Figure 2) and the construction that solves it (Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from ....drawing import style
from ....tasks import AssociativeRecall


def illustration(task: AssociativeRecall, query: int, responses: np.ndarray) -> Figure:
    """Figure 2: one sequence, symbols as boxes and responses as discs, the pair that answers the query marked."""
    tokens = task.sequences(np.array([query]), responses[None])[0]
    fig, ax = style.figure(height=1.25)
    place = int(task.response_positions[query])
    first = place - task.order
    ax.add_patch(
        FancyBboxPatch(
            (first - 0.48, -0.55),
            task.order + 0.96,
            1.1,
            boxstyle="round,pad=0.02",
            fc="none",
            ec=style.COLOURS["paper"],
            ls="--",
            lw=1.4,
        )
    )
    for i, token in enumerate([*tokens, -1]):
        answer = token >= task.order
        colour = style.PALETTE[1] if answer else style.PALETTE[0]
        text = "?" if token < 0 else ("ABCDEFG"[token - task.order] if answer else str(token))
        shape = {
            "boxstyle": "circle,pad=0.32" if answer or token < 0 else "round,pad=0.38",
            "fc": style.GROUND,
            "ec": style.INK if token < 0 else colour,
            "lw": 1.6,
        }
        ax.text(i, 0, text, ha="center", va="center", bbox=shape, fontsize=11)
    last = len(tokens)
    ax.annotate(
        "",
        (place, 0.62),
        (last, 0.62),
        arrowprops={
            "arrowstyle": "->",
            "color": style.COLOURS["paper"],
            "connectionstyle": "arc3,rad=0.18",
            "lw": 1.3,
        },
    )
    ax.set(xlim=(-0.8, last + 0.8), ylim=(-0.8, 1.7))
    ax.set_axis_off()
    return fig


def construction(matrix: np.ndarray, measured: Mapping[str, np.ndarray], task: AssociativeRecall) -> Figure:
    """Left: Figure 3, the second layer's matrix at the solution; right: loss of the construction against c, beta^2 above and below the diagonal."""
    fig, axes = style.figure(2, height=3.1, width_ratios=(1, 1.25))
    ax, width = axes[0], task.vocabulary
    style.heatmap(ax, matrix, title=r"$Q^\top K = c\,(B \otimes \tilde I_k)$, order 3")
    names = ["tokens", *(f"head {h}" for h in range(1, task.order + 1))]
    middles = [width * i + (width - 1) / 2 for i in range(len(names))]
    ax.set_xticks(middles, names)
    ax.set_yticks(middles, names)
    for edge in range(1, len(names)):
        ax.axhline(width * edge - 0.5, color=style.INK, lw=0.5)
        ax.axvline(width * edge - 0.5, color=style.INK, lw=0.5)
    ax.set(xlabel="key block", ylabel="query block")
    ax = axes[1]
    ax.semilogy(measured["c"], measured["super"], "o-", color=style.PALETTE[0])
    ax.semilogy(measured["c"], measured["sub"], "s--", color=style.PALETTE[3])
    ax.text(
        12, 8e-2, "below the diagonal\n($\\mathrm{diag}_{-1}$ as described)", color=style.PALETTE[3], va="top"
    )
    ax.text(11, 1e-8, "above it\n($B$ of A.2)", color=style.PALETTE[0], ha="right")
    bound = measured["super"][2] * np.exp(measured["c"][2] - measured["c"])
    ax.semilogy(measured["c"][2:], bound[2:], color=style.INK, ls=(0, (1, 1.6)))
    ax.text(23, 1e-12, r"slope of $e^{-c}$", ha="right", fontsize=9)
    ax.set(xlabel="scale c of the construction", ylabel="dot-product loss")
    return fig
