"""How long Trained TF (wang2025) stays at its second plateau: the law of :mod:`.waits` past the first fall of the loss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....profiles import check_profile
from ....statistics import Estimate
from ....store import Results
from ....training.computation import Computation
from .models import FIRST, MODELS
from .waits import ACCURACY, SIZES, Resting, degree, leave

Array = np.ndarray
#: Shares of the loss at the origin that are gone in the midst of the first fall and of the second.
FALLS = (0.15, 0.5)


def between_falls(model: str, draws: Sequence[int]) -> dict[str, Array]:
    """Times ``(D, 4)`` between :data:`FALLS` at falling sizes of the start; not a number from draws whose model rests before."""
    sizes, found = SIZES[model].scales(), np.full((len(draws), 4), np.nan)
    for row, draw in zip(found, draws, strict=True):
        landscape = MODELS[model](draw)
        try:
            for i, size in enumerate(sizes):
                flow = leave(landscape, size * landscape.start(draw), FALLS[1])
                gone = 1 - np.array([landscape.value(x) for x in flow.states]) / landscape.value(0 * flow.states[0])
                row[i] = flow.times[-1] - np.interp(FALLS[0], gone, flow.times)
        except Resting:
            row[:] = np.nan
    return {"times": found}


def second_jump(profile: str) -> Computation:
    """The second plateau of Trained TF at a profile. A model may rest."""
    draws = 8 if check_profile(profile) == "paper" else 2
    return Computation(
        "crossing", "second_jump", between_falls, ("trained",), FIRST, draws, 100 * ACCURACY, ("trained",)
    )


def second_values(results: Results) -> dict[str, object]:
    """Degree that the length of the second plateau shows, over the draws from which the model leaves it, and how many these are."""
    times = results["trained/times"]
    times = times[np.isfinite(times).all(1)]
    return {
        "stages/second/degree": Estimate(*degree(times, SIZES["trained"].factor)),
        "stages/second/draws": len(times),
    }
