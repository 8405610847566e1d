"""The population gradient of the model of appendix A.2 whose simplifications A0, A2 and A3 are kept or lifted, in closed form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....models import RecallTransformer

Array = np.ndarray


def gradient_of(model: RecallTransformer, tokens: Array) -> Callable[[Array], Array]:
    """Gradient of the population loss ``1 - mean(right + (sum - right) / n_responses)`` in the flat parameters ``(w, beta)``.

    With ``A_h`` the first layer's attention from the keys t, ``a_h`` that from the last token, and ``M_b`` what the symbols' matrix makes of two tokens of
    sequence b, a key's score is ``sum_h beta_h^2 (A_h c_bh)_t``. Under A2 ``c_bh`` is the row of ``M_b`` that belongs to the token h before the end;
    lifted, ``c_b1`` is that of the last token and ``c_bh = M_b^T a_{h-1}``.

    Args:
        model: with A1 and its betas above the diagonal; what it is built of is read, its parameters are not.
        tokens: ``(n!, l)``, one sequence for each query, in the order of the responses that answer them.
    """
    n_heads, length, lifted = model.n_heads, model.length, not model.a2
    keys = model.responses.numpy() if model.a3 else np.arange(length)
    rows = np.append(keys, length - 1)
    low, width = (1, n_heads) if model.a0 else (0, length)
    offset = rows[:, None] - np.arange(length)
    seen = (offset >= low) & (offset < low + width)
    sees, column = seen.any(1)[:, None], np.where(seen, offset - low, 0)
    pairs = model.block.numpy()[tokens[:, :, None], tokens[:, None, :]]  # (B, l, l), the matrices M
    back = length - 1 if lifted else length - np.arange(1, n_heads + 1)
    # (heads, B, l): what does not depend on the attention
    fixed = pairs[:, np.atleast_1d(back)].swapaxes(0, 1)
    wanted = _wanted(model, keys, len(tokens))

    def gradient(theta: Array) -> Array:
        w, beta = theta[:-n_heads].reshape(n_heads, width), theta[-n_heads:]
        every = _softmax(np.where(seen, w[:, column], -np.inf), sees)  # (K, rows, l)
        attention, last = every[:, :-1], every[:-1, -1]
        asked = np.concatenate([fixed, (last @ pairs).swapaxes(0, 1)]) if lifted else fixed  # (K, B, l)
        parts = asked @ attention.swapaxes(1, 2)  # (K, B, keys)
        s = _softmax(np.tensordot(beta**2, parts, 1))
        by_score = s * (wanted - (s * wanted).sum(1, keepdims=True))
        by_beta = 2 * beta * (parts * by_score).sum((1, 2))
        by_every = np.zeros_like(every)
        by_every[:, :-1] = (beta**2)[:, None, None] * (by_score.T @ asked)
        if lifted:
            by_asked = (by_score @ attention[1:]) * (beta[1:] ** 2)[:, None, None]  # (K - 1, B, l)
            by_every[:-1, -1] = (pairs @ by_asked.transpose(1, 2, 0)).sum(0).T
        moved = every * (by_every - (every * by_every).sum(2, keepdims=True))
        by_w = [np.bincount(column.ravel(), part.ravel(), width) for part in moved]
        return np.concatenate([*by_w, by_beta])

    return gradient


def _wanted(model: RecallTransformer, keys: Array, n: int) -> Array:
    """Derivative ``(n, keys)`` of the loss in each key's weight, for n sequences."""
    wanted = np.zeros((n, len(keys)))
    responses = np.flatnonzero(np.isin(keys, model.responses.numpy()))
    wanted[:, responses] = 1 / model.n_responses
    wanted[np.arange(n), responses] = 1
    return wanted / -n


def _softmax(scores: Array, sees: Array | bool = True) -> Array:
    """Over the last axis; a row that ``sees`` nothing has weights of zero."""
    weights = np.exp(scores - np.where(sees, scores.max(-1, keepdims=True), 0.0))
    return weights / np.where(sees, weights.sum(-1, keepdims=True), 1.0)
