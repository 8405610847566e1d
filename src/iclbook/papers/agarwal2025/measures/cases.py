"""Random attention heads on which closed forms and prose are tried."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ....random import generator
from ..theory import Weights, causal_mask

#: Purpose of the random numbers, see :func:`iclbook.random.generator`.
PURPOSE = 7


class Case(NamedTuple):
    """Inputs ``(T, d_x)``, targets ``(T,)``, weights, and a causal mask or ``None``."""

    x: Tensor
    y: Tensor
    w: Weights
    mask: Tensor | None


def random_weights(
    gen: torch.Generator, d_x: int, d_k: int, d_v: int, n: int, scale: float, bias: float = 0.0
) -> Weights:
    """Every entry N(0, scale^2); the output bias N(0, bias^2)."""
    shapes = ((d_k, d_x), (d_k, d_x), (d_v, d_x), (n, d_v))
    matrices = [scale * torch.randn(s, generator=gen, dtype=torch.float64) for s in shapes]
    return Weights(*matrices, bias * torch.randn(n, generator=gen, dtype=torch.float64))


def random_case(index: int, largest: int = 12) -> Case:
    """Case ``index``: sizes, scale of the weights (0.3 to 1.5), causal or full, all drawn."""
    gen = generator(index, PURPOSE)

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=gen))

    T, d_x, d_k, d_v, n = draw(2, largest), draw(1, 7), draw(1, 6), draw(1, 6), draw(2, 7)
    x = torch.randn(T, d_x, generator=gen, dtype=torch.float64)
    y = torch.randint(0, n, (T,), generator=gen)
    scale = 0.3 + 1.2 * float(torch.rand((), generator=gen))
    w = random_weights(gen, d_x, d_k, d_v, n, scale, bias=scale)
    return Case(x, y, w, causal_mask(T) if index % 2 else None)


def relative(measured: Tensor, truth: Tensor) -> float:
    """Largest difference over the largest size of ``truth``."""
    size = float(truth.abs().max())
    return float((measured - truth).abs().max()) / size if size else float((measured - truth).abs().max())


def rank_correlation(a: Tensor, b: Tensor) -> float:
    """Spearman's, without ties."""
    ranks = torch.stack([a.flatten().argsort().argsort(), b.flatten().argsort().argsort()]).double()
    return float(torch.corrcoef(ranks)[0, 1])
