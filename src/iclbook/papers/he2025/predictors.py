"""Predictors of y_q from a prompt, their exact errors, and the statements of Theorem 1 (He et al. 2025, "Statistical Properties").

Prompts: x (..., L, d), y (..., L), x_q (..., d), predictions (...), float64. Errors are total, E[(y_q - yhat)^2] with noise on y_q: their
floor is sigma^2 (s2 in formulas) and predicting 0 costs 1 + s2; x ~ N(0, I_d), beta ~ N(0, I_d/d). They broadcast over their arguments.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from ...draw import numpy_rng
from ...statistics import standard_error
from .loss import Array


class Prompts(NamedTuple):
    """n prompts: x (n, L, d), y (n, L), x_q (n, d), the noisy target y_q (n,)."""

    x: Array
    y: Array
    x_q: Array
    y_q: Array


def sample_prompts(n: int, d: int, L: int, noise_var: float, seed: int) -> Prompts:
    """n independent prompts of the paper's task: x ~ N(0, I), beta ~ N(0, I/d), noise of variance ``noise_var``."""
    rng = numpy_rng(seed)
    x = rng.standard_normal((n, L + 1, d))
    beta = rng.standard_normal((n, d)) / np.sqrt(d)
    y = np.einsum("nld,nd->nl", x, beta) + np.sqrt(noise_var) * rng.standard_normal((n, L + 1))
    return Prompts(x[:, :L], y[:, :L], x[:, L], y[:, L])


def scores(x: Array, x_q: Array) -> Array:
    """x_l^T x_q, shape (..., L)."""
    return np.einsum("...ld,...d->...l", x, x_q)


def softmax_predictor(omega: Sequence[float], mu: Sequence[float], x: Array, y: Array, x_q: Array) -> Array:
    """sum_h mu_h <y, smax(omega_h X x_q)> (the reduced model); omega, mu (H,)."""
    z = scores(x, x_q)
    return sum(m * np.sum(softmax(o * z, -1) * y, axis=-1) for o, m in zip(omega, mu, strict=True))


def vanilla_gd(eta: float, x: Array, y: Array, x_q: Array) -> Array:
    """(eta/L) sum_l y_l x_l^T x_q: one gradient step from zero."""
    return eta * np.mean(scores(x, x_q) * y, axis=-1)


def debiased_gd(eta: float, x: Array, y: Array, x_q: Array) -> Array:
    """(eta/L) sum_l y_l (x_l - mean x)^T x_q; Key Finding 3 prints the term, without the sum over l."""
    return np.sum(eta / x.shape[-2] * scores(x - x.mean(axis=-2, keepdims=True), x_q) * y, axis=-1)


# -- exact errors -----------------------------------------------------------------------------------------------------


def vanilla_gd_error(eta: ArrayLike, d: float | Array, L: float | Array, noise_var: float | Array) -> Array:
    """1 + s2 - 2 eta + eta^2 (1 + (d + 1 + s2 d)/L), exact at finite L: E S = I and E S^2 = (1 + (d+1)/L) I for S = X^T X / L."""
    eta = np.asarray(eta, dtype=np.float64)
    return 1.0 + noise_var - 2.0 * eta + eta**2 * (1.0 + (d + 1.0 + noise_var * d) / L)


def vanilla_gd_best_eta(d: float | Array, L: float | Array, noise_var: float | Array) -> Array:
    """1/(1 + (d + 1 + s2 d)/L): one GD step's own optimum, below eta* of Theorem 1 by the term 1/L."""
    return 1.0 / (1.0 + (d + 1.0 + noise_var * d) / L)


def debiased_gd_error(eta: ArrayLike, d: float | Array, L: float | Array, noise_var: float | Array) -> Array:
    """1 + s2 - 2 eta (L-1)/L + eta^2 (L-1)(L + d + s2 d)/L^2, exact at finite L.

    The centred scatter is Wishart with n = L - 1 degrees: E S = (n/L) I, E S^2 = n (n + d + 1)/L^2 I, and the noise adds s2 E S / L.
    """
    eta = np.asarray(eta, dtype=np.float64)
    return 1.0 + noise_var - 2.0 * eta * (L - 1.0) / L + eta**2 * (L - 1.0) * (L + d + noise_var * d) / L**2


def length_for_accuracy(rel: float, d: int, noise_var: float) -> float:
    """The L at which the error of the approximate loss in the limit gamma -> 0, 1/(L + (1 + s2) d), is the share ``rel`` of the true loss; needs noise."""
    q = (1.0 + noise_var) * d
    return (1.0 / rel - 1.0 - q) / noise_var - q


def ridge_error(d: int, L: int, noise_var: float, draws: int = 20_000) -> tuple[float, float]:
    """Error of ridge regression at its best lambda = s2 d (the Bayes risk), and its standard error over ``draws`` designs.

    Given X the error is exact: s2 + s2 tr G, G = (X^T X + s2 d I)^-1. X^T X is drawn as a Wishart matrix by Bartlett's decomposition, so the cost does
    not grow with L.
    """
    rng = numpy_rng(0)
    rank = min(d, L)
    root = np.zeros((draws, d, rank))
    rows, columns = np.tril_indices(d, -1, rank)
    root[:, rows, columns] = rng.standard_normal((draws, rows.size))
    diagonal = np.arange(rank)
    root[:, diagonal, diagonal] = np.sqrt(rng.chisquare(L - diagonal, size=(draws, rank)))
    eigenvalues = np.linalg.eigvalsh(root @ np.swapaxes(root, 1, 2))  # (draws, d)
    errors = noise_var + noise_var * np.sum(1.0 / (np.maximum(eigenvalues, 0.0) + noise_var * d), axis=1)
    return float(errors.mean()), float(standard_error(errors))


# -- Theorem 1 --------------------------------------------------------------------------------------------------------


def theorem_gap_bound(gamma: ArrayLike, d: int, noise_var: float) -> Array:
    """sqrt(1 + s2) gamma d, Theorem 1.1's bound without the factors that its O~ omits."""
    return np.sqrt(1.0 + noise_var) * np.asarray(gamma, dtype=np.float64) * d


def loglog_slope(x: ArrayLike, y: ArrayLike) -> float:
    """Least-squares slope of log y against log x, both (n,)."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def stieltjes_mp(z: float | Array, xi: float | Array) -> Array:
    """lim (1/d) tr (S + z I)^-1 for S = X^T X / L, d/L -> xi (Marchenko-Pastur), z > 0."""
    b = 1.0 - xi + z
    # the root of xi z m^2 + (1 - xi + z) m - 1 = 0, written without cancellation
    return 2.0 / (b + np.sqrt(b**2 + 4.0 * xi * z))


def bayes_risk_limit(xi: float | Array, noise_var: float | Array) -> Array:
    """Limiting total risk of the optimal ridge as L -> infinity, d/L -> xi: s2 + s2 xi m(s2 xi)."""
    return noise_var + noise_var * xi * stieltjes_mp(noise_var * xi, xi)


def gd_risk_limit(xi: float | Array, noise_var: float | Array) -> Array:
    """Limiting total risk of (debiased) GD with eta*: s2 + (1 + s2) xi / (1 + (1 + s2) xi)."""
    cost = (1.0 + noise_var) * xi
    return noise_var + cost / (1.0 + cost)


def theorem_bound(xi: float | Array, noise_var: float | Array) -> Array:
    """Theorem 1.3 as printed: 1 + s2^-1 {(1 + xi s2)(1 + s2 + 1/xi)}^-1."""
    return 1.0 + 1.0 / (noise_var * (1.0 + xi * noise_var) * (1.0 + noise_var + 1.0 / xi))
