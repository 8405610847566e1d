"""GD blocks whose erasure head erases the wrong position's expectation, as the softmax head does at large lambda (wang2025, section 3.2.2)."""

from __future__ import annotations

import torch
from torch import Tensor

from .functional_gd import FunctionalGD
from .kernels import kernel_values, key_factor


class HardErasureGD(FunctionalGD):
    """:class:`FunctionalGD` with the limit ``lambda -> infinity`` of the softmax erasure head.

    That head attends to ``argmax_i x_i^T x_j``, not to j itself, so the slot of j becomes ``E_j - E_{argmax} + E(w | f_j)``. Where every position is its
    own maximum this is :class:`FunctionalGD`. It equals ``LiteralBlocks(erasure="softmax", lam=1e5)``. Softmax update kernel only, whose cached
    relations are the inner products that the erasure needs.
    """

    def descend(self, to_query: Tensor, labels: Tensor, between: Tensor | None = None) -> Tensor:
        """The query's function after each block, ``(B, K, d')``."""
        if self.n_blocks == 1:
            return super().descend(to_query, labels, between)
        gamma, embed = self.log_gamma.exp(), self.embed
        factor = key_factor(self.kernel, to_query.shape[-1])
        to_keys = kernel_values(self.kernel, between, gamma)
        to_query = kernel_values(self.kernel, to_query, gamma)
        categories = torch.arange(self.n_classes, device=labels.device)
        values = (labels[..., None] == categories).to(embed) @ embed.T  # (B, N, d')
        pointer = between.argmax(-1)[..., None].expand_as(values)  # (B, N, d')
        slot = embed.mean(1).expand_as(values)
        at_keys, f, steps = 0.0, 0.0, []
        for k in range(self.n_blocks):
            residual = values - slot
            f = f + factor * self.rate[k] * (to_query[:, None] @ residual)[:, 0]
            steps.append(f)
            at_keys = at_keys + factor * self.rate[k] * (to_keys @ residual)
            slot = slot - slot.gather(-2, pointer) + torch.softmax(at_keys @ embed, dim=-1) @ embed.T
        return torch.stack(steps, dim=1)
