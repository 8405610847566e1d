"""An independent, deliberately plain version of the paper's model: one run, batch first, every matrix written out."""

import math

import torch
from torch import Tensor


def full_forward(
    params: dict[str, Tensor], context: Tensor, query: Tensor, n_tasks: int = 1, scale: float = 1.0
) -> Tensor:
    """``TF(Z)`` of he2025 as printed, with the query's column only and the query not among the keys.

    ``context`` (B, L, D), ``query`` (B, d), matrices (H, D, D); returns (B, n_tasks).
    """
    z = context.transpose(1, 2)  # (B, D, L)
    zq = torch.cat([query, torch.zeros(len(query), n_tasks, dtype=query.dtype)], 1)[:, :, None]  # (B, D, 1)
    out = torch.zeros_like(zq)
    for q, k, v, o in zip(params["query"], params["key"], params["value"], params["output"], strict=True):
        scores = (k @ z).transpose(1, 2) @ (q @ zq) * scale  # (B, L, 1)
        out = out + o @ (v @ z) @ torch.softmax(scores, dim=1)
    return out[:, -n_tasks:, 0]


def train(
    params: dict[str, Tensor],
    batches,
    n_tasks: int = 1,
    rate: float = 1e-3,
    optimiser=torch.optim.Adam,
    scale: float = 1.0,
):
    """One run in a plain loop with torch.optim; ``batches`` yields batch-last (context, query, target) of one run."""
    params = {k: p.clone().requires_grad_() for k, p in params.items()}
    opt = optimiser(params.values(), lr=rate)
    for context, query, target in batches:
        yhat = full_forward(params, context.permute(2, 0, 1), query.T, n_tasks, scale)
        loss = ((yhat - target.T) ** 2).sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return {k: p.detach() for k, p in params.items()}


def code_scale(width: int) -> float:
    """The published code's factor on scores."""
    return 1 / math.sqrt(width)
