"""Von Oswald's construction as the weights of an attention layer, for any number of covariates and responses (appendix A).

Tokens and loss are those of :mod:`iclbook.theory`, which has the construction.
"""

import numpy as np
import torch

from ...draw import numpy_rng
from ...models.attention import Attention
from ...theory import LinearAttention, construct, descent, layer_answers


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
