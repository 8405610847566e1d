"""Gradients of a long causal sequence's queries, keys and values, a block of queries at a time: no ``(T, T)`` array is held."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..theory import Weights
from ..theory import gradients as closed
from ..theory.causal import BLOCK

Pairs = tuple[Tensor, Tensor]


class Pass(NamedTuple):
    """Queries, keys and values ``(T, .)``, the gradients ``dq``, ``dk``, ``dv`` of the summed loss (equation 9) in them, column sums of attention ``usage (T,)``,
    and at chosen pairs ``(n,)``: ``adv``, the advantage matrix of section 8.1, and ``ds``, the gradient in the score."""

    q: Tensor
    k: Tensor
    v: Tensor
    dq: Tensor
    dk: Tensor
    dv: Tensor
    usage: Tensor
    adv: Tensor
    ds: Tensor


def causal_pass(x: Tensor, y: Tensor, w: Weights, at: Pairs | None = None) -> Pass:
    """One pass over inputs ``x (T, d_x)`` with targets ``y (T,)``; ``at``: queries and visible keys of the chosen pairs, ``(n,)`` each."""
    rows, columns = (torch.empty(0, dtype=torch.int64),) * 2 if at is None else at
    q, k, v = x @ w.W_Q.mT, x @ w.W_K.mT, x @ w.W_V.mT
    dq, dk, dv, usage = (torch.zeros_like(part) for part in (q, k, v, x[:, 0]))
    adv, ds_at = x.new_empty(len(rows)), x.new_empty(len(rows))
    for start in range(0, len(x), BLOCK):
        stop = min(start + BLOCK, len(x))
        here, seen = slice(start, stop), slice(stop)
        visible = torch.arange(stop) <= torch.arange(start, stop)[:, None]
        alpha, _, _, p = closed.attend(closed.scores(q[here], k[seen]), v[seen], w.W_O, w.b, visible)
        u = closed.upstream(p, y[here], w.W_O)
        a = -closed.advantage(alpha, closed.compatibility(u, v[seen]))
        ds = alpha * a  # equation 23
        dq[here] = closed.query_gradient(ds, k[seen])
        dk[seen] += closed.key_gradient(ds, q[here])
        dv[seen] += closed.value_gradient(alpha, u)
        usage[seen] += alpha.sum(0)
        chosen = (rows >= start) & (rows < stop)
        place = rows[chosen] - start, columns[chosen]
        adv[chosen], ds_at[chosen] = a[place], ds[place]
    return Pass(q, k, v, dq, dk, dv, usage, adv, ds_at)


def score_steps(found: Pass, x: Tensor, at: Pairs) -> Tensor:
    """What unit steps on ``W_Q`` and ``W_K`` do to the scores of these pairs, to first order ``(n,)``: :func:`..theory.updates.score_step_of_weights` there."""
    i, j = at
    of_q, of_k = (-x @ (x.mT @ d) for d in (found.dq, found.dk))
    return ((of_q[i] * found.k[j]).sum(-1) + (found.q[i] * of_k[j]).sum(-1)) / found.q.shape[-1] ** 0.5
