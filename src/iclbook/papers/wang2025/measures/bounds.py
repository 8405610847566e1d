"""Oracle scores and the "mean max probability": how far they move with the draw of W_e, and which data can give the printed accuracies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....claims import printed
from ....statistics import bootstrap_error, share_error, standard_error
from ....tasks.categorical import Anchors, Categorical, Quadrants, draw_embedding
from ..runs.contexts import BLOCK, numbers, truths

#: Readings of appendix E's data: key -> (inputs, squared distance in the kernel).
READINGS = {
    "uniform_squared": ("uniform", True),
    "uniform_printed": ("uniform", False),
    "normal_squared": ("normal", True),
    "normal_printed": ("normal", False),
}
#: Of the contexts.
SEED = 11


def oracle(task: Categorical, contexts: int) -> tuple[float, float]:
    """Mean maximum probability (the best possible accuracy) and mean entropy (the best possible NLL, nats) at the query."""
    return _scores(truths(task, contexts, SEED))


def _scores(p: Tensor) -> tuple[float, float]:
    """Mean maximum and mean entropy of probabilities ``(C, n)``."""
    p = p.double()
    return float(p.amax(0).mean()), float(torch.special.entr(p).sum(0).mean())


def bound_error(task: Categorical, contexts: int) -> float:
    """Standard error over contexts of the mean maximum probability of :func:`oracle`."""
    return float(standard_error(truths(task, contexts, SEED).double().amax(0).flatten().numpy()))


class _Bare:
    """A task whose ``W_e`` is the identity: its ``f (..., C, B)`` says with which weight each embedding enters, as f is linear in ``W_e``."""

    @property
    def embedding(self) -> Tensor:
        """``(C, C)``."""
        return torch.eye(self.n_classes)


class BareAnchors(_Bare, Anchors):
    """:class:`Anchors` without ``W_e``."""


class BareQuadrants(_Bare, Quadrants):
    """:class:`Quadrants` without ``W_e``."""


def over_embeddings(task: BareAnchors | BareQuadrants, draws: int, contexts: int) -> np.ndarray:
    """:func:`oracle` of each draw of W_e (``embed_seed`` 0, 1, ...), ``(draws, 2)``: accuracy and NLL. The draws share their contexts."""
    weights = torch.cat([_query(task, block) for block in range(math.ceil(contexts / BLOCK))], dim=-1)
    found = []
    for seed in range(draws):
        w = draw_embedding(task.n_classes, task.width, seed)
        p = torch.softmax(w.T @ (w @ weights[:, :contexts]), dim=0)  # (C, contexts)
        found.append(_scores(p))
    return np.array(found)


def _query(task: BareAnchors | BareQuadrants, block: int) -> Tensor:
    """Weights of the embeddings in the query's f ``(C, BLOCK)`` in a block of contexts."""
    normals, words = numbers(task, block, SEED)
    x = task.covariates(normals, words)[-1:]
    return task.latent(x, normals[len(normals) - task.hidden :], task.chosen(words))[0]


def records(draws: int, contexts: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Values for the ledger, and the samples ``name -> (draws, 2)`` for the figure."""
    samples = {
        name: over_embeddings(BareAnchors(inputs=inputs, squared=squared), draws, contexts)
        for name, (inputs, squared) in READINGS.items()
    }
    samples["quadrants"] = over_embeddings(BareQuadrants(N=1), draws, contexts)
    q, says = samples["quadrants"][:, 0], printed("wang2025")
    share_below, share_below_se = _share(q < says["section6/bound"])
    possible = {
        name: _share(sample[:, 0] > max(says["authors/accuracy"])) for name, sample in samples.items()
    }
    return {
        "we-draw/draws": draws,
        "we-draw/quadrants_range": [float(q.min()), float(q.max())],
        "we-draw/quadrants_sd": float(q.std(ddof=1)),
        "we-draw/quadrants_sd_se": bootstrap_error(lambda drawn: float(drawn.std(ddof=1)), q),
        "we-draw/share_below": share_below,
        "we-draw/share_below_se": share_below_se,
        "q-kernel/uniform_squared_possible": possible["uniform_squared"][0],
        "q-kernel/uniform_squared_possible_se": possible["uniform_squared"][1],
        "q-kernel/uniform_printed_possible": possible["uniform_printed"][0],
        "q-kernel/uniform_printed_possible_se": possible["uniform_printed"][1],
        "q-kernel/normal_squared_possible": possible["normal_squared"][0],
        "q-kernel/normal_squared_possible_se": possible["normal_squared"][1],
        "q-kernel/normal_printed_possible": possible["normal_printed"][0],
        "q-kernel/normal_printed_possible_se": possible["normal_printed"][1],
    }, samples


def _share(hits: np.ndarray) -> tuple[float, float]:
    """Share of the draws ``(n,)`` that are true, and its standard error."""
    return float(hits.mean()), share_error(int(hits.sum()), len(hits))
