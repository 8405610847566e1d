"""Which moves first, attention or values: the frame of agarwal2025 ("attention settles early, values later") on other models.

Attention and values are compared as functions on the same prompts, not as parameters: attention rows, and what each row averages as the answer sees it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from ....statistics import standard_error
from ..runs.landscape import Landscape
from ..runs.models import FIRST, MODELS
from .stages import Resting, leave

Array = np.ndarray
#: The way is that until the loss has fallen by this share of what it is at the origin.
FALLEN = 0.25
#: Times of the way at which both are looked at; the integrator's own steps are too few.
TIMES = 201
#: Rate of queries and keys against that of values, in the control.
EXCHANGED = 10.0


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
    """Logarithm of the time at which attention is half-way over that of values, along gradient flow from ``start`` until :data:`FALLEN` of the loss is gone."""
    flow = leave(landscape, start, FALLEN, between=True).resampled(TIMES)
    attention, values = landscape.look(flow.states)
    return float(np.log(halfway(flow.times, attention) / halfway(flow.times, values)))


@dataclass(frozen=True)
class Leads:
    """Of one model: leads ``(draws,)`` with equal rates and with quicker routing, and how many draws were passed over, from which the model came to rest
    before it had taken the way."""

    equal: Array
    quicker: Array
    passed_over: int


#: Model -> initial size.
SIZES = {"heads": 0.3, "chain": 0.1, "known": 0.1}


def leads(draws: int) -> dict[str, Leads]:
    """Leads of each model on the first ``draws`` draws from which it can take that way."""
    return {name: _leads(name, size, draws) for name, size in SIZES.items()}


def _leads(name: str, size: float, draws: int) -> Leads:
    pairs: list[tuple[float, float]] = []
    for tried in count(1):
        draw = FIRST + tried - 1
        landscape = MODELS[name](draw)
        start = size * landscape.start(draw)
        with suppress(Resting):
            pairs.append((lead(landscape, start), lead(quicker_routing(landscape, EXCHANGED), start)))
        if len(pairs) == draws:
            return Leads(*np.array(pairs).T, tried - draws)


def timing_values(found: dict[str, Leads]) -> dict[str, float]:
    """Mean leads with equal rates and with quicker routing, by how much that brings attention forward, and how many draws were passed over."""
    heads, chain, known = (found[name] for name in ("heads", "chain", "known"))
    return {
        "timing/heads": float(heads.equal.mean()),
        "timing/heads_se": float(standard_error(heads.equal)),
        "timing/heads_gain": float((heads.equal - heads.quicker).mean()),
        "timing/heads_gain_se": float(standard_error(heads.equal - heads.quicker)),
        "timing/heads_quicker": float(heads.quicker.mean()),
        "timing/heads_quicker_se": float(standard_error(heads.quicker)),
        "timing/chain": float(chain.equal.mean()),
        "timing/chain_se": float(standard_error(chain.equal)),
        "timing/chain_gain": float((chain.equal - chain.quicker).mean()),
        "timing/chain_gain_se": float(standard_error(chain.equal - chain.quicker)),
        "timing/chain_quicker": float(chain.quicker.mean()),
        "timing/chain_quicker_se": float(standard_error(chain.quicker)),
        "timing/known": float(known.equal.mean()),
        "timing/known_se": float(standard_error(known.equal)),
        "timing/known_gain": float((known.equal - known.quicker).mean()),
        "timing/known_gain_se": float(standard_error(known.equal - known.quicker)),
        "timing/known_quicker": float(known.quicker.mean()),
        "timing/known_quicker_se": float(standard_error(known.quicker)),
        "timing/passed_over": heads.passed_over + chain.passed_over + known.passed_over,
    }
