"""He et al. 2025: predictors of y_q as functions of a prompt, and seeded prompts to try them on.

Shapes: x (..., L, d), y (..., L), x_q (..., d); predictions (...). Float64 numpy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .loss import Array, coupling


@dataclass(frozen=True)
class Prompts:
    """n prompts: x (n, L, d), y (n, L), x_q (n, d), the noisy target y_q (n,) and its mean signal (n,) = beta^T x_q."""

    x: Array
    y: Array
    x_q: Array
    y_q: Array
    signal: Array


def draw_prompts(
    n: int, d: int, L: int, noise_var: float, seed: int, cov: ArrayLike | None = None
) -> Prompts:
    """n independent prompts of the paper's task: x ~ N(0, cov or I), beta ~ N(0, I/d), noise of variance ``noise_var``."""
    coupling(d, L, noise_var)  # checks the ranges
    rng = np.random.default_rng(seed)
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


def kernel_pair_predictor(f, omega: float, mu: float, x: Array, y: Array, x_q: Array) -> Array:
    """The head pair with a normalised activation f (``f`` maps arrays to arrays), "Ablation Study: Activation Functions"."""
    z = omega * scores(x, x_q)
    up, down = f(z), f(-z)
    return mu * (np.sum(up * y, -1) / np.sum(up, -1) - np.sum(down * y, -1) / np.sum(down, -1))


def vanilla_gd(eta: float, x: Array, y: Array, x_q: Array) -> Array:
    """(eta/L) sum_l y_l x_l^T x_q: one gradient step from zero."""
    return eta * np.mean(scores(x, x_q) * y, axis=-1)


def debiased_gd_terms(eta: float, x: Array, y: Array, x_q: Array) -> Array:
    """(eta/L) xbar_l^T x_q y_l for each l, shape (..., L): Key Finding 3 prints this term, without the sum over l."""
    return eta / x.shape[-2] * scores(x - x.mean(axis=-2, keepdims=True), x_q) * y


def debiased_gd(eta: float, x: Array, y: Array, x_q: Array) -> Array:
    """(eta/L) sum_l y_l (x_l - mean x)^T x_q."""
    return debiased_gd_terms(eta, x, y, x_q).sum(axis=-1)


def ridge(lam: float, x: Array, y: Array, x_q: Array) -> Array:
    """x_q^T (X^T X + lam I)^-1 X^T y; the Bayes estimator for lam = sigma^2 d (prior beta ~ N(0, I/d))."""
    gram = np.swapaxes(x, -1, -2) @ x + lam * np.eye(x.shape[-1])
    return np.einsum(
        "...d,...d->...", x_q, np.linalg.solve(gram, np.swapaxes(x, -1, -2) @ y[..., None])[..., 0]
    )


def squared_error(prediction: Array, prompts: Prompts) -> tuple[float, float]:
    """Mean of (prediction - y_q)^2 and its standard error."""
    error = (prediction - prompts.y_q) ** 2
    return float(error.mean()), float(error.std(ddof=1) / np.sqrt(error.size))
