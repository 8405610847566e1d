"""Later jumps, and who comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from ....drawing import style
from .marks import DOTS


def later(rows: Sequence[tuple[str, float, float]], stationary: Mapping[str, np.ndarray]) -> Figure:
    """Left: slow-down of later jumps beside k/(k-h+1); right: gradient of the learned heads over e^-c, against c."""
    fig, axes = style.figure(2, aspect=0.75)
    ax, x = axes[0], np.arange(len(rows))
    ax.bar(x, [r[1] for r in rows], color=style.COLOURS["measured"], width=0.55, label="measured")
    ax.plot(x, [r[2] for r in rows], "D", color=style.INK, ms=7, label="$k/(k-h+1)$")
    style.paper_line(ax, 1.0, "paper: the same jump")
    ax.set_xticks(x, [r[0] for r in rows])
    ax.set(ylabel="time over the reduced first jump", ylim=(0, 2.9))
    ax.legend(loc="upper left", fontsize=8)
    ax = axes[1]
    ax.plot(
        stationary["c"],
        stationary["score"] * np.exp(stationary["c"]),
        "o-",
        color=style.COLOURS["measured"],
        label=r"largest gradient $\times\ e^{c}$",
    )
    reach = stationary["score"][0] * np.exp(stationary["c"][0])
    style.theory_line(
        ax, stationary["c"], reach * np.sqrt(stationary["c"] / stationary["c"][0]), r"$\sqrt{c}$"
    )
    style.paper_line(ax, reach, r"paper: $O(e^{-c})$ stays bounded")
    ax.set(xlabel="score c that a match adds", ylabel=r"gradient over $e^{-c}$")
    ax.set_ylim(0.6 * reach, None)
    ax.legend(loc="lower right")
    return fig


def census(
    measured: Mapping[str, np.ndarray], beta_scales: Sequence[float], ratios: Sequence[float]
) -> Figure:
    """Left: share of pairs of heads in the order of beta; right: share of runs with all heads active; one curve for each ratio of the scales of w and beta."""
    fig, axes = style.figure(2, aspect=0.75, sharey=True)
    for ax, name in zip(axes, ("pairs", "finished"), strict=True):
        for row, (ratio, share) in enumerate(zip(ratios, measured[name], strict=True)):
            ax.semilogx(beta_scales, share, "osD^v"[row] + "-", color=style.PALETTE[row], label=f"{ratio:g}")
        ax.set(xlabel=r"scale of the initial $\beta$", ylim=(0, 1.05))
    axes[0].axhline(0.5, color=style.INK, ls=DOTS, lw=1.2)
    axes[0].text(beta_scales[0], 0.47, "chance", va="top", fontsize=9)
    axes[0].set(ylabel="share", title=r"larger $\beta$ active first (pairs of heads)")
    axes[1].set(title="all three heads active (runs)")
    axes[0].legend(loc="lower right", ncols=3, title=r"scale of $w$ over scale of $\beta$")
    return fig
