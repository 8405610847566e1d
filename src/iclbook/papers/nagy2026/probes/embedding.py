"""The embedding's spectrum and its truncations (nagy2026, sections 8.2 and 8.3)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .... import random

#: Shares of the width at which embeddings are cut off: a span of 0.996 for wide models, as printed.
SHARES = (0.004, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
#: Purpose of the random basis of a control.
BASIS = 26
#: Thresholds tau of the rank, relative to the largest singular value; the paper leaves tau to its companion.
THRESHOLDS = (0.01, 0.05, 0.1)


def kept(width: int) -> list[int]:
    """Directions that stay at each of :data:`SHARES`, 1 or more."""
    return [max(1, round(share * width)) for share in SHARES]


def truncations(embed: Tensor, drop: str = "last") -> Tensor:
    """Embeddings ``(K, V, w)`` of fewer directions.

    Args:
        embed: ``(V, w)``.
        drop: the ``last`` singular directions (the paper's), the ``first``, or directions of a ``random`` basis (controls).
    """
    w = embed.shape[1]
    if drop == "random":
        source = random.normals(random.keys([0]), torch.tensor([w]), BASIS, (w, w))[0, 0].to(embed)
        basis = torch.linalg.qr(source).Q.T  # (w, w)
    else:
        basis = torch.linalg.svd(embed, full_matrices=False).Vh  # (min(V, w), w)
    rows = []
    for k in kept(w):
        part = basis[-k:] if drop == "first" else basis[:k]
        rows.append(embed @ part.transpose(0, 1) @ part)
    return torch.stack(rows)


def singular_values(embed: Tensor) -> Tensor:
    """Of the embedding ``(V, w)`` less its mean over tokens, descending, ``(min(V, w),)``."""
    return torch.linalg.svdvals(embed - embed.mean(0))


def rank_tau(values: np.ndarray, tau: float) -> int:
    """Singular values above ``tau`` times the largest."""
    return int((values > tau * values[0]).sum())


def effective_rank(values: np.ndarray) -> float:
    """exp of the entropy of the shares ``s_i / sum s`` (Roy and Vetterli 2007)."""
    share = values / values.sum()
    share = share[share > 0]
    return float(np.exp(-(share * np.log(share)).sum()))


def emergence_gap(accuracy: np.ndarray, width: int, rank: int) -> float:
    """Mean accuracy ``(K,)`` of truncations that keep ``rank`` directions or more, less that of those that keep fewer (section 8.3); NaN if one side is empty."""
    enough = np.array(kept(width)) >= rank
    if enough.all() or not enough.any():
        return float("nan")
    return float(accuracy[enough].mean() - accuracy[~enough].mean())
