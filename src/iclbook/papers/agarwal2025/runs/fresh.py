"""The head of section 7.2 of agarwal2025 on a fresh sequence at every step: what it can learn when data are not what limits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .... import random
from ....tasks import Batch
from ....tasks.sticky_chain import StickyChain
from ..theory.causal import predict
from .full_batch import MATRICES, data

#: Length of a fresh sequence.
T = 300


@dataclass(frozen=True)
class FreshSequences:
    """A new sequence of length :data:`T` at every step, with the means of the run's own long sequence; a kind of :mod:`iclbook.training.data`.

    Attributes:
        chain: of the long sequence.
    """

    chain: StickyChain

    @property
    def short(self) -> StickyChain:
        """The chain of the fresh sequences."""
        c = self.chain
        return StickyChain(c.leaving, c.stay, T, c.n, c.d, c.noise)

    def fixed(self, seeds: Sequence[int]) -> tuple[Tensor]:
        """Means ``(S, n, d)``."""
        return (torch.stack([data(self.chain, seed).train.means for seed in seeds]),)

    def draw(self, keys: Tensor, steps: Tensor, batch_size: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """Standard normals ``(S, K, normals)`` and words ``(S, K, words)``; a step sees one sequence whatever ``batch_size`` says."""
        return random.numbers(self.short, keys, steps, random.DATA, (), dtype)

    def batch(self, numbers: tuple[Tensor, ...], fixed: tuple[Tensor]) -> Batch:
        """Inputs ``(S, 1, T - 1, d)`` and one-hot targets ``(S, 1, T - 1, n)``."""
        every = [self.short.sequence(*own) for own in zip(*numbers, *fixed, strict=True)]
        x = torch.stack([seq.x for seq in every])[:, None]
        y = nn.functional.one_hot(torch.stack([seq.y for seq in every]), self.chain.n)[:, None]
        return Batch(x, x[..., :0], y.to(x))


@dataclass(frozen=True)
class AboveFloor:
    """Observes ``gap``: loss on the run's held-out sequence minus its Bayes floor, nats.

    Attributes:
        chain: of the held-out sequence.
    """

    chain: StickyChain

    def held_out(self) -> None:
        """Nothing: held-out sequences belong to the seeds."""

    def of_runs(
        self, ensemble: Any, params: dict[str, Tensor], seen: Batch, held_out: None
    ) -> dict[str, Tensor]:
        """``gap`` ``(R,)``."""
        found = []
        for r, run in enumerate(ensemble.runs):
            own = data(self.chain, run.data_seed).held_out
            logits = predict(own.x.to(params["W_V"]), *(params[name][r] for name in MATRICES)).logits
            loss = nn.functional.cross_entropy(logits, own.y.to(logits.device))
            found.append(loss - self.chain.bayes_loss(own))
        return {"gap": torch.stack(found)}
