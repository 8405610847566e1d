"""The gradients of a long causal sequence, a block of queries at a time: no ``(T, T)`` array is ever held.

Three facts make one pass enough. The loss of a query needs nothing of later queries, so its error is known as soon as its logits are. The baseline of
equation 12 is ``E_{alpha_i}[b] = u_i . g_i = error_i . logits_i``, a single number, so the advantage of a whole block is one matrix product. And a
causal block sees no key after its last query.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .closed_forms import causal_mask

#: Queries of a block: its scores stay in a core's cache.
BLOCK = 128
#: While no score can exceed this, subtracting a bound on it instead of the row's largest score cannot underflow, and saves a pass.
SAFE = 40.0


class Predictions(NamedTuple):
    """``logits`` ``(T, C)`` and each query's entropy of attention over the largest possible, ``(T,)`` (NaN for the first)."""

    logits: Tensor
    spread: Tensor


def _weights(q: Tensor, k: Tensor, start: int, stop: int, shift: Tensor | None) -> Tensor:
    """Unnormalised attention ``(stop - start, stop)`` of a block of (scaled) queries."""
    if shift is None:
        e = q[start:stop] @ k[:stop].T
        # before the largest is sought: a hidden key's score could push all others to zero
        e[:, start:].masked_fill_(~causal_mask(stop - start, e.device), -torch.inf)
        e -= e.amax(1, keepdim=True)
    else:
        e = torch.cat([q[start:stop], -shift[start:stop]], 1) @ _ones(k[:stop]).T
    e.exp_()
    e[:, start:].tril_()
    return e


def _shift(q: Tensor, k: Tensor) -> Tensor | None:
    """A bound ``(T, 1)`` on each query's scores; ``None`` where the largest score itself must be found."""
    bound = q.norm(dim=1, keepdim=True) * k.norm(dim=1).max()
    return None if bound.is_cuda or not float(bound.max()) < SAFE else bound


def _ones(a: Tensor) -> Tensor:
    """A column of ones beside ``a``."""
    return torch.cat([a, a.new_ones(len(a), 1)], 1)


def step(x: Tensor, target: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> tuple[Tensor, ...]:
    """Mean cross-entropy of a causal head (equation 9 over T) and its gradients in the four matrices, by equations 13, 16, 23 and 28 to 32.

    Args:
        x: inputs ``(T, d_x)``.
        target: one-hot targets ``(T, C)``.
        W_Q, W_K, W_V, W_O: the weights of one run.
    """
    T = len(x)
    scale = 1 / math.sqrt(len(W_Q))
    q, k, v = x @ W_Q.T * scale, x @ W_K.T, x @ W_V.T
    shift, brings = (_shift(q, k), _ones(v @ W_O.T))  # what a key adds to a query's logits and to its normaliser
    dq, dk, used = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(target)
    total = x.new_zeros(())
    for start in range(0, T, BLOCK):
        stop = min(start + BLOCK, T)
        e = _weights(q, k, start, stop, shift)
        summed = e @ brings[:stop]  # (block, C + 1): unnormalised logits and normaliser
        z = summed[:, -1:]
        logits = summed[:, :-1] / z
        logs = logits.log_softmax(-1)
        total -= (logs * target[start:stop]).sum()
        error = (logs.exp() - target[start:stop]) / T  # equation 13
        # b_ij = u_i . v_j = error_i . (W_O v_j) and E b = error_i . logits_i, so (b_ij - E b) / z_i is one product
        against = torch.cat([error, -(error * logits).sum(1, keepdim=True)], 1) / z
        ds = (against @ brings[:stop].T).mul_(e)  # (block, stop), equation 23
        torch.mm(ds, k[:stop], out=dq[start:stop])
        dk[:stop].addmm_(ds.T, q[start:stop])
        used[:stop].addmm_(e.T, against[:, :-1])  # sum_i alpha_ij error_i: equation 16 before W_O
    return total / T, dq.T @ x * scale, dk.T @ x, W_O.T @ (used.T @ x), used.T @ v


def predict(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Predictions:
    """Logits of a causal head without a bias, and the entropy of its attention over the log of the number of visible keys."""
    T = len(x)
    q, k = x @ W_Q.T / math.sqrt(len(W_Q)), x @ W_K.T
    v1, logits, spread = _ones(x @ W_V.T), x.new_empty(T, len(W_O)), x.new_empty(T)
    for start in range(0, T, BLOCK):
        stop = min(start + BLOCK, T)
        e = _weights(q, k, start, stop, None)
        summed = e @ v1[:stop]
        logits[start:stop] = summed[:, :-1] / summed[:, -1:] @ W_O.T
        alpha = e / summed[:, -1:]
        visible = torch.arange(start + 1, stop + 1, device=x.device).to(x)
        spread[start:stop] = -torch.xlogy(alpha, alpha).sum(1) / visible.log()
    spread[0] = torch.nan
    return Predictions(logits, spread)
