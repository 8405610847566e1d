"""How long a small start waits: the law of recall2025 ("the first jump comes at a time that grows as 1 / eps") on every model.

Near the origin a loss begins with a polynomial of degree p in the parameters that must grow together. Gradient flow from parameters of size eps then leaves at
a time ``T ~ log(1 / eps)`` for p = 2 and ``T ~ eps^-(p - 2)`` for p > 2: the flow of a homogeneous polynomial maps onto itself when sizes shrink by b and times
grow by ``b^(p - 2)``. Waits at sizes ``eps, eps / b, eps / b^2`` have differences whose ratio is ``b^(p - 2)``, which measures p.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....draw import numpy_rng
from ....errors import UserError
from ....project import check_profile
from ....statistics import Estimate
from ....store import Results
from ....training.computation import Computation
from ....training.flow import Flow, gradient_flow
from .landscape import Landscape, antithetic
from .models import FIRST, MODELS, REGRESSION, SoftmaxHeads, prompts, softmax_heads

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
    landscape: Landscape, start: Array, fallen: float = FALLEN, method: str = "DOP853", between: bool = False
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


#: Models whose wait is a logarithm.
LOGARITHMIC = ("reduced", "chain", "descent", "known", "few")
#: At what sizes each model waits.
SIZES = {
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
    """A model from one direction at the sizes of its row; each draw ``(D,)`` has prompts and a direction of its own.

    Returns:
        ``times`` ``(D, 4)`` of leaving.
    """
    sizes = SIZES[model]
    flows = [departing(MODELS[model](draw), sizes.scales(), draw, sizes.method) for draw in draws]
    return {"times": np.array([[flow.first() for flow in own] for own in flows])}


def wait_computations(profile: str) -> dict[str, Computation]:
    """The waits of every model at a profile, over the draws that decide. Flows that are followed to an accuracy agree to some ten times that when they leave."""
    draws = 4 if check_profile(profile) == "paper" else 2
    waits = Computation("crossing", "waits", departures, tuple(SIZES), FIRST, draws, 10 * ACCURACY)
    return {waits.name: waits}


def waits(landscape: Landscape, scales: Sequence[float], seeds: Sequence[int], method: str = "DOP853") -> Array:
    """Waits ``(seeds, scales)`` from one direction a seed at falling sizes."""
    return np.array([[flow.first() for flow in departing(landscape, scales, seed, method)] for seed in seeds])


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
    theta, mean, square = start.copy(), np.zeros_like(start), np.zeros_like(start)
    keep, keep_square = 0.9, 0.999
    before = np.inf
    for step in range(steps):
        loss, gradient = landscape.evaluate(theta)
        if loss <= goal:
            return step - (goal - loss) / (before - loss)
        before = loss
        mean = keep * mean + (1 - keep) * gradient
        square = keep_square * square + (1 - keep_square) * gradient**2
        done, done_square = 1 - keep ** (step + 1), 1 - keep_square ** (step + 1)
        theta = theta - rate * (mean / done) / (np.sqrt(square / done_square) + 1e-300)
    raise UserError(f"Adam has not left after {steps:,} steps", "Give it more steps or a higher rate.")


def times(waited: Results) -> dict[str, Array]:
    """Waits ``(D, 4)`` of every model."""
    return {name: waited[f"{name}/times"] for name in SIZES}


def degree_values(found: Mapping[str, Array]) -> dict[str, Estimate]:
    """The degree that the waits show, for each model."""
    return {f"stages/{name}/degree": Estimate(*degree(found[name], SIZES[name].factor)) for name in SIZES}


def adam_values(draws: int) -> dict[str, object]:
    """Wait of two heads from an eighth of the size, over that from the whole: under Adam, and along gradient flow."""
    adam, flow = [], []
    for draw in range(FIRST, FIRST + draws):
        landscape = softmax_heads(2, draw)
        whole = 0.05 * landscape.start(draw)
        adam.append(adam_wait(landscape, whole / 8) / adam_wait(landscape, whole))
        flow.append(leave(landscape, whole / 8).first() / leave(landscape, whole).first())
    return {"stages/adam/growth": Estimate.mean(np.array(adam)), "stages/adam/flow": float(np.mean(flow))}


#: Stochastic gradient descent on fresh prompts: sizes of the start, rate, batch, and most steps.
SGD_SIZES, RATE, BATCH, MOST_STEPS = (0.1, 0.05, 0.025, 0.0125), 0.05, 64, 400_000
#: Steps between two looks at the loss, relative to those taken.
LOOK = 0.01


def sgd_wait(size: float, draw: int) -> float:
    """Steps of plain SGD on fresh prompts, from ``size`` times a direction, until two heads have lowered the loss on 2,048 other prompts by the share that
    :func:`leave` asks for; looked at every hundredth of the way."""
    start = softmax_heads(2, draw).start(draw)
    judge = SoftmaxHeads(antithetic(prompts(REGRESSION, draw, 512)))
    goal = (1 - FALLEN) * judge.evaluate(0 * start)[0]
    theta, step, look = size * start, 0, 1
    rng = numpy_rng((draw, 7))
    while step < MOST_STEPS:
        if step >= look:
            if judge.evaluate(theta)[0] <= goal:
                return float(step)
            look = step + max(1, int(LOOK * step))
        x = rng.standard_normal((REGRESSION.L + 1, REGRESSION.d, BATCH))
        y = (x * rng.standard_normal((REGRESSION.d, BATCH)) / np.sqrt(REGRESSION.d)).sum(1, keepdims=True)
        batch = np.concatenate([x[:-1], y[:-1]], 1), x[-1], y[-1]
        theta = theta - RATE * SoftmaxHeads(batch).evaluate(theta)[1]
        step += 1
    return float("inf")


def sgd_waits(group: str, draws: Sequence[int]) -> dict[str, Array]:
    """Waits ``(D, 4)`` in steps at :data:`SGD_SIZES`; not a number for never."""
    sizes = SGD_SIZES if group == "heads" else SGD_SIZES[:2]
    found = np.array([[sgd_wait(size, draw) for size in sizes] for draw in draws])
    return {"steps": np.where(np.isfinite(found), found, np.nan)}


def sgd_computation(profile: str) -> dict[str, Computation]:
    """The waits under SGD at a profile; rounding grows with the noise."""
    draws = 8 if check_profile(profile) == "paper" else 2
    groups = ("heads",) if profile == "paper" else ("large sizes",)
    found = Computation("crossing", "sgd_waits", sgd_waits, groups, FIRST, draws, 0.05, groups)
    return {found.name: found}


def sgd_values(results: Results, profile: str) -> dict[str, Estimate]:
    """Degree that the waits ``(D, S)`` under SGD show: 2 plus the logarithm of the wait's growth over all halvings of the size, to the base of the size's."""
    (group,) = sgd_computation(profile)["sgd_waits"].groups
    steps = results[f"{group}/steps"]
    degrees = 2 + np.log2(steps[:, -1] / steps[:, 0]) / (steps.shape[1] - 1)
    return {"stages/sgd/degree": Estimate.mean(degrees)}


def loss_path(n_heads: int, size: float) -> tuple[Array, Array, float]:
    """Times, losses, and the wait of one flow of that many softmax heads, followed until a fifth of the loss is gone."""
    landscape = softmax_heads(n_heads, FIRST)
    flow = leave(landscape, size * landscape.start(FIRST), 0.2)
    losses = np.array([landscape.value(state) for state in flow.states])
    fallen = 1 - losses / landscape.value(np.zeros_like(flow.states[0]))
    return flow.times, losses, float(np.interp(FALLEN, fallen, flow.times))
