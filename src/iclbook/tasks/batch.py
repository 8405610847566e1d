"""What a task hands to a model: a batch of prompts; and to C code, where a prompt's random numbers stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


class Batch(NamedTuple):
    """``B`` in-context prompts. The batch is the LAST axis: every operation of the models then runs along contiguous memory.

    Attributes:
        context: ``(..., L, D, B)`` tokens ``z_l = (x_l, y_l)``, ``D = d + n_tasks``.
        query: ``(..., d, B)`` covariate ``x_q``; the response part of the query token is zero and not stored.
        target: ``(..., n_tasks, B)`` response ``y_q``.
    """

    context: Tensor
    query: Tensor
    target: Tensor


@dataclass(frozen=True)
class Layout:
    """Rows of a prompt's standard normals: the covariates of L context tokens and the query come first, d each.

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
