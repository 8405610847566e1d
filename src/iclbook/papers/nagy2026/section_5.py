"""Section 5 as real attention: what softmax weights do to one gradient step, realisable and not."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.special import softmax

from ...draw import numpy_rng
from ...drawing import style
from ...sliders import Slider, show
from ...statistics import Estimate


@dataclass(frozen=True)
class Examples:
    """Scalar in-context examples: ``x``, ``y``, each ``(..., n)``; leading axes are data sets."""

    x: np.ndarray
    y: np.ndarray

    @property
    def optimum(self) -> float:
        """``w* = b / a`` of all examples weighted equally."""
        return float((self.x @ self.y) / (self.x @ self.x))


def examples(n: int, noise: float, seed: int = 0, w_true: float = 1.0) -> Examples:
    """``n`` examples on the line ``y = w_true x``; with ``noise`` (standard deviation) off it."""
    rng = numpy_rng(seed)
    x = rng.standard_normal(n)
    return Examples(x, w_true * x + noise * rng.standard_normal(n))


#: Tokens ``(x, y, x^2, x y, 1)`` and a query ``(x_q, w, 0, 0, 1)``. The update ``b_p - a_p w`` is an average of ``x y - w x^2``, quadratic in the
#: examples: a linear read-out of plain tokens ``(x, y)`` cannot form it, so the products must stand in the tokens.
X, Y, SQUARE, PRODUCT, ONE = range(5)


def attention_step(data: Examples, w: np.ndarray, eta: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """One softmax head on product tokens of examples ``(..., n)``: ``w + eta (b_p - a_p w)``, written with key, query and value matrices.

    Keys read ``x^2`` (score ``beta x^2``: concentration on curvature for ``beta > 0``); the head returns the averages ``(b_p, a_p)``, and the
    query's own ``w`` multiplies ``a_p``, as a residual stream with a gate would. ``w, eta, beta`` are numbers, or one for each data set ``(...)``.
    """
    key, value = np.zeros((1, 5)), np.zeros((2, 5))
    key[0, SQUARE] = 1.0
    value[0, PRODUCT], value[1, SQUARE] = 1.0, 1.0
    w, eta, beta = (np.broadcast_to(np.asarray(v, dtype=float), data.x.shape[:-1]) for v in (w, eta, beta))
    query = np.zeros((*w.shape, 1, 5))
    query[..., 0, ONE] = beta
    zero, one = np.zeros_like(w), np.ones_like(w)
    asked = np.stack([zero, w, zero, zero, one], -1)[..., None]  # (..., 5, 1)
    given = np.stack([data.x, data.y, data.x**2, data.x * data.y, np.ones_like(data.x)], -1)  # (..., n, 5)
    attention = softmax((given @ key.T @ (query @ asked))[..., 0], -1)  # (..., n)
    averages = (attention[..., None, :] @ given)[..., 0, :] @ value.T  # (..., 2)
    return w + eta * (averages[..., 0] - averages[..., 1] * w)


def weights(data: Examples, beta: float) -> np.ndarray:
    """Attention ``(n,)`` at inverse temperature ``beta`` on the curvature ``x^2``; 0 is uniform."""
    return softmax(beta * data.x**2)


def curvature(data: Examples, beta: float) -> float:
    """``a_p = sum_i p_i x_i^2``."""
    return float(weights(data, beta) @ data.x**2)


def reweighted_optimum(data: Examples, beta: float) -> float:
    """``w_p* = b_p / a_p``."""
    p = weights(data, beta)
    return float((p @ (data.x * data.y)) / (p @ data.x**2))


def descend(data: Examples, eta: np.ndarray, beta: np.ndarray, layers: int) -> np.ndarray:
    """``w`` after 0, 1, ..., ``layers`` attention steps from 0: ``(layers + 1, ...)`` for examples ``(..., n)``."""
    path = [np.zeros(data.x.shape[:-1])]
    for _ in range(layers):
        path.append(attention_step(data, path[-1], eta, beta))
    return np.array(path)


def plain_answers(data: Examples, queries: np.ndarray, beta: float) -> np.ndarray:
    """Softmax attention on plain tokens ``(x, y)`` with scores ``beta x_i x_q``: ``sum_i p_i y_i`` for each query ``(m,)``."""
    return softmax(beta * queries[:, None] * data.x, -1) @ data.y


def preconditioned_answers(data: Examples, queries: np.ndarray, beta: float) -> np.ndarray:
    """A preconditioned step from 0 with the same attention, which depends on the query: ``x_q sum_i p_i(x_q) x_i y_i`` for each query ``(m,)``."""
    return queries * (softmax(beta * queries[:, None] * data.x, -1) @ (data.x * data.y))


def linear_answers(data: Examples, queries: np.ndarray, eta: float) -> np.ndarray:
    """One step of linear attention from 0: ``eta sum_i y_i x_i x_q``."""
    return eta * (data.x @ data.y) * queries


#: Random data sets of :func:`records`, inverse temperatures on each, and data sets whose descent is followed to its end, the costly part.
SEEDS, BETAS, LIMIT_SEEDS = 200, (0.5, 1.0, 2.0), 50


def records() -> dict[str, Any]:
    """Records of section 5's claims on random examples; the ledger says what each is. Errors are over data sets."""
    rng = numpy_rng(1)
    followed: list[tuple[Examples, float, float]] = []  # data set, step size, inverse temperature
    # a value for each data set, or for each data set and inverse temperature
    found: dict[str, list[float]] = defaultdict(list)
    for seed in range(SEEDS):
        on, off = examples(20, 0.0, seed, 0.7), examples(20, 0.5, seed, 0.7)
        queries = 2 * rng.standard_normal(50)
        mean = curvature(off, 0.0)
        safe, newton = 1 / (off.x**2).max(), 1 / mean
        for beta in BETAS:
            p, a_p = weights(off, beta), curvature(off, beta)
            expected = 0.3 + safe * (p @ (off.x * off.y) - a_p * 0.3)
            found["step_gap"].append(abs(attention_step(off, 0.3, safe, beta) - expected))
            found["amplified"].append(a_p >= mean)
            found["faster"].append((1 - safe * a_p) ** 2 < (1 - safe * mean) ** 2)
            found["slower_at_newton"].append((1 - newton * a_p) ** 2 > (1 - newton * mean) ** 2)
            found["realisable_gap"].append(abs(reweighted_optimum(on, beta) - on.optimum))
            found["bias"].append(abs(reweighted_optimum(off, beta) - off.optimum))
            followed += [(on, safe, beta), (off, safe, beta)] if seed < LIMIT_SEEDS else []
            answers = plain_answers(off, queries, beta)
            found["inside"].append(np.mean((answers >= off.y.min()) & (answers <= off.y.max())))
            step = preconditioned_answers(off, queries, beta)
            left = answers - step * (step @ answers) / (step @ step)
            found["plain_residual"].append((left**2).sum() / (answers**2).sum())
        linear = linear_answers(off, queries, newton / len(off.x))
        found["linear_outside"].append(np.mean((linear < off.y.min()) | (linear > off.y.max())))
    sets, etas, temperatures = zip(*followed, strict=True)
    together = Examples(np.stack([each.x for each in sets]), np.stack([each.y for each in sets]))
    ends = descend(together, np.array(etas), np.array(temperatures), 400)[-1]
    limits = [reweighted_optimum(each, temperature) for each, _, temperature in followed]
    values: dict[str, Any] = {
        **{name: float(np.max(found[name])) for name in ("step_gap", "realisable_gap")},
        **{name: float(np.mean(found[name])) for name in ("inside", "amplified", "faster", "slower_at_newton")},
        "linear_outside": Estimate.mean(np.array(found["linear_outside"])),
        "limit_gap": float(np.abs(ends - limits).max()),
    }
    for name in ("bias", "plain_residual"):
        by_set = np.reshape(found[name], (SEEDS, len(BETAS)))
        values[name] = Estimate.of(np.median, by_set)
    return {f"softmax-precond/{name}": value for name, value in values.items()}


def figure() -> Figure:
    """Section 5. Left: error to w* along the layers, uniform and concentrated attention, on a line and off it. Right: plain softmax answers."""
    fig, (left, right) = style.figure(2, height=3.0)
    for noise, place, line in ((0.0, "on a line", "-"), (0.5, "off a line", "--")):
        data = examples(20, noise, 3, 0.7)
        for beta, attention, marker, hue in ((0.0, "uniform", "o", 0), (1.0, "concentrated", "s", 3)):
            path = descend(data, 1 / (data.x**2).max(), beta, 12)
            look = {"marker": marker, "ms": 3.5, "ls": line, "color": style.PALETTE[hue]}
            left.semilogy(np.abs(path - data.optimum), label=f"{attention}, {place}", **look)
    for x, y, words, hue in (
        (12, 2.2, f"concentrated, off a line:\nstops {left.lines[-1].get_ydata()[-1]:.1f} away", 3),
        (12, 3e-2, "uniform,\non and off a line", 0),
        (12, 4e-4, "↓ concentrated, on a line:\nleaves the frame, to rounding", 3),
    ):
        left.text(x, y, words, fontsize=8.5, ha="right", va="center", color=style.PALETTE[hue])
    left.set(xlabel="layers", ylabel="distance to w*", title="softmax, tokens with products", ylim=(1e-4, 9))
    data, queries = examples(20, 0.5, 3, 0.7), np.linspace(-4, 4, 161)  # off a line
    right.axhspan(data.y.min(), data.y.max(), color="#E9E9E4", zorder=0, label="range of the targets")
    right.text(-4, data.y.max() - 0.1, "range of the targets", fontsize=8.5, va="top")
    right.plot(data.x, data.y, ".", color=style.COLOURS["dummy"], ms=5, label="examples")
    lowest = data.x[data.y.argmin()], data.y.min()
    look = {"fontsize": 8.5, "ha": "center", "va": "top", "color": style.COLOURS["dummy"]}
    right.annotate("examples", lowest, (0, -5), textcoords="offset points", **look)
    for beta, colour in ((0.5, style.PALETTE[4]), (2.0, style.PALETTE[1])):
        right.plot(queries, plain_answers(data, queries, beta), color=colour, label=f"softmax, β = {beta:g}")
    linear = linear_answers(data, queries, 1 / (data.x**2).sum())
    right.plot(queries, linear, color=style.COLOURS["gd"], ls="--", label="linear")
    right.set(xlabel="query $x_q$", ylabel="answer", title="plain tokens (x, y)", ylim=(None, 3.6))
    style.name_lines(right, {"softmax, β = 0.5": -2.4, "softmax, β = 2": 2.4}, up=14)
    style.name_lines(right, {"linear": -3})
    return fig


def temperature_frame(beta: float) -> Figure:
    """Attention to each example at inverse temperature ``beta`` on its curvature, the step it makes, and where it ends, off the line."""
    n, data = 12, examples(12, 0.5, 3, 0.7)
    eta, a_p, mean = 1 / (data.x**2).max(), curvature(data, beta), curvature(data, 0.0)
    fig, (left, right) = style.figure(2, height=2.8)
    left.bar(range(n), weights(data, beta)[np.argsort(data.x**2)], color=style.COLOURS["measured"])
    left.axhline(1 / n, color=style.COLOURS["dummy"], ls="--", lw=1)
    left.set(xlabel="examples, by x²", ylabel="attention", ylim=(0, 1))
    left.set_title(f"error × {(1 - eta * a_p) ** 2:.2f} a layer (uniform: {(1 - eta * mean) ** 2:.2f})")
    left.set_xticks([])
    right.plot(descend(data, eta, 0.0, 15), color=style.COLOURS["dummy"], marker=".", label="uniform attention")
    right.plot(descend(data, eta, beta, 15), color=style.COLOURS["measured"], marker="o", ms=3.5, label="softmax")
    right.axhline(data.optimum, color=style.INK, lw=1, ls=":", label="optimum w*")
    end = reweighted_optimum(data, beta)
    right.axhline(end, color=style.PALETTE[3], lw=1, ls="--", label="optimum under this attention")
    right.set(xlabel="layers", ylabel="w", ylim=(-0.05, 1.05), xticks=range(0, 16, 5))
    fig.legend(loc="outside upper center", ncols=4, fontsize=7.5, columnspacing=1.2)
    return fig


def show_temperature(few: bool) -> None:
    """Softmax attention on curvature at some inverse temperatures."""
    betas = [0.1, 0.2] if few else [-0.5, 0.0, 0.1, 0.2, 0.4, 1.0]
    show(
        temperature_frame,
        [Slider("beta", "inverse temperature β", betas, live=(-1.0, 3.0, 0.1))],
        start={"beta": 0.2},
        title="Softmax attention on curvature: weights, and the descent that they give",
        description="A larger β descends faster, to another optimum. Try: β = 0, the plain mean; β = 1: one example takes nearly all.",
        alt=lambda beta: f"Attention to twelve examples and the descent of w at inverse temperature {beta:g}.",
    )
