"""The models with simplifications lifted, at the readings of gamma and beta that the chapter does not draw: when they jump."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....training.computation import Computation
from ..measures.relaxed import OTHER_READINGS, READINGS, VARIANTS, Run, variant

#: How far two machines may lie apart: ten times the accuracy that the flows are followed to.
WITHIN = 1e-5


def jumping(reading: str, variants: Sequence[int]) -> dict[str, np.ndarray]:
    """Of these variants, by number, ``jumps (M, 2)`` and ``active (M, 3)`` as :func:`variant` finds them; not a number for never."""
    names = list(VARIANTS)
    runs = [variant(names[number], *READINGS[reading]) for number in variants]
    every = {kind: np.array([run[kind] for run in runs]) for kind in ("jumps", "active")}
    return {kind: np.where(np.isfinite(times), times, np.nan) for kind, times in every.items()}


def read(results: Mapping[str, np.ndarray], reading: str) -> dict[str, Run]:
    """What was computed of a reading, by the name of the variant; inf for never."""
    kept = {kind: results[f"{reading}/{kind}"] for kind in ("jumps", "active")}
    return {
        name: {kind: np.where(np.isnan(times[i]), np.inf, times[i]) for kind, times in kept.items()}
        for i, name in enumerate(VARIANTS)
    }


def lifted_computations() -> dict[str, Computation]:
    """The readings beside the first, at any profile; heads may never become active."""
    readings = tuple(OTHER_READINGS)
    found = Computation("recall2025", "lifted", jumping, readings, 0, len(VARIANTS), WITHIN, readings)
    return {found.name: found}
