"""Sliders over functional gradient descent on one context of the quadrants, no training; the small profile draws two places of each."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ....drawing import style
from ....sliders import Slider, show
from ....tasks.categorical import Quadrants
from ..measures.square import free_map

TASK = Quadrants()
#: Step of the descent for each kernel, in units that move f by about 1 a step.
RATES = {"linear": 3.0, "rbf": 12.0, "laplacian": 15.0, "exponential": 1.0, "softmax": 2.0}


def _draw(p: np.ndarray, batch, title: str) -> Figure:
    """Left: the most probable category and how probable it is; right: the probability of the category seen most often."""
    labels, points = batch.context[:, 2].numpy().astype(int), batch.context[:, :2].numpy()
    often = int(np.bincount(labels).argmax())
    fig, axes = style.figure(2, width=6.4, height=3.1)
    best = p.max(0)
    for ax, image, name in zip(
        axes, (best, p[often]), ("highest probability", f"p(c = {often})"), strict=True
    ):
        shown = ax.imshow(image, origin="lower", extent=(-1, 1, -1, 1), cmap="viridis", vmin=0, vmax=1)
        ax.plot(*points.T, "o", ms=2, mfc="none", mec="white", mew=0.6)
        ax.plot(*points[labels == often].T, "o", ms=3, color="white")
        ax.axhline(0, color="white", lw=0.5)
        ax.axvline(0, color="white", lw=0.5)
        ax.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1], title=name)
        ax.title.set_fontsize(9)
        ax.grid(False)
    fig.colorbar(shown, ax=axes, shrink=0.85)
    fig.suptitle(title, fontsize=9)
    return fig


def show_blocks(few: bool) -> None:
    """Number of blocks and context size."""
    show(
        _blocks_frame,
        [
            Slider("blocks", "blocks K", [1, 2] if few else [1, 2, 4, 8], live=(1, 12, 1)),
            Slider("n", "examples N", [10, 100] if few else [10, 30, 100, 300], live=(5, 400, 5)),
        ],
        start={"blocks": 2, "n": 100},
        title="Gradient steps and context size",
        alt=lambda blocks, n: (
            f"Maps of the predicted probabilities over the square after {blocks} blocks with {n} examples."
        ),
    )


def show_kernels(few: bool) -> None:
    """Kernel and bandwidth."""
    show(
        _kernel_frame,
        [
            Slider(
                "kernel",
                "kernel",
                ["rbf", "linear"] if few else ["rbf", "laplacian", "softmax", "exponential", "linear"],
            ),
            Slider(
                "gamma", "bandwidth γ", [1.0, 8.0] if few else [1.0, 3.0, 8.0, 30.0], live=(0.5, 40.0, 0.5)
            ),
        ],
        start={"kernel": "rbf", "gamma": 8.0},
        title="Kernel and bandwidth",
        alt=lambda kernel, gamma: (
            f"Maps of the predicted probabilities over the square, kernel {kernel}, gamma {gamma:g}."
        ),
    )


def show_heads(few: bool) -> None:
    """Number of heads, broad and narrow."""
    show(
        _heads_frame,
        [Slider("heads", "heads M", [1, 2] if few else [1, 2, 3, 4])],
        start={"heads": 2},
        title="Several kernels at once",
        alt=lambda heads: (
            f"Maps of the predicted probabilities over the square with {heads} heads of increasing precision."
        ),
    )


def _blocks_frame(blocks: int, n: int) -> Figure:
    """Number of blocks and context size, RBF with gamma = 8."""
    p, batch = free_map("rbf", 8.0, n, blocks, RATES["rbf"], TASK)
    return _draw(p, batch, f"RBF, γ = 8, {blocks} block{'s' * (blocks > 1)}, N = {n}")


def _kernel_frame(kernel: str, gamma: float) -> Figure:
    """Kernel and bandwidth, two blocks, N = 100."""
    p, batch = free_map(
        kernel, gamma, 100, 2, RATES[kernel] / (np.exp(gamma) if kernel == "exponential" else 1), TASK
    )
    return _draw(p, batch, f"{kernel}, γ = {gamma:g}, 2 blocks, N = 100")


def _heads_frame(heads: int) -> Figure:
    """Heads with precisions 1, 4, 16, 64: broad and narrow kernels added, two blocks."""
    p, batch = free_map("rbf", 1.0, 100, 2, RATES["rbf"], TASK, heads=heads)
    return _draw(
        p, batch, f"RBF, heads with γ = {', '.join(f'{4**m}' for m in range(heads))}, 2 blocks, N = 100"
    )
