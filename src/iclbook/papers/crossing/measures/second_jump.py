"""How long Trained TF (wang2025) stays at its second plateau: the law of :mod:`.waits` past the first fall of the loss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....models.trained_tf import TrainedStep
from ....project import check_profile
from ....statistics import Estimate
from ....store import Results
from ....training.computation import Computation
from ....training.flow import gradient_flow
from .landscape import ROUTING, Landscape
from .models import FIRST, MODELS
from .waits import ACCURACY, FOREVER, SIZES, Resting, _Patient, degree

Array = np.ndarray
#: Share of the loss at the origin that is gone in the midst of the first fall.
FALLEN = 0.1
#: Which parameters of Trained TF make scores, ``(n,)``.
SCORES = np.concatenate([np.full(p.numel(), name in ROUTING) for name, p in TrainedStep(2, 5, 3).named_parameters()])


def second_plateau(landscape: Landscape, start: Array, scores: Array = SCORES) -> float:
    """Time between the first fall of the loss and the moment at which the parameters that make scores have norm 1.

    Raises:
        Resting: they never have.
    """
    patient = _Patient(landscape)
    grown = [lambda theta: np.linalg.norm(theta[scores]) - 1]
    flow = gradient_flow(
        patient.gradient, start, FOREVER, events=grown, stop_at=0, rtol=ACCURACY, atol=1e-7 * np.abs(start).max()
    )
    if not len(flow.events[0]):
        raise Resting()
    gone = 1 - np.array([landscape.value(x) for x in flow.states]) / landscape.value(0 * start)
    first = int((gone > FALLEN).argmax())
    return float(flow.times[-1] - np.interp(FALLEN, gone[first - 1 : first + 1], flow.times[first - 1 : first + 1]))


def second_plateaus(model: str, draws: Sequence[int]) -> dict[str, Array]:
    """Times ``(D, 4)`` of :func:`second_plateau` at the sizes of the first wait; not a number from draws whose model rests before."""
    found = np.full((len(draws), 4), np.nan)
    for row, draw in zip(found, draws, strict=True):
        landscape = MODELS[model](draw)
        try:
            row[:] = [second_plateau(landscape, size * landscape.start(draw)) for size in SIZES[model].scales()]
        except Resting:
            continue
    return {"times": found}


def second_jump(profile: str) -> Computation:
    """The second plateau of Trained TF at a profile. A model may rest."""
    draws = 24 if check_profile(profile) == "paper" else 2
    models = ("trained",)
    return Computation("crossing", "second_jump", second_plateaus, models, FIRST, draws, 100 * ACCURACY, models)


def second_values(results: Results) -> dict[str, object]:
    """Degree that the length of the second plateau shows, over the draws from which the model leaves it, the later the smaller it starts (from others it takes
    another way), and how many these are."""
    times = results["trained/times"]
    times = times[np.isfinite(times).all(1) & (np.diff(times) > 0).all(1)]
    shown = degree(times, SIZES["trained"].factor)
    return {"stages/second/degree": Estimate(*shown), "stages/second/draws": len(times)}
