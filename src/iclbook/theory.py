"""Gradient descent on a prompt: steps, their errors at finite length, and von Oswald's construction of a step by an attention layer.

Prompts: x (..., L, d), y (..., L), x_q (..., d), predictions (...), float64. Errors are total, E[(y_q - yhat)^2] with noise on y_q: their
floor is sigma^2 (s2 in formulas) and predicting 0 costs 1 + s2; x ~ N(0, I_d), beta ~ N(0, I_d/d). They broadcast over their arguments.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .draw import numpy_rng
from .statistics import standard_error

Array = np.ndarray


class Prompts(NamedTuple):
    """n prompts: x (n, L, d), y (n, L), x_q (n, d), the noisy target y_q (n,)."""

    x: Array
    y: Array
    x_q: Array
    y_q: Array


def sample_prompts(n: int, d: int, L: int, noise_var: float, seed: int) -> Prompts:
    """n independent prompts of linear regression: x ~ N(0, I), beta ~ N(0, I/d), noise of variance ``noise_var``."""
    rng = numpy_rng(seed)
    x = rng.standard_normal((n, L + 1, d))
    beta = rng.standard_normal((n, d)) / np.sqrt(d)
    y = np.einsum("nld,nd->nl", x, beta) + np.sqrt(noise_var) * rng.standard_normal((n, L + 1))
    return Prompts(x[:, :L], y[:, :L], x[:, L], y[:, L])


def scores(x: Array, x_q: Array) -> Array:
    """x_l^T x_q, shape (..., L)."""
    return np.einsum("...ld,...d->...l", x, x_q)


def vanilla_gd(eta: float, x: Array, y: Array, x_q: Array) -> Array:
    """(eta/L) sum_l y_l x_l^T x_q: one gradient step from zero."""
    return eta * np.mean(scores(x, x_q) * y, axis=-1)


def debiased_gd(eta: float, x: Array, y: Array, x_q: Array) -> Array:
    """(eta/L) sum_l y_l (x_l - mean x)^T x_q; He et al. (2025), Key Finding 3, prints the term without the sum over l."""
    return np.sum(eta / x.shape[-2] * scores(x - x.mean(axis=-2, keepdims=True), x_q) * y, axis=-1)


# -- exact errors -----------------------------------------------------------------------------------------------------


def vanilla_gd_error(eta: ArrayLike, d: float | Array, L: float | Array, noise_var: float | Array) -> Array:
    """1 + s2 - 2 eta + eta^2 (1 + (d + 1 + s2 d)/L), exact at finite L: E S = I and E S^2 = (1 + (d+1)/L) I for S = X^T X / L."""
    eta = np.asarray(eta, dtype=np.float64)
    return 1.0 + noise_var - 2.0 * eta + eta**2 * (1.0 + (d + 1.0 + noise_var * d) / L)


def vanilla_gd_best_eta(d: float | Array, L: float | Array, noise_var: float | Array) -> Array:
    """1/(1 + (d + 1 + s2 d)/L): one GD step's own optimum, below eta* of He et al.'s Theorem 1 by the term 1/L."""
    return 1.0 / (1.0 + (d + 1.0 + noise_var * d) / L)


def debiased_gd_error(eta: ArrayLike, d: float | Array, L: float | Array, noise_var: float | Array) -> Array:
    """1 + s2 - 2 eta (L-1)/L + eta^2 (L-1)(L + d + s2 d)/L^2, exact at finite L.

    The centred scatter is Wishart with n = L - 1 degrees: E S = (n/L) I, E S^2 = n (n + d + 1)/L^2 I, and the noise adds s2 E S / L.
    """
    eta = np.asarray(eta, dtype=np.float64)
    return 1.0 + noise_var - 2.0 * eta * (L - 1.0) / L + eta**2 * (L - 1.0) * (L + d + noise_var * d) / L**2


def ridge_error(d: int, L: int, noise_var: float, draws: int = 20_000) -> tuple[float, float]:
    """Error of ridge regression at its best lambda = s2 d (the Bayes risk), and its standard error over ``draws`` designs.

    Given X the error is exact: s2 + s2 tr G, G = (X^T X + s2 d I)^-1. X^T X is drawn as a Wishart matrix by Bartlett's decomposition, so the cost does
    not grow with L.
    """
    rng = numpy_rng(0)
    rank = min(d, L)
    root = np.zeros((draws, d, rank))
    rows, columns = np.tril_indices(d, -1, rank)
    root[:, rows, columns] = rng.standard_normal((draws, rows.size))
    diagonal = np.arange(rank)
    root[:, diagonal, diagonal] = np.sqrt(rng.chisquare(L - diagonal, size=(draws, rank)))
    eigenvalues = np.linalg.eigvalsh(root @ np.swapaxes(root, 1, 2))  # (draws, d)
    errors = noise_var + noise_var * np.sum(1.0 / (np.maximum(eigenvalues, 0.0) + noise_var * d), axis=1)
    return float(errors.mean()), float(standard_error(errors))


# -- von Oswald's construction --------------------------------------------------------------------------------------------
#
# Tokens are ``e_j = (x_j, y_j)``; the query's response slot starts at ``-W_0 x_q`` and the layer's answer is minus what stands there afterwards. The loss is
# ``L(W) = 1/2 sum_j |W x_j - y_j|^2`` (a factor is absorbed into the step), its gradient ``sum_j (W x_j - y_j) x_j^T``.


@dataclass(frozen=True)
class LinearAttention:
    """Weights of ``e <- e + output sum_j (value e_j) (key e_j)^T (query e)``, each ``(D, D)`` with ``D = d + N``."""

    query: Array
    key: Array
    value: Array
    output: Array

    def __call__(self, tokens: Array, n_context: int) -> Array:
        """New tokens ``(n, D)``; the first ``n_context`` are attended to, all are updated."""
        context = tokens[:n_context]
        scores = (tokens @ self.query.T) @ (context @ self.key.T).T  # (n, n_context)
        return tokens + scores @ (context @ self.value.T) @ self.output.T


def construct(d: int, n_outputs: int, eta: float, w0: Array | None = None, curvature: float = 0.0) -> LinearAttention:
    """Weights whose layer is one gradient step of size ``eta`` from ``w0`` ``(N, d)`` (zero if None).

    In the scalar terms of Nagy (2026) the gains are ``q_k = 1`` and ``v_o = eta`` (Theorem V1). With a ``curvature`` the layer also moves covariates, ``x <- x - curvature sum_j x_j
    x_j^T x``: von Oswald et al.'s GD++.
    """
    size = d + n_outputs
    select, value = np.zeros((size, size)), np.zeros((size, size))
    select[:d, :d] = np.eye(d)
    if curvature:
        value[:d, :d] = -curvature / eta * np.eye(d)
    value[d:, d:] = -np.eye(n_outputs)
    if w0 is not None:
        value[d:, :d] = w0
    return LinearAttention(select, select, value, eta * np.eye(size))


def descent(w: Array, x: Array, y: Array, eta: float, steps: int = 1) -> Array:
    """``W <- W - eta sum_j (W x_j - y_j) x_j^T``, so many times, for ``x`` ``(n, d)``, ``y`` ``(n, N)``, ``W`` ``(N, d)``."""
    for _ in range(steps):
        w = w - eta * (x @ w.T - y).T @ x
    return w


def layer_answers(layer: LinearAttention, w0: Array, x: Array, y: Array, queries: Array, layers: int = 1) -> Array:
    """Answers of so many equal layers for ``queries`` ``(m, d)``: ``(m, N)``. From ``W_0 = 0`` the first moves ``y_j`` to the residual, so the next ones
    step on."""
    tokens = np.vstack([np.hstack([x, y]), np.hstack([queries, -queries @ w0.T])])
    for _ in range(layers):
        tokens = layer(tokens, len(x))
    return -tokens[len(x) :, x.shape[1] :]
