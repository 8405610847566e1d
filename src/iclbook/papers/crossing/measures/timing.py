"""Which moves first, attention or values: the frame of agarwal2025 ("attention settles early, values later") on other models.

Attention and values are compared as functions on the same prompts, not as parameters: attention rows, and what each row averages as the answer sees it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....statistics import standard_error
from ..runs.landscape import Landscape
from ..runs.models import MODELS
from .stages import judged, leave

Array = np.ndarray
#: The way is that until the loss has fallen by this share of what it is at the origin.
FALLEN = 0.25
#: Rate of queries and keys against that of values, in the control.
EXCHANGED = 10.0


def quicker_routing(landscape: Landscape, factor: float) -> Landscape:
    """The landscape with gradients of the parameters that make scores multiplied by ``factor``."""
    rates = np.where(landscape.routing, factor, 1.0)

    def evaluate(theta: Array) -> tuple[float, Array]:
        value, gradient = landscape.evaluate(theta)
        return value, rates * gradient

    return replace(landscape, evaluate=evaluate)


def halfway(times: Array, states: Array) -> float:
    """Time at which ``states (T, n)`` have come half the way, in mean absolute distance, from the first to the last; interpolated."""
    left = np.abs(states - states[-1]).mean(1)
    left = left / left[0]
    above = int(np.flatnonzero(left > 0.5)[-1])
    part = (left[above] - 0.5) / (left[above] - left[above + 1])
    return float(times[above] + part * (times[above + 1] - times[above]))


def lead(landscape: Landscape, start: Array) -> float:
    """Logarithm of the time at which attention is half-way over that of values, along gradient flow from ``start`` until :data:`FALLEN` of the loss is gone."""
    flow = leave(landscape, start, FALLEN)
    attention, values = zip(*(landscape.look(state) for state in flow.states), strict=True)
    return float(np.log(halfway(flow.times, np.array(attention)) / halfway(flow.times, np.array(values))))


#: Model -> initial size.
SIZES = {"heads": 0.3, "chain": 0.1, "known": 0.1}


def leads(draws: int) -> dict[str, tuple[Array, Array]]:
    """For each model the leads ``(draws,)`` with equal rates, and with quicker routing."""
    found = {}
    for name, size in SIZES.items():
        pairs = []
        for draw in judged(draws):
            landscape = MODELS[name](draw)
            start = size * landscape.start(draw)
            pairs.append((lead(landscape, start), lead(quicker_routing(landscape, EXCHANGED), start)))
        found[name] = tuple(np.array(pairs).T)
    return found


def timing_values(found: dict[str, tuple[Array, Array]]) -> dict[str, float]:
    """Mean leads, and by how much quicker routing brings attention forward."""
    return {
        "timing/heads": float(found["heads"][0].mean()),
        "timing/heads_se": float(standard_error(found["heads"][0])),
        "timing/heads_gain": float((found["heads"][0] - found["heads"][1]).mean()),
        "timing/heads_gain_se": float(standard_error(found["heads"][0] - found["heads"][1])),
        "timing/chain": float(found["chain"][0].mean()),
        "timing/chain_se": float(standard_error(found["chain"][0])),
        "timing/chain_gain": float((found["chain"][0] - found["chain"][1]).mean()),
        "timing/chain_gain_se": float(standard_error(found["chain"][0] - found["chain"][1])),
        "timing/known": float(found["known"][0].mean()),
        "timing/known_se": float(standard_error(found["known"][0])),
        "timing/known_gain": float((found["known"][0] - found["known"][1]).mean()),
        "timing/known_gain_se": float(standard_error(found["known"][0] - found["known"][1])),
    }
