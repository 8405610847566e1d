"""The two numbers per head to which trained attention reduces (he2025, Key Finding 1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .attention import dot


class ReducedAttention(nn.Module):
    """``yhat = sum_h mu_h <y, smax(omega_h X x_q)>``: a sum of kernel regressors.

    Args:
        n_heads: number of heads H.
    """

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        assert n_heads >= 1, n_heads
        self.omega = nn.Parameter(torch.zeros(n_heads))
        self.mu = nn.Parameter(torch.zeros(n_heads))

    def initialise(self, generator: torch.Generator, scale: float = 1.0) -> None:
        """``omega, mu ~ N(0, scale^2)``, small by the paper's assumption ("Starting from small random initialization")."""
        with torch.no_grad():
            self.omega.normal_(0.0, scale, generator=generator)
            self.mu.normal_(0.0, scale, generator=generator)

    def circuits(self) -> dict[str, Tensor]:
        """The parameters themselves, each ``(H,)``."""
        return {"omega": self.omega, "mu": self.mu}

    def forward(self, context: Tensor, query: Tensor) -> Tensor:
        """Predictions ``(1, B)`` for tokens ``(L, d + 1, B)`` and query covariates ``(d, B)``."""
        d = query.shape[0]
        inner = dot(context[:, :d], query, axis=-2)  # (L, B)
        weights = torch.softmax(self.omega[:, None, None] * inner, dim=-2)  # (H, L, B)
        mixture = (self.mu[:, None, None] * weights).sum(0)  # (L, B)
        return (mixture * context[:, d]).sum(0, keepdim=True)
