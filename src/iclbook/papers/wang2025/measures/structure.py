"""What the model's own tensors show: the architecture figures, a vector alpha absorbed into the embeddings, parameter counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ....models.literal_blocks import LiteralBlocks
from ....tasks.categorical import Anchors
from ..runs.contexts import draw
from ..theory import counts, descent
from .exact import fast_model


@dataclass(frozen=True)
class Stream:
    """The encoding of one context through the literal blocks.

    Attributes:
        states: ``(K + 1, D, N + 1)`` columns ``e_i`` at the input and after each block.
        sizes: rows of the four parts ``x, w, E, f``.
        matrices: the matrices of one block, by name.
    """

    states: np.ndarray
    sizes: tuple[int, int, int, int]
    matrices: dict[str, np.ndarray]


def _literal(blocks: int, seed: int, task: Anchors) -> LiteralBlocks:
    fast = fast_model("rbf", blocks, seed, task)
    literal = LiteralBlocks(
        task.n_classes, task.width, blocks, "rbf", erasure="rbf", erase_query=True
    ).double()
    literal.load_state_dict(fast.state_dict())
    return literal


@torch.no_grad()
def stream(blocks: int = 2, n: int = 6, d: int = 4) -> Stream:
    """A small context through the blocks (figures 1 and 2), lambda = 100 so that the erasure's matrices can be drawn."""
    task = Anchors(n, d)
    literal = _literal(blocks, 5, task)
    literal.lam = 100.0
    batch = draw(task, 1, 8)
    states = torch.stack(literal.run(batch.context.double(), batch.query.double()))[:, 0]
    matrices = {k: v.numpy() for k, v in literal.matrices(d, n, 0).items()}
    return Stream(states.numpy(), (d, task.width, task.width, task.width), matrices)


@torch.no_grad()
def architecture(blocks: int = 4, contexts: int = 8) -> dict[str, Any]:
    """Figures 1 and 2 as statements: x and w stay, the expectation's entry is right after every block."""
    task = Anchors()
    literal = _literal(blocks, 6, task)
    batch = draw(task, contexts, 3)
    states = literal.run(batch.context.double(), batch.query.double())
    fixed, w = task.d + task.width, task.width
    kept = max(float((e[:, :fixed] - states[0][:, :fixed]).abs().max()) for e in states[1:])
    slot = max(
        float((e[:, fixed : fixed + w].mT - descent.expectation(literal.embed, e[:, -w:].mT)).abs().max())
        for e in states
    )
    return {"fig1-2/kept": kept, "fig1-2/slot": slot}


@torch.no_grad()
def absorbed(contexts: int = 32) -> dict[str, Any]:
    """One block with a positive vector alpha against alpha = 1 and embeddings ``sqrt(alpha) w``: relative difference of the logits."""
    task = Anchors()
    batch = draw(task, contexts, 3)
    context, query = batch.context.double(), batch.query.double()
    vector = fast_model("rbf", 1, 11, task, vector=True)
    scalar = fast_model("rbf", 1, 11, task)
    scalar.log_gamma.copy_(vector.log_gamma)
    scalar.rate.fill_(1.0)
    scalar.embed.copy_(vector.rate[0].sqrt()[:, None] * vector.embed)
    a, b = vector(context, query), scalar(context, query)
    return {"q-alpha/absorbed": float((a - b).abs().max() / a.abs().max())}


def parameters() -> dict[str, Any]:
    """Section 6.3's counts, taken in the modules, and what they leave out."""
    gd, gd_ff, tf, split = counts.models().values()
    diagonals, mixing = counts.part(gd, "lam"), counts.part(gd, "mix")
    qkv, merging = ("W_Q", "W_K", "W_V"), ("W_O",)
    return {
        "params/gd": diagonals,
        "params/gd_counted_twice": 2 * diagonals,
        "params/gd_scalar": diagonals + gd.n_heads,
        "params/gd_text_millions": (diagonals + gd.n_heads + mixing) / 1e6,
        "params/tf_millions": counts.part(tf, *qkv) / 1e6,
        "params/tf_with_P_millions": counts.part(tf, *qkv, *merging) / 1e6,
        "params/tf_narrow_millions": counts.part(split, *qkv, *merging) / 1e6,
        "params/gd_with_P_ratio": (diagonals + mixing) / diagonals,
        "params/gd_total_millions": gd.count() / 1e6,
        "params/tf_total_millions": tf.count() / 1e6,
        "params/total_ratio": gd.count() / tf.count(),
        "params/gd_ff_millions": counts.inner(gd_ff) / 1e6,
        "params/standard_millions": counts.inner(split) / 1e6,
        "params/standard_ratio": counts.inner(gd_ff) / counts.inner(split),
        "params/attention_ratio": (diagonals + gd.n_heads + mixing) / counts.part(split, *qkv, *merging),
    }
