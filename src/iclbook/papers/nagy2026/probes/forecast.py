"""Forecasts from an early checkpoint over a ladder of models (nagy2026, section 8.5.4), and what so few models can show."""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import NamedTuple

import numpy as np

Array = np.ndarray
#: Features of the early checkpoint among which the paper reports the best.
FEATURES = 4
#: Ladders that are simulated.
DRAWS = 4000


class Forecast(NamedTuple):
    """Of a target by one feature over n models: Spearman with exact two-sided p, Pearson, and skill ``1 - SSE / SSE_mean`` of leave-one-out predictions."""

    spearman: float
    exact_p: float
    pearson: float
    skill: float


def forecast(feature: Array, target: Array) -> Forecast:
    """From n values each, without ties."""
    rho = spearman(feature, target)
    pearson = float(np.corrcoef(feature, target)[0, 1])
    return Forecast(rho, exact_p(rho, len(target)), pearson, float(skill(feature, target)))


def ranks(values: Array) -> Array:
    """Ranks 0 .. n - 1 along the last axis."""
    return values.argsort(-1).argsort(-1)


def spearman(x: Array, y: Array) -> float:
    """Spearman's correlation of values without ties."""
    n = x.shape[-1]
    return float(1 - 6 * ((ranks(x) - ranks(y)) ** 2).sum() / (n * (n * n - 1)))


@lru_cache(maxsize=8)
def _null(n: int) -> tuple[Array, Array]:
    """Sums of squared rank differences over all n! orders, and how many orders have each."""
    orders = np.array(list(itertools.permutations(range(n))), dtype=np.int16)
    return np.unique(((orders - np.arange(n)) ** 2).sum(1), return_counts=True)


def exact_p(rho: float, n: int) -> float:
    """Two-sided p of Spearman's correlation over all n! orders, n up to 9; NaN beyond."""
    if n > 9:
        return float("nan")
    sums, counts = _null(n)
    values = 1 - 6 * sums / (n * (n * n - 1))
    return float(counts[np.abs(values) >= abs(rho) - 1e-9].sum() / counts.sum())


def skill(feature: Array, target: Array) -> Array:
    """Leave-one-out skill of a straight line, against the mean of the others; for any leading axes ``(..., n) -> (...)``."""
    x, y = np.asarray(feature, np.float64), np.asarray(target, np.float64)
    n = x.shape[-1]
    dx, dy = x - x.mean(-1, keepdims=True), y - y.mean(-1, keepdims=True)
    square = (dx**2).sum(-1, keepdims=True)
    leverage = 1 / n + dx**2 / square
    line = (dy - (dx * dy).sum(-1, keepdims=True) / square * dx) / (1 - leverage)
    mean = dy * n / (n - 1)
    return 1 - (line**2).sum(-1) / (mean**2).sum(-1)


class Power(NamedTuple):
    """Of a ladder of n models whose feature and target correlate by ``r``.

    Attributes:
        significant: share of ladders whose Spearman correlation has exact p below 0.05.
        best: the same of the largest of :data:`FEATURES` independent features with the same correlation, uncorrected.
        width: mean width of Fisher's 95 % interval of Pearson's r.
        skill: median leave-one-out skill.
    """

    significant: float
    best: float
    width: float
    skill: float


def power(n: int, r: float, features: int = FEATURES, draws: int = DRAWS, seed: int = 0) -> Power:
    """What n models can show, from simulated ladders with normal numbers."""
    rng = np.random.default_rng(seed)
    target = rng.standard_normal((draws, 1, n))
    feature = r * target + np.sqrt(1 - r * r) * rng.standard_normal((draws, features, n))
    squares = ((ranks(feature) - ranks(target)) ** 2).sum(-1)  # (draws, features)
    sums, counts = _null(n)
    far = np.abs(1 - 6 * sums / (n * (n * n - 1)))
    p_of = {int(s): counts[far >= far[i] - 1e-9].sum() / counts.sum() for i, s in enumerate(sums)}
    p = np.vectorize(p_of.__getitem__)(squares)
    a, b = (
        feature[:, 0] - feature[:, 0].mean(-1, keepdims=True),
        target[:, 0] - target[:, 0].mean(-1, keepdims=True),
    )
    pearson = (a * b).sum(-1) / np.sqrt((a**2).sum(-1) * (b**2).sum(-1))
    half = 1.96 / np.sqrt(n - 3)
    width = np.tanh(np.arctanh(pearson) + half) - np.tanh(np.arctanh(pearson) - half)
    return Power(
        float((p[:, 0] < 0.05).mean()),
        float((p.min(1) < 0.05).mean()),
        float(width.mean()),
        float(np.median(skill(feature[:, 0], target[:, 0]))),
    )
