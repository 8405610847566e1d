"""How far the values of he2025 would move with other seeds or prompts: the standard errors beside them.

At the smoke profile some models have one run only; their part of an error is 0 there, and no claim is decided.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....statistics import standard_error

Array = np.ndarray


def run_sd(*groups: Array) -> float:
    """Standard deviation of one run about the mean of its group, pooled over groups ``(R, ...)`` and their other axes."""
    squares, freedom = 0.0, 0
    for group in groups:
        group = np.asarray(group, dtype=float)
        if len(group) > 1:
            squares += float(((group - group.mean(0)) ** 2).sum())
            freedom += (len(group) - 1) * group[0].size
    return float(np.sqrt(squares / freedom)) if freedom else 0.0


def mean_error(runs: Array) -> float:
    """Standard error of the mean over runs ``(R,)``."""
    return float(standard_error(runs)) if len(runs) > 1 else 0.0


def ratio_of_means_error(above: Array, below: Array) -> float:
    """Standard error of ``mean(above) / mean(below)`` of runs that do not share their data, ``(R,)`` and ``(S,)``."""
    top, bottom = np.mean(above), np.mean(below)
    return float(abs(top / bottom) * np.hypot(mean_error(above) / top, mean_error(below) / bottom))


def extremes_error(groups: list[Array]) -> float:
    """Standard error of the largest over the smallest mean of groups of runs; which two these are is taken as given."""
    means = [np.mean(group) for group in groups]
    return ratio_of_means_error(groups[int(np.argmax(means))], groups[int(np.argmin(means))])


def over_blocks(statistic: Callable[..., float], *arrays: Array, blocks: int = 16) -> float:
    """Standard error of a statistic of prompts (first axis), from its values in equal blocks of them."""
    parts = zip(*(np.array_split(array, blocks) for array in arrays), strict=True)
    return float(standard_error([statistic(*part) for part in parts]))


def median_error(values: Array) -> float:
    """Standard error of the median of ``(n,)``: half the distance of the order statistics one binomial standard deviation to its sides."""
    values, half = np.sort(np.asarray(values, dtype=float)), np.sqrt(len(values)) / 2
    low = max(int(np.floor((len(values) - 1) / 2 - half)), 0)
    high = min(int(np.ceil((len(values) - 1) / 2 + half)), len(values) - 1)
    return float(values[high] - values[low]) / 2


def jackknife(statistic: Callable[[Array], float], values: Array) -> float:
    """Standard error of a smooth statistic of ``(n,)``, from leaving out each value once."""
    n = len(values)
    if n < 3:
        return 0.0
    left = np.array([statistic(np.delete(values, i)) for i in range(n)])
    return float(np.sqrt((n - 1) * left.var()))
