"""Oracle scores and the "mean max probability": how far they move with the draw of W_e, and which data can give the printed accuracies."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ....claims import printed
from ....statistics import bootstrap_error, share_error, standard_error
from ....tasks.categorical import Anchors, Categorical, Quadrants
from ..runs.contexts import truths

#: Readings of appendix E's data: key -> (inputs, squared distance in the kernel).
READINGS = {
    "uniform_squared": ("uniform", True),
    "uniform_printed": ("uniform", False),
    "normal_squared": ("normal", True),
    "normal_printed": ("normal", False),
}


def oracle(task: Categorical, contexts: int) -> tuple[float, float]:
    """Mean maximum probability (the best possible accuracy) and mean entropy (the best possible NLL, nats) at the query."""
    p = truths(task, contexts, 11).double()
    return float(p.amax(0).mean()), float(torch.special.entr(p).sum(0).mean())


def bound_error(task: Categorical, contexts: int) -> float:
    """Standard error over contexts of the mean maximum probability of :func:`oracle`."""
    return float(standard_error(truths(task, contexts, 11).double().amax(0).flatten().numpy()))


def over_embeddings(make, draws: int, contexts: int) -> np.ndarray:
    """Oracle accuracy and NLL of ``make(embed_seed)`` for each draw of W_e, ``(draws, 2)``."""
    return np.array([oracle(make(seed), contexts) for seed in range(draws)])


def records(draws: int, contexts: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Values for the ledger, and the samples ``name -> (draws, 2)`` for the figure."""
    samples = {
        name: over_embeddings(
            lambda s, i=inputs, q=squared: Anchors(inputs=i, squared=q, embed_seed=s), draws, contexts
        )
        for name, (inputs, squared) in READINGS.items()
    }
    samples["quadrants"] = over_embeddings(lambda s: Quadrants(N=1, embed_seed=s), draws, contexts)
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
