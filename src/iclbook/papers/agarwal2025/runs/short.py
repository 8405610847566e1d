"""A short sticky chain, trained in a fraction of a second, for sliders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ....models.single_head import SingleHead
from ....random import INIT, generator
from ....tasks.sticky_chain import StickyChain
from .full_batch import INIT_SCALE, MATRICES, data


@dataclass(frozen=True)
class Race:
    """Loss in nats at every step of the schedule, of SGD at the base rate and of the schedule's value rate for everything; and the Bayes floor."""

    schedule: np.ndarray
    sgd: np.ndarray
    uniform: np.ndarray
    floor: float


def race(
    ratio: float, stay: float, T: int = 150, steps: int = 300, rate: float = 0.02, seed: int = 42
) -> Race:
    """The EM-like schedule with this ratio of rates against SGD on a chain that stays with this chance."""
    return races(((ratio, stay),), T, steps, rate, seed)[0]


@lru_cache(maxsize=64)
def races(
    settings: tuple[tuple[float, float], ...],
    T: int = 150,
    steps: int = 300,
    rate: float = 0.02,
    seed: int = 42,
) -> tuple[Race, ...]:
    """The races of several ``(ratio, stay)``, trained together; runs that they share are trained once."""
    chains = {stay: StickyChain("nearer", stay, T) for _, stay in settings}
    arms = {
        (ratio, stay): ((rate * ratio, 1.0), (rate, ratio), (rate, 1.0)) for ratio, stay in settings
    }  # uniform, schedule, SGD
    runs = list(dict.fromkeys((stay, arm) for (_, stay), of in arms.items() for arm in of))
    found = losses([chains[stay] for stay, _ in runs], steps, [arm for _, arm in runs], seed)
    loss = dict(zip(runs, found, strict=True))
    floors = {stay: chain.bayes_loss(data(chain, seed).train) for stay, chain in chains.items()}
    made = []
    for (_, stay), (uniform, schedule, sgd) in zip(settings, arms.values(), strict=True):
        made.append(Race(loss[stay, schedule], loss[stay, sgd], loss[stay, uniform], floors[stay]))
    return tuple(made)


def losses(
    chains: Sequence[StickyChain], steps: int, arms: Sequence[tuple[float, float]], seed: int
) -> np.ndarray:
    """Losses ``(R, steps)`` before each step of runs on chains of one length, at rates and ratios ``(rate, ratio)``: that of values is so much larger."""
    made = {chain: data(chain, seed) for chain in chains}
    x, target = (
        torch.stack([part(made[chain]) for chain in chains])
        for part in (lambda own: own.train.x, lambda own: own.target)
    )
    model = SingleHead(d_x=chains[0].d, n_classes=chains[0].n)
    model.initialise(generator(seed, INIT), INIT_SCALE)
    weights = [getattr(model, name).detach().repeat(len(chains), 1, 1) for name in MATRICES]
    rates = [
        torch.tensor([rate * (ratio if name == "W_V" else 1.0) for rate, ratio in arms])[:, None, None]
        for name in MATRICES
    ]
    found = []
    for _ in range(steps):
        loss, slopes = mean_step(x, target, *weights)
        found.append(loss)
        weights = [w - r * slope for w, r, slope in zip(weights, rates, slopes, strict=True)]
    return torch.stack(found, 1).double().numpy()


def mean_step(
    x: Tensor, target: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Mean loss ``(R,)`` and its gradients for runs of short causal sequences, as :func:`..theory.causal.step` has them of one long sequence.

    Args:
        x: inputs ``(R, T, d_x)``.
        target: one-hot targets ``(R, T, C)``.
        W_Q, W_K, W_V, W_O: weights, runs first.
    """
    T, scale = x.shape[1], 1 / math.sqrt(W_Q.shape[1])
    q, k, v = x @ W_Q.mT * scale, x @ W_K.mT, x @ W_V.mT
    brings = v @ W_O.mT  # what each key adds to the logits of a query
    future = torch.full((T, T), -torch.inf).triu(1)
    alpha = torch.baddbmm(future, q, k.mT).softmax(-1)  # (R, T, T)
    # products with few columns are slow, so all are taken as their transposes, of few rows
    logits = (brings.mT @ alpha.mT).mT
    logs = logits.log_softmax(-1)
    error = (logs.exp() - target) / T  # equation 13
    # b_ij = error_i . brings_j and E b = error_i . logits_i: equation 23
    ds = torch.baddbmm((error * logits).sum(-1, keepdim=True), error, brings.mT, beta=-1).mul_(alpha)
    dq, dk, used = k.mT @ ds.mT, q.mT @ ds, error.mT @ alpha  # (R, ., T) each
    slopes = dq @ x * scale, dk @ x, W_O.mT @ (used @ x), used @ v
    return -(logs * target).sum((1, 2)) / T, slopes
