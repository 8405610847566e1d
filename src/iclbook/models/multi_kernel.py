"""Several kernels at once: heads with diagonal ``Lambda_m`` (wang2025, appendix H)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .kernels import KERNELS, check_kernel, kernel_values, key_factor, relate


class MultiKernelGD(nn.Module):
    """``f = sum_m P_m f_m`` with one functional step per block and head, kernel ``kappa(Lambda_m x, Lambda_m x')``.

        f_m(x_j) <- f_m(x_j) + alpha_{m,k} / N sum_i [w_{y_i} - E(w_e | f(x_i))] kappa(Lambda_m x_i, Lambda_m x_j)

    ``n_heads = 1`` with ``Lambda = sqrt(gamma) I`` and without mixing is :class:`FunctionalGD`.

    Args:
        d, n_classes, width: of the task.
        n_heads: M.
        n_blocks: K.
        kernel: a key of :data:`iclbook.models.kernels.KERNELS`, its gamma being 1: ``Lambda_m`` carries the scale.
        mixing: learn the matrices ``P_m`` (they start from the identity); without it they stay the identity.
    """

    def __init__(
        self,
        d: int,
        n_classes: int,
        width: int,
        n_heads: int = 2,
        n_blocks: int = 1,
        kernel: str = "rbf",
        mixing: bool = False,
    ) -> None:
        super().__init__()
        assert min(n_heads, n_blocks, d, width) >= 1
        self.kernel, self.n_heads, self.n_blocks = check_kernel(kernel), n_heads, n_blocks
        self.d, self.n_classes, self.width, self.mixing = d, n_classes, width, mixing
        self.embed = nn.Parameter(torch.zeros(width, n_classes))
        self.rate = nn.Parameter(torch.ones(n_blocks, n_heads))
        self.scales = nn.Parameter(torch.ones(n_heads, d))
        if mixing:
            self.mix = nn.Parameter(torch.eye(width).repeat(n_heads, 1, 1))

    def initialise(self, generator: torch.Generator, scale: float = 1.0) -> None:
        """``W_e ~ scale * N(0, 1)``, steps of 1 shared among heads, ``Lambda_m`` uniform in [0.5, 1.5], ``P_m`` the identity."""
        with torch.no_grad():
            self.embed.normal_(0.0, scale, generator=generator)
            self.rate.fill_(1 / self.n_heads)
            self.scales.uniform_(0.5, 1.5, generator=generator)
            if self.mixing:
                self.mix.copy_(torch.eye(self.width).expand_as(self.mix))

    def forward(self, context: Tensor, query: Tensor) -> Tensor:
        """Logits ``(C, B)`` for tokens ``(N, d + 1, B)`` and queries ``(d, B)``."""
        return (self.descend(context, query)[:, -1] @ self.embed).transpose(0, 1)

    def descend(self, context: Tensor, query: Tensor) -> Tensor:
        """The total function at the query after each block, ``(B, K, d')``."""
        n, tokens = context.shape[0], context.movedim(-1, 0)  # (B, N, d + 1)
        keys, factor = tokens[..., : self.d], key_factor(self.kernel, context.shape[0])
        points = torch.cat([keys, query.T[:, None]], dim=1) if self.n_blocks > 1 else query.T[:, None]
        weights = []
        for m in range(self.n_heads):
            relation = relate(KERNELS[self.kernel], points * self.scales[m], keys * self.scales[m])
            weights.append(kernel_values(self.kernel, relation, 1.0))  # (B, T, N)
        categories = torch.arange(self.n_classes, device=context.device)
        values = (tokens[..., -1:].long() == categories).to(tokens.dtype) @ self.embed.T  # (B, N, d')
        f, steps = torch.zeros_like(values[:, :1]), []
        for k in range(self.n_blocks):
            at_keys = f[:, :n] if k else torch.zeros_like(values)
            residual = values - torch.softmax(at_keys @ self.embed, dim=-1) @ self.embed.T
            update = 0.0
            for m in range(self.n_heads):
                step = factor * self.rate[k, m] * (weights[m] @ residual)  # (B, T, d')
                update = update + (step @ self.mix[m].T if self.mixing else step)
            f = f + update
            steps.append(f[:, -1])
        return torch.stack(steps, dim=1)
