"""The first jump: flow against ODE, conserved quantity, time scales, and the sliders over scale and gamma."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ....drawing import style
from ....training import Flow
from .. import theory
from ..measures.first_jump import alpha_beta
from ..theory import Population
from .marks import DASHES, DOTS, HEAD


def first_jump(
    pop: Population, flow: Flow, printed: tuple[np.ndarray, np.ndarray], half: tuple[np.ndarray, np.ndarray]
) -> Figure:
    """alpha and beta along the flow, beside the ODE with the printed Xi and with half of it; each ``printed`` is times and ``(2, T)``."""
    fig, axes = style.figure(2, aspect=0.75)
    measured = alpha_beta(pop, flow.states)
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
    alpha, beta = alpha_beta(pop, flow.states)
    b = beta**2 / 4
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
    ax.text(
        eps[-1], window["times"][-1] / 2, "order 4, window 3", color=style.PALETTE[5], ha="left", va="top"
    )
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
    ax.plot(
        decades, late["s"][-1] + passed, color=style.COLOURS["paper"], ls=(0, (5, 3)), lw=1.2, label=printed
    )
    ax.set(xlabel=r"$\log_{10} T$", ylabel=r"$s = e^{\alpha} - 1$", ylim=(0, None))
    ax.legend(fontsize=8.5, loc="lower right")


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
    ax.legend(loc="lower left")
    return fig
