"""One gain for each head: what masks allow in one step (nagy2026, Theorem M3 and section 9.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

#: As in section 9.1.
MASKS = ("none", "spectral", "random", "redundant")


def visible(d: int, n_heads: int, mask: str, seed: int = 0) -> np.ndarray:
    """Which channels each head sees: zeros and ones ``(H, d)``; bands of ``d / H`` neighbours, the same drawn at random, or the first band.

    Raises:
        ValueError: unknown mask, or bands of unequal size.
    """
    if mask not in MASKS or d % n_heads:
        raise ValueError(f"mask {mask!r} for {n_heads} heads and {d} channels")
    if mask == "none":
        return np.ones((n_heads, d))
    order = np.random.default_rng(seed).permutation(d) if mask == "random" else np.arange(d)
    bands = order.reshape(n_heads, -1)
    seen = np.zeros((n_heads, d))
    for h in range(n_heads):
        seen[h, bands[0 if mask == "redundant" else h]] = 1
    return seen


def best_residual(eigenvalues: Sequence[float], seen: np.ndarray) -> np.ndarray:
    """Squared error left in each channel, ``(d,)``, after one step with the gains that make the worst channel as good as can be.

    A channel's step is the sum of the gains of the heads that see it: residual ``(1 - lambda_i sum_h seen_hi kappa_h)^2``. With one gain for
    all this is the balanced step of Theorem D2; with a head for each distinct eigenvalue it is 0 (Newton). Groups of channels that share no
    head are independent, so each is solved on its own.
    """
    lam = np.asarray(eigenvalues, dtype=float)
    n_heads, d = seen.shape
    residual = np.ones(d)
    left = {i for i in range(d) if seen[:, i].any()}
    while left:
        group = {left.pop()}
        while True:  # channels that share a head with the group
            heads = seen[:, sorted(group)].any(1)
            grown = {i for i in range(d) if seen[heads, i].any()}
            if grown == group:
                break
            group |= grown
        left -= group
        rows = np.array([lam[i] * seen[:, i] for i in sorted(group)])
        ones = np.ones(len(rows))
        bound = linprog(  # least t with |1 - row . kappa| <= t
            c=np.r_[np.zeros(n_heads), 1],
            A_ub=np.vstack([np.c_[-rows, -ones], np.c_[rows, -ones]]),
            b_ub=np.r_[-ones, ones],
            bounds=[(None, None)] * n_heads + [(0, None)],
        )
        residual[sorted(group)] = (1 - rows @ bound.x[:-1]) ** 2
    return residual
