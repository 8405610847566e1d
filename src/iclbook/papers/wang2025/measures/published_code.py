"""What the authors' published code does beyond the text: the last embedding is held at zero, and its first version computes the expectation by the kernel
of the block (https://github.com/aarontwang/icl_attention_categorical, ``data.py`` and ``transformer.py`` of ``experiments_jax``)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ....models.kernels import KERNELS, kernel_values, relate
from ....tasks.categorical import Anchors
from ..runs.contexts import draw
from ..theory import descent
from .exact import fast_model


@torch.no_grad()
def held_embedding(contexts: int = 32, blocks: int = 4) -> dict[str, Any]:
    """Log-probabilities of GD with ``W_e`` and with ``W_e - w_C``, whose last column is zero: largest difference, five kernels."""
    task = Anchors()
    batch = draw(task, contexts, 3)
    context, query = batch.context.double(), batch.query.double()
    found = []
    for kernel in KERNELS:
        model = fast_model(kernel, blocks, 5, task)
        before = torch.log_softmax(model(context, query), 0)
        model.embed.sub_(model.embed[:, -1:].clone())
        found.append(float((torch.log_softmax(model(context, query), 0) - before).abs().max()))
    return {"q-code/held": max(found)}


def expectation_by(kernel: str, w: Tensor, f: Tensor, gamma: float) -> Tensor:
    """``sum_c w_c kappa(f, w_c)``: cross-attention to the embeddings by a block's own kernel, ``(..., d')`` from ``f (..., d')``."""
    scores = relate(KERNELS[kernel], f, w.T)  # (..., C)
    return kernel_values(kernel, scores, gamma) @ w.T


@torch.no_grad()
def cross_attention(seed: int = 0, n: int = 10, blocks: int = 3) -> dict[str, Any]:
    """Three blocks whose expectation is by softmax (section 3.3), and by the kernel of the block, against autograd on A; features of linear kernels.

    Kernels whose cross-attention is not softmax: linear, RBF, Laplacian, exponential, with precision 1 (the code's ``sigma``).
    """
    source = torch.Generator().manual_seed(seed)
    psi = torch.randn(n + 1, 20, generator=source, dtype=torch.float64) / 20**0.5
    w = torch.randn(5, 25, generator=source, dtype=torch.float64)
    y, rates = torch.randint(0, 25, (n,), generator=source), (1.5,) * blocks
    with torch.enable_grad():
        truth = descent.parameter_descent([psi], y, w, rates)[-1]
    kappa = [psi[:n] @ psi.T]

    def off(kernel: str) -> float:
        steps = descent.functional_descent(
            kappa, y, w, rates, expect=lambda w, f: expectation_by(kernel, w, f, 1.0)
        )
        return float((steps[-1] - truth).abs().max() / truth.abs().max())

    return {
        "q-code/softmax_expectation": off("softmax"),
        "q-code/kernel_expectation": [off(kernel) for kernel in KERNELS if kernel != "softmax"],
    }


def records() -> dict[str, Any]:
    """Both."""
    return held_embedding() | cross_attention()
