"""He et al. 2025: the solution manifold S_gamma, the parameter space of Theorem 1 and Theorem 1.2 (optimality).

Float64 numpy, vectorised over gamma. ``gamma`` is |omega| of the non-dummy heads; losses in units of Var(beta^T x) = 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from .loss import Array, approx_loss, coupling, heads


def sinh_ratio(gamma: ArrayLike, d: int) -> Array:
    """sinh(d gamma^2) / gamma^2, continued to its limit d at gamma = 0."""
    x = d * np.asarray(gamma, dtype=np.float64) ** 2
    series = 1.0 + x**2 / 6.0 * (1.0 + x**2 / 20.0)  # to rounding below 1e-2
    safe = np.where(x > 1e-2, x, 1.0)
    return d * np.where(x > 1e-2, np.sinh(safe) / safe, series)


def manifold_mu(gamma: ArrayLike, d: int, L: int, noise_var: float) -> Array:
    """mu_gamma = gamma/2 / (gamma^2 + (1 + s2)/L sinh(d gamma^2)) ("Solution Manifold"), the sum of mu over the positive heads."""
    gamma = np.asarray(gamma, dtype=np.float64)
    return 0.5 / (gamma * (1.0 + coupling(d, L, noise_var) * sinh_ratio(gamma, d)))


def manifold_gamma(mu: float, d: int, L: int, noise_var: float) -> float:
    """The gamma > 0 at which ``mu`` = mu_gamma (mu_gamma falls strictly from infinity to 0)."""

    def excess(log_gamma: float) -> float:
        return float(np.log(manifold_mu(np.exp(log_gamma), d, L, noise_var)) - np.log(mu))

    return float(np.exp(brentq(excess, np.log(1e-8), np.log(20.0 / np.sqrt(d)), xtol=1e-14)))


def manifold_loss(gamma: ArrayLike, d: int, L: int, noise_var: float) -> Array:
    """Approximate loss on S_gamma: 1 + s2 - 1/(1 + (1 + s2)/L sinh(d gamma^2)/gamma^2), increasing in gamma."""
    return 1.0 + noise_var - 1.0 / (1.0 + coupling(d, L, noise_var) * sinh_ratio(gamma, d))


def manifold_loss_slope(gamma: ArrayLike, d: int, L: int, noise_var: float) -> Array:
    """d/dgamma of `manifold_loss`: positive for every gamma > 0, so that the infimum over S_gamma is not attained."""
    gamma = np.asarray(gamma, dtype=np.float64)
    c = coupling(d, L, noise_var)
    x = d * gamma**2
    small = x**2 / 3.0 * (1.0 + x**2 / 10.0)  # series of cosh x - sinh(x)/x
    safe = np.where(x > 1e-2, x, 1.0)
    rise = np.where(x > 1e-2, np.cosh(safe) - np.sinh(safe) / safe, small)
    return 2.0 * c * d * rise / (gamma * (1.0 + c * sinh_ratio(gamma, d)) ** 2)


def manifold_excess(gamma: ArrayLike, d: int, L: int, noise_var: float) -> Array:
    """Leading order of `manifold_loss` above its limit at 0: (1 + s2) d^3 eta*^2 gamma^4 / (6 L)."""
    eta = eta_star(d, L, noise_var)
    return coupling(d, L, noise_var) * d**3 * eta**2 * np.asarray(gamma, dtype=np.float64) ** 4 / 6.0


def two_sided_loss(
    gamma: ArrayLike, mu_plus: ArrayLike, mu_minus: ArrayLike, d: int, L: int, noise_var: float
) -> Array:
    """Approximate loss on Theorem 1's parameter space, where only gamma and the sums mu_+ and mu_- matter, broadcast shape."""
    gamma, plus, minus = np.broadcast_arrays(
        *(np.asarray(v, dtype=np.float64) for v in (gamma, mu_plus, mu_minus))
    )
    return approx_loss(np.stack([gamma, -gamma], -1), np.stack([plus, minus], -1), d, L, noise_var)


def eta_star(d: int, L: int, noise_var: float) -> float:
    """Theorem 1.2: eta* = 1/(1 + (1 + s2) d / L)."""
    return 1.0 / (1.0 + coupling(d, L, noise_var) * d)


def effective_rate(omega: ArrayLike, mu: ArrayLike) -> Array:
    """<mu, omega>, the step of the debiased GD that the heads make for small omega (2 gamma mu_gamma on the manifold), shape (...)."""
    omega, mu = heads(omega, mu)
    return np.sum(omega * mu, axis=-1)


def effective_pair(omega: ArrayLike, mu: ArrayLike) -> tuple[Array, Array, Array]:
    """(gamma, mu_+, mu_-): the two-head form ("Equivalent to Two-Head Form"); gamma = sum |mu omega| / sum |mu|, each of shape (...)."""
    omega, mu = heads(omega, mu)
    gamma = np.sum(np.abs(mu * omega), axis=-1) / np.sum(np.abs(mu), axis=-1)
    return gamma, np.sum(np.where(omega > 0, mu, 0.0), axis=-1), np.sum(np.where(omega < 0, mu, 0.0), axis=-1)


def in_theorem_space(omega: ArrayLike, rel: float = 1e-9, more_than: int = 1) -> Array:
    """Whether omega lies in Theorem 1's space: one |omega| for all heads and min(|H+|, |H-|) > ``more_than``, shape (...).

    As printed ``more_than`` is 1, which needs two positive and two negative heads and leaves out every model with H < 4.
    ``more_than=0`` is the reading under which the two-head model is covered.
    """
    omega = np.asarray(omega, dtype=np.float64)
    size = np.abs(omega)
    top = size.max(axis=-1, keepdims=True)
    same = np.all(size >= (1.0 - rel) * top, axis=-1) & (top[..., 0] > 0)
    fewest = np.minimum(np.sum(omega > 0, axis=-1), np.sum(omega < 0, axis=-1))
    return same & (fewest > more_than)


def manifold_flow_gamma(
    time: ArrayLike, gamma0: float, d: int, L: int, noise_var: float, share: float = 2.0
) -> Array:
    """gamma(t) of gradient flow of the approximate loss along the manifold, for small gamma and t = learning rate * steps.

    The loss rises as k gamma^4 (`manifold_excess`), and moving gamma moves mu_gamma = eta*/(2 gamma) much further, so the flow in
    the valley obeys gamma' = -16 k gamma^7 / (share eta*^2) and gamma^-6 = gamma0^-6 + 16 (1 + s2) d^3 t / (share L): a power law
    t^(-1/6) without an end. ``share`` is sum_h (mu_h / mu_gamma)^2 over the heads: 2 for two heads, less when heads divide a sign.
    """
    rate = 16.0 * coupling(d, L, noise_var) * d**3 / share
    return (gamma0**-6.0 + rate * np.asarray(time, dtype=np.float64)) ** (-1.0 / 6.0)
