"""Nagy 2026: t, p and intervals from printed correlations, means and deviations."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
from scipy import stats


def t_of_r(r: float, n: int) -> float:
    """t of a correlation r over n points: r sqrt((n - 2) / (1 - r^2))."""
    r = float(r)
    return r * math.sqrt((n - 2) / (1 - r * r))


def p_of_t(t: float, df: float) -> float:
    """Two-sided p of t with ``df`` degrees of freedom."""
    return float(2 * stats.t.sf(abs(float(t)), float(df)))


def p_of_r(r: float, n: int) -> float:
    """Two-sided p of a correlation by the t approximation."""
    return p_of_t(t_of_r(r, n), n - 2)


def fisher_interval(r: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Confidence interval of a correlation by Fisher's z."""
    half = stats.norm.ppf((1 + level) / 2) / math.sqrt(n - 3)
    centre = math.atanh(float(r))
    return math.tanh(centre - half), math.tanh(centre + half)


@lru_cache(maxsize=8)
def _spearman_counts(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Spearman's correlation over all n! orders: the values it takes and how many orders have each."""
    first = np.arange(n)
    orders = np.array(list(itertools.permutations(range(n))))
    squares = ((orders - first) ** 2).sum(1)
    values, counts = np.unique(squares, return_counts=True)
    return 1 - 6 * values / (n * (n * n - 1)), counts


def spearman_exact_p(rho: float, n: int) -> float:
    """Two-sided p of Spearman's correlation from all n! orders (n up to 9), at the attainable value nearest to ``rho``."""
    values, counts = _spearman_counts(n)
    nearest = values[np.abs(values - float(rho)).argmin()]
    return float(counts[np.abs(values) >= abs(nearest) - 1e-12].sum() / counts.sum())


def t_of_means(m1: float, s1: float, m2: float, s2: float, n: int) -> float:
    """Welch's t of two means of n runs each, from the printed means and standard deviations (m1 - m2)."""
    return float(m1 - m2) / math.sqrt(float(s1 * s1 + s2 * s2) / n)


def p_of_means(m1: float, s1: float, m2: float, s2: float, n: int) -> float:
    """Two-sided p of Welch's t for two means of n runs each."""
    v1, v2 = float(s1 * s1) / n, float(s2 * s2) / n
    df = (v1 + v2) ** 2 / ((v1**2 + v2**2) / (n - 1))
    return p_of_t(t_of_means(m1, s1, m2, s2, n), df)


def pearson(x: tuple, y: tuple) -> float:
    """Pearson's correlation of two short lists."""
    return float(np.corrcoef(np.array(x, dtype=float), np.array(y, dtype=float))[0, 1])
