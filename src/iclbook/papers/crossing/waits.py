"""Small starts: how long they wait, the law of recall2025 ("the first jump comes at a time that grows as 1 / eps") on every model, and what settles first.

Near the origin a loss begins with a polynomial of degree p in the parameters that must grow together, and the flow of a homogeneous polynomial maps onto itself when
sizes shrink by b and times grow by ``b^(p - 2)``. So waits at sizes ``eps, eps / b, eps / b^2`` have differences whose ratio is ``b^(p - 2)``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

import numpy as np
import torch

from ...errors import UserError
from ...statistics import Estimate
from ...store import Results
from ...training import Flow, gradient_flow
from ...training.landscape import Landscape
from ..recall2025.stages import first_passage
from .models import FIRST, MODELS, Array, softmax_heads

#: The wait ends when the loss has fallen by this share of what it is at the origin.
FALLEN = 0.005
#: Evaluations after which a flow that has not left never will: it rests in a minimum.
PATIENCE = 40_000
#: End of a flow that nothing stops.
FOREVER = 1e14
#: Relative accuracy of the integrator.
ACCURACY = 1e-6


class Resting(UserError):
    """A training has come to rest before it went as far as asked."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, "Ask for a smaller fall of the loss, or begin elsewhere.")


def follow(landscape: Landscape, start: Array, event: Callable[[Array], float], between: bool = False) -> Flow:
    """Gradient flow from ``start`` until ``event(theta)`` passes zero, :class:`Resting` if it never does; ``between``: to be resampled."""
    taken = count(1)

    def gradient(theta: Array) -> Array:
        if next(taken) > PATIENCE:
            raise Resting(f"the flow has not come as far as asked after {PATIENCE:,} evaluations")
        return landscape.gradient(theta)

    how = {"method": "LSODA" if landscape.hessian else "DOP853", "hessian": landscape.hessian, "between": between}
    how |= {"rtol": ACCURACY, "atol": 1e-7 * np.abs(start).max()}
    flow = gradient_flow(gradient, start, FOREVER, events=[event], stop_at=0, **how)
    if not len(flow.events[0]):
        raise Resting(f"the flow has not come as far as asked until time {FOREVER:g}")
    return flow


def leave(landscape: Landscape, start: Array, fallen: float = FALLEN, between: bool = False) -> Flow:
    """:func:`follow` until the loss has fallen by the share ``fallen`` of what it is at the origin."""
    goal = (1 - fallen) * landscape.value(np.zeros_like(start))
    there = f"a start of size {np.abs(start).max():.2g} has left already: choose a smaller one"
    assert landscape.value(start) > goal, there
    return follow(landscape, start, lambda theta: goal - landscape.value(theta), between)


def waits(landscape: Landscape, scales: Sequence[float], seeds: Sequence[int]) -> Array:
    """Waits ``(seeds, scales)`` from one direction a seed at falling sizes."""
    starts = [landscape.start(seed) for seed in seeds]
    return np.array([[leave(landscape, size * start).first() for size in scales] for start in starts])


class Sizes(NamedTuple):
    """Initial sizes of a model, the largest and by what they fall; p, how many factors must grow together; and its name on a page."""

    scale: float
    factor: float
    p: int
    name: str

    def scales(self) -> list[float]:
        """Four sizes: two degrees, so that what still moves is seen."""
        return [self.scale / self.factor**k for k in range(4)]


#: At what sizes each model waits.
SIZES = {
    "reduced": Sizes(0.01, 10, 2, "reduced heads"),
    "heads": Sizes(0.1, 4, 4, "two heads"),
    "linear": Sizes(0.1, 4, 4, "linear attention"),
    "tasks": Sizes(0.1, 4, 4, "multi-task"),
    "layer": Sizes(0.25, 1.6, 8, "layer with embedding"),
    "recall": Sizes(0.1, 4, 3, "associative recall"),
    "chain": Sizes(0.02, 10, 2, "sticky chain"),
    "descent": Sizes(0.02, 10, 2, "GD block"),
    "known": Sizes(0.02, 10, 2, "Trained TF, embeddings held"),
    "trained": Sizes(0.05, 4, 4, "Trained TF"),
    "few": Sizes(0.02, 4, 2, "two heads, plain prompts"),
}


def departures(model: str, draws: Sequence[int]) -> dict[str, Array]:
    """``times`` ``(D, 4)`` of leaving, from one direction at the sizes of the model's row; each draw has prompts and a direction of its own."""
    sizes = SIZES[model].scales()
    return {"times": np.concatenate([waits(MODELS[model](draw), sizes, [draw]) for draw in draws])}


def times(waited: Results) -> dict[str, Array]:
    """Waits ``(D, 4)`` of every model."""
    return {name: waited[f"{name}/times"] for name in SIZES}


def degrees(times: Array, factor: float) -> Array:
    """Degree p ``(seeds, scales - 2)`` from waits ``(seeds, scales)`` at sizes that fall by b, ``factor``: 2 plus log_b of the ratio of differences."""
    grown = np.diff(times, axis=1)
    return 2 + np.log(grown[:, 1:] / grown[:, :-1]) / np.log(factor)


def degree(times: Array, factor: float) -> Estimate:
    """The degree at the smallest sizes, mean over directions, and its error: the spread over directions, and how far it still moves with size."""
    before, last = degrees(times, factor)[:, -2:].T
    return Estimate.mean(last).widened(last.mean() - before.mean())


def degree_values(found: Mapping[str, Array]) -> dict[str, Estimate]:
    """The degree that the waits show, for each model."""
    return {f"stages/{name}/degree": degree(found[name], SIZES[name].factor) for name in SIZES}


def loss_path(n_heads: int, size: float) -> tuple[Array, Array, float]:
    """Times, losses, and the wait of one flow of that many softmax heads, followed until a fifth of the loss is gone."""
    landscape = softmax_heads(n_heads, FIRST)
    flow = leave(landscape, size * landscape.start(FIRST), 0.2)
    losses = np.array([landscape.value(state) for state in flow.states])
    fallen = 1 - losses / landscape.value(np.zeros_like(flow.states[0]))
    return flow.times, losses, float(np.interp(FALLEN, fallen, flow.times))


# -- the second plateau of Trained TF (wang2025) -----------------------------------------------------------------------------

#: Share of the loss at the origin that is gone in the midst of the first fall.
FALL = 0.1


def second_plateau(landscape: Landscape, start: Array) -> float:
    """Time between the first fall of the loss and the moment at which the parameters that make scores have norm 1."""
    flow = follow(landscape, start, lambda theta: np.linalg.norm(theta[landscape.routing]) - 1)
    gone = 1 - np.array([landscape.value(x) for x in flow.states]) / landscape.value(0 * start)
    return float(flow.times[-1] - first_passage(flow.times, gone, FALL))


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


def second_values(results: Results) -> dict[str, object]:
    """Degree that the second plateau's length shows over the draws that leave it: the median, whose error holds half a step from the degree before, and the share near 2."""
    times = results["trained/times"]
    times = times[np.isfinite(times).all(1) & (np.diff(times) > 0).all(1)]
    before, last = degrees(times, SIZES["trained"].factor)[:, -2:].T
    typical = Estimate.of(np.median, last)
    near = np.abs(last - 2) <= 0.25
    return {
        "stages/second/typical": typical.widened(abs(typical.value - float(np.median(before))) / 2),
        "stages/second/share": Estimate.share(near),
        "stages/second/draws": len(times),
    }


# -- two time scales: attention settles before values (agarwal2025) ----------------------------------------------------------
#
# Attention and values are compared as functions on the same prompts, not as parameters: attention rows, and what each row averages as the answer sees it.

#: The way is that until the loss has fallen by this share of what it is at the origin.
WAY = 0.25
#: Times of the way at which both are looked at; the integrator's own steps are too few.
TIMES = 201
#: Rate of queries and keys against that of values, in the control.
EXCHANGED = 10.0
#: Model -> initial size.
LEAD_SIZES = {"heads": 0.3, "chain": 0.1, "known": 0.1}


def quicker_routing(landscape: Landscape, factor: float) -> Landscape:
    """The landscape with gradients of the parameters that make scores multiplied by ``factor``."""
    rates = np.where(landscape.routing, factor, 1.0)

    def evaluate(theta: Array) -> tuple[float, Array]:
        value, gradient = landscape.evaluate(theta)
        return value, rates * gradient

    return replace(landscape, evaluate=evaluate, hessian=None)  # the hessian is that of equal rates


def halfway(times: Array, states: Array) -> float:
    """Time at which ``states (T, n)`` have come half the way, in mean absolute distance, from the first to the last; interpolated."""
    left = np.abs(states - states[-1]).mean(1)
    above = np.flatnonzero(left > left[0] / 2)[-1]
    return float(np.interp(-left[0] / 2, -left[above : above + 2], times[above : above + 2]))


def lead(landscape: Landscape, start: Array) -> float:
    """Log of the time at which attention is half-way over that of values, along gradient flow until :data:`WAY` of the loss is gone; NaN if the model rests before."""
    try:
        flow = leave(landscape, start, WAY, between=True).resampled(TIMES)
    except Resting:
        return float("nan")
    attention, values = landscape.attention_and_values(flow.states)
    return float(np.log(halfway(flow.times, attention) / halfway(flow.times, values)))


def leads(model: str, draws: Sequence[int]) -> dict[str, Array]:
    """Leads ``(D,)`` of a model on each draw of prompts and of a direction: with ``equal`` rates, and with ``quicker`` routing."""
    found = []
    for draw in draws:
        landscape = MODELS[model](draw)
        start = LEAD_SIZES[model] * landscape.start(draw)
        found.append([lead(quicker_routing(landscape, factor), start) for factor in (1.0, EXCHANGED)])
    return dict(zip(("equal", "quicker"), np.transpose(found), strict=True))


def kept_leads(followed: Results) -> dict[str, dict[str, Array]]:
    """Leads ``equal`` and ``quicker`` ``(draws,)`` of each model on the draws from which it can take that way at both rates."""
    found = {}
    for name in LEAD_SIZES:
        both = followed.group(name)
        went = np.isfinite(both["equal"] + both["quicker"])
        found[name] = {rates: of[went] for rates, of in both.items()}
    return found


def timing_values(found: Mapping[str, Mapping[str, Array]], draws: int) -> dict[str, object]:
    """Mean logarithms of attention's time over that of values, at equal rates, with quicker queries and keys, and less these; draws of all models that came to rest;
    the share of draws in which quicker queries and keys bring attention forward in Trained TF."""
    values: dict[str, object] = {"timing/draws": draws}
    values["timing/passed_over"] = sum(draws - len(of["equal"]) for of in found.values())
    for name, of in found.items():
        values[f"timing/{name}"] = Estimate.mean(of["equal"])
        values[f"timing/{name}_quicker"] = Estimate.mean(of["quicker"])
        values[f"timing/{name}_gain"] = Estimate.mean(of["equal"] - of["quicker"])
    values["timing/known_forward"] = np.mean(found["known"]["quicker"] < found["known"]["equal"])
    return values


# -- other optimisers --------------------------------------------------------------------------------------------------------


def adam_wait(
    landscape: Landscape, start: Array, rate: float = 1e-3, steps: int = 20_000, guard: float = 1e-300
) -> float:
    """Steps of Adam, interpolated, until the loss has fallen as :func:`leave` asks; its ``guard`` against division by zero is switched off."""
    goal = (1 - FALLEN) * landscape.value(np.zeros_like(start))
    theta, before = torch.from_numpy(start.copy()), np.inf
    adam = torch.optim.Adam([theta], rate, eps=guard)
    for step in range(steps):
        loss, slope = landscape.evaluate(theta.numpy())
        if loss <= goal:
            return step - (goal - loss) / (before - loss)
        before, theta.grad = loss, torch.from_numpy(slope)
        adam.step()
    raise Resting(f"Adam has not left after {steps:,} steps")


def adam_values(draws: int) -> dict[str, object]:
    """Wait of two heads from an eighth of the size, over that from the whole: under Adam, and along gradient flow."""
    grown = []
    for draw in range(FIRST, FIRST + draws):
        landscape = softmax_heads(2, draw)
        whole = 0.05 * landscape.start(draw)
        waited = [(adam_wait(landscape, start), leave(landscape, start).first()) for start in (whole / 8, whole)]
        grown.append(np.divide(*waited))
    adam, flow = np.transpose(grown)
    return {"stages/adam/growth": Estimate.mean(adam), "stages/adam/flow": flow.mean()}
