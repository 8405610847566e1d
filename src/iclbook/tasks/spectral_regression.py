"""In-context linear regression whose covariates have a prescribed spectrum (nagy2026, sections 9.1 to 9.6)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .. import random
from ..draw import torch_rng
from .batch import Batch


@dataclass(frozen=True)
class SpectralRegression:
    """``y = sum_i w_i x_i`` with independent ``x_i ~ N(0, lambda_i)`` and ``w_i ~ N(0, weight_var)``, no noise.

    Args:
        eigenvalues: the variances ``lambda_i``, one for each covariate.
        L: context length, at least 1.
        weight_var: variance of each weight.
        balanced: ``y = sum_i w_i x_i / sqrt(lambda_i)``, so that every covariate contributes the same variance (nagy2026, section 9.6,
            round 3).
        dropout_rows: extra rows of uniform numbers under each token of the context, from which a model with dropout makes its masks;
            the covariate of the query carries as many.
    """

    eigenvalues: tuple[float, ...]
    L: int = 16
    weight_var: float = 1.0
    balanced: bool = False
    dropout_rows: int = 0

    @property
    def d(self) -> int:
        """Number of covariates."""
        return len(self.eigenvalues)

    @property
    def variance(self) -> float:
        """Variance of the target: the error of the answer 0."""
        return self.weight_var * (self.d if self.balanced else sum(self.eigenvalues))

    @property
    def normals(self) -> int:
        """Standard normals that one prompt consumes: ``x_1..x_L, x_q, w``."""
        return (self.L + 1) * self.d + self.d

    @property
    def words(self) -> int:
        """Random words that one prompt consumes: its dropout rows."""
        return (self.L + 1) * self.dropout_rows

    def batch(self, normals: Tensor, words: Tensor | None = None) -> Batch:
        """Turn standard normals ``(..., self.normals, B)`` and words ``(..., self.words, B)``, if there are dropout rows, into a batch; pure."""
        lead, width = normals.shape[:-2], normals.shape[-1]
        n_x = (self.L + 1) * self.d
        raw = normals[..., :n_x, :].reshape(*lead, self.L + 1, self.d, width)
        w = normals[..., n_x:, :].unsqueeze(-3) * math.sqrt(self.weight_var)  # (..., 1, d, B)
        # filled where the numbers lie: nothing is copied to a GPU while steps are captured
        scales = torch.stack([normals.new_full((), value) for value in self.eigenvalues]).sqrt()[:, None]
        x = raw * scales
        y = (w * (raw if self.balanced else x)).sum(-2, keepdim=True)  # (..., L+1, 1, B)
        context = torch.cat([x, y], dim=-2)[..., : self.L, :, :]  # (..., L, d + 1, B)
        query = x[..., self.L, :, :]  # (..., d, B)
        if self.dropout_rows:
            rows = random.uniform(words, normals.dtype).unflatten(-2, (self.L + 1, self.dropout_rows))
            context = torch.cat([context, rows[..., : self.L, :, :]], dim=-2)
            query = torch.cat([query, rows[..., self.L, :, :]], dim=-2)
        return Batch(context, query, y[..., self.L, :, :])


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
        return (torch.randn(self.task.normals, n, generator=torch_rng(seed)),)

    def batch(self, parts: tuple[Tensor], normals: Tensor, *words: Tensor) -> Batch:
        """The batch of prompts ``(..., normals, B)``, with dropout rows from words ``(..., self.words, B)`` if there are any; pure."""
        return self.task.batch(parts[0], *words)
