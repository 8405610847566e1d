"""He et al. 2025, "Mechanistic Interpretation": the approximate loss of the reduced (omega, mu) model and its gradients.

Everything here is float64 numpy and accepts leading run axes: ``omega`` and ``mu`` have shape (..., H) and losses have shape (...).
Losses are mean squared errors of y_q in units of Var(beta^T x) = 1; ``noise_var`` is sigma^2, ``d`` the dimension of x and ``L`` the
number of context pairs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

Array = np.ndarray


def heads(omega: ArrayLike, mu: ArrayLike) -> tuple[Array, Array]:
    """Both parameter vectors as float64 arrays of one shape (..., H).

    Raises:
        ValueError: the shapes cannot be broadcast, or there is no head.
    """
    omega, mu = np.broadcast_arrays(np.asarray(omega, dtype=np.float64), np.asarray(mu, dtype=np.float64))
    if omega.ndim == 0 or omega.shape[-1] == 0:
        raise ValueError(f"omega and mu need a last axis of at least one head, got shape {omega.shape}")
    return omega, mu


def coupling(d: int, L: int, noise_var: float) -> float:
    """(1 + sigma^2) / L, the weight of the exponential term.

    Raises:
        ValueError: d < 1, L < 1 or a negative noise variance.
    """
    if d < 1 or L < 1 or noise_var < 0:
        raise ValueError(f"need d >= 1, L >= 1 and noise_var >= 0, got d={d}, L={L}, noise_var={noise_var}")
    return (1.0 + noise_var) / L


def approx_loss(omega: ArrayLike, mu: ArrayLike, d: int, L: int, noise_var: float) -> Array:
    """Approximate loss ("Simplification and Approximate Loss"), shape (...).

    1 + s2 - 2 mu.omega + mu^T (omega omega^T + (1 + s2)/L exp(d omega omega^T)) mu, with an elementwise exp.
    """
    omega, mu = heads(omega, mu)
    kernel = np.exp(d * omega[..., :, None] * omega[..., None, :])  # (..., H, H)
    overlap = np.sum(mu * omega, axis=-1)
    quadratic = np.einsum("...h,...hk,...k->...", mu, kernel, mu)
    return 1.0 + noise_var - 2.0 * overlap + overlap**2 + coupling(d, L, noise_var) * quadratic


def approx_gradients(
    omega: ArrayLike, mu: ArrayLike, d: int, L: int, noise_var: float
) -> tuple[Array, Array]:
    """Gradients of `approx_loss` in omega and in mu, each of shape (..., H)."""
    omega, mu = heads(omega, mu)
    c = coupling(d, L, noise_var)
    kernel = np.exp(d * omega[..., :, None] * omega[..., None, :])  # (..., H, H)
    rest = 1.0 - np.sum(mu * omega, axis=-1, keepdims=True)
    in_mu = -2.0 * rest * omega + 2.0 * c * np.einsum("...hk,...k->...h", kernel, mu)
    in_omega = -2.0 * rest * mu + 2.0 * c * d * mu * np.einsum("...hk,...k->...h", kernel, mu * omega)
    return in_omega, in_mu


def best_approx_mu(omega: ArrayLike, d: int, L: int, noise_var: float) -> Array:
    """The mu that minimises `approx_loss` at fixed omega (a linear system), shape (..., H).

    Raises:
        numpy.linalg.LinAlgError: two heads share the same omega, so that only the sum of their mu is determined.
    """
    omega = np.asarray(omega, dtype=np.float64)
    outer = omega[..., :, None] * omega[..., None, :]
    matrix = outer + coupling(d, L, noise_var) * np.exp(d * outer)
    return np.linalg.solve(matrix, omega[..., None])[..., 0]


def moments(omega: ArrayLike, mu: ArrayLike, order: int) -> Array:
    """<mu, omega^k> for k = 0..order, shape (order + 1, ...)."""
    omega, mu = heads(omega, mu)
    return np.stack([np.sum(mu * omega**k, axis=-1) for k in range(order + 1)])


def taylor_weights(d: int, order: int) -> Array:
    """d^k / k! for k = 0..order, shape (order + 1,)."""
    k = np.arange(order + 1)
    return np.exp(k * np.log(d) - gammaln(k + 1))


def taylor_loss(omega: ArrayLike, mu: ArrayLike, d: int, L: int, noise_var: float, order: int = 60) -> Array:
    """The Taylor form of the approximate loss (Stage II), with terms up to d^order / order!, shape (...).

    s2 + (1 - <mu, omega>)^2 + (1 + s2)/L <mu, 1>^2 + (1 + s2)/L sum_{k=1}^order d^k/k! <mu, omega^k>^2. With ``order=1`` it is the
    truncated loss whose gradient makes the Stage I updates.
    """
    series = moments(omega, mu, max(order, 1))
    weights = taylor_weights(d, max(order, 1))[: order + 1]
    high = np.tensordot(weights, series[: order + 1] ** 2, axes=(0, 0))
    return noise_var + (1.0 - series[1]) ** 2 + coupling(d, L, noise_var) * high


def odd_even_split(omega: ArrayLike, mu: ArrayLike, d: int, order: int = 60) -> tuple[Array, Array]:
    """The odd and even parts (k >= 1) of sum_k d^k/k! <mu, omega^k>^2 (Stage II), each of shape (...)."""
    terms = taylor_weights(d, order).reshape(-1, *[1] * (np.ndim(omega) - 1)) * moments(omega, mu, order) ** 2
    return terms[1::2].sum(axis=0), terms[2::2].sum(axis=0)


def holder_bound(omega: ArrayLike, mu: ArrayLike, d: int, order: int = 60) -> Array:
    """The lower bound of Stage II: sum over odd k of d^k/k! |mu|_1^(2(1-k)) <|mu|, |omega|>^(2k), shape (...).

    It bounds the odd part of the Taylor series when the signs of omega and mu match. Over all odd k the sum is
    |mu|_1^2 sinh(d <|mu|, |omega|>^2 / |mu|_1^2); ``order`` only cuts the series to compare with the paper's.
    """
    omega, mu = heads(omega, mu)
    norm = np.abs(mu).sum(axis=-1)
    overlap = np.sum(np.abs(mu * omega), axis=-1)
    k = np.arange(1, order + 1, 2).reshape(-1, *[1] * norm.ndim)
    weights = taylor_weights(d, order)[1::2].reshape(k.shape)
    return np.sum(weights * norm**2 * (overlap / norm) ** (2 * k), axis=0)


def stage_one_terms(
    omega: ArrayLike, mu: ArrayLike, d: int, L: int, noise_var: float, order: int = 60
) -> dict[str, Array]:
    """The terms of the Stage I updates as printed, without their factor 2 eta; each of shape (..., H).

    Keys: ``mu_sign`` and ``omega_sign`` (sign-matching terms), ``mu_zero_sum`` and ``mu_high``, ``omega_high`` (which the updates subtract
    with the factor (1 + s2)/L). An update is mu + 2 eta mu_sign - 2 eta (1 + s2)/L (mu_zero_sum + mu_high), and likewise omega.
    """
    omega, mu = heads(omega, mu)
    c = coupling(d, L, noise_var)
    series = moments(omega, mu, order)
    weights = taylor_weights(d, order)
    signal = (1.0 - (1.0 + c * d) * series[1])[..., None]
    mu_high = np.zeros_like(mu)
    omega_high = np.zeros_like(omega)
    for k in range(2, order + 1):
        mu_high += weights[k] * series[k][..., None] * omega**k
        omega_high += k * weights[k] * series[k][..., None] * mu * omega ** (k - 1)  # d^k/(k-1)! = k d^k/k!
    return {
        "mu_sign": signal * omega,
        "mu_zero_sum": series[0][..., None] * np.ones_like(mu),
        "mu_high": mu_high,
        "omega_sign": signal * mu,
        "omega_high": omega_high,
    }
