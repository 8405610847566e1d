"""Courses over training (nagy2026, sections 8.4, findings 2 and 3, and 8.5): valley, crossing, half maximum, peak and decay."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Array = np.ndarray


class Course(NamedTuple):
    """Of a measure over steps.

    Attributes:
        valley: smallest value before the peak, and ``valley_step``.
        crossing: first step from which on the measure stays positive until its peak, 0 where it never was negative; NaN if the peak is not positive.
        half: first step at which it has reached half its peak; NaN if the peak is not positive.
        peak, peak_step: largest value.
        final: last value.
        decay: ``1 - final / peak``; NaN if the peak is not positive.
    """

    valley: float
    valley_step: float
    crossing: float
    half: float
    peak: float
    peak_step: float
    final: float
    decay: float


def course(steps: Array, values: Array) -> Course:
    """From values ``(T,)`` at steps ``(T,)``."""
    values = np.asarray(values, np.float64)
    top = int(values.argmax())
    peak = values[top]
    low = int(values[: top + 1].argmin())
    positive = values[: top + 1] > 0
    crossing = half = decay = float("nan")
    if peak > 0:
        after_last_negative = int(np.flatnonzero(~positive)[-1]) + 1 if not positive.all() else 0
        crossing = float(steps[after_last_negative])
        half = float(steps[int(np.flatnonzero(values >= peak / 2)[0])])
        decay = float(1 - values[-1] / peak)
    return Course(
        float(values[low]),
        float(steps[low]),
        crossing,
        half,
        float(peak),
        float(steps[top]),
        float(values[-1]),
        decay,
    )


def trend_after(steps: Array, values: Array, start: float) -> float:
    """Change of a measure from step ``start`` to the end."""
    at = int(np.flatnonzero(np.asarray(steps) >= start)[0])
    return float(values[-1] - values[at])


def expected_decay(peaks: int, spread: float, level: float, seed: int = 0) -> float:
    """Mean ``1 - final / peak`` of a measure that stays at ``level`` and is measured ``peaks`` times with normal errors of deviation ``spread``: the largest of
    several noisy values decays by being chosen."""
    values = level + spread * np.random.default_rng(seed).standard_normal((20_000, peaks))
    return float((1 - values[:, -1] / values.max(1)).mean())
