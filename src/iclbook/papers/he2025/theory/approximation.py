"""He et al. 2025: Theorem 1.1 (softmax pair against debiased GD) and linear attention built from softmax heads (Discussion).

Shapes as in estimators; general attention takes tokens (..., L, D), a query (..., D), ``kq`` (H, D, D) and ``ov`` (H, D), the last
rows of the OV circuits. Float64 numpy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .estimators import debiased_gd, draw_prompts, scores, softmax_predictor
from .loss import Array


def gd_gap(gammas: ArrayLike, eta: float, x: Array, y: Array, x_q: Array) -> Array:
    """|yhat(theta) - yhat_gd(eta)| of Theorem 1.1 with mu = eta/(2 gamma), shape (len(gammas), ...)."""
    target = debiased_gd(eta, x, y, x_q)
    pairs = ((g, eta / (2.0 * g)) for g in np.asarray(gammas, dtype=np.float64))
    return np.stack([np.abs(softmax_predictor([g, -g], [m, -m], x, y, x_q) - target) for g, m in pairs])


def gd_gap_leading(gamma: float, eta: float, x: Array, y: Array, x_q: Array) -> Array:
    """Leading order of the signed gap, (eta gamma^2/6) kappa(y, s, s, s) with s_l = x_l^T x_q, shape (...).

    kappa is the joint cumulant of the L tokens, mean (y - ybar)(s - sbar)^3 - 3 var(s) cov(y, s). The pair is odd in gamma, so dividing by
    gamma leaves an even function: the gap falls as gamma^2, one power faster than the theorem's bound.
    """
    s = scores(x, x_q)
    s = s - s.mean(axis=-1, keepdims=True)
    y = y - y.mean(axis=-1, keepdims=True)
    cumulant = np.mean(y * s**3, axis=-1) - 3.0 * np.mean(s**2, axis=-1) * np.mean(y * s, axis=-1)
    return eta * gamma**2 / 6.0 * cumulant


def gd_gap_rms(gamma: ArrayLike, eta: float, d: int, L: int, noise_var: float) -> Array:
    """Root mean square of `gd_gap_leading` for large L: eta gamma^2/6 sqrt(6 d(d+2)(d+4)(1 + s2 + 3/d)/L).

    For Gaussian x the cumulant is zero in the population and has this sampling spread, about d^(3/2) L^(-1/2): against the bound's gamma d
    two more small factors, gamma sqrt(d) and 1/sqrt(L).
    """
    spread = 6.0 * d * (d + 2.0) * (d + 4.0) * (1.0 + noise_var + 3.0 / d) / L
    return eta * np.asarray(gamma, dtype=np.float64) ** 2 / 6.0 * np.sqrt(spread)


def theorem_gap_bound(gamma: ArrayLike, d: int, noise_var: float) -> Array:
    """sqrt(1 + s2) gamma d, Theorem 1.1's bound without the factors that its O~ omits."""
    return np.sqrt(1.0 + noise_var) * np.asarray(gamma, dtype=np.float64) * d


def theorem_gamma_limit(d: int, L: int, delta: float) -> float:
    """(sqrt(d) log(L/delta))^-1: gamma must be below a constant times this in Theorem 1.1."""
    return 1.0 / (np.sqrt(d) * np.log(L / delta))


def gap_quantiles(
    gammas: ArrayLike, eta: float, d: int, L: int, noise_var: float, levels: ArrayLike, draws: int, seed: int
) -> Array:
    """Quantiles of the gap over seeded prompts, shape (len(levels), len(gammas)); level 1 - delta is what the theorem bounds."""
    prompts = draw_prompts(draws, d, L, noise_var, seed)
    return np.quantile(gd_gap(gammas, eta, prompts.x, prompts.y, prompts.x_q), np.asarray(levels), axis=1)


def loglog_slope(x: ArrayLike, y: ArrayLike) -> Array:
    """Least-squares slopes of log y (..., n) against log x (n,), shape (...)."""
    log_x = np.log(np.asarray(x, dtype=np.float64))
    log_x = log_x - log_x.mean()
    return np.log(np.asarray(y, dtype=np.float64)) @ log_x / (log_x @ log_x)


def linear_attention(kq: Array, ov: Array, tokens: Array, query: Array) -> Array:
    """(1/L) sum_h sum_l (ov_h . z_l)(z_l^T KQ_h z_q) over the context tokens, shape (...)."""
    logits = np.einsum("...ld,hde,...e->...hl", tokens, kq, query, optimize=True)
    values = np.einsum("...ld,hd->...hl", tokens, ov)
    return np.sum(logits * values, axis=(-1, -2)) / tokens.shape[-2]


def softmax_attention(kq: Array, ov: Array, tokens: Array, query: Array, sink: float = 0.0) -> Array:
    """sum_h (ov_h . Z) smax(Z^T KQ_h z_q), shape (...); ``sink`` adds that many keys of score 0 and value 0 to every head."""
    logits = np.einsum("...ld,hde,...e->...hl", tokens, kq, query, optimize=True)
    top = np.maximum(logits.max(axis=-1, keepdims=True), 0.0)
    weights = np.exp(logits - top)
    weights = weights / (weights.sum(axis=-1, keepdims=True) + sink * np.exp(-top))
    values = np.einsum("...ld,hd->...hl", tokens, ov)
    return np.sum(weights * values, axis=(-1, -2))


def softmax_heads_of_linear(
    kq: Array, ov: Array, gamma: float, L: int = 1, sink: float = 0.0
) -> tuple[Array, Array]:
    """The 2H softmax heads for H linear ones: (+-gamma KQ_h, +-OV_h/(2 gamma)), `kq` (2H, D, D) and `ov` (2H, D).

    As gamma -> 0 they make linear attention less `centring_defect`. With ``sink`` > 0 (see `softmax_attention`) OV is scaled by (L + sink)/L and the
    defect by L/(L + sink): a large sink repairs the construction, but the factor then holds the length L, as linear attention's 1/L does.
    """
    scale = (L + sink) / L if sink else 1.0
    return np.concatenate([gamma * kq, -gamma * kq]), scale * np.concatenate([ov, -ov]) / (2.0 * gamma)


def centring_defect(kq: Array, ov: Array, tokens: Array, query: Array) -> Array:
    """sum_h (ov_h . zbar)(zbar^T KQ_h z_q), shape (...): what softmax heads lose against linear attention as gamma -> 0.

    Zero when the tokens are centred ("When the token embeddings are centralized"). Softmax attention does not change when all keys move
    together while linear attention does, so that no number of softmax heads, zero-KQ heads included, can supply this product of means.
    """
    mean = tokens.mean(axis=-2)
    return np.sum((mean @ ov.T) * np.einsum("...d,hde,...e->...h", mean, kq, query, optimize=True), axis=-1)


def explained_by_means(defect: Array, tokens: Array) -> float:
    """Share of the variance of ``defect`` (n,) that a zero-KQ head, which outputs a linear function of zbar, can supply (least squares)."""
    mean = tokens.mean(axis=-2)  # (n, D)
    fit = mean @ np.linalg.lstsq(mean, defect, rcond=None)[0]
    return float(1.0 - np.mean((defect - fit) ** 2) / np.mean(defect**2))
