"""The erasure head against lambda, and what its errors do block by block."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ....drawing import style
from ..measures.erasure import LAMBDAS, Curves

MARKERS = ("o", "s", "^", "D")


def erasure(c: Curves) -> Figure:
    """Attention that goes astray against lambda, one curve for each (d, N); left the softmax head, right the RBF head; 1e-12 stands for less."""
    fig, axes = style.figure(2, height=3.1)
    for (d, n), colour, marker in zip(c.left["softmax"], style.PALETTE, MARKERS, strict=False):
        label = f"d = {d}, N = {n}"
        for ax, kind in zip(axes, ("softmax", "rbf"), strict=True):
            left = np.maximum(c.left[kind][d, n], 1e-12)
            ax.plot(LAMBDAS, left, marker=marker, ms=4, color=colour, label=label)
    for ax, title in zip(axes, ("softmax head", "RBF head"), strict=True):
        ax.set(xscale="log", yscale="log", xlabel=r"$\lambda$", title=title, ylim=(5e-13, 100))
    axes[0].set_ylabel("attention that goes astray")
    axes[0].legend(fontsize=8, loc="lower left")
    return fig


def drift(low: np.ndarray, high: np.ndarray) -> Figure:
    """Relative difference of f between softmax erasure and exact steps, by block."""
    fig, ax = style.figure(height=2.7)
    blocks = np.arange(3, 3 + len(low))
    ax.plot(blocks, low, marker="o", color=style.PALETTE[3], label="quadrants (d = 2, N = 100)")
    ax.plot(blocks, high, marker="s", color=style.PALETTE[0], label="appendix E (d = 10, N = 10)")
    ax.set(yscale="log", xlabel="block", ylabel="relative error of f", xticks=blocks, ylim=(1e-4, 3))
    ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(0.01, 0.58))
    return fig
