"""Linear probing: a linear classifier learned anew on each context, all episodes at once (the comparison of wang2025, figure 5 right)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

#: Episodes worked on at once: bounds the memory.
BLOCK = 512


def regularised_probe(
    gram: Tensor, to_query: Tensor, labels: Tensor, ways: int, penalties: Sequence[float], steps: int = 400
) -> Tensor:
    """Multinomial logistic regression on each context, to convergence, for each penalty: the query's log-probabilities ``(len(penalties), E, ways)``.

    Minimises ``mean_i CE(W x_i, y_i) + penalty / 2 |W|^2`` (no bias: the labels are balanced). The minimiser is a combination of the examples,
    ``W = A^T X``, so everything is computed from inner products, ``gram (E, N, N)`` of the examples and ``to_query (E, N)`` with the query, by accelerated
    gradient steps with restarts; ``labels (E, N)`` long.
    """
    parts = list(zip(*(part.split(BLOCK) for part in (gram, to_query, labels)), strict=True))
    return torch.stack([torch.cat([_fit(*p, ways, penalty, steps) for p in parts]) for penalty in penalties])


def _fit(gram: Tensor, to_query: Tensor, labels: Tensor, ways: int, penalty: float, steps: int) -> Tensor:
    n = gram.shape[-1]
    # (E, ways, N): softmax over a middle axis is much faster
    targets = one_hot(labels, ways).to(gram).mT.contiguous()
    # the softmax's curvature is at most 1/2, so the loss is L-smooth in W with L = |gram| / (2 n) + penalty
    smooth = torch.linalg.matrix_norm(gram, 2) / (2 * n) + penalty  # (E,)
    rate = (1 / smooth)[:, None, None]
    weights = torch.zeros_like(targets)  # A^T: W = A^T X
    ahead, momentum = weights, torch.ones(len(gram), 1, 1, dtype=gram.dtype)
    for _ in range(steps):
        residual = torch.softmax(ahead @ gram, dim=1) - targets
        new = ahead - rate * (residual / n + penalty * ahead)  # the gradient in W is (residual / n + penalty A^T) X
        # restart an episode whose momentum points uphill (O'Donoghue and Candes 2015): <ahead - new, new - weights> in the metric of W
        uphill = ((ahead - new) * ((new - weights) @ gram)).sum((-2, -1), keepdim=True) > 0
        momentum = torch.where(uphill, torch.ones_like(momentum), momentum)
        following = (1 + torch.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + torch.where(uphill, 0.0, (momentum - 1) / following) * (new - weights)
        weights, momentum = new, following
    return torch.log_softmax((weights @ to_query[..., None])[..., 0], dim=-1)


def coded_probe(
    context: Tensor, query: Tensor, labels: Tensor, ways: int, steps: int = 500, rate: float = 1e-3
) -> Tensor:
    """The probe as the paper trains it, 500 full-batch Adam steps from zero weights, no penalty and no bias: the query's log-probabilities ``(E, ways)`` from
    ``context (E, N, d)``, ``query (E, d)`` and ``labels (E, N)`` long.

    As in the published code the last label's logit is fixed at 0. Its initial weights are tiny and random; here they are zero.
    """
    parts = zip(*(part.split(BLOCK) for part in (context, query, labels)), strict=True)
    return torch.cat([_adam(*p, ways, steps, rate) for p in parts])


def _adam(context: Tensor, query: Tensor, labels: Tensor, ways: int, steps: int, rate: float) -> Tensor:
    n, targets = context.shape[1], one_hot(labels, ways).to(context)
    weights = context.new_zeros(len(context), context.shape[2], ways - 1)  # (E, d, ways - 1)
    first, second = torch.zeros_like(weights), torch.zeros_like(weights)
    for t in range(1, steps + 1):
        logits = torch.nn.functional.pad(context @ weights, (0, 1))
        residual = (torch.softmax(logits, dim=-1) - targets)[..., :-1] / n
        gradient = context.mT @ residual
        first.lerp_(gradient, 0.1)
        second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        scale = second.sqrt().div_((1 - 0.999**t) ** 0.5).add_(1e-8)
        weights.addcdiv_(first, scale, value=-rate / (1 - 0.9**t))
    return torch.log_softmax(torch.nn.functional.pad((query[:, None] @ weights)[:, 0], (0, 1)), dim=-1)


def scores(log_probability: Tensor, target: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Hits ``(..., E)`` (0 or 1) and negative log-likelihoods ``(..., E)`` in nats, of ``(..., E, ways)`` against ``(E,)``."""
    hits = (log_probability.argmax(-1) == target).numpy()
    index = target.expand(log_probability.shape[:-1])[..., None]
    return hits, -log_probability.gather(-1, index)[..., 0].numpy()
