"""How long a small start waits: the law of recall2025 ("the first jump comes at a time that grows as 1 / eps") on every model.

Where a loss begins, at the origin, with a polynomial of degree p in what must grow together, gradient flow from parameters of size eps leaves at a time
T with ``T ~ log(1 / eps)`` for p = 2 and ``T ~ eps^-(p - 2)`` for p > 2: a homogeneous polynomial's flow maps onto itself when sizes shrink by b and
times grow by ``b^(p - 2)``. Either way waits at sizes ``eps, eps / b, eps / b^2`` have differences whose ratio is ``b^(p - 2)``, which measures p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from ....errors import UserError
from ....statistics import standard_error
from ....training.flow import Flow, gradient_flow
from ..runs.landscape import Landscape
from ..runs.models import FIRST, MODELS, heads_of

Array = np.ndarray
#: The wait ends when the loss has fallen by this share of what it is at the origin.
FALLEN = 0.005
#: Evaluations after which a flow that has not left never will: it rests in a minimum.
PATIENCE = 40_000
#: End of a flow that nothing stops.
FOREVER = 1e14
#: The integrator of flows along narrow valleys; it asks for second derivatives.
STIFF = "LSODA"
#: Rates that differ by no more than this share are one.
SHARED = 1e-4


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
        rtol=1e-6,
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


def waits(
    landscape: Landscape, scales: Sequence[float], seeds: Sequence[int], method: str = "DOP853"
) -> Array:
    """Waits ``(seeds, scales)`` from the same directions at falling sizes."""
    return np.array([[flow.first() for flow in departing(landscape, scales, seed, method)] for seed in seeds])


def departing(landscape: Landscape, scales: Sequence[float], seed: int, method: str = "DOP853") -> list[Flow]:
    """Flows that :func:`leave` from one direction, one for each size."""
    start = landscape.start(seed)
    return [leave(landscape, size * start, method=method) for size in scales]


def degrees(times: Array, factor: float) -> Array:
    """Degree p ``(seeds, scales - 2)`` from waits ``(seeds, scales)`` at sizes that fall by ``factor``: 2 plus the logarithm, to that base, of the ratio
    of successive differences."""
    grown = np.diff(times, axis=1)
    return 2 + np.log(grown[:, 1:] / grown[:, :-1]) / np.log(factor)


def degree(times: Array, factor: float) -> tuple[float, float]:
    """The degree at the smallest sizes, mean over directions, and its error: the spread over directions, and how far it still moves with size."""
    every = degrees(times, factor)
    last = every[:, -1]
    moves = every[:, -1].mean() - every[:, -2].mean()
    return float(last.mean()), float(np.hypot(last.std(ddof=1) / np.sqrt(len(last)), moves))


def adam_wait(landscape: Landscape, start: Array, rate: float = 1e-3, steps: int = 20_000) -> float:
    """Steps of Adam, interpolated, until the loss has fallen as :func:`leave` asks; its guard against division by zero is switched off.

    Raises:
        UserError: more steps than given.
    """
    goal = (1 - FALLEN) * landscape.value(np.zeros_like(start))
    theta = torch.nn.Parameter(torch.from_numpy(start.copy()))
    adam = torch.optim.Adam([theta], lr=rate, eps=1e-300)
    before = np.inf
    for step in range(steps):
        loss, gradient = landscape.evaluate(theta.detach().numpy())
        if loss <= goal:
            return step - (goal - loss) / (before - loss)
        before = loss
        theta.grad = torch.from_numpy(gradient)
        adam.step()
    raise UserError(f"Adam has not left after {steps:,} steps", "Give it more steps or a higher rate.")


def leading(landscape: Landscape, size: int) -> tuple[float, Array]:
    """Growth rate of the fastest growth at the origin, and the directions ``(k, size)`` that share it: minus the lowest curvature of the loss there.
    Hidden units that are alike share one rate."""
    curvature, directions = np.linalg.eigh(landscape.hessian(np.zeros(size)))
    shared = curvature <= (1 - SHARED) * curvature[0]
    return float(-curvature[0]), directions[:, shared].T


@dataclass(frozen=True)
class Cell:
    """A model at falling initial sizes.

    Attributes:
        scale, factor: largest size, and by what sizes fall.
        degree, error: keys of the degree and its error.
        method: of the integrator.
    """

    scale: float
    factor: float
    degree: str
    error: str
    method: str = "DOP853"

    def scales(self) -> list[float]:
        """Four sizes: two degrees, so that what still moves is seen."""
        return [self.scale / self.factor**k for k in range(4)]


#: What is measured of which model.
CELLS = {
    "reduced": Cell(0.01, 10, "stages/reduced/degree", "stages/reduced/degree_se"),
    "heads": Cell(0.1, 4, "stages/heads/degree", "stages/heads/degree_se"),
    "linear": Cell(0.1, 4, "stages/linear/degree", "stages/linear/degree_se"),
    "tasks": Cell(0.1, 4, "stages/tasks/degree", "stages/tasks/degree_se"),
    "layer": Cell(0.25, 1.6, "stages/layer/degree", "stages/layer/degree_se", STIFF),
    "recall": Cell(0.1, 4, "stages/recall/degree", "stages/recall/degree_se"),
    "chain": Cell(0.02, 10, "stages/chain/degree", "stages/chain/degree_se"),
    "descent": Cell(0.02, 10, "stages/descent/degree", "stages/descent/degree_se"),
    "known": Cell(0.02, 10, "stages/known/degree", "stages/known/degree_se"),
    "trained": Cell(0.05, 4, "stages/trained/degree", "stages/trained/degree_se"),
    "few": Cell(0.02, 4, "stages/few/degree", "stages/few/degree_se"),
}
#: Models whose wait is logarithmic: what leaves first is one direction.
LOGARITHMIC = ("reduced", "chain", "descent", "known")


@cache
def departures(name: str, draw: int) -> tuple[Flow, ...]:
    """A model's flows from one direction at the sizes of its cell; each draw has prompts and a direction of its own."""
    cell = CELLS[name]
    return tuple(departing(MODELS[name](draw), cell.scales(), draw, cell.method))


def every_wait(draws: int) -> dict[str, Array]:
    """Waits ``(draws, 4)`` of every model."""
    return {
        name: np.array([[flow.first() for flow in departures(name, draw)] for draw in judged(draws)])
        for name in CELLS
    }


def judged(draws: int) -> range:
    """The draws that decide."""
    return range(FIRST, FIRST + draws)


def degree_values(found: dict[str, Array]) -> dict[str, float]:
    """The degree that the waits show, for each model."""
    values: dict[str, float] = {}
    for name, cell in CELLS.items():
        values[cell.degree], values[cell.error] = degree(found[name], cell.factor)
    return values


def adam_values(draws: int) -> dict[str, float]:
    """Wait of two heads from an eighth of the size, over that from the whole: under Adam, and along gradient flow."""
    adam, flow = [], []
    for draw in judged(draws):
        landscape = MODELS["heads"](draw)
        whole = 0.05 * landscape.start(draw)
        adam.append(adam_wait(landscape, whole / 8) / adam_wait(landscape, whole))
        flow.append(leave(landscape, whole / 8).first() / leave(landscape, whole).first())
    return {
        "stages/adam/growth": float(np.mean(adam)),
        "stages/adam/growth_se": float(standard_error(np.array(adam))),
        "stages/adam/flow": float(np.mean(flow)),
    }


def _held(directions: Array, state: Array) -> float:
    """Share of the length of ``state (n,)`` that lies in orthonormal ``directions (k, n)``."""
    return float(np.linalg.norm(directions @ state) / np.linalg.norm(state))


def leading_values(draws: int, found: dict[str, Array]) -> dict[str, float]:
    """Where waits are logarithmic: which share of the parameters' length lies in the predicted directions when they leave, the least, and as a control the
    least in the directions of another draw; and the wait's growth against the rate, the farthest from what it should be."""
    cosines, others, at_start, rates = [], [], [], []
    for name in LOGARITHMIC:
        ends = [departures(name, draw)[-1].states for draw in judged(draws)]
        led = [leading(MODELS[name](draw), ends[0].shape[1]) for draw in judged(draws)]
        for number, states in enumerate(ends):
            rate, directions = led[number]
            cosines.append(_held(directions, states[-1]))
            others.append(_held(led[number - 1][1], states[-1]))
            at_start.append(_held(directions, states[0]))
            grown = np.diff(found[name][number])[-1]
            rates.append(rate * grown / np.log(CELLS[name].factor))
    return {
        "leading/cosine": min(cosines),
        "leading/other": min(others),
        "leading/start_cosine": float(np.mean(at_start)),
        "leading/rate": float(max(rates, key=lambda rate: abs(rate - 1))),
    }


def loss_path(heads: int, size: float) -> tuple[Array, Array, float]:
    """Times, losses, and the wait of one flow of that many softmax heads, followed until a fifth of the loss is gone."""
    landscape = heads_of(heads)(FIRST)
    flow = leave(landscape, size * landscape.start(FIRST), 0.2)
    losses = np.array([landscape.value(state) for state in flow.states])
    fallen = 1 - losses / landscape.value(np.zeros_like(flow.states[0]))
    return flow.times, losses, float(np.interp(FALLEN, fallen, flow.times))
