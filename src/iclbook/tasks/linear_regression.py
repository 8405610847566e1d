"""In-context linear regression (he2025, "Setups")."""

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
class LinearRegression:
    """``y = beta . x + eps`` with ``x ~ N(0, Sigma)``, ``beta ~ N(0, I/d)``, ``eps ~ N(0, noise_var)`` (he2025, "Data Distribution").

    The noise is on the context and, as the loss ``E(y_q - yhat)^2`` is written, on the target.

    Args:
        d: covariate dimension, at least 1.
        L: context length, at least 2 (with one example every softmax weight is 1 and there is nothing to attend to).
        noise_var: variance ``sigma^2`` of the noise.
        covariance: ``Sigma`` as a tuple of rows, or ``None`` for the identity.

    Raises:
        UserError: a size that defines no task, or a covariance that is not positive definite.
    """

    d: int = 5
    L: int = 40
    noise_var: float = 0.1
    covariance: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.d < 1:
            raise UserError(f"d={self.d}: a covariate needs at least one dimension", "Set d to 1 or more.")
        if self.L < 2:
            raise UserError(
                f"L={self.L}: with fewer than two examples there is nothing to attend to", "Set L to 2 or more."
            )
        if self.noise_var < 0:
            raise UserError(f"noise_var={self.noise_var} is negative", "Give a variance of 0 or more.")
        if self.covariance is not None:
            self._factor()

    n_tasks = 1

    @property
    def normals(self) -> int:
        """Standard normals that one prompt consumes: ``x_1..x_L, x_q, beta, eps_1..eps_L, eps_q``."""
        return (self.L + 1) * (self.d + 1) + self.d

    def layout(self) -> Layout:
        """Where a prompt's numbers stand, for C code."""
        rows, noise = (self.L + 1) * self.d, math.sqrt(self.noise_var)
        factor = () if self.covariance is None else tuple(self._factor().flatten().tolist())
        scales = noise, noise, 1 / math.sqrt(self.d)
        return Layout(self.d, self.L, rows + self.d, (rows,), *scales, (tuple(range(self.d)),), factor)

    def _factor(self) -> Tensor:
        """Lower Cholesky factor ``(d, d)`` of the covariance."""
        try:
            sigma = torch.tensor(self.covariance, dtype=torch.float64)
        except (ValueError, TypeError):
            raise UserError("the covariance is not a matrix", f"Give a {self.d} x {self.d} matrix.") from None
        if sigma.shape != (self.d, self.d):
            raise UserError(
                f"covariance of shape {tuple(sigma.shape)} for d={self.d}", f"Give a {self.d} x {self.d} matrix."
            )
        factor, info = torch.linalg.cholesky_ex(sigma)
        if info.item() or not torch.allclose(sigma, sigma.T):
            raise UserError("the covariance is not symmetric positive definite", "Give a covariance matrix.")
        return factor

    def batch(self, normals: Tensor) -> Batch:
        """Turn standard normals ``(..., self.normals, B)`` into a batch; pure, and linear in nothing but the normals."""
        lead, width = normals.shape[:-2], normals.shape[-1]
        n_x = (self.L + 1) * self.d
        x = normals[..., :n_x, :].reshape(*lead, self.L + 1, self.d, width)
        beta = normals[..., n_x : n_x + self.d, :].unsqueeze(-3) / math.sqrt(self.d)  # (..., 1, d, B)
        eps = normals[..., n_x + self.d :, :].unsqueeze(-2) * math.sqrt(self.noise_var)  # (..., L+1, 1, B)
        if self.covariance is not None:
            factor = self._factor().to(x)
            x = torch.stack(  # row i of C x, written out so that the batch stays last
                [sum(factor[i, j] * x[..., j, :] for j in range(i + 1)) for i in range(self.d)], dim=-2
            )
        y = (x * beta).sum(-2, keepdim=True) + eps  # (..., L+1, 1, B)
        tokens = torch.cat([x, y], dim=-2)  # (..., L+1, D, B)
        return Batch(tokens[..., : self.L, :, :], x[..., self.L, :, :], y[..., self.L, :, :])
