"""Approximate loss of the reduced model (omega, mu) and its solution manifold ("Mechanistic Interpretation" of He et al. 2025).

``omega`` and ``mu`` have shape (..., H) and losses shape (...), in float64. A loss is the mean squared error of y_q in units of
Var(beta^T x) = 1; ``noise_var`` is sigma^2 (s2 in formulas), ``d`` the dimension of x and ``L`` the number of context pairs.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import gammaln

Array = np.ndarray


def heads(omega: ArrayLike, mu: ArrayLike) -> tuple[Array, Array]:
    """Both parameter vectors as float64 arrays of one shape (..., H)."""
    omega, mu = np.broadcast_arrays(np.asarray(omega, dtype=np.float64), np.asarray(mu, dtype=np.float64))
    assert omega.ndim, f"omega and mu need a last axis of heads, not the shape {omega.shape}"
    return omega, mu


def coupling(d: int, L: int, noise_var: float) -> float:
    """(1 + s2) / L, the weight of the exponential term of the approximate loss."""
    assert min(d, L, 1 + noise_var) >= 1, f"no such task: d={d}, L={L}, noise_var={noise_var}"
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


def approx_gradients(omega: ArrayLike, mu: ArrayLike, d: int, L: int, noise_var: float) -> tuple[Array, Array]:
    """Gradients of `approx_loss` in omega and in mu, each of shape (..., H)."""
    omega, mu = heads(omega, mu)
    c = coupling(d, L, noise_var)
    kernel = np.exp(d * omega[..., :, None] * omega[..., None, :])  # (..., H, H)
    rest = 1.0 - np.sum(mu * omega, axis=-1, keepdims=True)
    in_mu = -2.0 * rest * omega + 2.0 * c * np.einsum("...hk,...k->...h", kernel, mu)
    in_omega = -2.0 * rest * mu + 2.0 * c * d * mu * np.einsum("...hk,...k->...h", kernel, mu * omega)
    return in_omega, in_mu


def best_approx_mu(omega: ArrayLike, d: int, L: int, noise_var: float) -> Array:
    """The mu that minimises `approx_loss` at fixed omega, no two of which are equal: a linear system, shape (..., H)."""
    omega = np.asarray(omega, dtype=np.float64)
    outer = omega[..., :, None] * omega[..., None, :]
    matrix = outer + coupling(d, L, noise_var) * np.exp(d * outer)
    return np.linalg.solve(matrix, omega[..., None])[..., 0]


# -- Taylor form (Stages I and II) ------------------------------------------------------------------------------------


#: Highest power of omega in the series: below rounding for what is looked at here.
ORDER = 60
_K = np.arange(ORDER + 1)


def moments(omega: ArrayLike, mu: ArrayLike) -> Array:
    """<mu, omega^k> for k = 0..ORDER, shape (ORDER + 1, ...)."""
    omega, mu = heads(omega, mu)
    return np.stack([np.sum(mu * omega**k, axis=-1) for k in _K])


def taylor_weights(d: int) -> Array:
    """d^k / k! for k = 0..ORDER, shape (ORDER + 1,)."""
    return np.exp(_K * np.log(d) - gammaln(_K + 1))


def taylor_loss(omega: ArrayLike, mu: ArrayLike, d: int, L: int, noise_var: float) -> Array:
    """The Taylor form of the approximate loss (Stage II), shape (...).

    s2 + (1 - <mu, omega>)^2 + (1 + s2)/L <mu, 1>^2 + (1 + s2)/L sum_{k>=1} d^k/k! <mu, omega^k>^2. Cut at k = 1 it is the loss whose
    gradient makes the Stage I updates.
    """
    series = moments(omega, mu)
    high = np.tensordot(taylor_weights(d), series**2, axes=(0, 0))
    return noise_var + (1.0 - series[1]) ** 2 + coupling(d, L, noise_var) * high


def odd_even_split(omega: ArrayLike, mu: ArrayLike, d: int) -> tuple[Array, Array]:
    """The odd and even parts (k >= 1) of sum_k d^k/k! <mu, omega^k>^2 (Stage II), each of shape (...)."""
    terms = taylor_weights(d).reshape(-1, *[1] * (np.ndim(omega) - 1)) * moments(omega, mu) ** 2
    return terms[1::2].sum(axis=0), terms[2::2].sum(axis=0)


def holder_bound(omega: ArrayLike, mu: ArrayLike, d: int) -> Array:
    """The lower bound of Stage II on the odd part where signs match, sum over odd k of d^k/k! |mu|_1^(2(1-k)) <|mu|, |omega|>^(2k), which is
    |mu|_1^2 sinh(d <|mu|, |omega|>^2 / |mu|_1^2), shape (...)."""
    omega, mu = heads(omega, mu)
    norm = np.abs(mu).sum(axis=-1)
    overlap = np.sum(np.abs(mu * omega), axis=-1)
    return norm**2 * np.sinh(d * (overlap / norm) ** 2)


def stage_one_terms(omega: ArrayLike, mu: ArrayLike, d: int, L: int, noise_var: float) -> dict[str, Array]:
    """The terms of the Stage I updates as printed, each of shape (..., H).

    An update is mu + 2 eta mu_sign - 2 eta (1 + s2)/L (mu_zero_sum + mu_high), and omega + 2 eta omega_sign - 2 eta (1 + s2)/L omega_high.
    """
    omega, mu = heads(omega, mu)
    series, weights = moments(omega, mu)[..., None], taylor_weights(d)  # (ORDER + 1, ..., 1), (ORDER + 1,)
    signal = 1.0 - (1.0 + coupling(d, L, noise_var) * d) * series[1]
    return {
        "mu_sign": signal * omega,
        "mu_zero_sum": series[0] * np.ones_like(mu),
        "mu_high": sum(weights[k] * series[k] * omega**k for k in _K[2:]),
        "omega_sign": signal * mu,
        # d^k/(k-1)! = k d^k/k!
        "omega_high": sum(k * weights[k] * series[k] * mu * omega ** (k - 1) for k in _K[2:]),
    }


# -- the solution manifold --------------------------------------------------------------------------------------------


def sinh_ratio(gamma: ArrayLike, d: int) -> Array:
    """sinh(d gamma^2) / gamma^2, continued to its limit d at gamma = 0."""
    x = d * np.asarray(gamma, dtype=np.float64) ** 2
    safe = np.where(x > 0.0, x, 1.0)
    return d * np.where(x > 0.0, np.sinh(safe) / safe, 1.0)


def manifold_mu(gamma: ArrayLike, d: int, L: int, noise_var: float) -> Array:
    """mu_gamma = gamma/2 / (gamma^2 + (1 + s2)/L sinh(d gamma^2)) ("Solution Manifold"), the sum of mu over the positive heads."""
    gamma = np.asarray(gamma, dtype=np.float64)
    return 0.5 / (gamma * (1.0 + coupling(d, L, noise_var) * sinh_ratio(gamma, d)))


def manifold_gamma(mu: float, d: int, L: int, noise_var: float) -> float:
    """The gamma > 0 at which ``mu`` = mu_gamma (mu_gamma falls strictly from infinity to 0)."""
    return brentq(lambda gamma: manifold_mu(gamma, d, L, noise_var) - mu, 1e-8, 20.0 / np.sqrt(d), xtol=1e-14)


def manifold_loss(gamma: ArrayLike, d: int, L: int, noise_var: float) -> Array:
    """Approximate loss on S_gamma: 1 + s2 - 1/(1 + (1 + s2)/L sinh(d gamma^2)/gamma^2), increasing in gamma."""
    return 1.0 + noise_var - 1.0 / (1.0 + coupling(d, L, noise_var) * sinh_ratio(gamma, d))


def eta_star(d: int, L: int, noise_var: float) -> float:
    """Theorem 1.2: eta* = 1/(1 + (1 + s2) d / L), which minimises :func:`iclbook.theory.debiased_gd_error` exactly, at every L >= 2."""
    return 1.0 / (1.0 + coupling(d, L, noise_var) * d)


def manifold_flow_gamma(time: ArrayLike, gamma0: float, d: int, L: int, noise_var: float) -> Array:
    """gamma(t) of gradient flow of the approximate loss along the manifold, for small gamma and t = learning rate * steps.

    The loss rises as k gamma^4, k = (1 + s2) d^3 eta*^2 / (6 L), and moving gamma moves mu_gamma = eta*/(2 gamma) much further, so the
    flow along the manifold obeys gamma' = -8 k gamma^7 / eta*^2 and gamma^-6 = gamma0^-6 + 8 (1 + s2) d^3 t / L: a power law
    t^(-1/6) without an end.
    """
    rate = 8.0 * coupling(d, L, noise_var) * d**3
    return (gamma0**-6.0 + rate * np.asarray(time, dtype=np.float64)) ** (-1.0 / 6.0)


class Optimum(NamedTuple):
    """A minimiser: |omega|, mu (of the positive head) and the loss there."""

    omega: float
    mu: float
    loss: float


def single_head_approx(d: int, L: int, noise_var: float) -> Optimum:
    """One head, approximate loss, in closed form: omega = 1/sqrt(d) exactly and mu = sqrt(d)/(1 + e d (1 + s2)/L).

    At fixed omega the best mu leaves 1 + s2 - 1/(1 + (1 + s2)/L exp(d omega^2)/omega^2); exp(d omega^2)/omega^2 is least at
    omega^2 = 1/d whatever L and sigma^2 ("Single-Head Attention vs. Multi-Head Attention").
    """
    cost = coupling(d, L, noise_var) * np.e * d
    return Optimum(1.0 / np.sqrt(d), np.sqrt(d) / (1.0 + cost), 1.0 + noise_var - 1.0 / (1.0 + cost))
