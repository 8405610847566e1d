"""The plain loop: one run at a time, batch first, four projections per head of all tokens, torch.optim.Adam.

This is how a careful author writes the model (and how the published code of he2025 is built): the query projection is taken of the
query token only, heads share one matrix product per projection, nothing is read back to Python inside the loop.
"""

import math

import torch
from torch import Tensor

from iclbook.tasks import LinearRegression

Prompts = tuple[Tensor, Tensor, Tensor]


def prompts(task: LinearRegression, batch: int, generator: torch.Generator) -> Prompts:
    """A fresh batch: tokens ``(B, L, D)``, query token ``(B, 1, D)`` with response 0, target ``(B,)``."""
    device = generator.device
    noise = math.sqrt(task.noise_var)
    x = torch.randn(batch, task.L, task.d, generator=generator, device=device)
    x_q = torch.randn(batch, 1, task.d, generator=generator, device=device)
    beta = torch.randn(batch, task.d, 1, generator=generator, device=device) / math.sqrt(task.d)
    y = x @ beta + noise * torch.randn(batch, task.L, 1, generator=generator, device=device)  # (B, L, 1)
    y_q = x_q @ beta + noise * torch.randn(batch, 1, 1, generator=generator, device=device)  # (B, 1, 1)
    tokens = torch.cat([x, y], dim=-1)  # (B, L, D)
    query = torch.cat([x_q, torch.zeros_like(y_q)], dim=-1)  # (B, 1, D)
    return tokens, query, y_q[:, 0, 0]


class PlainLoop:
    """One run.

    Args:
        task: the regression task.
        params: ``query``, ``key``, ``value``, ``output``, each ``(H, D, D)``, copied.
        batch: prompts per step, B.
        generator: of the data; its device is the run's device.
        rate: Adam's learning rate.
        scale: factor on the scores.
    """

    def __init__(
        self,
        task: LinearRegression,
        params: dict[str, Tensor],
        batch: int,
        generator: torch.Generator,
        rate: float,
        scale: float,
    ) -> None:
        self.task, self.batch, self.generator, self.scale = task, batch, generator, scale
        self.n_heads, self.width = params["query"].shape[:2]

        def stacked(name: str) -> Tensor:  # (H, D, D) -> (D, H D), so that z @ w projects every head at once
            return params[name].permute(2, 0, 1).flatten(1).to(generator.device).clone().requires_grad_()

        self.query, self.key, self.value = stacked("query"), stacked("key"), stacked("value")
        # (H, D, D) -> (H D, D): the heads are concatenated and projected together
        output = params["output"].permute(0, 2, 1).flatten(0, 1)
        self.output = output.to(generator.device).clone().requires_grad_()
        self.optimiser = torch.optim.Adam(self.parameters(), lr=rate)

    def parameters(self) -> list[Tensor]:
        """The four matrices: three of ``(D, H D)``, one of ``(H D, D)``."""
        return [self.query, self.key, self.value, self.output]

    def _heads(self, projected: Tensor) -> Tensor:
        """``(B, T, H D) -> (B, H, T, D)``."""
        return projected.unflatten(-1, (self.n_heads, self.width)).transpose(1, 2)

    def predict(self, tokens: Tensor, query: Tensor) -> Tensor:
        """Predictions ``(B,)``."""
        q = self._heads(query @ self.query)  # (B, H, 1, D)
        k = self._heads(tokens @ self.key)  # (B, H, L, D)
        v = self._heads(tokens @ self.value)  # (B, H, L, D)
        weights = torch.softmax(q @ k.transpose(-1, -2) * self.scale, dim=-1)  # (B, H, 1, L)
        joined = (weights @ v).transpose(1, 2).flatten(2)  # (B, 1, H D)
        return (joined @ self.output)[:, 0, -1]

    def loss(self, tokens: Tensor, query: Tensor, target: Tensor) -> Tensor:
        """Mean squared error."""
        return ((self.predict(tokens, query) - target) ** 2).mean()

    def step(self) -> Tensor:
        """One optimiser step on a fresh batch; the loss before it, left on the device."""
        loss = self.loss(*prompts(self.task, self.batch, self.generator))
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss.detach()
