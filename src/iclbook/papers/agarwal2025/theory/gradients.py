"""First-order gradients of a single attention head, equations 1 to 32 of agarwal2025.

Vectors are rows here: ``x`` is ``(..., T, d_x)``, ``q`` and ``k`` are ``(..., T, d_k)``, ``v``, ``g`` and ``u`` are ``(..., T, d_v)``, logits are
``(..., T, C)`` and ``alpha`` is ``(..., T, T)`` with the query first, as in the paper. Any leading axes make an ensemble.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Weights(NamedTuple):
    """``W_Q``, ``W_K`` ``(..., d_k, d_x)``, ``W_V`` ``(..., d_v, d_x)``, ``W_O`` ``(..., C, d_v)`` and the output bias ``b`` ``(..., C)``."""

    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    W_O: Tensor
    b: Tensor


class Forward(NamedTuple):
    """All quantities of equations 1 to 8."""

    q: Tensor
    k: Tensor
    v: Tensor
    s: Tensor
    alpha: Tensor
    g: Tensor
    logits: Tensor
    p: Tensor


def causal_mask(T: int, device: torch.device | str = "cpu") -> Tensor:
    """``(T, T)``: query i sees keys j <= i."""
    return torch.ones(T, T, dtype=torch.bool, device=device).tril()


def attend(s: Tensor, v: Tensor, W_O: Tensor, b: Tensor, mask: Tensor | None = None) -> tuple[Tensor, ...]:
    """Equations 5 to 8 from scores and values on: ``alpha, g, logits, p``."""
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf)
    alpha = s.softmax(-1)
    g = alpha @ v
    logits = g @ W_O.mT + b[..., None, :]
    return alpha, g, logits, logits.softmax(-1)


def scores(q: Tensor, k: Tensor) -> Tensor:
    """Equation 4."""
    return q @ k.mT / math.sqrt(q.shape[-1])


def forward(x: Tensor, w: Weights, mask: Tensor | None = None) -> Forward:
    """Equations 1 to 8; ``mask`` ``(T, T)`` is true where query i sees key j (all of them when ``None``)."""
    q, k, v = x @ w.W_Q.mT, x @ w.W_K.mT, x @ w.W_V.mT
    s = scores(q, k)
    return Forward(q, k, v, s, *attend(s, v, w.W_O, w.b, mask))


def losses(logits: Tensor, y: Tensor) -> Tensor:
    """``L_i = -log p_{i, y_i}`` ``(..., T)``; equation 9 is their sum."""
    return -logits.log_softmax(-1).gather(-1, y[..., None])[..., 0]


def logit_gradient(p: Tensor, y: Tensor) -> Tensor:
    """Equation 13: ``p_i - e_{y_i}``."""
    return p - torch.nn.functional.one_hot(y, p.shape[-1]).to(p)


def upstream(p: Tensor, y: Tensor, W_O: Tensor) -> Tensor:
    """Equations 10 and 14: ``u_i = W_O^T (p_i - e_{y_i})``."""
    return logit_gradient(p, y) @ W_O


def value_gradient(alpha: Tensor, u: Tensor) -> Tensor:
    """Equations 15, 16 and 37: ``dL/dv_j = sum_i alpha_ij u_i``."""
    return alpha.mT @ u


def compatibility(u: Tensor, v: Tensor) -> Tensor:
    """Equations 11 and 17: ``b_ij = u_i . v_j = dL/d alpha_ij``."""
    return u @ v.mT


def baseline(alpha: Tensor, b: Tensor) -> Tensor:
    """Equation 12: ``E_{alpha_i}[b]``, ``(..., T)``. Since ``b_ij = u_i . v_j`` it is ``u_i . g_i``."""
    return (alpha * b).sum(-1)


def softmax_jacobian(alpha: Tensor) -> Tensor:
    """Equation 18: ``d alpha_ij / d s_ik = alpha_ij (delta_jk - alpha_ik)``, ``(..., T, T, T)`` indexed i, j, k."""
    return torch.diag_embed(alpha) - alpha[..., :, None] * alpha[..., None, :]


def advantage(alpha: Tensor, b: Tensor) -> Tensor:
    """Section 3.4: ``A_ij = -(b_ij - E_{alpha_i}[b])``, positive where more attention would lower the loss."""
    return baseline(alpha, b)[..., None] - b


def score_gradient(alpha: Tensor, b: Tensor) -> Tensor:
    """Equations 22 and 23: ``dL/ds_ik = alpha_ik (b_ik - E_{alpha_i}[b])``."""
    return -alpha * advantage(alpha, b)


def query_gradient(ds: Tensor, k: Tensor) -> Tensor:
    """Equations 24, 25 and 28, from the score gradient."""
    return ds @ k / math.sqrt(k.shape[-1])


def key_gradient(ds: Tensor, q: Tensor) -> Tensor:
    """Equations 26, 27 and 28, from the score gradient."""
    return ds.mT @ q / math.sqrt(q.shape[-1])


def projection_gradient(d: Tensor, x: Tensor) -> Tensor:
    """Equations 29, 30 and 31: ``sum_i d_i x_i^T`` for the gradients ``d`` of queries, keys or values."""
    return d.mT @ x


def value_projection_gradient(u: Tensor, alpha: Tensor, x: Tensor) -> Tensor:
    """Equation 32, ``U A X^T`` with the paper's columns; ours are rows."""
    return u.mT @ alpha @ x


def every_gradient(
    x: Tensor, y: Tensor, w: Weights, mask: Tensor | None = None, known: Forward | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """Per-position losses ``(..., T)`` and every gradient of their SUM (equation 9), by the closed forms alone.

    Keys of the gradients: ``logits, g, v, alpha, s, q, k, W_Q, W_K, W_V`` as printed, and ``W_O, b``, which the paper leaves out. ``alpha`` is the
    derivative with the weights ``alpha_ij`` taken as free; where the mask hides a key it means nothing. ``known``: :func:`forward` of these, where a
    caller has it already.
    """
    f = forward(x, w, mask) if known is None else known
    dl = logit_gradient(f.p, y)
    u = dl @ w.W_O
    b = compatibility(u, f.v)
    ds = score_gradient(f.alpha, b)
    dq, dk, dv = query_gradient(ds, f.k), key_gradient(ds, f.q), value_gradient(f.alpha, u)
    found = {"logits": dl, "g": u, "v": dv, "alpha": b, "s": ds, "q": dq, "k": dk}
    found["W_Q"], found["W_K"] = projection_gradient(dq, x), projection_gradient(dk, x)
    found["W_V"] = value_projection_gradient(u, f.alpha, x)
    found["W_O"], found["b"] = projection_gradient(dl, f.g), dl.sum(-2)
    return losses(f.logits, y), found
