"""The best that one layer of linear attention can do on the task of nagy2026, sections 9.1 and 9.2: closed forms.

``yhat = (1/L) sum_l y_l x_l^T G x_q`` with ``x ~ N(0, diag(lambda))``, ``y = w . x``, ``w ~ N(0, I)``, no noise. One step of preconditioned
gradient descent; the best G is diagonal (Ahn et al. 2023).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def best_gain(eigenvalues: Sequence[float], length: int) -> np.ndarray:
    """Diagonal ``(d,)`` of the G of least expected squared error: ``1 / ((1 + 1/L) lambda_i + tr / L)``."""
    lam = np.asarray(eigenvalues, dtype=float)
    return 1 / ((1 + 1 / length) * lam + lam.sum() / length)


def expected_error(eigenvalues: Sequence[float], length: int, gain: Sequence[float]) -> float:
    """Expected squared error of a diagonal G.

    ``E = sum_i lambda_i (1 - 2 G_i lambda_i) + G_i^2 lambda_i ((1 + 1/L) lambda_i^2 + lambda_i tr / L)``, by Wick's theorem.
    """
    lam, g = np.asarray(eigenvalues, dtype=float), np.asarray(gain, dtype=float)
    second = (1 + 1 / length) * lam**2 + lam * lam.sum() / length
    return float((lam * (1 - 2 * g * lam) + g**2 * lam * second).sum())


def alignment(importance: np.ndarray, eigenvalues: Sequence[float]) -> np.ndarray:
    """Pearson correlation of ``importance`` ``(..., d)`` with the inverse spectrum ("spectral alignment", section 9.2)."""
    target = 1 / np.asarray(eigenvalues, dtype=float)
    target = target - target.mean()
    centred = importance - importance.mean(-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return (centred * target).sum(-1) / np.sqrt((centred**2).sum(-1) * (target**2).sum())


def rho_by_slope(curve: np.ndarray) -> np.ndarray:
    """ "Geometric contraction rate" of an error curve ``(..., L)`` over 1 to L examples: exp of the least-squares slope of its logarithm.

    The paper does not say what rho_2 contracts. This reading was chosen because, with the errors that it prints, it gives the rho_2 that it
    prints; so that it does is no evidence.
    """
    steps = np.arange(curve.shape[-1]) - (curve.shape[-1] - 1) / 2
    return np.exp((np.log(curve) * steps).sum(-1) / (steps**2).sum())


def rho_by_ends(curve: np.ndarray, start: float) -> np.ndarray:
    """Mean factor per example from no example (error ``start``, the variance of the target) to all: ``(e_L / start)^(1/L)``."""
    return (curve[..., -1] / start) ** (1 / curve.shape[-1])
