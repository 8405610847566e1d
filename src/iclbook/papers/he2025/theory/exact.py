"""He et al. 2025: the true population loss of the reduced (omega, mu) model at finite L and d, by quadrature.

The model is yhat = sum_h mu_h <y, smax(omega_h X x_q)> with x ~ N(0, I_d), beta ~ N(0, I_d/d) and noise of variance sigma^2 on every y.
Given the weights w_l = sum_h mu_h p_l^h, beta, the noise and the parts of x_l orthogonal to x_q average out exactly:

    loss = s2 + E[(r - w.g)^2]/d + ((d-1)/d + s2) E|w|^2,   r = |x_q| ~ chi_d,  scores z_l = omega r g_l,  g_l ~ N(0, 1) independent.

So loss = 1 + s2 - 2 mu.A + mu^T B mu with A = E[r m]/d and B = E[m m^T]/d + ((d-1)/d + s2) E[C], where m_h = p^h.g and
C_hk = p^h.p^k. With 1/Z = int exp(-s Z) ds the L tokens factorise, so that A and B are integrals over r, g, s and t only, whatever L.
The trapezoidal rule in g, log s and log t converges geometrically; `sampled` in sampled is the independent check.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, roots_legendre
from scipy.stats import chi

from .loss import Array, coupling, heads

#: Nodes of g ~ N(0, 1): beyond 9 the mass is 1e-18, and the step makes the trapezoidal rule exact to rounding.
_G = np.arange(-60, 61) * 0.15
_G_WEIGHTS = np.exp(-0.5 * _G**2) / np.exp(-0.5 * _G**2).sum()
#: Step in log s: the integrand is analytic for |Im log s| < pi/2, so the error is about exp(-pi^2 / step).
_LOG_STEP = 0.32
#: Integrand values below exp(-_TAIL) of the scale are dropped.
_TAIL = 33.0


@dataclass(frozen=True)
class Quadratic:
    """loss(mu) = 1 + s2 - 2 mu.linear + mu^T matrix mu at fixed omega; ``linear`` (H,), ``matrix`` (H, H)."""

    linear: Array
    matrix: Array
    noise_var: float

    def loss(self, mu: ArrayLike) -> float:
        """The loss at ``mu`` (H,)."""
        mu = np.asarray(mu, dtype=np.float64)
        return float(1.0 + self.noise_var - 2.0 * mu @ self.linear + mu @ self.matrix @ mu)

    def best_mu(self) -> Array:
        """The minimising mu (H,); the least-norm one when heads coincide."""
        return np.linalg.lstsq(self.matrix, self.linear, rcond=None)[0]


@lru_cache(maxsize=64)
def _radius_nodes(d: int, n: int) -> tuple[Array, Array]:
    """Nodes and weights (n,) of r ~ chi_d: Gauss-Legendre over all but 2e-17 of the mass."""
    low, high = chi.ppf(1e-17, d) if d > 1 else 0.0, chi.isf(1e-17, d)
    nodes, weights = roots_legendre(n)
    r = low + (high - low) * (nodes + 1.0) / 2.0
    log_density = (d - 1) * np.log(r) - r**2 / 2.0 - (d / 2.0 - 1.0) * np.log(2.0) - gammaln(d / 2.0)
    weights = weights * np.exp(log_density)
    return r, weights / weights.sum()


@lru_cache(maxsize=4096)
def _log_nodes(a: float, L: int) -> Array:
    """Nodes of log s at which one head with score scale a = |omega| r needs its Laplace integrand; read-only, shared by equal heads."""
    growth = min(a**2, 9.0 * a)
    low = -np.log(L) - growth - _TAIL
    trial = np.arange(low, 60.0 + growth, _LOG_STEP)

    def alive(i: int) -> bool:
        laplace = float(np.exp(-np.exp(np.minimum(trial[i] + a * _G, 700.0))) @ _G_WEIGHTS)
        return max(L - 2, 1) * np.log(max(laplace, 1e-300)) > -_TAIL - 2.0 * np.log(L)

    # the Laplace transform falls with s, so those that count come first
    first_dead = bisect_left(range(trial.size), True, key=lambda i: not alive(i))
    nodes = trial[: first_dead + 1]
    nodes.flags.writeable = False
    return nodes


def _laplace(a: float, log_s: Array) -> Array:
    """exp(-s exp(a g)) on the grids, shape (S, G)."""
    return np.exp(-np.exp(np.minimum(log_s[:, None] + a * _G[None, :], 700.0)))


def _one_head(a: float, L: int, r: float, query_key: bool) -> tuple[float, float, float]:
    """E[m], E[m^2] and E[C] of one head with signed score scale a = omega r, at fixed r."""
    log_s = _log_nodes(abs(a), L)
    s = np.exp(log_s)
    decay = _laplace(a, log_s)  # (S, G)
    tilt = np.exp(a * _G)
    weights = np.stack(
        [_G_WEIGHTS, _G_WEIGHTS * _G * tilt, _G_WEIGHTS * tilt**2, _G_WEIGHTS * (_G * tilt) ** 2]
    )
    base, first, square, second = (decay @ weights.T).T  # each (S,)
    extra = np.exp(-np.exp(np.minimum(log_s + a * r, 700.0))) if query_key else 1.0
    power = base ** (L - 1) * extra * _LOG_STEP  # ds = s dlog s
    pairs = L * (L - 1) * first**2 * base ** (L - 2) * extra * _LOG_STEP if L > 1 else 0.0
    mean = L * np.sum(first * power * s)
    square_mean = np.sum((L * second * power + pairs) * s**2)
    return mean, square_mean, L * np.sum(square * power * s**2)


def _two_heads(a: float, b: float, L: int, r: float, query_key: bool) -> tuple[float, float]:
    """E[m m'] and E[p.p'] of two heads with signed score scales a and b, at fixed r."""
    log_s, log_t = _log_nodes(abs(a), L), _log_nodes(abs(b), L)
    left, right = _laplace(a, log_s), _laplace(b, log_t).T  # (S, G), (G, T)
    tilt_a, tilt_b = np.exp(a * _G), np.exp(b * _G)

    def expect(values: Array) -> Array:
        return (left * (_G_WEIGHTS * values)) @ right  # (S, T)

    base = expect(np.ones_like(_G))
    measure = _LOG_STEP**2 * np.exp(log_s)[:, None] * np.exp(log_t)[None, :]
    if query_key:
        measure = measure * np.exp(-np.exp(np.minimum(log_s + a * r, 700.0)))[:, None]
        measure = measure * np.exp(-np.exp(np.minimum(log_t + b * r, 700.0)))[None, :]
    power = base ** (L - 1) * measure
    product = L * np.sum(expect(_G**2 * tilt_a * tilt_b) * power)
    if L > 1:
        product += L * (L - 1) * np.sum(expect(_G * tilt_a) * expect(_G * tilt_b) * base ** (L - 2) * measure)
    return product, L * np.sum(expect(tilt_a * tilt_b) * power)


def exact_quadratic(
    omega: ArrayLike, d: int, L: int, noise_var: float, query_key: bool = False, nodes: int = 40
) -> Quadratic:
    """The true loss as a quadratic form in mu at fixed ``omega`` (H,).

    Args:
        query_key: the query token (x_q, 0) is one more key, as in the paper's masked attention over Z_ebd.
        nodes: Gauss-Legendre nodes in r.
    """
    omega, _ = heads(omega, omega)
    coupling(d, L, noise_var)  # checks the ranges
    n = omega.shape[0]
    radius, weights = _radius_nodes(d, nodes)
    kappa = (d - 1) / d + noise_var
    linear, matrix = np.zeros(n), np.zeros((n, n))
    for r, weight in zip(radius, weights, strict=True):
        if weight < 1e-18:
            continue
        for h in range(n):
            mean, square, overlap = _one_head(omega[h] * r, L, r, query_key)
            linear[h] += weight * r * mean / d
            matrix[h, h] += weight * (square / d + kappa * overlap)
            for k in range(h):
                if omega[h] == omega[k]:
                    product, cross = square, overlap
                else:
                    product, cross = _two_heads(omega[h] * r, omega[k] * r, L, r, query_key)
                matrix[h, k] += weight * (product / d + kappa * cross)
                matrix[k, h] = matrix[h, k]
    return Quadratic(linear, matrix, noise_var)


def exact_loss(
    omega: ArrayLike,
    mu: ArrayLike,
    d: int,
    L: int,
    noise_var: float,
    query_key: bool = False,
    nodes: int = 40,
) -> Array:
    """True population loss E[(y_q - yhat)^2] of the reduced model, shape (...); deterministic, about 1e-9 accurate.

    One quadrature per run: a tenth of a second for two heads. The target carries the noise, so the floor is sigma^2.
    """
    omega, mu = heads(omega, mu)
    flat_omega, flat_mu = omega.reshape(-1, omega.shape[-1]), mu.reshape(-1, mu.shape[-1])
    losses = [
        exact_quadratic(o, d, L, noise_var, query_key, nodes).loss(m)
        for o, m in zip(flat_omega, flat_mu, strict=True)
    ]
    return np.array(losses).reshape(omega.shape[:-1])
