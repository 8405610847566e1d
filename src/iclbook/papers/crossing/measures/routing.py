"""Routing by advantage (agarwal2025, equation 23): the gradient in a score is its attention times how far its compatibility lies above the mean.

Compatibility ``b = u . v`` is taken from the values and from the gradient ``u`` in what attention puts out; the gradient in the scores is autograd's.
"""

from __future__ import annotations

import numpy as np
import torch

from ....models import Attention
from ....models.attention import ACTIVATIONS
from ..runs.models import REGRESSION, prompts
from .stages import judged

KINDS = ("softmax", "affine", "square", "linear")


def deviation(activation: str, seed: int) -> float:
    """Largest deviation of the law from autograd, as a share of the largest gradient, on a random head of he2025 with this activation."""
    generator = torch.Generator().manual_seed(seed)
    model = Attention(2, 2, activation=activation).double()
    model.initialise(generator)
    batch = prompts(REGRESSION, seed)
    circuits = model.circuits()
    folded = torch.einsum("hed,db->heb", circuits["kq"][:, :, :2], batch.query)
    scores = torch.einsum("heb,leb->hlb", folded, batch.context).detach().requires_grad_()
    weights = ACTIVATIONS[activation](scores)
    values = torch.einsum("hnd,ldb->hnlb", circuits["ov"], batch.context).detach()[:, 0]  # (H, L, B)
    answer = (weights * values).sum((0, 1))
    loss = ((answer - batch.target[0]) ** 2).mean()
    by_score, by_answer = torch.autograd.grad(loss, [scores, answer])
    compatibility = by_answer * values
    mean = (weights * compatibility).sum(1, keepdim=True)
    law = (weights * (compatibility - mean)).detach()
    return float((law - by_score).abs().max() / by_score.abs().max())


def routing_values(draws: int) -> dict[str, float]:
    """Deviations of the law with softmax, the largest, and without, the smallest."""
    of = {kind: np.array([deviation(kind, seed) for seed in judged(draws)]) for kind in KINDS}
    return {
        "routing/softmax": float(of["softmax"].max()),
        "routing/affine": float(of["affine"].min()),
        "routing/square": float(of["square"].min()),
        "routing/linear": float(of["linear"].min()),
    }
