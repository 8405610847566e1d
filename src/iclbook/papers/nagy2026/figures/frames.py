"""The chapter's sliders, and their frames: functions that draw a figure of a fixed size for any value of the sliders."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ....drawing import style
from ....sliders import Slider, show
from ..runs.studies import SPECTRUM
from ..theory import probe, reweighting
from ..theory.heads import MASKS, best_residual, visible

HEIGHT = 2.8


def spectrum_frame(condition: float, step: float, d: int = 5, layers: int = 10) -> Figure:
    """Contraction of ``d`` channels with eigenvalues from 1 to ``condition``, at ``step`` times eta*. Right: error along the layers."""
    eigenvalues = np.geomspace(1.0, condition, d)
    eta = step * probe.balanced_step(eigenvalues)
    factors = probe.factors(eigenvalues, eta)
    fig, (left, right) = style.figure(2, height=HEIGHT)
    left.bar(range(d), np.minimum(factors, 2.0), color=[style.PALETTE[3 if f > 1 else 0] for f in factors])
    left.axhline(1, color=style.INK, lw=0.9)
    for i in np.flatnonzero(factors > 2):
        left.annotate(f"{factors[i]:.1f} ↑", (i, 1.98), ha="center", va="top", fontsize=8, color="white")
    left.set_xticks(range(d), [f"{v:.3g}" for v in eigenvalues])
    left.set(xlabel="eigenvalue λ", ylim=(0, 2), title=f"η = {step:.3g} η*")
    left.set_ylabel(r"$(1-\eta\lambda)^2$, diverges above 1")
    k = np.arange(layers + 1)
    for i, factor in enumerate(factors):
        look = {"ls": "--" if i == d - 1 else "-", "lw": 2.6 if i == 0 else 1.7, "color": style.PALETTE[i]}
        right.semilogy(k, np.clip(factor**k, 1e-8, 1e3), label=f"λ = {eigenvalues[i]:.3g}", **look)
    right.set(xlabel="layers", ylabel="squared error over its start", ylim=(1e-6, 1e2))
    fig.legend(loc="outside right center", fontsize=7.5, handlelength=1.6)
    return fig


def layers_frame(layers: int, conditions: tuple[float, ...] = (2.0, 5.0, 20.0, 120.0)) -> Figure:
    """Rate of the slowest channel at eta* after ``layers`` layers against the condition number, and the compounding curve."""
    fig, (left, right) = style.figure(2, height=HEIGHT)
    kappa = np.geomspace(1.05, 200, 200)
    rate = ((kappa - 1) / (kappa + 1)) ** 2
    left.semilogx(kappa, rate**layers, color=style.COLOURS["measured"])
    left.semilogx(kappa, rate, color=style.COLOURS["dummy"], lw=1, ls="--", label="one layer")
    for marker, condition in zip("os^D", conditions, strict=True):
        value = ((condition - 1) / (condition + 1)) ** (2 * layers)
        left.plot([condition], [value], marker, ms=6, color=style.COLOURS["measured"])
        above = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center"}
        left.annotate(f"{value:.2g}", (condition, value), fontsize=8, **above)
    left.set(xlabel="condition number κ", ylabel="squared error left", ylim=(-0.03, 1.1))
    left.set_title(f"slowest channel, {layers} layers")
    left.legend(fontsize=8, loc="upper left")
    rates = np.linspace(0, 1, 101)
    right.plot(rates, rates**layers, color=style.COLOURS["measured"])
    right.plot(rates, rates, color=style.COLOURS["dummy"], lw=1, ls="--")
    right.plot([0.9], [0.9**layers], "o", ms=6, color=style.COLOURS["measured"])
    beside = {"xytext": (-8, 6), "textcoords": "offset points", "ha": "right"}
    right.annotate(f"0.9 → {0.9**layers:.2f}", (0.9, 0.9**layers), fontsize=9, **beside)
    right.set(xlabel="rate ρ² of one layer", ylabel=f"rate of {layers} layers", ylim=(-0.03, 1.1))
    return fig


def temperature_frame(beta: float, n: int = 12, noise: float = 0.5, seed: int = 3) -> Figure:
    """Attention to each example at inverse temperature ``beta`` on its curvature, the step it makes, and where it ends, off the line."""
    data = reweighting.examples(n, noise, seed, 0.7)
    eta = 1 / (data.x**2).max()
    p = reweighting.weights(data, beta)
    a_p, mean = reweighting.curvature(data, beta), reweighting.curvature(data, 0.0)
    fig, (left, right) = style.figure(2, height=HEIGHT)
    order = np.argsort(data.x**2)
    left.bar(range(n), p[order], color=style.COLOURS["measured"])
    left.axhline(1 / n, color=style.COLOURS["dummy"], ls="--", lw=1)
    left.set(xlabel="examples, by x²", ylabel="attention", ylim=(0, 1))
    left.set_title(f"factor {(1 - eta * mean) ** 2:.2f} → {(1 - eta * a_p) ** 2:.2f}")
    left.set_xticks([])
    path = reweighting.descend(data, eta, beta, 15)
    uniform = reweighting.descend(data, eta, 0.0, 15)
    right.plot(uniform, color=style.COLOURS["dummy"], marker=".", label="uniform attention")
    right.plot(path, color=style.COLOURS["measured"], marker="o", ms=3.5, label="softmax")
    right.axhline(data.optimum, color=style.INK, lw=1, ls=":", label="w*, all examples alike")
    end = reweighting.reweighted_optimum(data, beta)
    right.axhline(end, color=style.PALETTE[3], lw=1, ls="--", label="w* of the weights")
    right.set(xlabel="layers", ylabel="w", ylim=(-0.05, 1.05))
    fig.legend(loc="outside upper center", ncols=4, fontsize=7.5, columnspacing=1.2)
    return fig


def gains_frame(n_heads: int, mask: str) -> Figure:
    """Best that heads with one gain each can do in one step on section 9.1's spectrum, when each sees the channels that its mask leaves."""
    seen = visible(len(SPECTRUM), n_heads, mask)
    residual = best_residual(SPECTRUM, seen)
    fig, (left, right) = style.figure(2, height=HEIGHT, width_ratios=(1, 1.25))
    left.imshow(seen, cmap="Blues", vmin=0, vmax=1.4, aspect="auto")
    left.grid(False)
    left.set_xticks(range(len(SPECTRUM)), [f"{v:g}" for v in SPECTRUM], fontsize=8)
    left.set_yticks(range(n_heads), [f"head {h + 1}" for h in range(n_heads)], fontsize=8)
    left.set(xlabel="λ of the channel", title="what each head sees")
    right.bar(range(len(SPECTRUM)), residual, color=style.COLOURS["measured"])
    right.set_xticks(range(len(SPECTRUM)), [f"{v:g}" for v in SPECTRUM], fontsize=8)
    right.set(xlabel="λ of the channel", ylabel="squared error left", ylim=(0, 1.08))
    right.set_title(f"worst channel {residual.max():.2g}")
    return fig


def show_spectrum(few: bool) -> None:
    """Five channels at some condition numbers and steps; ``few`` of all, for a short run."""
    steps = [0.9, 1.0] if few else [0.25, 0.5, 0.9, 1.0, 1.05, 1.3]
    conditions = [2.0, 20.0] if few else [2.0, 20.0, 120.0]
    show(
        spectrum_frame,
        [
            Slider("condition", "condition number κ", conditions, live=(1.1, 500.0, 0.1), log=True),
            Slider("step", "step / η*", steps, live=(0.05, 1.6, 0.05)),
        ],
        start={"condition": 20.0, "step": 1.0},
        title="Contraction of five eigenchannels in one step, and along ten layers",
        alt=lambda condition, step: (
            f"Contraction of five channels at condition number {condition:g} and {step:g} times the balanced step."
        ),
    )


def show_layers(few: bool) -> None:
    """The slowest channel after some numbers of layers."""
    show(
        layers_frame,
        [Slider("layers", "layers", [1, 3] if few else [1, 2, 3, 5, 10, 20], live=(1, 30, 1))],
        start={"layers": 3},
        title="What equal layers compound to",
        alt=lambda layers: (
            f"Squared error left after {layers} layers against the condition number, and the rate compounded."
        ),
    )


def show_temperature(few: bool) -> None:
    """Softmax attention on curvature at some inverse temperatures."""
    betas = [0.1, 0.2] if few else [-0.5, 0.0, 0.1, 0.2, 0.4, 1.0]
    show(
        temperature_frame,
        [Slider("beta", "inverse temperature β", betas, live=(-1.0, 3.0, 0.1))],
        start={"beta": 0.2},
        title="Softmax attention on curvature: weights, and the descent that they give",
        alt=lambda beta: (
            f"Attention to twelve examples and the descent of w at inverse temperature {beta:g}."
        ),
    )


def show_gains(few: bool) -> None:
    """What heads with one gain each can do, for some numbers of heads and masks."""
    show(
        gains_frame,
        [
            Slider("n_heads", "heads", [1, 4] if few else [1, 2, 4]),
            Slider("mask", "mask", list(MASKS[:2] if few else MASKS)),
        ],
        start={"n_heads": 4, "mask": "spectral"},
        title="One gain for each head: the best that one step can do",
        alt=lambda n_heads, mask: (
            f"Channels seen by {n_heads} heads under the {mask} mask, and the squared error left in each channel."
        ),
    )
