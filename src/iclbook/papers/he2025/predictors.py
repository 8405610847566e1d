"""Predictors of y_q from a prompt, their exact errors, and the statements of Theorem 1 (He et al. 2025, "Statistical Properties").

Shapes and errors are those of :mod:`iclbook.theory`, which has gradient descent.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from ...theory import scores
from .loss import Array


def softmax_predictor(omega: Sequence[float], mu: Sequence[float], x: Array, y: Array, x_q: Array) -> Array:
    """sum_h mu_h <y, smax(omega_h X x_q)> (the reduced model); omega, mu (H,)."""
    z = scores(x, x_q)
    return sum(m * np.sum(softmax(o * z, -1) * y, axis=-1) for o, m in zip(omega, mu, strict=True))


def length_for_accuracy(rel: float, d: int, noise_var: float) -> float:
    """The L at which the error of the approximate loss in the limit gamma -> 0, 1/(L + (1 + s2) d), is the share ``rel`` of the true loss; needs noise."""
    q = (1.0 + noise_var) * d
    return (1.0 / rel - 1.0 - q) / noise_var - q


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
