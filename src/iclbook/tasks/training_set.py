"""A fixed set of prompts that training meets again and again, instead of a fresh prompt each time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ..errors import UserError
from .batch import Batch
from .fields import check_fields
from .spectral_regression import SpectralRegression


@dataclass(frozen=True)
class TrainingSet:
    """``n`` prompts of a task, drawn once; every batch draws from them with replacement ("4,000 random tasks", nagy2026, section 9.5).

    Dropout rows, if the task has any, are fresh in each batch.

    Args:
        task: where the prompts come from.
        n: how many.
        seed: of their numbers; every run sees the same set.

    Raises:
        UserError: no prompt.
    """

    task: SpectralRegression
    n: int
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.n < 1:
            raise UserError(f"n={self.n}: a training set needs prompts", "Set n to 1 or more.")

    @property
    def normals(self) -> int:
        """Standard normals for one prompt of a batch: one that chooses it, and its dropout rows."""
        return 1 + (self.task.L + 1) * self.task.dropout_rows

    def batch(self, normals: Tensor) -> Batch:
        """Turn standard normals ``(..., self.normals, B)`` into a batch; pure."""
        uniform = (1 + torch.erf(normals[..., 0, :] / math.sqrt(2))) / 2
        index = (uniform * self.n).long().clamp(0, self.n - 1)  # (..., B)
        prompts = _prompts(self).to(normals)[:, index].movedim(0, -2)  # (..., core, B)
        return self.task.batch(torch.cat([prompts, normals[..., 1:, :]], dim=-2))


@lru_cache(maxsize=8)
def _prompts(chosen: TrainingSet) -> Tensor:
    """Normals ``(core, n)`` of the prompts, without dropout rows."""
    core = chosen.task.normals - (chosen.task.L + 1) * chosen.task.dropout_rows
    return torch.randn(core, chosen.n, generator=torch.Generator().manual_seed(chosen.seed))
