"""Comparisons over seeds."""

from __future__ import annotations

import numpy as np


def one_sample_t(differences: np.ndarray) -> np.ndarray:
    """Student's t of the mean over the last axis against 0 (a paired test, given paired differences): ``(...)``."""
    n = differences.shape[-1]
    return differences.mean(-1) / (differences.std(-1, ddof=1) / np.sqrt(n))


def paired_t(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Paired t of ``mean(first - second)`` over the last axis, whose entries are the same seeds in both: ``(...)``."""
    return one_sample_t(first - second)


def welch_t(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Welch's t of ``mean(first) - mean(second)`` over the last axes: ``(...)``."""
    error = first.var(-1, ddof=1) / first.shape[-1] + second.var(-1, ddof=1) / second.shape[-1]
    return (first.mean(-1) - second.mean(-1)) / np.sqrt(error)


def z_of(printed: float, values: np.ndarray, common: float = 0.0) -> np.ndarray:
    """Distance of a printed number from the mean of each row of ``values`` ``(settings, seeds)``, in standard deviations: ``(settings,)``.

    ``common`` is the relative standard error that all seeds share because they are measured on the same prompts.
    """
    spread = np.hypot(values.std(-1, ddof=1), common * values.mean(-1))
    return np.abs(printed - values.mean(-1)) / spread


def nearest_z(printed: float, values: np.ndarray, common: float = 0.0) -> float:
    """:func:`z_of` the nearest row."""
    return float(z_of(printed, values, common).min())
