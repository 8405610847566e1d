"""The loss of Theorem 2's model at scaled identities ``B_l = b_l I``, ``T_l = t_l I`` (wang2025, appendix I), where only inner products of covariates count."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

#: Prompts taken at once: what one layer needs of them fits a processor's cache.
CHUNK = 1000


class _Prompts(NamedTuple):
    """Prompts, last axis, as the loss reads them.

    Attributes:
        inner: ``x_i^T x_j`` of keys i and positions j ``(N, N + 1, P)``.
        w: embeddings ``(d', C, P)``, or ``(d', C, 1)`` for all.
        values: the keys' embeddings ``(d', N, P)``.
        asked: the query's category ``(1, P)``.
    """

    inner: Tensor
    w: Tensor
    values: Tensor
    asked: Tensor


def _prepared(x: Tensor, y: Tensor, w: Tensor) -> _Prompts:
    n = x.shape[1] - 1
    own = (w if w.dim() == 3 else w[None]).movedim(0, -1).contiguous()
    hot = torch.nn.functional.one_hot(y[:, :n], w.shape[-1]).to(x).permute(2, 1, 0)  # (C, N, P)
    inner = (x[:, :n] @ x.mT).movedim(0, -1).contiguous()
    return _Prompts(inner, own, (own[:, :, None] * hot).sum(1), y[None, :, n])


def _total(b: Tensor, t: Tensor, p: _Prompts) -> Tensor:
    """Sum of ``-log p(y_{N+1})``; the last layer moves the query's function alone, which no other reads."""
    n, f = len(p.inner), torch.zeros_like(p.inner[:1])  # f: (d', N + 1, P)
    residual = p.values - p.w.mean(1)[:, None]  # (d', N, P)
    for layer in range(len(b)):
        last = layer == len(b) - 1
        weights = torch.softmax(b[layer] * (p.inner[:, n:] if last else p.inner), dim=0)
        f = (f[:, n:] if last else f) + t[layer] * (residual[:, :, None] * weights).sum(1)
        if not last:
            expected = torch.softmax((p.w[:, :, None] * f[:, None, :n]).sum(0), dim=0)  # (C, N, P)
            residual = p.values - (p.w[:, :, None] * expected).sum(1)
    return -torch.log_softmax((p.w * f).sum(0), dim=0).gather(0, p.asked).sum()


def scalar_loss(x: Tensor, y: Tensor, w: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """The mean of :func:`iclbook.papers.wang2025.theory.population.loss` over prompts, as a function of ``b (L,)`` and ``t (L,)``.

    Args:
        x, y, w: as :func:`iclbook.papers.wang2025.theory.population.prompts` returns them.
    """
    chunks = torch.arange(len(x)).split(CHUNK)
    parts = [_prepared(x[at], y[at], w[at] if w.dim() == 3 else w) for at in chunks]
    return lambda b, t: sum(_total(b, t, part) for part in parts) / len(x)
