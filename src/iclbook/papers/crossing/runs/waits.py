"""Gradient flows from small starts until they leave: how long each of the papers' models waits at falling sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....errors import UserError
from ....profiles import check_profile
from ....training.computation import Computation
from ....training.flow import Flow, gradient_flow
from .landscape import Landscape
from .models import FIRST, MODELS

Array = np.ndarray
#: The wait ends when the loss has fallen by this share of what it is at the origin.
FALLEN = 0.005
#: Evaluations after which a flow that has not left never will: it rests in a minimum.
PATIENCE = 40_000
#: End of a flow that nothing stops.
FOREVER = 1e14
#: The integrator of flows along narrow valleys; it asks for second derivatives.
STIFF = "LSODA"
#: Relative accuracy of the integrator.
ACCURACY = 1e-6


class Resting(UserError):
    """A flow has come to rest before it lowered the loss as far as asked."""

    def __init__(self) -> None:
        super().__init__(
            f"the loss has not fallen as far as asked after {PATIENCE:,} evaluations, or ever",
            "Take prompts that the model can learn from.",
        )


def leave(
    landscape: Landscape,
    start: Array,
    fallen: float = FALLEN,
    method: str = "DOP853",
    between: bool = False,
) -> Flow:
    """Gradient flow from ``start`` until it has lowered the loss by the share ``fallen`` of the loss at the origin; ``between``: to be resampled.

    Raises:
        Resting: it never does.
        UserError: it has done so from the start.
    """
    goal = (1 - fallen) * landscape.value(np.zeros_like(start))
    size = float(np.abs(start).max())
    if landscape.value(start) <= goal:
        raise UserError(f"a start of size {size:.2g} has left already", "Take a smaller one.")
    patient = _Patient(landscape)
    flow = gradient_flow(
        patient.gradient,
        start,
        FOREVER,
        events=[lambda theta: goal - patient.value(theta)],
        stop_at=0,
        method=method,
        rtol=ACCURACY,
        atol=1e-7 * size,
        hessian=landscape.hessian if method == STIFF else None,
        between=between,
    )
    if not len(flow.events[0]):
        raise Resting()
    return flow


class _Patient:
    """A landscape that is asked for no more than :data:`PATIENCE` slopes, and remembers the loss at the last one: a step often ends there."""

    def __init__(self, landscape: Landscape) -> None:
        self.landscape, self.taken = landscape, 0
        self.last: tuple[Array, float] | None = None

    def gradient(self, theta: Array) -> Array:
        self.taken += 1
        if self.taken > PATIENCE:
            raise Resting()
        value, slope = self.landscape.evaluate(theta)
        self.last = theta.copy(), value
        return slope

    def value(self, theta: Array) -> float:
        if self.last is not None and np.array_equal(theta, self.last[0]):
            return self.last[1]
        return self.landscape.value(theta)


def departing(landscape: Landscape, scales: Sequence[float], seed: int, method: str = "DOP853") -> list[Flow]:
    """Flows that :func:`leave` from one direction, one for each size."""
    start = landscape.start(seed)
    return [leave(landscape, size * start, method=method) for size in scales]


@dataclass(frozen=True)
class Sizes:
    """Initial sizes of a model.

    Attributes:
        scale, factor: largest size, and by what sizes fall.
        method: of the integrator.
    """

    scale: float
    factor: float
    method: str = "DOP853"

    def scales(self) -> list[float]:
        """Four sizes: two degrees, so that what still moves is seen."""
        return [self.scale / self.factor**k for k in range(4)]


#: At what sizes each model waits.
CELLS = {
    "reduced": Sizes(0.01, 10),
    "heads": Sizes(0.1, 4),
    "linear": Sizes(0.1, 4),
    "tasks": Sizes(0.1, 4),
    "layer": Sizes(0.25, 1.6, STIFF),
    "recall": Sizes(0.1, 4),
    "chain": Sizes(0.02, 10),
    "descent": Sizes(0.02, 10),
    "known": Sizes(0.02, 10),
    "trained": Sizes(0.05, 4),
    "few": Sizes(0.02, 4),
}


def departures(model: str, draws: Sequence[int]) -> dict[str, Array]:
    """A model from one direction at the sizes of its cell; each draw ``(D,)`` has prompts and a direction of its own.

    Returns:
        ``times`` ``(D, 4)`` of leaving, and parameters ``(D, n)`` of the smallest start: ``first`` of all, and ``last``, when it leaves.
    """
    cell = CELLS[model]
    flows = [departing(MODELS[model](draw), cell.scales(), draw, cell.method) for draw in draws]
    return {
        "times": np.array([[flow.first() for flow in own] for own in flows]),
        "first": np.array([own[-1].states[0] for own in flows]),
        "last": np.array([own[-1].states[-1] for own in flows]),
    }


def wait_computations(profile: str) -> dict[str, Computation]:
    """The waits of every model at a profile, over the draws that decide. Flows that are followed to an accuracy agree to some ten times that when they leave."""
    draws = 4 if check_profile(profile) == "paper" else 2
    waits = Computation("crossing", "waits", departures, tuple(CELLS), FIRST, draws, 10 * ACCURACY)
    return {waits.name: waits}
