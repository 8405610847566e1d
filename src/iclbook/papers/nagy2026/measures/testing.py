"""How far a printed number is from what the seeds give."""

from __future__ import annotations

import numpy as np


def z_of(printed: float, values: np.ndarray, common: float = 0.0) -> np.ndarray:
    """Distance of a printed number from the mean of each row of ``values`` ``(settings, seeds)``, in standard deviations: ``(settings,)``.

    ``common`` is the relative standard error that all seeds share because they are measured on the same prompts.
    """
    spread = np.hypot(values.std(-1, ddof=1), common * values.mean(-1))
    return np.abs(printed - values.mean(-1)) / spread


def nearest_z(printed: float, values: np.ndarray, common: float = 0.0) -> float:
    """:func:`z_of` the nearest row."""
    return float(z_of(printed, values, common).min())
