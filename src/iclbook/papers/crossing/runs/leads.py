"""Gradient flows from small starts, watched: which comes half its way first, attention or values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....profiles import check_profile
from ....training.computation import Computation
from .landscape import Landscape
from .models import FIRST, MODELS
from .waits import ACCURACY, Resting, leave

Array = np.ndarray
#: The way is that until the loss has fallen by this share of what it is at the origin.
FALLEN = 0.25
#: Times of the way at which both are looked at; the integrator's own steps are too few.
TIMES = 201
#: Rate of queries and keys against that of values, in the control.
EXCHANGED = 10.0
#: Model -> initial size.
SIZES = {"heads": 0.3, "chain": 0.1, "known": 0.1}


def quicker_routing(landscape: Landscape, factor: float) -> Landscape:
    """The landscape with gradients of the parameters that make scores multiplied by ``factor``."""
    rates = np.where(landscape.routing, factor, 1.0)

    def evaluate(theta: Array) -> tuple[float, Array]:
        value, gradient = landscape.evaluate(theta)
        return value, rates * gradient

    return replace(landscape, evaluate=evaluate, hessian=None)


def halfway(times: Array, states: Array) -> float:
    """Time at which ``states (T, n)`` have come half the way, in mean absolute distance, from the first to the last; interpolated."""
    left = np.abs(states - states[-1]).mean(1)
    left = left / left[0]
    above = int(np.flatnonzero(left > 0.5)[-1])
    part = (left[above] - 0.5) / (left[above] - left[above + 1])
    return float(times[above] + part * (times[above + 1] - times[above]))


def lead(landscape: Landscape, start: Array) -> float:
    """Logarithm of the time at which attention is half-way over that of values, along gradient flow from ``start`` until :data:`FALLEN` of the loss is gone;
    not a number if the model rests before."""
    try:
        flow = leave(landscape, start, FALLEN, between=True).resampled(TIMES)
    except Resting:
        return float("nan")
    attention, values = landscape.look(flow.states)
    return float(np.log(halfway(flow.times, attention) / halfway(flow.times, values)))


def leads(model: str, draws: Sequence[int]) -> dict[str, Array]:
    """Leads ``(D,)`` of a model on each draw of prompts and of a direction: with ``equal`` rates, and with ``quicker`` routing."""
    found: list[tuple[float, float]] = []
    for draw in draws:
        landscape = MODELS[model](draw)
        start = SIZES[model] * landscape.start(draw)
        found.append((lead(landscape, start), lead(quicker_routing(landscape, EXCHANGED), start)))
    equal, quicker = np.array(found).T
    return {"equal": equal, "quicker": quicker}


def lead_computations(profile: str) -> dict[str, Computation]:
    """The leads of every model at a profile, over the draws that decide. A model may rest. A lead is a small difference of
    two times, and as much less exact than they."""
    draws = 30 if check_profile(profile) == "paper" else 2
    models = tuple(SIZES)
    found = Computation("crossing", "leads", leads, models, FIRST, draws, 100 * ACCURACY, models)
    return {found.name: found}
