"""How well the erasure head erases (wang2025, section 3.2.2): its attention against the identity it stands for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

#: Below this the exponential is 0 in double precision.
NOTHING = -746.0


@dataclass(frozen=True)
class Erasure:
    """Quality of the erasure on covariates of many contexts.

    Attributes:
        own: share of context positions at which the largest weight is the position's own.
        left: mean over positions of ``sum_i |a_ji - delta_ji| / 2``, for softmax the mass on wrong positions.
    """

    own: float
    left: float


def softmax_weights(x: Tensor, lam: float, size: int) -> Tensor:
    """``softmax_i(lam^2 x_j^T x_i / sqrt(size))`` ``(..., N, N)`` from covariates ``(..., N, d)``; ``size`` is the width of the encoding."""
    return torch.softmax(lam**2 * (x @ x.mT) / size**0.5, dim=-1)


def rbf_weights(x: Tensor, lam: float) -> Tensor:
    """``exp(-lam^2 |x_j - x_i|^2 / 2)`` ``(..., N, N)``."""
    power = -(lam**2) * torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist") ** 2 / 2
    nothing = power < NOTHING  # torch's exp is ten times slower where it underflows
    return torch.exp(power.masked_fill_(nothing, 0.0)).masked_fill_(nothing, 0.0)


def quality(weights: Tensor) -> Erasure:
    """What :class:`Erasure` says of attention weights ``(..., N, N)``."""
    n = weights.shape[-1]
    off = (weights - torch.eye(n, dtype=weights.dtype)).abs().sum(-1) / 2  # (..., N)
    own = weights.argmax(-1) == torch.arange(n)
    return Erasure(float(own.double().mean()), float(off.mean()))
