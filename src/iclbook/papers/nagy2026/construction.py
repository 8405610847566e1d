"""Von Oswald's construction as the weights of an attention layer, for any number of covariates and responses (appendix A).

Tokens are ``e_j = (x_j, y_j)``; the query's response slot starts at ``-W_0 x_q`` and the layer's answer is minus what stands there afterwards.
The loss is ``L(W) = 1/2 sum_j |W x_j - y_j|^2`` (the paper absorbs the factor 2 into the step), its gradient ``sum_j (W x_j - y_j) x_j^T``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...draw import numpy_rng


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


def gradient_step(w: np.ndarray, x: np.ndarray, y: np.ndarray, eta: float) -> np.ndarray:
    """``W - eta sum_j (W x_j - y_j) x_j^T`` for ``x`` ``(n, d)``, ``y`` ``(n, N)``, ``W`` ``(N, d)``."""
    return w - eta * (x @ w.T - y).T @ x


def layer_answers(
    layer: LinearAttention, w0: np.ndarray, x: np.ndarray, y: np.ndarray, queries: np.ndarray
) -> np.ndarray:
    """What one layer answers for ``queries`` ``(m, d)``: ``(m, N)``."""
    context = np.hstack([x, y])
    asked = np.hstack([queries, -queries @ w0.T])
    return -layer(np.vstack([context, asked]), len(x))[len(x) :, x.shape[1] :]


def stacked_answers(eta: float, layers: int, x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """What ``layers`` equal layers answer: ``(m, N)``. The first moves ``y_j`` to the residual, so the next ones step on."""
    layer = construct(x.shape[1], y.shape[1], eta)
    tokens = np.vstack([np.hstack([x, y]), np.hstack([queries, np.zeros((len(queries), y.shape[1]))])])
    for _ in range(layers):
        tokens = layer(tokens, len(x))
    return -tokens[len(x) :, x.shape[1] :]


def descent(eta: float, steps: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``W`` ``(N, d)`` after ``steps`` gradient steps from zero."""
    w = np.zeros((y.shape[1], x.shape[1]))
    for _ in range(steps):
        w = gradient_step(w, x, y, eta)
    return w


def largest_gap(dimensions: list[int], n_outputs: int = 3, n: int = 30, seed: int = 0) -> dict[str, list[float]]:
    """Largest relative difference between attention and descent for each ``d``, on random regressions in float64.

    Returns:
        ``one_layer``: one step from a random ``W_0``; ``four_layers``: four steps from zero.
    """
    found: dict[str, list[float]] = {"one_layer": [], "four_layers": []}
    for d in dimensions:
        rng = numpy_rng([seed, d])
        x, y = rng.standard_normal((n, d)), rng.standard_normal((n, n_outputs))
        w0, queries = rng.standard_normal((n_outputs, d)), rng.standard_normal((8, d))
        eta = 1 / np.linalg.eigvalsh(x.T @ x)[-1]
        expected = queries @ gradient_step(w0, x, y, eta).T
        answered = layer_answers(construct(d, n_outputs, eta, w0), w0, x, y, queries)
        found["one_layer"].append(float(np.abs(answered - expected).max() / np.abs(expected).max()))
        expected = queries @ descent(eta, 4, x, y).T
        answered = stacked_answers(eta, 4, x, y, queries)
        found["four_layers"].append(float(np.abs(answered - expected).max() / np.abs(expected).max()))
    return found


def trained_layer_gap(dimensions: list[int], n: int = 30, seed: int = 0) -> list[float]:
    """The same for this book's trained attention layer with linear activation, given the construction's circuits: largest relative
    difference to one step from zero, for each ``d``."""
    import torch

    from ...models.attention import Attention

    gaps = []
    for d in dimensions:
        rng = numpy_rng([seed, d])
        x, y, queries = rng.standard_normal((n, d)), rng.standard_normal((n, 1)), rng.standard_normal((8, d))
        eta = 1 / np.linalg.eigvalsh(x.T @ x)[-1]
        layer = construct(d, 1, eta)
        model = Attention(d, 1, activation="linear").double()
        with torch.no_grad():
            for name in ("query", "key", "value", "output"):
                getattr(model, name)[0] = torch.from_numpy(getattr(layer, name))
            model.output *= -n  # that layer averages over tokens, and its answer carries no minus sign
            context = torch.from_numpy(np.hstack([x, y]))[..., None].expand(-1, -1, len(queries))
            answered = model(context, torch.from_numpy(queries.T)).numpy()[0]
        expected = (queries @ gradient_step(np.zeros((1, d)), x, y, eta).T)[:, 0]
        gaps.append(float(np.abs(answered - expected).max() / np.abs(expected).max()))
    return gaps


#: Dimensions at which the construction is compared with a gradient step.
DIMENSIONS = [1, 2, 3, 5, 8, 16, 32, 64]


def records() -> dict:
    """What decides claim linear-attention."""
    gaps = largest_gap(DIMENSIONS) | {"library": trained_layer_gap(DIMENSIONS)}
    return {f"linear-attention/{name}": gap for name, gap in gaps.items()}
