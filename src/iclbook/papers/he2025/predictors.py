"""Predictors of y_q from a prompt, their exact errors, and the statements of Theorem 1 (He et al. 2025, "Statistical Properties").

Prompts: x (..., L, d), y (..., L), x_q (..., d), predictions (...), float64. Errors are total, E[(y_q - yhat)^2] with noise on y_q: their
floor is sigma^2 (s2 in formulas) and predicting 0 costs 1 + s2; x ~ N(0, I_d), beta ~ N(0, I_d/d). They broadcast over their arguments.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ...draw import numpy_rng
from .loss import Array, coupling


@dataclass(frozen=True)
class Prompts:
    """n prompts: x (n, L, d), y (n, L), x_q (n, d), the noisy target y_q (n,) and its mean signal (n,) = beta^T x_q."""

    x: Array
    y: Array
    x_q: Array
    y_q: Array
    signal: Array


def sample_prompts(n: int, d: int, L: int, noise_var: float, seed: int, cov: ArrayLike | None = None) -> Prompts:
    """n independent prompts of the paper's task: x ~ N(0, cov or I), beta ~ N(0, I/d), noise of variance ``noise_var``."""
    coupling(d, L, noise_var)  # checks the ranges
    rng = numpy_rng(seed)
    x = rng.standard_normal((n, L + 1, d))
    if cov is not None:
        x = x @ np.linalg.cholesky(np.asarray(cov, dtype=np.float64)).T
    beta = rng.standard_normal((n, d)) / np.sqrt(d)
    clean = np.einsum("nld,nd->nl", x, beta)
    y = clean + np.sqrt(noise_var) * rng.standard_normal((n, L + 1))
    return Prompts(x[:, :L], y[:, :L], x[:, L], y[:, L], clean[:, L])


def scores(x: Array, x_q: Array) -> Array:
    """x_l^T x_q, shape (..., L)."""
    return np.einsum("...ld,...d->...l", x, x_q)


def softmax(z: Array, axis: int = -1) -> Array:
    """Softmax along ``axis``."""
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def softmax_predictor(
    omega: ArrayLike, mu: ArrayLike, x: Array, y: Array, x_q: Array, query_key: bool = False
) -> Array:
    """sum_h mu_h <y, smax(omega_h X x_q)> (the reduced model); omega, mu (H,).

    ``query_key`` adds the query token (x_q, 0) to the keys; it then draws weight omega_h |x_q|^2 in the exponent and has value 0.
    """
    z = scores(x, x_q)
    total = np.zeros(z.shape[:-1])
    for o, m in zip(np.atleast_1d(omega), np.atleast_1d(mu), strict=True):
        logits = o * z
        if query_key:
            own = o * np.sum(x_q**2, axis=-1, keepdims=True)
            weights = softmax(np.concatenate([logits, own], axis=-1))[..., :-1]
        else:
            weights = softmax(logits)
        total += m * np.sum(weights * y, axis=-1)
    return total


def vanilla_gd(eta: float, x: Array, y: Array, x_q: Array) -> Array:
    """(eta/L) sum_l y_l x_l^T x_q: one gradient step from zero."""
    return eta * np.mean(scores(x, x_q) * y, axis=-1)


def debiased_gd_terms(eta: float, x: Array, y: Array, x_q: Array) -> Array:
    """(eta/L) xbar_l^T x_q y_l for each l, shape (..., L): Key Finding 3 prints this term, without the sum over l."""
    return eta / x.shape[-2] * scores(x - x.mean(axis=-2, keepdims=True), x_q) * y


def debiased_gd(eta: float, x: Array, y: Array, x_q: Array) -> Array:
    """(eta/L) sum_l y_l (x_l - mean x)^T x_q."""
    return debiased_gd_terms(eta, x, y, x_q).sum(axis=-1)


# -- exact errors -----------------------------------------------------------------------------------------------------


def vanilla_gd_error(eta: ArrayLike, d: ArrayLike, L: ArrayLike, noise_var: ArrayLike) -> Array:
    """1 + s2 - 2 eta + eta^2 (1 + (d + 1 + s2 d)/L), exact at finite L: E S = I and E S^2 = (1 + (d+1)/L) I for S = X^T X / L."""
    eta, d, L, s2 = (np.asarray(v, dtype=np.float64) for v in (eta, d, L, noise_var))
    return 1.0 + s2 - 2.0 * eta + eta**2 * (1.0 + (d + 1.0 + s2 * d) / L)


def vanilla_gd_best_eta(d: ArrayLike, L: ArrayLike, noise_var: ArrayLike) -> Array:
    """1/(1 + (d + 1 + s2 d)/L): one GD step's own optimum, below eta* of Theorem 1 by the term 1/L."""
    d, L, s2 = (np.asarray(v, dtype=np.float64) for v in (d, L, noise_var))
    return 1.0 / (1.0 + (d + 1.0 + s2 * d) / L)


def debiased_gd_error(eta: ArrayLike, d: ArrayLike, L: ArrayLike, noise_var: ArrayLike) -> Array:
    """1 + s2 - 2 eta (L-1)/L + eta^2 (L-1)(L + d + s2 d)/L^2, exact at finite L.

    The centred scatter is Wishart with n = L - 1 degrees: E S = (n/L) I, E S^2 = n (n + d + 1)/L^2 I, and the noise adds s2 E S / L.
    """
    eta, d, L, s2 = (np.asarray(v, dtype=np.float64) for v in (eta, d, L, noise_var))
    return 1.0 + s2 - 2.0 * eta * (L - 1.0) / L + eta**2 * (L - 1.0) * (L + d + s2 * d) / L**2


def debiased_gd_best_eta(d: ArrayLike, L: ArrayLike, noise_var: ArrayLike) -> Array:
    """Minimiser of `debiased_gd_error`: L/(L + (1 + s2) d), which is eta* of Theorem 1 exactly, at every L >= 2."""
    d, L, s2 = (np.asarray(v, dtype=np.float64) for v in (d, L, noise_var))
    return L / (L + (1.0 + s2) * d)


def length_for_accuracy(rel: float, d: int, noise_var: float) -> float:
    """The L at which `approximation_shortfall` is the share ``rel`` of the true total loss (needs noise_var > 0)."""
    q = (1.0 + noise_var) * d
    return (1.0 / rel - 1.0 - q) / noise_var - q


def gd_error_floor(eta: ArrayLike, noise_var: ArrayLike) -> Array:
    """Limit L -> infinity at fixed eta, of both: s2 + (1 - eta)^2."""
    return np.asarray(noise_var, dtype=np.float64) + (1.0 - np.asarray(eta, dtype=np.float64)) ** 2


def linear_attention_error(
    eta: ArrayLike, d: ArrayLike, L: ArrayLike, noise_var: ArrayLike, train_L: float | None = None
) -> Array:
    """Error of linear attention that makes one GD step with ``eta``, tested at length L (Figure 4.1).

    With ``train_L=None`` the factor 1/L uses the test length. With ``train_L`` given the factor stays 1/train_L, which is a GD step with
    eta L/train_L: a parabola in L with its least error at `frozen_best_length`.
    """
    L = np.asarray(L, dtype=np.float64)
    scale = 1.0 if train_L is None else L / train_L
    return vanilla_gd_error(np.asarray(eta, dtype=np.float64) * scale, d, L, noise_var)


def ridge_error(
    d: int, L: int, noise_var: float, draws: int = 20_000, seed: int = 0, lam: float | None = None
) -> tuple[float, float]:
    """Error of ridge regression and its standard error over ``draws`` designs; the optimal ``lam`` = s2 d by default (Bayes risk).

    Given X the error is exact: s2 + lam^2 tr G^2 / d + s2 (tr G - lam tr G^2), G = (X^T X + lam I)^-1, which is s2 + s2 tr G at the
    optimum. X^T X is drawn as a Wishart matrix by Bartlett's decomposition, so the cost does not grow with L.

    Raises:
        ValueError: lam is not positive.
    """
    coupling(d, L, noise_var)  # checks the ranges
    lam = noise_var * d if lam is None else lam
    if lam <= 0:
        raise ValueError(f"ridge needs lam > 0, got {lam}")
    rng = numpy_rng(seed)
    rank = min(d, L)
    root = np.zeros((draws, d, rank))
    rows, columns = np.tril_indices(d, -1, rank)
    root[:, rows, columns] = rng.standard_normal((draws, rows.size))
    diagonal = np.arange(rank)
    root[:, diagonal, diagonal] = np.sqrt(rng.chisquare(L - diagonal, size=(draws, rank)))
    eigenvalues = np.linalg.eigvalsh(root @ np.swapaxes(root, 1, 2))  # (draws, d)
    inverse = 1.0 / (np.maximum(eigenvalues, 0.0) + lam)
    first, second = inverse.sum(axis=1), (inverse**2).sum(axis=1)
    errors = noise_var + lam**2 * second / d + noise_var * (first - lam * second)
    return float(errors.mean()), float(errors.std(ddof=1) / np.sqrt(draws))


# -- Theorem 1 --------------------------------------------------------------------------------------------------------


def gd_gap(gammas: ArrayLike, eta: float, x: Array, y: Array, x_q: Array) -> Array:
    """|yhat(theta) - yhat_gd(eta)| of Theorem 1.1 with mu = eta/(2 gamma), shape (len(gammas), ...)."""
    target = debiased_gd(eta, x, y, x_q)
    pairs = ((g, eta / (2.0 * g)) for g in np.asarray(gammas, dtype=np.float64))
    return np.stack([np.abs(softmax_predictor([g, -g], [m, -m], x, y, x_q) - target) for g, m in pairs])


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
    prompts = sample_prompts(draws, d, L, noise_var, seed)
    return np.quantile(gd_gap(gammas, eta, prompts.x, prompts.y, prompts.x_q), np.asarray(levels), axis=1)


def loglog_slope(x: ArrayLike, y: ArrayLike) -> Array:
    """Least-squares slopes of log y (..., n) against log x (n,), shape (...)."""
    log_x = np.log(np.asarray(x, dtype=np.float64))
    log_x = log_x - log_x.mean()
    return np.log(np.asarray(y, dtype=np.float64)) @ log_x / (log_x @ log_x)


def stieltjes_mp(z: ArrayLike, xi: ArrayLike) -> Array:
    """lim (1/d) tr (S + z I)^-1 for S = X^T X / L, d/L -> xi (Marchenko-Pastur), z > 0."""
    z, xi = np.asarray(z, dtype=np.float64), np.asarray(xi, dtype=np.float64)
    b = 1.0 - xi + z
    # the root of xi z m^2 + (1 - xi + z) m - 1 = 0, written without cancellation
    return 2.0 / (b + np.sqrt(b**2 + 4.0 * xi * z))


def bayes_risk_limit(xi: ArrayLike, noise_var: ArrayLike) -> Array:
    """Limiting total risk of the optimal ridge as L -> infinity, d/L -> xi: s2 + s2 xi m(s2 xi)."""
    xi, s2 = np.asarray(xi, dtype=np.float64), np.asarray(noise_var, dtype=np.float64)
    return s2 + s2 * xi * stieltjes_mp(s2 * xi, xi)


def gd_risk_limit(xi: ArrayLike, noise_var: ArrayLike) -> Array:
    """Limiting total risk of (debiased) GD with eta*: s2 + (1 + s2) xi / (1 + (1 + s2) xi)."""
    xi, s2 = np.asarray(xi, dtype=np.float64), np.asarray(noise_var, dtype=np.float64)
    cost = (1.0 + s2) * xi
    return s2 + cost / (1.0 + cost)


def theorem_bound(xi: ArrayLike, noise_var: ArrayLike) -> Array:
    """Theorem 1.3 as printed: 1 + s2^-1 {(1 + xi s2)(1 + s2 + 1/xi)}^-1."""
    xi, s2 = np.asarray(xi, dtype=np.float64), np.asarray(noise_var, dtype=np.float64)
    return 1.0 + 1.0 / (s2 * (1.0 + xi * s2) * (1.0 + s2 + 1.0 / xi))


def theorem_grid(xi: ArrayLike, noise_var: ArrayLike) -> dict[str, Array]:
    """Theorem 1.3 over a grid, each array of shape (len(xi), len(noise_var)).

    Keys: ``admitted`` (s2 + 1/xi > 1), ``bound``, ``total`` (ratio of total risks), ``excess`` (ratio of risks less sigma^2).
    """
    xi = np.asarray(xi, dtype=np.float64)[:, None]
    s2 = np.asarray(noise_var, dtype=np.float64)[None, :]
    gd, bayes = gd_risk_limit(xi, s2), bayes_risk_limit(xi, s2)
    return {
        "admitted": s2 + 1.0 / xi > 1.0,
        "bound": theorem_bound(xi, s2),
        "total": gd / bayes,
        "excess": (gd - s2) / (bayes - s2),
    }
