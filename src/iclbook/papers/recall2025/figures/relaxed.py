"""The models with simplifications lifted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from ....drawing import style
from ....tasks import AssociativeRecall
from ....training import Flow
from ..measures.free_model import Trained, attention_by_offset
from ..measures.stages import ACTIVE
from ..theory import Population
from .marks import DASHES, DOTS, HEAD, plateau_lines


def lifted(found: Mapping[str, Mapping[str, np.ndarray]], task: AssociativeRecall) -> Figure:
    """Loss of the eight models along their flows, in time over the first jump of the simplified one."""
    unit = found["none"]["jumps"][0]
    fig, axes = style.figure(2, aspect=0.85, sharey=True)
    # without A3 attention starts on all tokens alike: one of them is right, and the other responses are right by chance
    others = (task.n_permutations - 1) / task.n_responses
    start = 1 - (1 + others) / task.length
    for ax in axes:
        plateau_lines(ax, task, 2)
        ax.axhline(start, color=style.PALETTE[5], lw=0.9, ls=DOTS)
    axes[1].text(0.11, start - 0.015, "start without A3", color=style.PALETTE[5], va="top", fontsize=8.5)
    counts = [0, 0]
    for name, run in found.items():
        side = int("A0" in name)
        axes[side].semilogx(
            run["times"][1:] / unit,
            run["loss"][1:],
            color=style.PALETTE[counts[side]],
            ls=DASHES[counts[side]],
            label=name,
        )
        counts[side] += 1
    for ax, title in zip(axes, ("A0 kept: window", "A0 lifted: all earlier tokens"), strict=True):
        ax.set(xlabel="time over the simplified first jump", title=title, xlim=(0.1, None))
        ax.legend(title="lifted", loc="lower left", fontsize=8.5)
    axes[0].set_ylabel("dot-product loss")
    return fig


def without_a3(run: Mapping[str, np.ndarray]) -> Figure:
    """A3 alone lifted. Left: beta of the heads and the times at which they become active; right: attention on responses, and its share on the right one."""
    fig, axes = style.figure(2, aspect=0.75, sharex=True)
    times = run["times"]
    for h in range(run["beta"].shape[1]):
        axes[0].plot(times, run["beta"][:, h], color=HEAD[h], ls=DASHES[h], label=rf"$\beta_{h + 1}$")
        for ax in axes:
            ax.axvline(run["active"][h], color=HEAD[h], ls=DOTS, lw=1.2)
    axes[0].set(xlabel="time t of the flow", ylabel=r"$\beta$", ylim=(0, 3.2))
    axes[0].legend(loc="upper left", title="dotted: active")
    ax = axes[1]
    ax.plot(times, run["accuracy"], color=style.PALETTE[6], label="right response, of all responses")
    ax.plot(times, run["mass"], color=style.PALETTE[5], ls=DASHES[1], label="responses, of all tokens")
    ax.set(xlabel="time t of the flow", ylabel="second-layer attention", ylim=(0, 1.4), yticks=(0, 0.5, 1))
    ax.legend(loc="upper left", fontsize=8.5)
    last = run["active"][np.isfinite(run["active"])].max()
    ax.set_xlim(0.4 * last, 1.25 * last)
    return fig


def own_queries(flows: Mapping[str, tuple[Population, Flow]]) -> Figure:
    """A2 lifted, beta falling and rising from head to head. Top: loss with the plateaus; bottom: what a match at each head's own offset adds to a score."""
    fig, axes = style.figure(2, 2, height=4.2, sharex=True, sharey="row")
    for (name, (pop, flow)), top, bottom in zip(flows.items(), *axes, strict=True):
        plateau_lines(top, pop.task, pop.n_heads)
        top.plot(flow.times, pop.value(flow.states), color=style.COLOURS["measured"])
        top.set(title=rf"$\beta$ {name}", ylim=(0, None))
        for h, course in enumerate(pop.advantage(flow.states).T):
            bottom.plot(flow.times, course, color=HEAD[h], ls=DASHES[h], label=f"head {h + 1}")
        bottom.axhline(ACTIVE, color=style.INK, lw=0.9, ls=DOTS)
        bottom.set(xlabel="time t of the flow", ylim=(-1, 12))
    axes[0][0].set_ylabel("dot-product loss")
    axes[1][0].set_ylabel(r"score of a match, $\gamma_h$")
    axes[1][0].legend(loc="center right", fontsize=8.5)
    return fig


def free(runs: Mapping[str, Trained]) -> Figure:
    """The whole model with a free matrix, one column for each setting. Top: loss of the output divided by its sum, every seed; bottom: attention of the
    heads to the offsets at the end, first seed."""
    fig, axes = style.figure(len(runs), 2, height=4.6, height_ratios=(1.2, 1))
    for (name, run), top, bottom in zip(runs.items(), *axes, strict=True):
        order = run.task.order
        plateau_lines(top, run.task, order - 1, "plateau values")
        top.plot(run.steps, run.normalised, color=style.COLOURS["measured"], lw=0.8, alpha=0.5)
        top.set(title=name, xlabel="step", ylim=(0, None))
        style.heatmap(
            bottom,
            attention_by_offset(run.w[-1, 0], order, run.a0),
            1.0,
            annotate=".2f",
            row_labels=[f"head {h + 1}" for h in range(order)],
            col_labels=[f"{i + 1}" for i in range(order)],
        )
        bottom.set_xlabel("offset", fontsize=9)
    axes[0][0].set_ylabel("normalised loss")
    return fig
