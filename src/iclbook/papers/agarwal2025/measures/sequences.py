"""Sequences of agarwal2025's seeds, drawn once for all measures, and the best losses that can be reached on them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ....tasks.sticky_chain import Sequence as SymbolSequence
from ....tasks.sticky_chain import StickyChain
from ..runs import full_batch
from ..theory import gradients as closed
from ..theory.causal import BLOCK


@lru_cache(maxsize=64)
def data(chain: StickyChain, seed: int) -> full_batch.Data:
    """:func:`..runs.full_batch.data`; shared, not to be written to."""
    return full_batch.data(chain, seed)


@lru_cache(maxsize=16)
def bayes_losses(chain: StickyChain, seeds: tuple[int, ...], held_out: bool = False) -> tuple[float, ...]:
    """Loss in nats of the best possible prediction on each seed's own training sequence, or on the one held out."""
    own = [data(chain, seed) for seed in seeds]
    return tuple(filtered_losses(chain, [of.held_out if held_out else of.train for of in own]))


def filtered_losses(chain: StickyChain, sequences: Sequence[SymbolSequence]) -> list[float]:
    """:meth:`StickyChain.bayes_loss` of sequences, filtered side by side.

    Raises:
        ValueError: a chain without noise, which needs no filter.
    """
    if chain.noise == 0:
        raise ValueError("a chain without noise shows its state")
    likelihood = []
    for seq in sequences:
        x, means = seq.x.double().numpy(), seq.means.double().numpy()
        distances = ((x[:, None] - means) ** 2).sum(-1)  # (T - 1, n)
        likelihood.append(np.exp(-(distances - distances.min(1, keepdims=True)) / (2 * chain.noise**2)))
    p, prior, seen = chain.transition, chain.stationary, np.stack(likelihood, 1)  # (T - 1, S, n)
    predictive = np.empty_like(seen)
    for t in range(len(seen)):
        posterior = prior * seen[t]
        prior = (posterior / posterior.sum(-1, keepdims=True)) @ p
        predictive[t] = prior
    y = np.stack([seq.y.numpy() for seq in sequences], 1)[..., None]
    return (-np.log(np.take_along_axis(predictive, y, -1)[..., 0])).mean(0).tolist()


def logits(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
    """Logits ``(T, C)`` of a causal head without a bias for inputs ``(T, d_x)``, a block of queries at a time."""
    q, k, brings = x @ W_Q.mT, x @ W_K.mT, x @ W_V.mT @ W_O.mT
    found = []
    for start in range(0, len(x), BLOCK):
        stop = min(start + BLOCK, len(x))
        s = closed.scores(q[start:stop], k[:stop])
        future = torch.ones(stop - start, stop - start, dtype=torch.bool).triu(1)
        s[:, start:].masked_fill_(future, -torch.inf)
        found.append(s.softmax(-1) @ brings[:stop])
    return torch.cat(found)
