"""Figures 2 and 3, the first jump, its conserved quantity and time scale (recall2025)."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from ...drawing import style
from ...tasks import AssociativeRecall
from ...training import Flow
from .stage_figures import DASHES, DOTS
from .theorem_3_1 import ORDERS, alpha_beta, solved_ode
from .theory import Population, potential

#: How what the paper prints is drawn.
PRINTED = {"color": style.COLOURS["paper"], "ls": (0, (5, 3))}


def illustration(task: AssociativeRecall, query: int, responses: np.ndarray) -> Figure:
    """Figure 2: one sequence, symbols as boxes and responses as discs, the pair that answers the query marked."""
    tokens = task.sequences(np.array([query]), responses[None])[0]
    fig, ax = style.figure(height=1.4)
    place, last = int(task.response_positions[query]), len(tokens)
    corner, width = (place - task.order - 0.48, -0.55), task.order + 0.96
    look = {"fc": "none", "ec": style.COLOURS["paper"], "ls": "--", "lw": 1.4}
    ax.add_patch(FancyBboxPatch(corner, width, 1.1, boxstyle="round,pad=0.02", **look))
    for i, token in enumerate([*tokens, -1]):
        answer = token >= task.order
        text = "?" if token < 0 else ("ABCDEFG"[token - task.order] if answer else str(token))
        shape = "circle,pad=0.32" if answer or token < 0 else "round,pad=0.38"
        colour = style.INK if token < 0 else style.PALETTE[int(answer)]
        box = {"boxstyle": shape, "fc": style.GROUND, "ec": colour, "lw": 1.6}
        ax.text(i, 0, text, ha="center", va="center", bbox=box, fontsize=11)
    arrow = {"arrowstyle": "->", "color": style.COLOURS["paper"], "connectionstyle": "arc3,rad=0.18", "lw": 1.3}
    ax.annotate("", (place, 0.62), (last, 0.62), arrowprops=arrow)
    for x, name in ((0.4, "symbols"), (2.1, "response"), (last - 1.5, "query")):
        ax.text(x, -1.05, name, ha="center", fontsize=9)
    ax.set(xlim=(-0.8, last + 0.8), ylim=(-1.1, 1.7))
    ax.set_axis_off()
    return fig


def construction(matrix: np.ndarray, measured: Mapping[str, np.ndarray], task: AssociativeRecall) -> Figure:
    """Left: Figure 3, the second layer's matrix at the solution; right: loss of the construction against c, beta^2 above and below the diagonal."""
    fig, (ax, right) = style.figure(2, height=3.1, width_ratios=(1, 1.25))
    style.heatmap(ax, matrix, title=r"$Q^\top K = c\,(B \otimes \tilde I_k)$, order 3")
    for place, text, tone in ((0.14, "$+c/2$", 1.0), (0.03, "$-c/2$", 0.0)):
        ax.text(0.04, place, text, color=style.DIVERGING(tone), transform=ax.transAxes, fontsize=9)
    names, width = ["tokens", *(f"head {h}" for h in range(1, task.order + 1))], task.vocabulary
    middles = [width * i + (width - 1) / 2 for i in range(len(names))]
    ax.set_xticks(middles, names)
    ax.set_yticks(middles, names)
    for edge in range(1, len(names)):
        ax.axhline(width * edge - 0.5, color=style.INK, lw=0.5)
        ax.axvline(width * edge - 0.5, color=style.INK, lw=0.5)
    ax.set(xlabel="key block", ylabel="query block")
    c = measured["c"]
    right.semilogy(c, measured["super"], "o-", color=style.INK)
    right.semilogy(c, measured["sub"], "s--", color=style.COLOURS["paper"])
    right.text(12, 8e-2, "below the diagonal\n(as described)", color=style.COLOURS["paper"], va="top")
    right.text(11, 1e-8, "above it\n($B$ of A.2)", ha="right")
    right.semilogy(c[2:], measured["super"][2] * np.exp(c[2] - c[2:]), color=style.INK, ls=DOTS)
    right.text(23, 1e-12, r"slope of $e^{-c}$", ha="right", fontsize=9)
    right.set(xlabel="scale c of the construction", ylabel="dot-product loss")
    return fig


def first_jump(pop: Population, flow: Flow, eps: float) -> Figure:
    """alpha and beta along the flow from ``beta_1 = eps``, beside the ODE with the printed Xi and with half of it."""
    fig, axes = style.figure(2, aspect=0.75)
    measured, times = alpha_beta(pop, flow.states), np.linspace(0, flow.times[-1], 600)
    printed, half = (solved_ode(pop, eps, times[-1], both, t_eval=times).y for both in (True, False))  # (2, T)
    for i, (ax, name) in enumerate(zip(axes, (r"$\alpha_1$", r"$\beta_1$"), strict=True)):
        ax.plot(flow.times, measured[i], color=style.COLOURS["measured"], lw=2.4, label="exact flow")
        ax.plot(times, printed[i], **PRINTED, label=r"ODE, $\Xi$ as printed")
        style.theory_line(ax, times, half[i], r"ODE, $\Xi/2$")
        ax.set(xlabel="time t of the flow", ylabel=name, xlim=(0, flow.times[-1]))
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig


def conservation(pop: Population, flow: Flow) -> Figure:
    """The candidate conserved quantities along one flow."""
    alpha, beta = alpha_beta(pop, flow.states)
    minus, plus = (potential(alpha, pop.task.order, sign) for sign in (-1, 1))
    fig, ax = style.figure(aspect=0.5)
    for value, name, look in (
        (minus - beta**2 / 4, "theorem", PRINTED),
        (plus - beta**2 / 4, "proof", {"color": style.COLOURS["measured"]}),
        (plus + beta**2 / 4, "proof, with\n$+\\beta^2/4$", {"color": style.COLOURS["dummy"], "ls": DASHES[2]}),
    ):
        ax.plot(alpha, value, **look, lw=2, label=name)
    ax.set(xlabel=r"$\alpha_1$ along the flow", ylabel="value", xlim=(0, alpha[-1]), ylim=(-4, None))
    style.name_ends(ax)
    return fig


def time_scales(scan: Mapping[str, np.ndarray], window: np.ndarray) -> Figure:
    """Time T of the first jump against eps, with limit/eps."""
    fig, ax = style.figure(height=3.2)
    eps = scan["eps"]
    for order, times, limit in zip(ORDERS, scan["times"], scan["limit"], strict=True):
        ax.loglog(eps, times, "o", color=style.INK)
        ax.loglog(eps, limit / eps, color=style.INK, lw=1, label=f"order {order}")
    ax.loglog(eps, window, "s:", color=style.COLOURS["dummy"], label="order 4,\nwindow 3")
    ax.set(xlabel=r"initial $\beta_1 = \varepsilon$ (smaller →)", ylabel="time T of the first jump")
    ax.set(xlim=(1.3 * eps[0], eps[-1] / 1.3), title="dots: exact flow; lines: closed form")
    style.log_ticks(ax, "x", eps)
    style.name_ends(ax)
    return fig
