"""Figure 1 and the preconditioning of section 5: curves that need no training."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ....drawing import style
from ..theory import probe
from ..theory import reweighting as theory

#: From the smallest eigenvalue to the largest.
CHANNEL_COLOURS = ("#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00")
CHANNEL_MARKERS = ("o", "^", "s", "D", "v")
_FLOOR = 1e-16  # below this a float64 error is rounding


def figure_1(eigenvalues: np.ndarray) -> Figure:
    """Figure 1: (a) scalar descent, (b) contraction of each eigenvalue ``(5,)`` at eta*, (c) compounding. Markers: run; dotted: closed form."""
    fig, (a, b, c) = style.figure(3, height=2.95)
    steps = probe.PRINTED["steps"]
    k = np.arange(steps + 1)
    for curvature, colour in zip(probe.PRINTED["curvatures"], style.PALETTE, strict=False):
        loss = np.maximum(probe.scalar_descent(curvature, 1.0, steps), _FLOOR)
        a.semilogy(k, loss, "o", ms=3, color=colour, label=f"a = {curvature:g}")
        style.theory_line(a, k, np.maximum((1 - curvature) ** (2.0 * k), _FLOOR), None)
    a.set(xlabel="step k", title="(a) loss over its start")
    a.legend(fontsize=7.5, loc="upper right", handletextpad=0.2, bbox_to_anchor=(1.02, 1.02))
    a.set_ylim(1e-17, 1e3)

    eta = probe.balanced_step(eigenvalues)
    errors = probe.channel_errors(probe.design(eigenvalues, probe.PRINTED["n"]), eta, steps)
    factors = probe.factors(eigenvalues, eta)
    for i, value in enumerate(eigenvalues):
        top = i == len(eigenvalues) - 1
        b.semilogy(
            k,
            np.maximum(errors[:, i], 1e-13),
            CHANNEL_MARKERS[i],
            ms=6 if i == 0 else 3.2,
            mfc="none" if i == 0 else None,
            color=CHANNEL_COLOURS[i],
            label=f"λ = {value:.3g}",
            zorder=3 if top else 2,
        )
        style.theory_line(b, k, np.maximum(factors[i] ** k, 1e-13), None)
    b.set(xlabel="step k", title="(b) squared error by channel", ylim=(1e-13, 3))
    b.legend(fontsize=7.5, loc="lower left", handletextpad=0.2)

    rate = np.linspace(0, 1, 201)
    for layers, colour in zip((1, 2, 3, 5, 10), style.PALETTE, strict=False):
        c.plot(rate, rate**layers, color=colour, label=f"k = {layers}")
    c.plot([0.9] * 3, [0.81, 0.59, 0.35], "x", ms=6, mew=1.6, color=style.COLOURS["paper"], label="printed")
    c.set(xlabel="rate ρ² of one layer", title="(c) rate of k layers")
    c.legend(fontsize=7.5)
    return fig


def reweighting(n: int = 20, noise: float = 0.5, seed: int = 3, layers: int = 12) -> Figure:
    """Section 5. Left: error to w* along the layers, uniform and concentrated attention, on a line and off it. Right: plain softmax answers."""
    fig, (left, right) = style.figure(2, height=3.0)
    for beta, spread in ((0.0, 0.0), (1.0, 0.0), (0.0, noise), (1.0, noise)):
        data = theory.examples(n, spread, seed, 0.7)
        eta = 1 / (data.x**2).max()
        path = theory.descend(data, eta, beta, layers)
        left.semilogy(
            range(layers + 1),
            np.abs(path - data.optimum),
            marker="o" if beta == 0 else "s",
            ms=3.5,
            ls="-" if spread == 0 else "--",
            color=style.PALETTE[0] if beta == 0 else style.PALETTE[3],
            label=f"{'uniform' if beta == 0 else 'concentrated'}, {'on a line' if spread == 0 else 'off it'}",
        )
    left.set(xlabel="layers", ylabel="distance to w*", title="softmax head on tokens with products")
    left.legend(
        fontsize=7.5,
        handlelength=3.2,
        ncols=2,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.2),
        columnspacing=1,
    )
    data = theory.examples(n, noise, seed, 0.7)
    queries = np.linspace(-4, 4, 161)
    right.axhspan(data.y.min(), data.y.max(), color="#E9E9E4", zorder=0, label="range of the targets")
    right.plot(data.x, data.y, ".", color=style.COLOURS["dummy"], ms=5, label="examples")
    for beta, colour in ((0.5, style.PALETTE[4]), (2.0, style.PALETTE[3])):
        right.plot(
            queries, theory.plain_answers(data, queries, beta), color=colour, label=f"softmax, β = {beta:g}"
        )
    eta = 1 / (data.x**2).sum()
    right.plot(
        queries, theory.linear_answers(data, queries, eta), color=style.COLOURS["gd"], ls="--", label="linear"
    )
    right.set(xlabel="query $x_q$", ylabel="answer", title="plain tokens (x, y)")
    right.legend(fontsize=7.5, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.2), columnspacing=1)
    return fig
