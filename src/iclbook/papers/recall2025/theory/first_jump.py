"""Closed forms of the first jump (recall2025, Theorem 3.1, lemmas C.2, C.3, equations 3, 4), as printed and as they hold.

``k`` is the order of the task and the window; one head with ``w = alpha e_1 + delta 1`` and weight beta is active; ``kappa = 1 + gamma``.
"""

from __future__ import annotations

import math

import numpy as np

Array = np.ndarray


def score_weight(alpha: Array, beta: Array, k: int, kappa: float = 1.0) -> Array:
    """``gamma_1`` (equation 13): what a match at the head's offset adds to a score."""
    return kappa * beta**2 * np.expm1(alpha) / (np.expm1(alpha) + k)


def mean_delta(gamma_1: Array, k: int, n_responses: int) -> tuple[Array, Array]:
    """``E Delta_{1,1}`` and ``E Delta_{1,i}``, i other than 1 (Lemma C.3)."""
    e = np.exp(-np.abs(gamma_1))
    square = np.where(gamma_1 >= 0, e / (1 + (k - 1) * e) ** 2, e / (e + k - 1) ** 2)  # e^g / (e^g + k - 1)^2
    other = square * (n_responses - 1) / (math.factorial(k - 1) * n_responses)
    return -(k - 1) * other, other


def xi(gamma_1: Array, k: int, n_responses: int, kappa: float = 1.0, printed: bool = True) -> Array:
    """``Xi`` of equation 4, ``-2 kappa E Delta_{1,1}``; the value that the ODE needs (``printed=False``) is half of it."""
    return -(2 if printed else 1) * kappa * mean_delta(gamma_1, k, n_responses)[0]


def ode(state: Array, k: int, n_responses: int, kappa: float = 1.0, printed: bool = True) -> Array:
    """Derivatives of ``(alpha, beta)``, ``(..., 2)`` (Theorem 3.1 c)."""
    alpha, beta = state[..., 0], state[..., 1]
    clock = xi(score_weight(alpha, beta, k, kappa), k, n_responses, kappa, printed)
    total = np.expm1(alpha) + k
    d_alpha = beta**2 * np.exp(alpha) / total**2 * k**2 / (k - 1) * clock
    return np.stack([d_alpha, 2 * beta * np.expm1(alpha) / total * clock], -1)


def potential(alpha: Array, k: int, sign: int) -> Array:
    """``f(alpha)`` of Theorem 3.1 d; the statement has ``sign=-1`` before its second term, the proof ``sign=+1``."""
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


def lemma_c2(
    h: int,
    alpha: Array,
    beta: Array,
    delta: Array,
    by_score: Array,
    match: Array,
    kappa: float,
    printed: bool,
) -> tuple[float, Array]:
    """Gradients of lemma C.2 at ``w^h = alpha_h e_h + delta_h 1`` (equations 11, 12).

    Args:
        h: head, from 0.
        alpha, beta, delta: ``(K,)``.
        by_score: ``(n!,)`` derivative of the loss in the scores.
        match: ``(n!, K, W)``.
        kappa: ``1 + gamma``.
        printed: equation 12's prefactor ``e^{alpha + delta}`` for every i; otherwise ``e^alpha`` for i = h and 1 for the others (equation 6).

    Returns:
        d loss / d beta_h and d loss / d w^h ``(W,)``.
    """
    width = match.shape[2]
    total = np.exp(alpha[h]) + width - 1
    lead = np.expm1(alpha[h]) / total
    sums = by_score @ match[:, h]  # (W,): Delta_{h, i}
    prefactor = np.ones(width)
    prefactor[h] = np.exp(alpha[h])
    if printed:
        prefactor[:] = np.exp(alpha[h] + delta[h])
    return (
        float(2 * beta[h] * lead * kappa * sums[h]),
        kappa * beta[h] ** 2 * prefactor / total * (sums - lead * sums[h]),
    )
