"""Figures 2 and 3, the first jump, its conserved quantity and time scales, and the sliders over scale and gamma (recall2025)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from ....drawing import style
from ....sliders import Slider, show
from ....tasks import AssociativeRecall
from ....training import Flow, gradient_flow
from ..measures.stages import R
from ..measures.theorem_3_1 import ORDERS, alpha_beta, run, start
from ..theory.closed_forms import jump_limit, potential
from ..theory.population import Population
from .stages import DASHES, DOTS, HEAD


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
        arrowprops={"arrowstyle": "->", "color": style.COLOURS["paper"], "connectionstyle": "arc3,rad=0.18", "lw": 1.3},
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
    ax.text(12, 8e-2, "below the diagonal\n($\\mathrm{diag}_{-1}$ as described)", color=style.PALETTE[3], va="top")
    ax.text(11, 1e-8, "above it\n($B$ of A.2)", color=style.PALETTE[0], ha="right")
    bound = measured["super"][2] * np.exp(measured["c"][2] - measured["c"])
    ax.semilogy(measured["c"][2:], bound[2:], color=style.INK, ls=(0, (1, 1.6)))
    ax.text(23, 1e-12, r"slope of $e^{-c}$", ha="right", fontsize=9)
    ax.set(xlabel="scale c of the construction", ylabel="dot-product loss")
    return fig


def first_jump(
    pop: Population, flow: Flow, printed: tuple[np.ndarray, np.ndarray], half: tuple[np.ndarray, np.ndarray]
) -> Figure:
    """alpha and beta along the flow, beside the ODE with the printed Xi and with half of it; each ``printed`` is times and ``(2, T)``."""
    fig, axes = style.figure(2, aspect=0.75)
    measured = alpha_beta(pop, flow.states)
    for i, (ax, name) in enumerate(zip(axes, (r"$\alpha_1$", r"$\beta_1$"), strict=True)):
        ax.plot(flow.times, measured[i], color=style.COLOURS["measured"], lw=2.4, label="exact flow")
        ax.plot(printed[0], printed[1][i], color=style.COLOURS["paper"], ls=(0, (5, 3)), label=r"ODE, $\Xi$ as printed")
        style.theory_line(ax, half[0], half[1][i], r"ODE, $\Xi/2$")
        ax.set(xlabel="time t of the flow", ylabel=name, xlim=(0, flow.times[-1]))
    axes[1].legend(loc="lower right")
    return fig


def conservation(pop: Population, flow: Flow) -> Figure:
    """The candidate conserved quantities along one flow."""
    k = pop.task.order
    alpha, beta = alpha_beta(pop, flow.states)
    b = beta**2 / 4
    fig, ax = style.figure(aspect=0.5)
    rows = (
        ("statement: $f_- - \\beta^2/4$", potential(alpha, k, -1) - b, style.COLOURS["paper"], (0, (5, 3))),
        ("proof: $f_+ - \\beta^2/4$", potential(alpha, k, 1) - b, style.PALETTE[0], "-"),
        ("$f_+ + \\beta^2/4$", potential(alpha, k, 1) + b, style.PALETTE[1], (0, (1.5, 1.5))),
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
    """Left: time T of the first jump against eps, with limit/eps; right: the late law in log time."""
    fig, axes = style.figure(2, aspect=0.85)
    _jump_times(axes[0], scan, window, orders)
    _late_law(axes[1], late)
    return fig


def _jump_times(
    ax: Axes, scan: Mapping[str, np.ndarray], window: Mapping[str, np.ndarray], orders: Sequence[int]
) -> None:
    eps = scan["eps"]
    for i, order in enumerate(orders):
        ax.loglog(eps, scan["times"][i], "o", color=HEAD[i % 4])
        ax.loglog(eps, scan["limit"][i] / eps, ls=DASHES[i % 4], color=HEAD[i % 4], lw=1.2)
        ax.text(eps[-1] / 1.5, scan["times"][i, -1], f"{order}", color=HEAD[i % 4], ha="right", va="center")
    ax.text(eps[-1], scan["times"][-1, -1] * 3, "order", ha="center", fontsize=9)
    ax.loglog(window["eps"], window["times"], "s:", color=style.PALETTE[5])
    ax.text(eps[-1], window["times"][-1] / 2, "order 4, window 3", color=style.PALETTE[5], ha="left", va="top")
    ax.plot([], [], "o", color=style.INK, label="exact flow")
    ax.plot([], [], color=style.INK, lw=1.2, label=r"limit of $\varepsilon T$, over $\varepsilon$")
    ax.set(
        xlabel=r"initial $\beta_1 = \varepsilon$",
        ylabel="time T of the first jump",
        xlim=(eps[-1] / 4, eps[0] * 2),
        ylim=(None, scan["times"].max() * 8),
    )
    ax.legend(loc="upper right", fontsize=8.5)


def _late_law(ax: Axes, late: Mapping[str, np.ndarray]) -> None:
    decades, passed = late["log_time"] / np.log(10), late["log_time"] - late["log_time"][-1]
    ax.plot(decades, late["s"], color=style.COLOURS["measured"], label="corrected ODE, order 4")
    top = late["s"][-1] + late["predicted"] * passed
    style.theory_line(ax, decades, top, r"slope $1/\lambda$, $\lambda = 4(k-1)/k^2$")
    printed = r"slope 1 ($ds \sim s e^{-s}$ as printed)"
    ax.plot(decades, late["s"][-1] + passed, color=style.COLOURS["paper"], ls=(0, (5, 3)), lw=1.2, label=printed)
    ax.set(xlabel=r"$\log_{10} T$", ylabel=r"$s = e^{\alpha} - 1$", ylim=(0, None))
    ax.legend(fontsize=8, loc="upper left")


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
        label=r"$\gamma_1 / (1 + \gamma_1)$; half: head active",
    )
    ax.axvline(1.0, color=style.INK, ls=DOTS, label="closed-form limit of εT")
    ax.set(xlabel="ε t over its limit", ylabel="share (from 0 to 1)", xlim=(0, 2), ylim=(0, 1.12))
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
    ax.legend(loc="center right")
    return fig


def show_scale(few: bool) -> None:
    """The first jump in time scaled by epsilon, for each order; the small profile draws two places of each slider."""
    epsilons = (0.1, 0.001) if few else (0.5, 0.1, 0.02, 0.001)
    orders = ORDERS[:2] if few else ORDERS

    def frame(order: int, eps: float) -> Figure:
        pop, flow = run(order, eps, periods=2.0)
        return slider_scale(pop, flow, jump_limit(order, R), eps)

    show(
        frame,
        [
            Slider("order", "task order k", orders),
            Slider("eps", "initial scale ε", epsilons, live=(0.001, 0.5, 0.1), log=True),
        ],
        title="The first jump in time scaled by ε",
        description="The smaller ε, the sharper the jump and the closer to its limit. Try: the smallest start at order 4.",
        alt=lambda order, eps: f"Loss and score weight against scaled time at order {order} and initial scale {eps}.",
    )


def show_gamma(few: bool) -> None:
    """The loss along the first jump against gamma, with the matrix as printed and with the lemma's."""
    until = 2 * jump_limit(3, R) / 0.1

    def frame(gamma: float) -> Figure:
        runs = {}
        for matrix in ("printed", "lemma"):
            pop = Population(AssociativeRecall(3, R), 3, 3, gamma, matrix)
            runs[matrix] = pop, gradient_flow(pop.gradient, start(pop, 0.1), until, rtol=1e-8)
        return slider_gamma(runs, until)

    def alt(gamma: float) -> str:
        when = "at the same time" if gamma == 0 else "earlier"
        return f"At gamma {gamma:g} the loss drops at the time {until / 2:.0f} with the printed matrix and {when} with the lemma's."

    show(
        frame,
        [
            Slider(
                "gamma",
                "γ of the second layer",
                (0.0, 1.0) if few else (0.0, 0.25, 0.5, 1.0, 2.0),
                live=(0.0, 3.0, 0.05),
            )
        ],
        start={"gamma": 1.0},
        title="What γ does: nothing as printed, a faster clock in the lemma",
        description="As printed γ changes nothing; in the lemma the jump comes earlier. Try: a larger γ.",
        alt=alt,
    )
