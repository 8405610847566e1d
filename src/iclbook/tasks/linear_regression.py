"""In-context linear regression (he2025, "Setups"), with one response or several, each supported on its own features (he2025, "Multi-Task Regression")."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .batch import Batch


@dataclass(frozen=True)
class Layout:
    """Where a prompt's numbers stand, for C code: rows of its standard normals. The covariates of L context tokens and the query come first, d each.

    Attributes:
        d, L: covariates of a token, tokens of the context.
        noise: first row of the noise, one row for each response of each token.
        betas: first row of each response's coefficients.
        noise_scale, target_noise_scale, beta_scale: standard deviations of the context's noise, the target's, and the coefficients.
        supports: covariates that each response reads.
        factor: lower Cholesky factor of the covariates' covariance, row by row; empty for the identity.
    """

    d: int
    L: int
    noise: int
    betas: tuple[int, ...]
    noise_scale: float
    target_noise_scale: float
    beta_scale: float
    supports: tuple[tuple[int, ...], ...]
    factor: tuple[float, ...] = ()

    @property
    def n_tasks(self) -> int:
        """Number of responses N."""
        return len(self.betas)


@dataclass(frozen=True)
class LinearRegression:
    """``y = beta . x + eps`` with ``x ~ N(0, Sigma)``, ``beta ~ N(0, I/d)``, ``eps ~ N(0, noise_var)`` (he2025, "Data Distribution").

    The noise is on the context and, as the loss ``E(y_q - yhat)^2`` is written, on the target.

    Args:
        d: covariate dimension, at least 1.
        L: context length, at least 2 (with one example every softmax weight is 1 and there is nothing to attend to).
        noise_var: variance ``sigma^2`` of the noise.
        covariance: ``Sigma`` as a tuple of rows, or ``None`` for the identity.
    """

    d: int = 5
    L: int = 40
    noise_var: float = 0.1
    covariance: tuple[tuple[float, ...], ...] | None = None

    n_tasks = 1

    @property
    def normals(self) -> int:
        """Standard normals that one prompt consumes: ``x_1..x_L, x_q, beta, eps_1..eps_L, eps_q``."""
        return (self.L + 1) * (self.d + 1) + self.d

    def layout(self) -> Layout:
        """Where a prompt's numbers stand, for C code."""
        rows, noise = (self.L + 1) * self.d, math.sqrt(self.noise_var)
        factor = () if self.covariance is None else tuple(c for row in self._factor() for c in row)
        scales = noise, noise, 1 / math.sqrt(self.d)
        return Layout(self.d, self.L, rows + self.d, (rows,), *scales, (tuple(range(self.d)),), factor)

    def _factor(self) -> list[list[float]]:
        """Lower Cholesky factor ``(d, d)`` of the covariance, as numbers: a step on a GPU copies nothing from the host."""
        return torch.linalg.cholesky(torch.tensor(self.covariance, dtype=torch.float64)).tolist()

    def batch(self, normals: Tensor) -> Batch:
        """Turn standard normals ``(..., self.normals, B)`` into a batch; a pure function of the normals."""
        lead, width = normals.shape[:-2], normals.shape[-1]
        n_x = (self.L + 1) * self.d
        x = normals[..., :n_x, :].reshape(*lead, self.L + 1, self.d, width)
        beta = normals[..., n_x : n_x + self.d, :].unsqueeze(-3) / math.sqrt(self.d)  # (..., 1, d, B)
        eps = normals[..., n_x + self.d :, :].unsqueeze(-2) * math.sqrt(self.noise_var)  # (..., L+1, 1, B)
        if self.covariance is not None:
            factor = self._factor()
            x = torch.stack(  # row i of C x, written out so that the batch stays last
                [sum(factor[i][j] * x[..., j, :] for j in range(i + 1)) for i in range(self.d)], dim=-2
            )
        y = (x * beta).sum(-2, keepdim=True) + eps  # (..., L+1, 1, B)
        tokens = torch.cat([x, y], dim=-2)  # (..., L+1, D, B)
        return Batch(tokens[..., : self.L, :, :], x[..., self.L, :, :], y[..., self.L, :, :])


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
    """

    d: int = 6
    L: int = 40
    supports: tuple[tuple[int, ...], ...] = ((0, 1, 2, 3), (2, 3, 4, 5))
    noise_var: float = 0.1
    target_noise_var: float = 0.1
    shared_beta: bool = True
    beta_var: float = 1 / 6

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
