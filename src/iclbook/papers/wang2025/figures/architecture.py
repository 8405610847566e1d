"""Figures 1 and 2 drawn from the model's own tensors."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ....drawing import style
from ..measures.structure import Stream

PARTS = ("x", "w", "E", "f")


def _bands(ax: Axes, sizes: tuple[int, ...], both: bool = False, labels: bool = True) -> None:
    edges = np.cumsum(sizes)[:-1] - 0.5
    for edge in edges:
        ax.axhline(edge, color=style.INK, lw=0.7)
        if both:
            ax.axvline(edge, color=style.INK, lw=0.7)
    middle = np.cumsum(sizes) - np.array(sizes) / 2 - 0.5
    if labels:
        ax.set_yticks(middle, PARTS)
    if both:
        ax.set_xticks(middle, PARTS)


def architecture(s: Stream) -> Figure:
    """Columns ``e_i`` at the input and after each block; each part on its own scale."""
    fig, axes = style.figure(len(s.states), height=3.0)
    rows = np.split(s.states, np.cumsum(s.sizes)[:-1], axis=1)
    scaled = np.concatenate([part / max(np.abs(part).max(), 1e-12) for part in rows], axis=1)
    n = s.states.shape[-1]
    for k, (ax, state) in enumerate(zip(axes, scaled, strict=True)):
        style.heatmap(ax, state, 1.0, title="input" if k == 0 else f"after block {k}")
        ax.set_aspect("auto")
        _bands(ax, s.sizes, labels=k == 0)
        ax.axvline(n - 1.5, color=style.INK, lw=0.7, ls=":")
        ax.set_xticks([0, n - 2, n - 1], ["1", "N", "query"])
    return fig


def matrices(s: Stream) -> Figure:
    """The matrices of one block that are not the identity, each divided by its largest entry."""
    names = {
        "W_Q1": r"$W_Q^{(1)} = W_K^{(1)}$",
        "W_V1": r"$W_V^{(1)}$",
        "W_Q2": r"$W_Q^{(2)} = W_K^{(2)}$",
        "W_V2": r"$W_V^{(2)}$",
        "P2": r"$P^{(2)}$",
        "W_Qc": r"$W_Q$ cross",
    }
    fig, axes = style.figure(len(names), height=1.75)
    for number, (ax, (name, title)) in enumerate(zip(axes, names.items(), strict=True)):
        matrix = s.matrices[name]
        style.heatmap(ax, matrix / np.abs(matrix).max(), 1.0, title=title)
        ax.title.set_fontsize(9)
        _bands(ax, s.sizes, both=True, labels=number == 0)
    return fig
