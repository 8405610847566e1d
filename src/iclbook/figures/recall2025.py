"""Figures of the chapter on recall2025; each function draws one and shows what its caption in the chapter says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from ..experiments.recall2025.stages import SNAPSHOTS, Training
from ..tasks import AssociativeRecall
from ..theory import recall2025 as theory
from ..theory.recall2025 import Population
from ..training import Flow
from . import style

HEAD = (style.PALETTE[0], style.PALETTE[1], style.PALETTE[2], style.PALETTE[3])
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (4, 1.5, 1, 1.5)))


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


def construction(measured: Mapping[str, np.ndarray]) -> Figure:
    """Loss of the construction against c, beta^2 above and below the diagonal."""
    fig, ax = style.figure(aspect=0.45)
    ax.semilogy(
        measured["c"],
        measured["super"],
        "o-",
        color=style.PALETTE[0],
        label=r"$\beta^2$ above the diagonal ($B$ of A.2)",
    )
    ax.semilogy(
        measured["c"],
        measured["sub"],
        "s--",
        color=style.PALETTE[3],
        label=r"$\beta^2$ below it ($\mathrm{diag}_{-1}$ as described)",
    )
    ax.set(xlabel="scale c of the construction", ylabel="dot-product loss")
    ax.legend(loc="center right")
    return fig


def first_jump(
    pop: Population, flow: Flow, printed: tuple[np.ndarray, np.ndarray], half: tuple[np.ndarray, np.ndarray]
) -> Figure:
    """alpha and beta along the flow, beside the ODE with the printed Xi and with half of it; each ``printed`` is times and ``(2, T)``."""
    fig, axes = style.figure(2, aspect=0.75)
    w, beta = pop.split(flow.states)
    measured = (w[:, 0, 0] - w[:, 0, -1], beta[:, 0])
    for i, (ax, name) in enumerate(zip(axes, (r"$\alpha_1$", r"$\beta_1$"), strict=True)):
        ax.plot(flow.times, measured[i], color=style.COLOURS["measured"], lw=2.4, label="exact flow")
        ax.plot(
            printed[0],
            printed[1][i],
            color=style.COLOURS["paper"],
            ls=(0, (5, 3)),
            label=r"ODE, $\Xi$ as printed",
        )
        style.theory_line(ax, half[0], half[1][i], r"ODE, $\Xi/2$")
        ax.set(xlabel="time t of the flow", ylabel=name, xlim=(0, flow.times[-1]))
    axes[1].legend(loc="lower right")
    return fig


def conservation(pop: Population, flow: Flow) -> Figure:
    """The candidate conserved quantities along one flow."""
    k = pop.task.order
    w, beta = pop.split(flow.states)
    alpha, b = w[:, 0, 0] - w[:, 0, -1], beta[:, 0] ** 2 / 4
    fig, ax = style.figure(aspect=0.5)
    rows = (
        (
            "statement: $f_- - \\beta^2/4$",
            theory.potential(alpha, k, -1) - b,
            style.COLOURS["paper"],
            (0, (5, 3)),
        ),
        ("proof: $f_+ - \\beta^2/4$", theory.potential(alpha, k, 1) - b, style.PALETTE[0], "-"),
        ("$f_+ + \\beta^2/4$", theory.potential(alpha, k, 1) + b, style.PALETTE[1], (0, (1.5, 1.5))),
    )
    for label, value, colour, dash in rows:
        ax.plot(alpha, value, color=colour, ls=dash, lw=2, label=label)
    ax.set(xlabel=r"$\alpha_1$ along the flow", ylabel="value")
    ax.legend()
    return fig


def time_scales(
    scan: Mapping[str, np.ndarray],
    window: Mapping[str, np.ndarray],
    orders: Sequence[int],
    late: Mapping[str, np.ndarray],
) -> Figure:
    """Left: eps T against eps with its limits; right: the late law in log time."""
    fig, axes = style.figure(2, aspect=0.85)
    ax = axes[0]
    for i, order in enumerate(orders):
        ax.loglog(
            scan["eps"], scan["times"][i], "o-", color=HEAD[i % 4], label=f"order {order}, window {order}"
        )
        ax.loglog(
            scan["eps"],
            scan["limit"][i] / scan["eps"],
            ls=(0, (1, 1.6)),
            color=style.INK,
            lw=1.3,
            label=r"limit$/\varepsilon$" if i == 0 else None,
        )
    ax.loglog(window["eps"], window["times"], "s--", color=style.PALETTE[5], label="order 4, window 3")
    ax.set(xlabel=r"initial $\beta_1 = \varepsilon$", ylabel="time T of the first jump")
    ax.legend(fontsize=7.5, loc="upper right")
    ax = axes[1]
    decades = late["log_time"] / np.log(10)
    ax.plot(decades, late["s"], color=style.COLOURS["measured"], label="ODE, order 4")
    top = late["s"][-1] + late["predicted"] * (late["log_time"] - late["log_time"][-1])
    style.theory_line(ax, decades, top, r"slope $1/c$, $c = 4(k-1)/k^2$")
    ax.plot(
        decades,
        late["s"][-1] + late["log_time"] - late["log_time"][-1],
        color=style.COLOURS["paper"],
        ls=(0, (5, 3)),
        lw=1.2,
        label=r"slope 1 ($ds \sim s e^{-s}$ as printed)",
    )
    ax.set(xlabel=r"$\log_{10} T$", ylabel=r"$s = e^{\alpha}$", ylim=(0, None))
    ax.legend(fontsize=7.5, loc="upper left")
    return fig


def training(pop: Population, run: Training, seed: int = 0, title: str | None = None) -> Figure:
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
    if title:
        fig.suptitle(title, fontsize=10.5)
    return fig


def _loss_panel(ax: Axes, pop: Population, steps: np.ndarray, loss: np.ndarray, seed: int) -> None:
    for m in range(pop.n_heads + 1):
        ax.axhline(
            pop.task.plateau_dp(m),
            color=style.INK,
            lw=0.9,
            ls=(0, (1, 1.6)),
            label="plateau values" if m == 0 else None,
        )
    ax.plot(steps, loss, color=style.COLOURS["dummy"], lw=0.5, alpha=0.35)
    ax.plot(steps, loss[:, seed], color=style.COLOURS["measured"], lw=0.9, label="batch loss, one seed")
    _snapshots(ax)
    ax.set(xlabel="step", ylabel="dot-product loss")
    ax.legend(loc="lower left", fontsize=8)


def _snapshots(ax: Axes) -> None:
    for step in SNAPSHOTS:
        style.paper_line(ax, step, None, axis="x")


def _attention(ax: Axes, pop: Population, theta: np.ndarray, title: str, bar: bool = False) -> None:
    style.heatmap(
        ax,
        pop.attention(theta),
        1.0,
        title=title,
        annotate=".2f",
        bar=bar,
        row_labels=[f"head {h + 1}" for h in range(pop.n_heads)],
        col_labels=[f"{i + 1}" for i in range(pop.window)],
    )
    ax.set_xlabel("offset", fontsize=9)


def losses(runs: Mapping[str, tuple[Population, Flow]]) -> Figure:
    """Exact flows under both losses, each with its plateau values."""
    fig, axes = style.figure(2, aspect=0.75)
    for ax, (name, (pop, flow)) in zip(axes, runs.items(), strict=True):
        plateau = pop.task.plateau_ce if pop.loss == "ce" else pop.task.plateau_dp
        for m in range(pop.n_heads + 1):
            ax.axhline(
                plateau(m), color=style.INK, lw=0.9, ls=(0, (1, 1.6)), label="closed form" if m == 0 else None
            )
        ax.plot(flow.times, pop.value(flow.states), color=style.COLOURS["measured"], label="exact flow")
        ax.set(xlabel="time t of the flow", ylabel=name, xscale="log", xlim=(100, None))
        ax.legend(loc="lower left")
    return fig


def later(rows: Sequence[tuple[str, float, float]], stationary: Mapping[str, np.ndarray]) -> Figure:
    """Left: slow-down of later jumps beside k/(k-h+1); right: gradient of the learned heads against c."""
    fig, axes = style.figure(2, aspect=0.75)
    ax, x = axes[0], np.arange(len(rows))
    ax.bar(x, [r[1] for r in rows], color=style.COLOURS["measured"], width=0.55, label="measured")
    ax.plot(x, [r[2] for r in rows], "D", color=style.INK, ms=7, label="$k/(k-h+1)$")
    style.paper_line(ax, 1.0, "paper: the same jump")
    ax.set_xticks(x, [r[0] for r in rows])
    ax.set(ylabel="time over the reduced first jump", ylim=(0, 2.9))
    ax.legend(loc="upper left", fontsize=8)
    ax = axes[1]
    ax.semilogy(
        stationary["c"],
        stationary["gradient"],
        "o-",
        color=style.COLOURS["measured"],
        label="largest gradient",
    )
    ax.semilogy(
        stationary["c"],
        stationary["gradient"][0] * np.exp(stationary["c"][0] - stationary["c"]),
        color=style.COLOURS["paper"],
        ls=(0, (5, 3)),
        label=r"paper: $e^{-c}$",
    )
    ax.set(xlabel="score c that a match adds", ylabel="gradient of learned heads")
    ax.legend()
    return fig


def census(
    measured: Mapping[str, np.ndarray], beta_scales: Sequence[float], w_scales: Sequence[float]
) -> Figure:
    """Left: share of pairs of heads in the order of beta; right: share of runs with all heads active; one curve for each scale of w."""
    fig, axes = style.figure(2, aspect=0.75, sharey=True)
    for ax, name in zip(axes, ("pairs", "finished"), strict=True):
        for row, (w, share) in enumerate(zip(w_scales, measured[name], strict=True)):
            ax.semilogx(beta_scales, share, "osD^"[row] + "-", color=style.PALETTE[row], label=f"w: {w:g}")
        ax.set(xlabel=r"scale of the initial $\beta$", ylim=(0, 1.05))
    axes[0].axhline(0.5, color=style.INK, ls=(0, (1, 1.6)), lw=1.2, label="chance")
    axes[0].set(ylabel="share of runs or pairs", title=r"larger $\beta$ active first (pairs)")
    axes[1].set(title="all three heads active (runs)")
    axes[0].legend(loc="lower right", ncols=2, fontsize=8)
    return fig


def lifted(found: Mapping[str, Mapping[str, object]], task: AssociativeRecall) -> Figure:
    """Loss of the eight models along their flows, in time over the first jump of the simplified one."""
    unit = found["none"]["jumps"][0]
    fig, axes = style.figure(2, aspect=0.85, sharey=True)
    for m in range(3):
        for ax in axes:
            ax.axhline(task.plateau_dp(m), color=style.INK, lw=0.9, ls=(0, (1, 1.6)))
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
        ax.legend(title="lifted", loc="lower left", fontsize=8)
    axes[0].set_ylabel("dot-product loss")
    return fig


def free(runs: Mapping[str, Mapping[str, np.ndarray]], task: AssociativeRecall) -> Figure:
    """Loss of the whole model with a free matrix, every seed."""
    fig, ax = style.figure(aspect=0.45)
    for m in range(3):
        ax.axhline(
            task.plateau_dp(m),
            color=style.INK,
            lw=0.9,
            ls=(0, (1, 1.6)),
            label="plateau values" if m == 0 else None,
        )
    for i, (name, run) in enumerate(runs.items()):
        ax.plot(run["steps"], run["loss"], color=style.PALETTE[(0, 3)[i]], ls=DASHES[i], lw=1)
        ax.plot([], [], color=style.PALETTE[(0, 3)[i]], ls=DASHES[i], label=name)
    ax.set(xlabel="step (Adam)", ylabel="dot-product loss", ylim=(0, None))
    ax.legend()
    return fig


def slider_frame(pop: Population, flow: Flow, index: int, title: str) -> Figure:
    """Loss so far and the first layer's attention at one time of a flow."""
    fig, axes = style.figure(2, height=2.9, width_ratios=(1.25, 1))
    ax, value = axes[0], pop.value(flow.states)
    for m in range(pop.n_heads + 1):
        ax.axhline(pop.task.plateau_dp(m), color=style.INK, lw=0.9, ls=(0, (1, 1.6)))
    ax.plot(flow.times, value, color=style.COLOURS["dummy"], lw=1)
    ax.plot(flow.times[: index + 1], value[: index + 1], color=style.COLOURS["measured"], lw=2.2)
    ax.plot(flow.times[index], value[index], "o", color=style.COLOURS["measured"], ms=7)
    ax.set(xlabel="time t of the flow", ylabel="dot-product loss", ylim=(-0.03, 0.8), title=title)
    _attention(axes[1], pop, flow.states[index], "attention of each head")
    return fig


def slider_scale(pop: Population, flow: Flow, limit: float, eps: float) -> Figure:
    """The first jump at one order and one initial scale, in time times eps."""
    fig, ax = style.figure(height=2.9)
    ax.plot(
        flow.times * eps / limit,
        pop.value(flow.states) / pop.task.plateau_dp(0),
        color=style.COLOURS["measured"],
        lw=2.2,
        label="loss over its first plateau",
    )
    weight = pop.advantage(flow.states)[:, 0]
    ax.plot(
        flow.times * eps / limit,
        weight / (1 + weight),
        color=style.PALETTE[1],
        ls=DASHES[1],
        lw=2,
        label=r"$\gamma_1 / (1 + \gamma_1)$ of the head",
    )
    ax.axvline(1.0, color=style.INK, ls=(0, (1, 1.6)), label="closed-form limit of εT")
    ax.set(xlabel="ε t over its limit", ylabel="fraction", xlim=(0, 2), ylim=(0, 1.12))
    ax.legend(loc="center left")
    return fig


def slider_gamma(runs: Mapping[str, tuple[Population, Flow]], until: float) -> Figure:
    """The loss along the first jump for the matrix as printed and as the lemma needs it."""
    fig, ax = style.figure(height=2.9)
    looks = {
        "printed": (style.COLOURS["paper"], (0, (5, 3)), r"$I - \gamma 11^\top$ (printed)"),
        "lemma": (style.COLOURS["measured"], "-", r"$(1+\gamma) I - \gamma 11^\top$ (lemma)"),
    }
    for name, (pop, flow) in runs.items():
        colour, dash, label = looks[name]
        ax.plot(flow.times, pop.value(flow.states), color=colour, ls=dash, lw=2.2, label=label)
    ax.set(xlabel="time t of the flow", ylabel="dot-product loss", xlim=(0, until), ylim=(0.3, 0.7))
    ax.legend(loc="lower left")
    return fig
