"""What is observed in the wind tunnel: models on fixed sequences while they train."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .... import random
from ....models.causal_transformer import CausalTransformer
from ....models.sequence import SequenceModel
from ....tasks import Batch
from ....tasks.bijection_elimination import BijectionElimination
from ....tasks.hmm_filtering import HmmFiltering

#: Seed and purpose of the probes; purposes 0 and 1 belong to training.
PROBE_SEED, PROBE_PURPOSE = 2025, 3

Task = HmmFiltering | BijectionElimination


def soft_cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """Mean over places and sequences of ``-sum_c target_c log p_c``, in nats."""
    return -(batch.target * torch.log_softmax(model(batch.context), 1)).sum(1).mean()


@dataclass(frozen=True)
class OnProbes:
    """Observes a sequence model on fixed sequences.

    Attributes:
        probes: name and task of each set of sequences.
        n: sequences in a set.
        symbols: V, where tokens are V indicators for x and V for y whose keys are to be compared (transformers only).
        manifold: probe on which values are measured (transformers only).
    """

    probes: tuple[tuple[str, Task], ...]
    n: int = 512
    symbols: int = 0
    manifold: str = ""

    def held_out(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Name -> tokens and exact distributions."""
        return {name: probe(task, self.n) for name, task in self.probes}

    def __call__(self, model: SequenceModel, held_out: dict[str, tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
        """Errors on every probe; of a transformer also ``key_cosine_<set>`` ``(H,)`` and the geometry of its values."""
        found = model.measured_on(held_out)
        if isinstance(model, CausalTransformer):
            ends = {"x": (0, self.symbols), "y": (self.symbols, 2 * self.symbols)} if self.symbols else {}
            units = torch.eye(model.embed.shape[1]).to(model.embed)
            for name, (low, high) in ends.items():
                found[f"key_cosine_{name}"] = model.key_cosine(units[low:high])
            if self.manifold:
                found |= model.manifold(*held_out[self.manifold])
        return found


def probe(task: Task, n: int) -> tuple[Tensor, Tensor]:
    """Tokens ``(T, D, n)`` and exact distributions ``(K, C, n)`` of fixed sequences."""
    numbers = probe_numbers(task, n)
    return task.batch(*numbers).context, task.exact(*numbers)


def probe_numbers(task: Task, n: int) -> tuple[Tensor, ...]:
    """Normals and words ``(..., n)`` of fixed sequences, no training's."""
    return random.drawn(task, PROBE_SEED, PROBE_PURPOSE, (n,), dtype=torch.float64)
