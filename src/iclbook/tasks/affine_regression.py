"""In-context linear regression whose labels have a mean of their own in every prompt."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .batch import Batch
from .linear_regression import LinearRegression


@dataclass(frozen=True)
class AffineRegression(LinearRegression):
    """``y = a + beta . x + eps`` with one ``a ~ N(0, 1)`` a prompt; all else as in :class:`LinearRegression`."""

    @property
    def normals(self) -> int:
        """Standard normals that one prompt consumes: those of the regression, then ``a``."""
        return super().normals + 1

    def batch(self, normals: Tensor) -> Batch:
        """Turn standard normals ``(..., self.normals, B)`` into a batch; pure."""
        context, query, target = super().batch(normals[..., :-1, :])
        a = normals[..., -1:, :]  # (..., 1, B)
        labels = context[..., self.d :, :] + a.unsqueeze(-3)
        return Batch(torch.cat([context[..., : self.d, :], labels], -2), query, target + a)
