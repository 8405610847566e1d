"""Flows along which plateaus are read, from starts that differ ever more from head to head, with either window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....training.computation import Computation
from ..measures.stages import HEADS, ORDER, experiment, plateau_scan

#: Ratios of successive beta.
RATIOS = (4.0, 10.0, 100.0, 1e3, 1e4)
#: Readings of the window.
WINDOWS = {"order": ORDER, "k": HEADS}
#: How far two machines may lie apart: ten times the accuracy that the flows are followed to.
WITHIN = 1e-6


def scanned(window: str, ratios: Sequence[int]) -> dict[str, np.ndarray]:
    """What :func:`plateau_scan` finds at these ratios, by number, each ``(M,)``."""
    scan = plateau_scan(experiment(window=WINDOWS[window]), [RATIOS[number] for number in ratios])
    return {name: np.array(values) for name, values in scan.items()}


def read(results: Mapping[str, np.ndarray], window: str) -> dict[str, list[float]]:
    """What was computed of a window."""
    return {name: results[f"{window}/{name}"].tolist() for name in ("loss", "attention", "length")}


def plateau_computations() -> dict[str, Computation]:
    """Both windows, at any profile."""
    found = Computation("recall2025", "plateaus", scanned, tuple(WINDOWS), 0, len(RATIOS), WITHIN)
    return {found.name: found}
