"""The trainings of section 8.2: short chains, plain, with LayerNorm on values, and with attention dropout. Plain autograd."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .... import random
from ....models.single_head import SingleHead
from ....tasks import Batch
from ....tasks.sticky_chain import StickyChain
from ....training import Group, Run, Sgd
from ....training.study import Study
from .full_batch import INIT_SCALE, data

#: Unstated: shares of attention weights dropped, and the uniform rate. Of 1, 0.5 and 0.3 the last is the first at which no run's loss ever rises above
#: its start: at 1 a run with dropout overflows on some processors and not on others.
DROPOUTS, RATE = (0.2, 0.5), 0.3


@dataclass(frozen=True)
class DroppedSequences:
    """A run's short sequence at every step, and uniform numbers that drop attention weights; a kind of :mod:`iclbook.training.data`.

    Attributes:
        chain: of the sequence.
    """

    chain: StickyChain

    @property
    def words(self) -> int:
        """One for each pair of positions."""
        return (self.chain.T - 1) ** 2

    def fixed(self, seeds: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Inputs ``(S, T - 1, d)`` and targets ``(S, T - 1)``."""
        every = [data(self.chain, seed).train for seed in seeds]
        return torch.stack([seq.x for seq in every]), torch.stack([seq.y for seq in every])

    def draw(self, keys: Tensor, steps: Tensor, batch_size: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """No normals and words ``(S, K, words)``; a step sees one sequence whatever ``batch_size`` says."""
        return random.numbers(self, keys, steps, random.DATA, (), dtype)

    def batch(self, numbers: tuple[Tensor, Tensor], fixed: tuple[Tensor, Tensor]) -> Batch:
        """Inputs, uniform numbers ``(S, T - 1, T - 1)`` and targets."""
        normals, words = numbers
        side = self.chain.T - 1
        return Batch(fixed[0], random.uniform(words, normals.dtype).unflatten(-1, (side, side)), fixed[1])


@dataclass(frozen=True)
class DroppedLoss:
    """Mean cross-entropy with this share of attention weights dropped; the others are scaled so that the mean context is unchanged."""

    share: float = 0.0

    def __call__(self, model: nn.Module, batch: Batch) -> Tensor:
        """Of one sequence."""
        keep = (batch.query >= self.share).to(batch.query) / (1 - self.share) if self.share else None
        return cross_entropy(model(batch.context, keep), batch.target)


def groups(seeds: Sequence[int]) -> tuple[Group, ...]:
    """Every seed plain, with normalised values, and with each share of attention dropped."""
    runs = tuple(Run(seed, RATE, INIT_SCALE) for seed in seeds)
    kinds = {
        "plain": ({}, 0.0),
        "normed": ({"value_norm": True}, 0.0),
        **{f"dropped{share}": ({}, share) for share in DROPOUTS},
    }
    return tuple(
        Group(name, SingleHead, kwargs, runs, Sgd(), DroppedLoss(share))
        for name, (kwargs, share) in kinds.items()
    )


def regularisation_study(
    chain: StickyChain, seeds: Sequence[int], steps: int, records: Sequence[int] = ()
) -> Study:
    """All groups on one short sequence for each seed, recorded at both ends and after these steps; circuits are the weights."""
    return Study(
        "agarwal2025",
        "regularisation",
        DroppedSequences(chain),
        groups(seeds),
        steps,
        1,
        tuple(records),
        compile_from=None,
    )
