"""Geometric contraction of surprisal with depth, and its bridge to capacity (nagy2026, section 8.2); stand-alone statistics of sections 9.3 and 9.4."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Array = np.ndarray


class Contraction(NamedTuple):
    """Of ``log e_l = c + l log rho``, e the mean surprisal by layer.

    Attributes:
        rho: per-layer rate.
        r2: of the straight line in the logarithm.
        monotone: share of layers that lower e.
    """

    rho: float
    r2: float
    monotone: float


def contraction(surprisal: Array) -> Contraction:
    """From surprisals ``(n, L + 1)``; R^2 of a constant is 0."""
    e = np.asarray(surprisal, np.float64).mean(0)
    layer = np.arange(len(e))
    log = np.log(np.maximum(e, 1e-12))
    slope, shift = np.polyfit(layer, log, 1)
    left, all_of_it = ((log - slope * layer - shift) ** 2).sum(), ((log - log.mean()) ** 2).sum()
    return Contraction(
        float(np.exp(slope)),
        float(1 - left / all_of_it) if all_of_it > 1e-20 else 0.0,
        float((np.diff(e) < 0).mean()),
    )


def causal_heads(effect: Array, percentile: float = 95.0) -> Array:
    """Heads ``(k, 2)`` (layer, head) whose effect ``(L, H)`` lies above the percentile of all heads (section 9.3): by construction about 5 % of them, whatever
    the model does."""
    return np.argwhere(effect > np.percentile(effect, percentile))


def late_over_early(sink: Array, parts: int = 3) -> float:
    """Mean sink ``(L, H)`` of the last part of the layers over that of the first (section 9.4; thirds are a reading, halves the other)."""
    by_layer = np.asarray(sink, np.float64).mean(1)
    part = max(1, len(by_layer) // parts)
    return float(by_layer[-part:].mean() / by_layer[:part].mean())


def uniform_sink(tokens: int = 13) -> float:
    """Mean attention to the first token of a head that looks at all tokens alike, over tokens behind the first."""
    return float((1 / np.arange(2, tokens + 1)).mean())
