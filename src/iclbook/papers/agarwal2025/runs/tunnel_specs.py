"""Groups of the wind tunnel: models that measure themselves on fixed sequences while they train."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ....models.causal_transformer import CausalTransformer
from ....random import generator
from ....tasks import Batch
from ....tasks.bijection_elimination import BijectionElimination
from ....tasks.hmm_filtering import HmmFiltering
from ....training import Group
from ....training.study import GroupSpec

#: Seed and purpose of the probes; purposes 0 and 1 belong to training.
PROBE_SEED, PROBE_PURPOSE = 2025, 3

Task = HmmFiltering | BijectionElimination


def soft_cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """Mean over places and sequences of ``-sum_c target_c log p_c``, in nats."""
    return -(batch.target * torch.log_softmax(model(batch.context), 1)).sum(1).mean()


@dataclass(frozen=True)
class TunnelSpec(GroupSpec):
    """A group whose models measure themselves on fixed sequences while they train.

    Attributes:
        probes: name and task of each set of sequences.
        n_probes: sequences in a set.
        symbols: V, where tokens are V indicators for x and V for y whose keys are to be compared (transformers only).
        manifold: probe on which values are measured (transformers only).
    """

    probes: tuple[tuple[str, Task], ...] = ()
    n_probes: int = 512
    symbols: int = 0
    manifold: str = ""

    def build(self) -> Group:
        """The group, its model watching the probes."""
        group = super().build()
        drawn = {name: probe(task, self.n_probes) for name, task in self.probes}
        if isinstance(group.model, CausalTransformer):
            units = torch.eye(group.model.embed.shape[1])
            ends = {"x": (0, self.symbols), "y": (self.symbols, 2 * self.symbols)} if self.symbols else {}
            symbols = {name: units[low:high] for name, (low, high) in ends.items()}
            group.model.watch(drawn, symbols, self.manifold)
        else:
            group.model.watch(drawn)
        return group

    def describe(self) -> tuple:
        """The group as plain values, the probes included."""
        return (*super().describe(), self.probes, self.n_probes, self.symbols, self.manifold)


def probe(task: Task, n: int) -> tuple[Tensor, Tensor]:
    """Tokens ``(T, D, n)`` and exact distributions ``(K, C, n)`` of fixed sequences."""
    normals = torch.randn(
        task.normals, n, generator=generator(PROBE_SEED, PROBE_PURPOSE), dtype=torch.float64
    )
    return task.batch(normals).context, task.exact(normals)
