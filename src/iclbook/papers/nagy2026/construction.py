"""Von Oswald's construction as the weights of an attention layer, for any number of covariates and responses (appendix A).

Tokens are ``e_j = (x_j, y_j)``; the query's response slot starts at ``-W_0 x_q`` and the layer's answer is minus what stands there afterwards.
The loss is ``L(W) = 1/2 sum_j |W x_j - y_j|^2`` (the paper absorbs the factor 2 into the step), its gradient ``sum_j (W x_j - y_j) x_j^T``.
"""

from dataclasses import dataclass

import numpy as np
import torch

from ...draw import numpy_rng
from ...models.attention import Attention


@dataclass(frozen=True)
class LinearAttention:
    """Weights of ``e <- e + output sum_j (value e_j) (key e_j)^T (query e)``, each ``(D, D)`` with ``D = d + N``."""

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    output: np.ndarray

    def __call__(self, tokens: np.ndarray, n_context: int) -> np.ndarray:
        """New tokens ``(n, D)``; the first ``n_context`` are attended to, all are updated."""
        context = tokens[:n_context]
        scores = (tokens @ self.query.T) @ (context @ self.key.T).T  # (n, n_context)
        return tokens + scores @ (context @ self.value.T) @ self.output.T


def construct(d: int, n_outputs: int, eta: float, w0: np.ndarray | None = None) -> LinearAttention:
    """Weights whose layer is one gradient step of size ``eta`` from ``w0`` ``(N, d)`` (zero if None).

    In the paper's scalar terms the gains are ``q_k = 1`` and ``v_o = eta`` (Theorem V1).
    """
    size = d + n_outputs
    select, value = np.zeros((size, size)), np.zeros((size, size))
    select[:d, :d] = np.eye(d)
    value[d:, d:] = -np.eye(n_outputs)
    if w0 is not None:
        value[d:, :d] = w0
    return LinearAttention(select, select, value, eta * np.eye(size))


def descent(w: np.ndarray, x: np.ndarray, y: np.ndarray, eta: float, steps: int = 1) -> np.ndarray:
    """``W <- W - eta sum_j (W x_j - y_j) x_j^T``, so many times, for ``x`` ``(n, d)``, ``y`` ``(n, N)``, ``W`` ``(N, d)``."""
    for _ in range(steps):
        w = w - eta * (x @ w.T - y).T @ x
    return w


def layer_answers(
    layer: LinearAttention, w0: np.ndarray, x: np.ndarray, y: np.ndarray, queries: np.ndarray, layers: int = 1
) -> np.ndarray:
    """Answers of so many equal layers for ``queries`` ``(m, d)``: ``(m, N)``. From ``W_0 = 0`` the first moves ``y_j`` to the residual, so the next ones
    step on."""
    tokens = np.vstack([np.hstack([x, y]), np.hstack([queries, -queries @ w0.T])])
    for _ in range(layers):
        tokens = layer(tokens, len(x))
    return -tokens[len(x) :, x.shape[1] :]


def library_answers(layer: LinearAttention, x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Answers of this book's own attention layer with linear activation and these weights from ``W_0 = 0``, one response: ``(m, 1)``."""
    model = Attention(x.shape[1], 1, activation="linear").double()
    with torch.no_grad():
        for name in ("query", "key", "value", "output"):
            getattr(model, name)[0] = torch.from_numpy(getattr(layer, name))
        model.output *= -len(x)  # that layer averages over tokens, and its answer carries no minus sign
        context = torch.from_numpy(np.hstack([x, y]))[..., None].expand(-1, -1, len(queries))
        return model(context, torch.from_numpy(queries.T)).numpy().T


#: Dimensions at which the construction is compared with a gradient step.
DIMENSIONS = (1, 2, 3, 5, 8, 16, 32, 64)


def gaps(d: int, n: int = 30) -> tuple[float, float, float]:
    """Largest relative difference between attention and descent on random regressions in float64: one layer and one step from a random ``W_0``, four from
    zero, and the book's own layer and one step from zero."""

    def gap(answered: np.ndarray, w: np.ndarray) -> float:
        expected = queries @ w.T
        return float(np.abs(answered - expected).max() / np.abs(expected).max())

    rng = numpy_rng([0, d])
    x, y, w0 = rng.standard_normal((n, d)), rng.standard_normal((n, 3)), rng.standard_normal((3, d))
    queries, eta, zero = rng.standard_normal((8, d)), 1 / np.linalg.eigvalsh(x.T @ x)[-1], np.zeros((3, d))
    one = gap(layer_answers(construct(d, 3, eta, w0), w0, x, y, queries), descent(w0, x, y, eta))
    four = gap(layer_answers(construct(d, 3, eta), zero, x, y, queries, 4), descent(zero, x, y, eta, 4))
    own = gap(library_answers(construct(d, 1, eta), x, y[:, :1], queries), descent(zero[:1], x, y[:, :1], eta))
    return one, four, own


def records() -> dict:
    """Records that decide claim linear-attention."""
    names = ("one_layer", "four_layers", "library")
    every = zip(*map(gaps, DIMENSIONS), strict=True)
    return {f"linear-attention/{name}": list(gap) for name, gap in zip(names, every, strict=True)}
