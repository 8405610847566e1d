"""The flows of the census: random starts at every scale of beta and every ratio of w to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....profiles import check_profile
from ....training.computation import Computation
from ..measures.census import Grid, cell_times

#: Profile -> scales and ratios, and runs of each cell.
GRIDS = {
    "paper": Grid((0.01, 0.1, 0.3, 1.0), (0.0, 0.03, 0.1, 1.0, 10.0), 200),
    "smoke": Grid((0.01, 1.0), (0.0, 0.03, 0.1, 1.0, 10.0), 40),
}
#: How far two machines may lie apart, in times that rounding moves by no more than a billionth.
WITHIN = 1e-6


def activated(profile: str, cells: Sequence[int]) -> dict[str, np.ndarray]:
    """Activation ``times (M, runs, K)`` in these cells of a profile's grid; not a number for never."""
    times = cell_times(GRIDS[profile], cells)
    return {"times": np.where(np.isfinite(times), times, np.nan)}


def read(results: Mapping[str, np.ndarray], profile: str) -> np.ndarray:
    """The times ``(cells, runs, K)`` of a profile's grid; inf for never."""
    times = results[f"{profile}/times"]
    return np.where(np.isnan(times), np.inf, times)


def census_computations(profile: str) -> dict[str, Computation]:
    """The census of a profile."""
    group, count = check_profile(profile), len(GRIDS[profile].cells)
    found = Computation("recall2025", "census", activated, (group,), 0, count, WITHIN, (group,))
    return {found.name: found}
