"""He et al. 2025: minimisers of the approximate and of the true loss for one head and for a head pair (gamma, -gamma).

All deterministic; the true loss comes from the quadrature of exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from .exact import exact_quadratic
from .loss import coupling
from .manifold import manifold_loss, manifold_mu


@dataclass(frozen=True)
class Optimum:
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


def single_head_profile(omega: float, d: int, L: int, noise_var: float, query_key: bool = False) -> Optimum:
    """The best mu of one head at fixed omega, and the true loss there."""
    form = exact_quadratic([omega], d, L, noise_var, query_key)
    mu = form.best_mu()
    return Optimum(omega, float(mu[0]), form.loss(mu))


@lru_cache(maxsize=64)
def single_head_exact(d: int, L: int, noise_var: float, query_key: bool = False) -> Optimum:
    """One head, true loss: numeric minimiser over omega in (0, 3/sqrt(d)), to about 1e-6 in omega."""
    found = minimize_scalar(
        lambda omega: single_head_profile(omega, d, L, noise_var, query_key).loss,
        bounds=(0.02 / np.sqrt(d), 3.0 / np.sqrt(d)),
        method="bounded",
        options={"xatol": 1e-7},
    )
    return single_head_profile(float(found.x), d, L, noise_var, query_key)


def single_head_many_examples(d: int, noise_var: float) -> float:
    """omega of the one-head minimiser of the true loss as L -> infinity at fixed d.

    To first order in 1/L the true loss at the best mu is s2 + f(omega)/L, f = M (1/(1 - 2u) + (1 + s2)/u) with u = omega^2 and
    M = E exp(u r^2) = (1 - 2u)^(-d/2) for r ~ chi_d, where the approximate loss has exp(d u). Its minimiser solves
    (d + 2)/(1 - 2u) = 1/u + (1 + 2 s2)/(1 + s2 - (1 + 2 s2) u), and tends to 1/sqrt(d) for large d only.
    """
    tilt = 1.0 + 2.0 * noise_var

    def slope(u: float) -> float:
        return (d + 2.0) / (1.0 - 2.0 * u) - tilt / (1.0 + noise_var - tilt * u) - 1.0 / u

    return float(np.sqrt(brentq(slope, 1e-12, 0.5 * (1.0 - 1e-9))))


def pair_approx(gamma: float, d: int, L: int, noise_var: float) -> Optimum:
    """The best mu of the pair (gamma, -gamma), (mu, -mu) for the approximate loss: mu_gamma of the manifold."""
    return Optimum(
        gamma, float(manifold_mu(gamma, d, L, noise_var)), float(manifold_loss(gamma, d, L, noise_var))
    )


def pair_exact(gamma: float, d: int, L: int, noise_var: float, query_key: bool = False) -> Optimum:
    """The best mu of the pair (gamma, -gamma), (mu, -mu) for the true loss, and that loss.

    Below gamma about 1e-3 cancellation costs digits; the limit gamma -> 0 is `debiased_gd_error` of risk.
    """
    form = exact_quadratic([gamma, -gamma], d, L, noise_var, query_key)
    sign = np.array([1.0, -1.0])
    linear, square = float(sign @ form.linear), float(sign @ form.matrix @ sign)
    mu = linear / square
    return Optimum(gamma, mu, 1.0 + noise_var - linear * mu)


def pair_loss_exact(
    gamma: float, mu: float, d: int, L: int, noise_var: float, query_key: bool = False
) -> float:
    """True loss of the pair (gamma, -gamma), (mu, -mu)."""
    return exact_quadratic([gamma, -gamma], d, L, noise_var, query_key).loss([mu, -mu])


def pair_optimum_exact(
    d: int, L: int, noise_var: float, query_key: bool = False, bounds: tuple[float, float] = (2e-3, 1.0)
) -> Optimum:
    """The gamma that minimises the true loss of the pair with its best mu; an end of ``bounds`` means there is none inside."""
    found = minimize_scalar(
        lambda log_gamma: pair_exact(float(np.exp(log_gamma)), d, L, noise_var, query_key).loss,
        bounds=(np.log(bounds[0]), np.log(bounds[1])),
        method="bounded",
        options={"xatol": 1e-4},  # the loss is flat here: 1e-4 in log gamma is 1e-9 of it
    )
    return pair_exact(float(np.exp(found.x)), d, L, noise_var, query_key)
