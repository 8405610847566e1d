"""Prompts of a regression task that are drawn once and met again and again, with fresh dropout each time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..draw import torch_rng
from .batch import Batch
from .spectral_regression import SpectralRegression


@dataclass(frozen=True)
class StoredPrompts:
    """Prompts for a :class:`iclbook.training.FixedSet` ("4,000 random tasks", nagy2026, section 9.5).

    Attributes:
        task: where the prompts come from. Its dropout rows, if it has any, are fresh in each batch.
    """

    task: SpectralRegression

    @property
    def words(self) -> int:
        """Random words that a prompt takes anew each time: its dropout rows."""
        return self.task.words

    def draw(self, n: int, seed: int) -> tuple[Tensor]:
        """Normals ``(normals, n)`` of the prompts."""
        source = torch_rng(seed)
        return (torch.randn(self.task.normals, n, generator=source),)

    def batch(self, parts: tuple[Tensor], normals: Tensor, *words: Tensor) -> Batch:
        """The batch of prompts ``(..., normals, B)``, with dropout rows from words ``(..., self.words, B)`` if there are any; pure."""
        return self.task.batch(parts[0], *words)
