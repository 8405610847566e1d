"""Prompts on which models are measured while they train, and the losses of nagy2026."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ....random import generator
from ....tasks import Batch
from ....tasks.spectral_regression import SpectralRegression
from ....training.groups import squared_error

#: Seed and purpose of the prompts on which models are measured; purposes 0 and 1 belong to training.
PROBE_SEED, PROBE_PURPOSE = 2026, 2


def penalised_error(model: nn.Module, batch: Batch) -> Tensor:
    """Mean squared error plus the model's regulariser."""
    return squared_error(model, batch) + model.penalty()


@dataclass(frozen=True)
class Probes:
    """Prompts that every run is measured on, drawn once.

    Attributes:
        task: where they come from (its own context length and spectrum; dropout rows are ignored).
        n: how many.
        lengths: names and numbers of context tokens to measure at.
        low: also measure on queries whose covariates are zero but for this many of the smallest eigenvalues (0: do not).
    """

    task: SpectralRegression
    n: int
    lengths: tuple[int, ...]
    low: int = 0

    def draw(self) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
        """Name -> ``(context, query, target)``: ``n<length>`` for each length, and ``low``."""
        task = dataclasses.replace(self.task, dropout_rows=0)
        normals = torch.randn(task.normals, self.n, generator=generator(PROBE_SEED, PROBE_PURPOSE))
        found, batch = {}, task.batch(normals)
        for length in self.lengths:
            found[f"n{length}"] = (batch.context[:length], batch.query, batch.target)
        if self.low:
            first = task.L * task.d
            normals[first : first + task.d - self.low] = 0  # the query's other covariates
            found["low"] = tuple(task.batch(normals))
        return found


@dataclass(frozen=True)
class OnProbes:
    """Observes a model's circuits and its errors on probes.

    Attributes:
        probes: what it is measured on.
    """

    probes: Probes

    def held_out(self) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
        """The probes."""
        return self.probes.draw()

    def __call__(
        self, model: nn.Module, held_out: dict[str, tuple[Tensor, Tensor, Tensor]]
    ) -> dict[str, Tensor]:
        """Circuits, and what ``measured_on`` says of every probe."""
        return model.circuits() | model.measured_on(held_out)
