"""Figure 1 and the preconditioning of section 5: curves that need no training."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ....drawing import style
from ..measures.exact import PRINTED_COMPOUNDED
from ..theory import probe
from ..theory import reweighting as theory
from .marks import cross

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
        look = {"ms": 6, "mfc": "none"} if i == 0 else {"ms": 3.2}
        look |= {"color": CHANNEL_COLOURS[i], "zorder": 3 if i == len(eigenvalues) - 1 else 2}
        b.semilogy(k, np.maximum(errors[:, i], 1e-13), CHANNEL_MARKERS[i], label=f"λ = {value:.3g}", **look)
        style.theory_line(b, k, np.maximum(factors[i] ** k, 1e-13), None)
    b.set(xlabel="step k", title="(b) squared error by channel", ylim=(1e-13, 3))
    b.legend(fontsize=7.5, loc="lower left", handletextpad=0.2)

    rate = np.linspace(0, 1, 201)
    for layers, colour in zip((1, 2, 3, 5, 10), style.PALETTE, strict=False):
        c.plot(rate, rate**layers, color=colour, label=f"k = {layers}")
    cross(c, [0.9] * 3, [*PRINTED_COMPOUNDED.values()], "printed", ms=6, mew=1.6, zorder=2)
    c.set(xlabel="rate ρ² of one layer", title="(c) rate of k layers")
    c.legend(fontsize=7.5)
    return fig


def reweighting(n: int = 20, noise: float = 0.5, seed: int = 3, layers: int = 12) -> Figure:
    """Section 5. Left: error to w* along the layers, uniform and concentrated attention, on a line and off it. Right: plain softmax answers."""
    fig, (left, right) = style.figure(2, height=3.0)
    for beta, spread in ((0.0, 0.0), (1.0, 0.0), (0.0, noise), (1.0, noise)):
        data = theory.examples(n, spread, seed, 0.7)
        path = theory.descend(data, 1 / (data.x**2).max(), beta, layers)
        attention, marker, colour = (
            ("concentrated", "s", style.PALETTE[3]) if beta else ("uniform", "o", style.PALETTE[0])
        )
        place, line = ("off it", "--") if spread else ("on a line", "-")
        look = {"marker": marker, "ms": 3.5, "ls": line, "color": colour, "label": f"{attention}, {place}"}
        left.semilogy(range(layers + 1), np.abs(path - data.optimum), **look)
    below = {"fontsize": 7.5, "loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "columnspacing": 1}
    left.set(xlabel="layers", ylabel="distance to w*", title="softmax head on tokens with products")
    left.legend(handlelength=3.2, ncols=2, **below)
    data = theory.examples(n, noise, seed, 0.7)
    queries = np.linspace(-4, 4, 161)
    right.axhspan(data.y.min(), data.y.max(), color="#E9E9E4", zorder=0, label="range of the targets")
    right.plot(data.x, data.y, ".", color=style.COLOURS["dummy"], ms=5, label="examples")
    for beta, colour in ((0.5, style.PALETTE[4]), (2.0, style.PALETTE[3])):
        answers = theory.plain_answers(data, queries, beta)
        right.plot(queries, answers, color=colour, label=f"softmax, β = {beta:g}")
    linear = theory.linear_answers(data, queries, 1 / (data.x**2).sum())
    right.plot(queries, linear, color=style.COLOURS["gd"], ls="--", label="linear")
    right.set(xlabel="query $x_q$", ylabel="answer", title="plain tokens (x, y)")
    right.legend(ncols=3, **below)
    return fig
