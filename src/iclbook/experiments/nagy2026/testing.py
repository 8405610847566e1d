"""Comparisons over seeds."""

from __future__ import annotations

import numpy as np


def one_sample_t(differences: np.ndarray) -> np.ndarray:
    """Student's t of the mean over the last axis against 0 (a paired test, given paired differences): ``(...)``."""
    n = differences.shape[-1]
    return differences.mean(-1) / (differences.std(-1, ddof=1) / np.sqrt(n))


def welch_t(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Welch's t of ``mean(first) - mean(second)`` over the last axes: ``(...)``."""
    error = first.var(-1, ddof=1) / first.shape[-1] + second.var(-1, ddof=1) / second.shape[-1]
    return (first.mean(-1) - second.mean(-1)) / np.sqrt(error)


def nearest_z(printed: float, values: np.ndarray) -> float:
    """Distance of a printed number from the nearest row of ``values`` ``(settings, seeds)``, in that row's standard deviations."""
    return float((np.abs(printed - values.mean(-1)) / values.std(-1, ddof=1)).min())
