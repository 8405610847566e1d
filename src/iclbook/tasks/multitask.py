"""In-context multi-task regression: several responses, each supported on its own features (he2025, "Multi-Task Regression")."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import UserError
from ..native.attention import Layout
from .batch import Batch
from .fields import check_fields


@dataclass(frozen=True)
class MultiTaskRegression:
    """``y_n = beta_{S_n} . x_{S_n} + eps_n``, ``x ~ N(0, I_d)``.

    Args:
        d: covariate dimension.
        L: context length, at least 2.
        supports: features of each task, counted from 0 (the paper counts from 1).
        noise_var: variance of the noise on the context.
        target_noise_var: variance of the noise on the target.
        shared_beta: one ``beta`` for all tasks, as the text says; the published code draws one per task.
        beta_var: variance of each entry of ``beta``: the text says ``1/d``, the published code uses 1.

    Raises:
        UserError: a size or a support that defines no task.
    """

    d: int = 6
    L: int = 40
    supports: tuple[tuple[int, ...], ...] = ((0, 1, 2, 3), (2, 3, 4, 5))
    noise_var: float = 0.1
    target_noise_var: float = 0.1
    shared_beta: bool = True
    beta_var: float = 1 / 6

    def __post_init__(self) -> None:
        check_fields(self)
        if self.d < 1 or self.L < 2:
            raise UserError(f"d={self.d}, L={self.L} define no task", "Set d to 1 or more and L to 2 or more.")
        if min(self.noise_var, self.target_noise_var, self.beta_var) < 0:
            raise UserError("a variance of the multi-task data is negative", "Give variances of 0 or more.")
        if any(len(set(s)) < len(s) for s in self.supports):
            raise UserError(f"supports {self.supports} list a feature twice", "List each feature once.")
        if not self.supports or any(not s or min(s) < 0 or max(s) >= self.d for s in self.supports):
            raise UserError(
                f"supports {self.supports} for d={self.d}", f"Give each task features from 0 to {self.d - 1}."
            )

    @property
    def n_tasks(self) -> int:
        """Number of responses ``N``."""
        return len(self.supports)

    @property
    def normals(self) -> int:
        """Standard normals that one prompt consumes."""
        return (self.L + 1) * (self.d + self.n_tasks) + self.d * (1 if self.shared_beta else self.n_tasks)

    def layout(self) -> Layout:
        """Where a prompt's numbers stand, for C code."""
        rows = (self.L + 1) * self.d
        after = rows + (self.L + 1) * self.n_tasks
        betas = tuple(after if self.shared_beta else after + n * self.d for n in range(self.n_tasks))
        scales = (math.sqrt(v) for v in (self.noise_var, self.target_noise_var, self.beta_var))
        return Layout(self.d, self.L, rows, betas, *scales, self.supports)

    def batch(self, normals: Tensor) -> Batch:
        """Turn standard normals ``(..., self.normals, B)`` into a batch with ``D = d + n_tasks``."""
        lead, width = normals.shape[:-2], normals.shape[-1]
        n_x, n_eps = (self.L + 1) * self.d, (self.L + 1) * self.n_tasks
        x = normals[..., :n_x, :].reshape(*lead, self.L + 1, self.d, width)
        eps = normals[..., n_x : n_x + n_eps, :].reshape(*lead, self.L + 1, self.n_tasks, width)
        betas = normals[..., n_x + n_eps :, :].unflatten(-2, (-1, self.d)) * math.sqrt(self.beta_var)
        responses = []
        for n, support in enumerate(self.supports):
            beta = betas[..., 0 if self.shared_beta else n, :, :]  # (..., d, B)
            responses.append(sum(beta[..., None, j, :] * x[..., j, :] for j in support))  # (..., L+1, B)
        y = torch.stack(responses, dim=-2)  # (..., L+1, N, B)
        context = torch.cat([x, y + math.sqrt(self.noise_var) * eps], dim=-2)[..., : self.L, :, :]
        target = y[..., self.L, :, :] + math.sqrt(self.target_noise_var) * eps[..., self.L, :, :]
        return Batch(context, x[..., self.L, :, :], target)
