"""Closed forms of the jumps (recall2025: Theorem 3.1, lemmas C.2 and C.3, equations 3 and 4, appendix A.6), as printed and as they hold.

``k`` is the order of the task and the window; ``kappa = 1 + gamma``. In the first jump one head has ``w = alpha e_1 + delta 1`` and strength beta.

All jumps, in the limit of small beta: on plateau m, with ``n = k - m`` offsets left, every waiting head sits near the origin, where
``w' = -kappa beta^2 D / k`` and ``beta' = -2 kappa beta (w . D) / k``. The vector D is constant: ``-E`` at the head's own offset, ``E / (n - 1)`` at the
other offsets that are left, 0 at those that are learned, and ``E`` is the size of ``E Delta_{h,h}`` among ``n!`` orderings that cannot be told apart.
With y the part of w along ``-D``, ``beta^2 - 2 y^2 = C`` is conserved and ``y' = kappa |D| (2 y^2 + C) / k``: y is a tangent of time.
"""

from __future__ import annotations

import math

import numpy as np

Array = np.ndarray


def score_weight(alpha: Array, beta: Array, k: int, kappa: float = 1.0) -> Array:
    """``gamma_1 = kappa beta^2 (e^alpha - 1) / (e^alpha + k - 1)`` (equation 13): what a match at the head's offset adds to a score."""
    return kappa * beta**2 * np.expm1(alpha) / (np.expm1(alpha) + k)


def mean_delta(gamma_1: Array, k: int, n_responses: int) -> tuple[Array, Array]:
    """``E Delta_{1,1}`` and ``E Delta_{1,i}`` for i other than 1 (lemma C.3)."""
    e = np.exp(-np.abs(gamma_1))
    square = np.where(gamma_1 >= 0, e / (1 + (k - 1) * e) ** 2, e / (e + k - 1) ** 2)  # e^g / (e^g + k - 1)^2
    other = square * (n_responses - 1) / (math.factorial(k - 1) * n_responses)
    return -(k - 1) * other, other


def xi(gamma_1: Array, k: int, n_responses: int, kappa: float = 1.0, printed: bool = True) -> Array:
    """``Xi`` of equation 4, ``-2 kappa E Delta_{1,1}``; the ODE needs half of it (``printed=False``)."""
    return -(2 if printed else 1) * kappa * mean_delta(gamma_1, k, n_responses)[0]


def ode(state: Array, k: int, n_responses: int, kappa: float = 1.0, printed: bool = True) -> Array:
    """Time derivatives of ``(alpha, beta)``, ``(..., 2)`` (Theorem 3.1 c)."""
    alpha, beta = state[..., 0], state[..., 1]
    clock = xi(score_weight(alpha, beta, k, kappa), k, n_responses, kappa, printed)
    total = np.expm1(alpha) + k
    d_alpha = beta**2 * np.exp(alpha) / total**2 * k**2 / (k - 1) * clock
    return np.stack([d_alpha, 2 * beta * np.expm1(alpha) / total * clock], -1)


def potential(alpha: Array, k: int, sign: int) -> Array:
    """``f(alpha)`` of Theorem 3.1 d; ``sign`` of its second term: -1 in the statement, +1 in the proof."""
    first = 2 * (k - 1) / k**2 * (np.sinh(alpha) - alpha)
    return first + sign * (k - 1) / k * (np.exp(-alpha) + alpha - 1)


def local_coefficient(k: int) -> float:
    """``c`` in ``beta^2 = c s^2 + eps^2`` near the start, from expanding the conserved quantity: ``2 (k - 1) / k`` (printed: 4)."""
    return 2 * (k - 1) / k


def jump_limit(k: int, n_responses: int, kappa: float = 1.0) -> float:
    """Limit of ``eps T`` for the first jump as eps -> 0: ``pi / (2 E) sqrt(k (k - 1) / 2)`` with ``E = -kappa E Delta_{1,1}`` at the start."""
    e0 = float(xi(np.zeros(()), k, n_responses, kappa, printed=False))
    return math.pi / (2 * e0) * math.sqrt(k * (k - 1) / 2)


def late_rate(k: int, kappa: float = 1.0) -> float:
    """``lambda`` in the late law ``ds/dT = b s e^{-lambda s}``, ``s = e^alpha - 1``: ``4 kappa (k - 1) / k^2`` (equation 3 prints 1)."""
    return 4 * kappa * (k - 1) / k**2


def cross_entropy_speed(orderings: int, n_responses: int) -> float:
    """``(R (1 - (1 - 1/R)^N) - 1) / ((1 - 1/R)(1 - 1/N))``: ``E Delta_{h,h}`` under cross-entropy over that under the dot product, at even attention
    on N orderings.

    Cross-entropy divides the gradient by the share of right responses ``(1 + Bin(N - 1, 1/R)) / N``, and ``E [N / (1 + Bin)] = R (1 - (1 - 1/R)^N)``.
    """
    chance = 1 / n_responses
    inverse = n_responses * (1 - (1 - chance) ** orderings)
    return (inverse - 1) / ((1 - chance) * (1 - 1 / orderings))


def pull(left: int, n_responses: int, loss: str = "dp") -> float:
    """``E``, the size of ``E Delta_{h,h}`` at even attention with ``left`` offsets not yet learned (lemma C.3 at ``gamma_1 = 0`` for that order)."""
    dot = (n_responses - 1) / (n_responses * left**2 * math.factorial(left - 2))
    return dot * (cross_entropy_speed(math.factorial(left), n_responses) if loss == "ce" else 1.0)


def chained_times(
    betas: tuple[float, ...], order: int, n_responses: int, loss: str = "dp", kappa: float = 1.0, carried: bool = True
) -> Array:
    """Times ``(K,)`` of the jumps from ``w = 0`` and these beta, the largest first, in the limit in which all are small.

    Args:
        betas: falling.
        carried: heads go on from where the jumps before have left them; otherwise each jump starts from ``w = 0`` and its initial beta.
    """
    w, square, waits = (
        np.zeros((len(betas), order)),
        np.square(betas),
        [],
    )  # of the heads that wait (K - m, k), (K - m,)
    for m in range(len(betas)):
        left = order - m
        towards = np.zeros_like(w)  # -D / |D|
        towards[:, m:] = np.where(np.eye(*towards[:, m:].shape, dtype=bool), 1.0, -1 / (left - 1))
        size = np.linalg.norm(towards[0])
        towards /= size
        y = (w * towards).sum(1)
        kept = square - 2 * y**2
        speed = np.sqrt(2 * kept) * kappa * pull(left, n_responses, loss) * size / order
        phase = np.arctan(y * np.sqrt(2 / kept))
        waits.append((math.pi / 2 - phase[0]) / speed[0])
        if carried:
            later = np.sqrt(kept / 2) * np.tan(phase + speed * waits[m])
            w = w + (later - y)[:, None] * towards
            square = kept + 2 * later**2
        w, square = w[1:], square[1:]
    return np.cumsum(waits)
