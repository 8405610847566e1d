"""True population loss of the reduced (omega, mu) model at finite L and d, by quadrature, and its minimisers (He et al. 2025).

The model is yhat = sum_h mu_h <y, smax(omega_h X x_q)> with x ~ N(0, I_d), beta ~ N(0, I_d/d) and noise of variance sigma^2 on every y.
Given the weights w_l = sum_h mu_h p_l^h, beta, the noise and the parts of x_l orthogonal to x_q average out exactly:

    loss = s2 + E[(r - w.g)^2]/d + ((d-1)/d + s2) E|w|^2,   r = |x_q| ~ chi_d,  scores z_l = omega r g_l,  g_l ~ N(0, 1) independent.

So loss = 1 + s2 - 2 mu.A + mu^T B mu with A = E[r m]/d and B = E[m m^T]/d + ((d-1)/d + s2) E[C], where m_h = p^h.g and
C_hk = p^h.p^k. With 1/Z = int exp(-s Z) ds the L tokens factorise, so that A and B are integrals over r, g, s and t only, whatever L.
The trapezoidal rule in g, log s and log t converges geometrically; the tests compare with a sampled loss.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar
from scipy.special import roots_legendre
from scipy.stats import chi

from .loss import Array, Optimum, heads

#: Nodes of g ~ N(0, 1): beyond 9 the mass is 1e-18, and the step makes the trapezoidal rule exact to rounding.
_G = np.arange(-60, 61) * 0.15
_G_WEIGHTS = np.exp(-0.5 * _G**2) / np.exp(-0.5 * _G**2).sum()
#: Step in log s: the integrand is analytic for |Im log s| < pi/2, so the error is about exp(-pi^2 / step).
_LOG_STEP = 0.32
#: Integrand values below exp(-_TAIL) of the scale are dropped.
_TAIL = 33.0
#: Gauss-Legendre nodes of r.
_RADII = 40


@lru_cache(maxsize=64)
def _radius_nodes(d: int) -> tuple[Array, Array]:
    """Nodes and weights of r ~ chi_d: Gauss-Legendre over all but 2e-17 of the mass, without those of a weight below 1e-18."""
    low, high = chi.ppf(1e-17, d) if d > 1 else 0.0, chi.isf(1e-17, d)
    nodes, weights = roots_legendre(_RADII)
    r = low + (high - low) * (nodes + 1.0) / 2.0
    weights = weights * chi.pdf(r, d)
    weights /= weights.sum()
    return r[weights >= 1e-18], weights[weights >= 1e-18]


class _Head(NamedTuple):
    """One head with signed score scale ``a`` at a fixed r: nodes ``s (S,)``, ``decay (S, G)`` = exp(-s exp(a g)) and ``tilt (G,)`` = exp(a g)."""

    a: float
    s: Array
    decay: Array
    tilt: Array


def _head(a: float, L: int) -> _Head:
    """The head at the nodes that its Laplace integrand needs."""
    s, decay = _nodes(abs(a), L)
    return _Head(a, s, decay if a >= 0 else decay[:, ::-1], np.exp(a * _G))


@lru_cache(maxsize=1)  # a pair (a, -a) shares its nodes
def _nodes(size: float, L: int) -> tuple[Array, Array]:
    """Nodes ``s`` and ``decay`` of a head with score scale ``size``; they begin where s L exp(growth) is exp(-_TAIL)."""
    growth = min(size**2, 9.0 * size)
    low = -np.log(L) - growth - _TAIL
    high = 4.0 + 9.0 * size  # from here on s exp(a g) is above exp(4) at all nodes
    s = np.exp(low + _LOG_STEP * np.arange(np.ceil((high - low) / _LOG_STEP)))
    decay = np.exp(-s[:, None] * np.exp(size * _G))  # (S, G)
    alive = max(L - 2, 1) * np.log(np.maximum(decay @ _G_WEIGHTS, 1e-300)) > -_TAIL - 2.0 * np.log(L)
    end = np.count_nonzero(alive) + 1  # the Laplace transform falls with s, so those that count come first
    return s[:end], decay[:end]


def _power(x: Array, n: int) -> Array:
    """``x^n`` for n >= 0, by squaring: a few products of each entry, where numpy takes its logarithm."""
    if n < 2:
        return x if n else np.ones_like(x)
    half = _power(x, n // 2) ** 2
    return half * x if n % 2 else half


def _one_head(head: _Head, L: int) -> tuple[float, float, float]:
    """E[m], E[m^2] and E[C] of one head at a fixed r."""
    s, tilt = head.s, head.tilt
    weights = np.stack([_G_WEIGHTS, _G_WEIGHTS * _G * tilt, _G_WEIGHTS * tilt**2, _G_WEIGHTS * (_G * tilt) ** 2])
    base, first, square, second = (head.decay @ weights.T).T  # each (S,)
    power = base ** (L - 1)
    pairs = L * (L - 1) * first**2 * base ** (L - 2)
    once, twice = _LOG_STEP * s, _LOG_STEP * s**2  # ds = s dlog s
    return L * (first * power) @ once, (L * second * power + pairs) @ twice, L * (square * power) @ twice


def _two_heads(one: _Head, two: _Head, L: int) -> tuple[float, float]:
    """E[m m'] and E[p.p'] of two heads at a fixed r, for L >= 2.

    Of a pair (a, -a) both share s, and g -> -g exchanges s and t: E_g[g exp(-a g) ...] at (s, t) is minus E_g[g exp(a g) ...] at (t, s).
    """
    left, right = _G_WEIGHTS * one.decay, two.decay.T  # (S, G), (G, T)
    base = left @ right  # (S, T)
    power = _LOG_STEP**2 * one.s[:, None] * two.s * _power(base, L - 2)
    first = (left * (_G * one.tilt)) @ right
    second = -first.T if one.a == -two.a else (left * (_G * two.tilt)) @ right
    pairs = L * (L - 1) * float(np.vdot(first * second, power))
    power *= base
    # summed over s and t first: what is left to average over g serves both of a token's own terms
    own = (power @ two.decay * left).sum(0) * one.tilt * two.tilt  # (G,)
    return L * float(own @ _G**2) + pairs, L * float(own.sum())


def exact_quadratic(omega: Array, d: int, L: int, noise_var: float) -> tuple[Array, Array]:
    """A ``(H,)`` and B ``(H, H)`` of the true loss 1 + s2 - 2 mu.A + mu^T B mu at fixed ``omega`` (H,); L >= 2 for several heads."""
    n = len(omega)
    assert L > 1 or n == 1, "several heads need two examples or more"
    kappa = (d - 1) / d + noise_var
    linear, matrix = np.zeros(n), np.zeros((n, n))
    for r, weight in zip(*_radius_nodes(d), strict=True):
        of_radius = [_head(scale * r, L) for scale in omega]
        for h, head in enumerate(of_radius):
            mean, square, overlap = _one_head(head, L)
            linear[h] += weight * r * mean / d
            matrix[h, h] += weight * (square / d + kappa * overlap)
            for k, other in enumerate(of_radius[:h]):
                product, cross = _two_heads(head, other, L)
                matrix[h, k] += weight * (product / d + kappa * cross)
                matrix[k, h] = matrix[h, k]
    return linear, matrix


def exact_loss(omega: ArrayLike, mu: ArrayLike, d: int, L: int, noise_var: float) -> Array:
    """True population loss E[(y_q - yhat)^2] of the reduced model, shape (...); deterministic, about 1e-9 accurate. Its floor is sigma^2."""
    omega, mu = heads(omega, mu)
    losses = np.empty(omega.shape[:-1])
    for at in np.ndindex(losses.shape):
        linear, matrix = exact_quadratic(omega[at], d, L, noise_var)
        losses[at] = 1.0 + noise_var - 2.0 * mu[at] @ linear + mu[at] @ matrix @ mu[at]
    return losses


# -- minimisers -------------------------------------------------------------------------------------------------------


def pair_exact(gamma: float, d: int, L: int, noise_var: float, signs: Sequence[float] = (1.0, -1.0)) -> Optimum:
    """The best mu of the pair (gamma, -gamma), (mu, -mu) for the true loss, and that loss; with the signs ``(1,)`` of one head.

    Below gamma about 1e-3 cancellation costs digits; the limit gamma -> 0 is :func:`iclbook.theory.debiased_gd_error`.
    """
    sign = np.array(signs)
    linear, matrix = exact_quadratic(gamma * sign, d, L, noise_var)
    slope, square = float(sign @ linear), float(sign @ matrix @ sign)
    mu = slope / square
    return Optimum(gamma, mu, 1.0 + noise_var - 2.0 * mu * slope + mu * square * mu)


def _lowest(at: Callable[[float], Optimum], low: float, high: float, within: float) -> Optimum:
    found = minimize_scalar(lambda x: at(x).loss, bounds=(low, high), method="bounded", options={"xatol": within})
    return at(float(found.x))


@lru_cache(maxsize=64)
def single_head_exact(d: int, L: int, noise_var: float) -> Optimum:
    """One head, true loss: numeric minimiser over omega in (0, 3/sqrt(d)), to about 1e-6 in omega."""
    low, high = 0.02 / np.sqrt(d), 3.0 / np.sqrt(d)
    return _lowest(lambda omega: pair_exact(omega, d, L, noise_var, (1.0,)), low, high, 1e-7)


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


def pair_optimum_exact(d: int, L: int, noise_var: float) -> Optimum:
    """The gamma between 0.002 and 1 that minimises the true loss of the pair with its best mu; an end means there is none inside."""
    # the loss is flat here: 1e-4 in log gamma is 1e-9 of it
    return _lowest(lambda log: pair_exact(float(np.exp(log)), d, L, noise_var), np.log(2e-3), 0.0, 1e-4)
