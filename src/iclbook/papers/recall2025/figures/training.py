"""Stage by stage: Figures 1 and 4, exact flows under both losses, and the slider over the order of beta."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ....drawing import style
from ....training import Flow
from ..measures.stages import SNAPSHOTS
from ..runs.trainings import Training
from ..theory import Population
from .marks import DASHES, HEAD, plateau_lines


def training(pop: Population, run: Training, seed: int = 0) -> Figure:
    """Figures 1 and 4: loss with the plateau values, beta, and first-layer attention at the three printed steps, for one seed over all."""
    fig, grid = style.figure(3, 2, height=4.6, height_ratios=(1.15, 1))
    for ax in grid[0][1:]:
        ax.remove()
    grid[0][0].remove()
    spec = grid[0][0].get_gridspec()
    top = spec[0, :].subgridspec(1, 2)
    _loss_panel(fig.add_subplot(top[0]), pop, run.steps, run.loss, seed)
    ax = fig.add_subplot(top[1])
    beta = pop.split(run.states[:, seed])[1]
    for h in range(pop.n_heads):
        ax.plot(run.steps, beta[:, h], color=HEAD[h], ls=DASHES[h], label=rf"$\beta_{h + 1}$")
    _snapshots(ax)
    ax.set(xlabel="step", ylabel=r"$\beta$")
    ax.legend(loc="center right")
    for ax, step in zip(grid[1], SNAPSHOTS, strict=True):
        _attention(ax, pop, run.states[run.steps == step][0, seed], f"step {step}")
    return fig


def _loss_panel(ax: Axes, pop: Population, steps: np.ndarray, loss: np.ndarray, seed: int) -> None:
    plateau_lines(ax, pop.task, pop.n_heads, "plateau values")
    ax.plot(steps, loss, color=style.COLOURS["dummy"], lw=0.5, alpha=0.35)
    ax.plot(steps, loss[:, seed], color=style.COLOURS["measured"], lw=0.9, label="batch loss, one seed")
    _snapshots(ax)
    ax.set(xlabel="step", ylabel="dot-product loss")
    ax.legend(loc="upper right", fontsize=8)


def _snapshots(ax: Axes) -> None:
    for step in SNAPSHOTS:
        style.paper_line(ax, step, None, axis="x")


def _attention(ax: Axes, pop: Population, theta: np.ndarray, title: str) -> None:
    style.heatmap(
        ax,
        pop.attention(theta),
        1.0,
        title=title,
        annotate=".2f",
        row_labels=[f"head {h + 1}" for h in range(pop.n_heads)],
        col_labels=[f"{i + 1}" for i in range(pop.window)],
    )
    ax.set_xlabel("offset", fontsize=9)


def losses(runs: Mapping[str, tuple[Population, Flow]]) -> Figure:
    """Exact flows under both losses, each with its plateau values."""
    fig, axes = style.figure(2, aspect=0.75)
    for ax, (name, (pop, flow)) in zip(axes, runs.items(), strict=True):
        plateau_lines(ax, pop.task, pop.n_heads, "closed form", pop.loss)
        ax.plot(flow.times, pop.value(flow.states), color=style.COLOURS["measured"], label="exact flow")
        ax.set(xlabel="time t of the flow", ylabel=name, xscale="log", xlim=(100, None))
        ax.legend(loc="lower left")
    return fig


def slider_frame(pop: Population, flow: Flow, index: int, title: str) -> Figure:
    """Loss so far and the first layer's attention at one time of a flow."""
    fig, axes = style.figure(2, height=2.9, width_ratios=(1.25, 1))
    ax, value = axes[0], pop.value(flow.states)
    plateau_lines(ax, pop.task, pop.n_heads)
    ax.plot(flow.times, value, color=style.COLOURS["dummy"], lw=1)
    ax.plot(flow.times[: index + 1], value[: index + 1], color=style.COLOURS["measured"], lw=2.2)
    ax.plot(flow.times[index], value[index], "o", color=style.COLOURS["measured"], ms=7)
    ax.set(xlabel="time t of the flow", ylabel="dot-product loss", ylim=(-0.03, 0.8), title=title)
    _attention(axes[1], pop, flow.states[index], "attention of each head")
    return fig
