"""Attention kernels of wang2025: a number for each pair of covariates, then the kernel's value for a given precision.

The number (squared distance, l1 distance or inner product) depends on the data alone and can be computed once for a fixed set of contexts; the
value depends on the one learned parameter ``gamma > 0`` as well.

| kernel | relation | value |
|---|---|---|
| ``linear`` | ``x^T x'`` | ``x^T x'`` (no parameter) |
| ``rbf`` | ``|x - x'|^2`` | ``exp(-gamma |x - x'|^2)`` |
| ``laplacian`` | ``|x - x'|_1`` | ``exp(-gamma |x - x'|_1)`` |
| ``exponential`` | ``x^T x'`` | ``exp(gamma x^T x')`` |
| ``softmax`` | ``x^T x'`` | ``exp(gamma x^T x') / sum over keys`` (not symmetric, so no kernel in the strict sense; section 5) |
"""

import torch
from torch import Tensor

#: kernel -> relation it is a function of.
KERNELS = {"linear": "inner", "rbf": "squared", "laplacian": "absolute", "exponential": "inner", "softmax": "inner"}


def relate(relation: str, queries: Tensor, keys: Tensor) -> Tensor:
    """Relation of every query to every key: ``(..., T, d)`` and ``(..., N, d)`` give ``(..., T, N)``.

    ``squared`` is exact to rounding only for unequal points: it is ``|q|^2 + |k|^2 - 2 q.k``, clamped at 0.
    """
    if relation == "inner":
        return queries @ keys.mT
    if relation == "squared":
        squares = (queries**2).sum(-1, keepdim=True) + (keys**2).sum(-1)[..., None, :]
        return (squares - 2 * queries @ keys.mT).clamp_min(0)
    assert relation == "absolute", relation
    return (queries[..., :, None, :] - keys[..., None, :, :]).abs().sum(-1)


def kernel_values(kernel: str, relation: Tensor, gamma: Tensor | float) -> Tensor:
    """Kernel values from relations ``(..., T, N)``, keys last; ``gamma`` broadcasts. Softmax sums to 1 over the keys."""
    if kernel == "linear":
        return relation
    if kernel in ("rbf", "laplacian"):
        return torch.exp(-gamma * relation)
    if kernel == "exponential":
        return torch.exp(gamma * relation)
    return torch.softmax(gamma * relation, dim=-1)


def key_factor(kernel: str, n: int) -> float:
    """Factor before the sum over ``n`` keys: ``1/N`` of equation 3, or 1 for softmax, whose weights sum to 1 already.

    For softmax the ``N`` of equation 3 is thereby part of ``alpha``, as in equation 52 and in the published code.
    """
    return 1.0 if kernel == "softmax" else 1.0 / n


def embedded(embed: Tensor, labels: Tensor) -> Tensor:
    """Embeddings ``(..., d')`` of labels, columns of ``embed (d', C)``: as a product, whose gradient is one too."""
    categories = torch.arange(embed.shape[1], device=labels.device)
    return (labels[..., None] == categories).to(embed) @ embed.T
