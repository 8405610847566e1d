"""He et al. 2025, "Non-Isotropic Covariates": optimal preconditioner of one (debiased) GD step for x ~ N(0, Sigma), at finite L.

The predictor is yhat = (1/L) sum_l y_l x_l^T Omega x_q, the linear transformer with its 1/L and the top block Omega of KQ; centred, it is
the limit of two softmax heads. beta ~ N(0, B) with B = I/d unless ``prior`` says otherwise; noise variance sigma^2 on every y.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .loss import Array, coupling


def _setting(
    cov: ArrayLike, prior: ArrayLike | None, L: int, noise_var: float, centred: bool
) -> tuple[Array, Array, int]:
    """Sigma, B and the Wishart degrees of freedom: L, or L - 1 when the covariates are centred in the context."""
    cov = np.asarray(cov, dtype=np.float64)
    coupling(cov.shape[0], L, noise_var)  # checks the ranges
    prior = np.eye(cov.shape[0]) / cov.shape[0] if prior is None else np.asarray(prior, dtype=np.float64)
    return cov, prior, L - 1 if centred else L


def preconditioned_error(
    omega: ArrayLike,
    cov: ArrayLike,
    L: int,
    noise_var: float,
    prior: ArrayLike | None = None,
    centred: bool = False,
) -> float:
    """Exact total error E[(y_q - yhat)^2] for the preconditioner ``omega`` (d, d), not necessarily symmetric.

    With b = (1/L) sum y_l x_l: E[b beta^T] = (n/L) Sigma B and E[b b^T] = n/L^2 ((n + 1) Sigma B Sigma + (tr(B Sigma) + s2) Sigma).
    """
    cov, prior, n = _setting(cov, prior, L, noise_var, centred)
    omega = np.asarray(omega, dtype=np.float64)
    signal = np.trace(prior @ cov)
    cross = n / L * cov @ prior
    second = n / L**2 * ((n + 1) * cov @ prior @ cov + (signal + noise_var) * cov)
    return float(
        noise_var + signal - 2.0 * np.trace(cross.T @ omega @ cov) + np.trace(omega.T @ second @ omega @ cov)
    )


def best_preconditioner(
    cov: ArrayLike, L: int, noise_var: float, prior: ArrayLike | None = None, centred: bool = False
) -> Array:
    """The Omega (d, d) that minimises `preconditioned_error`: L [(n + 1) B Sigma + (tr(B Sigma) + s2) I]^-1 B, n = L or L - 1.

    For B = I/d: [(1 + 1/L) Sigma + (tr Sigma + d s2)/L I]^-1, and centred [Sigma + (tr Sigma + d s2)/L I]^-1. It is proportional to Sigma^-1
    at finite L only if B is, and tends to Sigma^-1 as L grows.
    """
    cov, prior, n = _setting(cov, prior, L, noise_var, centred)
    shift = np.trace(prior @ cov) + noise_var
    return L * np.linalg.solve((n + 1) * prior @ cov + shift * np.eye(cov.shape[0]), prior)


def best_scaled_error(
    omega: ArrayLike,
    cov: ArrayLike,
    L: int,
    noise_var: float,
    prior: ArrayLike | None = None,
    centred: bool = False,
) -> float:
    """Least error over multiples c ``omega``: what a direction such as Sigma^-1 or I can reach."""
    base = preconditioned_error(0.0 * np.asarray(omega), cov, L, noise_var, prior, centred)
    plus, minus = (
        preconditioned_error(s * np.asarray(omega), cov, L, noise_var, prior, centred) for s in (1.0, -1.0)
    )
    slope, curvature = (plus - minus) / 2.0, (plus + minus) / 2.0 - base
    return base - slope**2 / (4.0 * curvature)


def shape_distance(a: ArrayLike, b: ArrayLike) -> float:
    """min over c of |a - c b|_F / |a|_F: 0 for proportional matrices, whatever their scale, 1 for orthogonal ones."""
    a, b = np.asarray(a, dtype=np.float64).ravel(), np.asarray(b, dtype=np.float64).ravel()
    cosine = (a @ b) / np.sqrt((a @ a) * (b @ b))
    return float(np.sqrt(max(0.0, 1.0 - cosine**2)))


def toeplitz_covariance(d: int, rho: float) -> Array:
    """Sigma_ij = rho^|i - j| (d, d), a stand-in where the paper does not print its Sigma."""
    index = np.arange(d)
    return rho ** np.abs(index[:, None] - index[None, :]).astype(np.float64)
