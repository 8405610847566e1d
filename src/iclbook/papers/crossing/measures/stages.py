"""How long a small start waits: the law of recall2025 ("the first jump comes at a time that grows as 1 / eps") on every model.

Where a loss begins, at the origin, with a polynomial of degree p in what must grow together, gradient flow from parameters of size eps leaves at a time
T with ``T ~ log(1 / eps)`` for p = 2 and ``T ~ eps^-(p - 2)`` for p > 2: a homogeneous polynomial's flow maps onto itself when sizes shrink by b and
times grow by ``b^(p - 2)``. Either way waits at sizes ``eps, eps / b, eps / b^2`` have differences whose ratio is ``b^(p - 2)``, which measures p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....errors import UserError
from ....statistics import standard_error
from ....store import Results
from ..runs.landscape import Landscape, antithetic
from ..runs.models import FIRST, MODELS, REGRESSION, heads_of, prompts
from ..runs.waits import CELLS, FALLEN, departing, leave
from ..theory.softmax_heads import SoftmaxHeads

Array = np.ndarray
#: Rates that differ by no more than this share are one.
SHARED = 1e-4


def waits(
    landscape: Landscape, scales: Sequence[float], seeds: Sequence[int], method: str = "DOP853"
) -> Array:
    """Waits ``(seeds, scales)`` from the same directions at falling sizes."""
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


def heads(n_heads: int, draw: int) -> Landscape:
    """The landscape of so many softmax heads, with their gradient in closed form."""
    batch = antithetic(prompts(REGRESSION, draw))
    return replace(heads_of(n_heads)(draw), evaluate=SoftmaxHeads(batch).evaluate)


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


def leading(landscape: Landscape, size: int) -> tuple[float, Array]:
    """Growth rate of the fastest growth at the origin, and the directions ``(k, size)`` that share it: minus the lowest curvature of the loss there.
    Hidden units that are alike share one rate."""
    curvature, directions = np.linalg.eigh(landscape.hessian(np.zeros(size)))
    shared = curvature <= (1 - SHARED) * curvature[0]
    return float(-curvature[0]), directions[:, shared].T


#: Keys of the degree that the waits show and of its error, for each model.
KEYS = {
    "reduced": ("stages/reduced/degree", "stages/reduced/degree_se"),
    "heads": ("stages/heads/degree", "stages/heads/degree_se"),
    "linear": ("stages/linear/degree", "stages/linear/degree_se"),
    "tasks": ("stages/tasks/degree", "stages/tasks/degree_se"),
    "layer": ("stages/layer/degree", "stages/layer/degree_se"),
    "recall": ("stages/recall/degree", "stages/recall/degree_se"),
    "chain": ("stages/chain/degree", "stages/chain/degree_se"),
    "descent": ("stages/descent/degree", "stages/descent/degree_se"),
    "known": ("stages/known/degree", "stages/known/degree_se"),
    "trained": ("stages/trained/degree", "stages/trained/degree_se"),
    "few": ("stages/few/degree", "stages/few/degree_se"),
}
#: Models whose wait is logarithmic: what leaves first is one direction.
LOGARITHMIC = ("reduced", "chain", "descent", "known")


def judged(draws: int) -> range:
    """The draws that decide."""
    return range(FIRST, FIRST + draws)


def times(waited: Results) -> dict[str, Array]:
    """Waits ``(D, 4)`` of every model."""
    return {name: waited[f"{name}/times"] for name in CELLS}


def degree_values(found: dict[str, Array]) -> dict[str, float]:
    """The degree that the waits show, for each model."""
    values: dict[str, float] = {}
    for name, (key, error) in KEYS.items():
        values[key], values[error] = degree(found[name], CELLS[name].factor)
    return values


def adam_values(draws: int) -> dict[str, float]:
    """Wait of two heads from an eighth of the size, over that from the whole: under Adam, and along gradient flow."""
    adam, flow = [], []
    for draw in judged(draws):
        landscape = heads(2, draw)
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


def leading_values(waited: Results) -> dict[str, float]:
    """Where waits are logarithmic: which share of the parameters' length lies in the predicted directions when they leave, the least, and as a control the
    least in the directions of another draw; and the wait's growth against the rate, the farthest from what it should be."""
    cosines, others, at_start, rates = [], [], [], []
    for name in LOGARITHMIC:
        first, last, waits = (waited[f"{name}/{what}"] for what in ("first", "last", "times"))
        led = [leading(MODELS[name](draw), last.shape[1]) for draw in judged(len(last))]
        for number, (rate, directions) in enumerate(led):
            cosines.append(_held(directions, last[number]))
            others.append(_held(led[number - 1][1], last[number]))
            at_start.append(_held(directions, first[number]))
            grown = np.diff(waits[number])[-1]
            rates.append(rate * grown / np.log(CELLS[name].factor))
    return {
        "leading/cosine": min(cosines),
        "leading/other": min(others),
        "leading/start_cosine": float(np.mean(at_start)),
        "leading/rate": float(max(rates, key=lambda rate: abs(rate - 1))),
    }


def loss_path(n_heads: int, size: float) -> tuple[Array, Array, float]:
    """Times, losses, and the wait of one flow of that many softmax heads, followed until a fifth of the loss is gone."""
    landscape = heads(n_heads, FIRST)
    flow = leave(landscape, size * landscape.start(FIRST), 0.2)
    losses = np.array([landscape.value(state) for state in flow.states])
    fallen = 1 - losses / landscape.value(np.zeros_like(flow.states[0]))
    return flow.times, losses, float(np.interp(FALLEN, fallen, flow.times))
