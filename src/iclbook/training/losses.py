"""Losses of one run on one batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..tasks import Batch


def squared_error(model: nn.Module, batch: Batch) -> Tensor:
    """Mean over the batch of ``|y_q - yhat|^2`` summed over tasks (he2025, population loss)."""
    return ((model(batch.context, batch.query) - batch.target) ** 2).sum(0).mean()


def cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """Mean negative log-likelihood (nats) of the query's category; the model gives logits ``(C, B)``, ``batch.target`` ``(1, B)`` holds its index."""
    logits = model(batch.context, batch.query)
    return torch.nn.functional.cross_entropy(logits.transpose(0, 1), batch.target[0].long())


def next_token(model: nn.Module, batch: Batch) -> Tensor:
    """Mean negative log-likelihood (nats) of the tokens that follow; logits ``(T, B, V)``, ``batch.target (T, B)`` is negative where nothing follows."""
    logits = model(batch.context)
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.target.flatten(), ignore_index=-1)
