"""Ten times the rate on values (agarwal2025): in how many steps do runs get where the plain rate ends, and would one rate for all get there as fast?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ....statistics import widened_error
from ....store import Results
from ..runs.rates import FACTOR, MULTIPLES, TRIALS

Array = np.ndarray
ARMS = ("uniform", "values", "routing")


@dataclass(frozen=True)
class Race:
    """Of one model: steps ``(base rates, seeds)`` of each arm to the loss at which the plain rate ends, infinite where a run does not get there, and the
    steps that the plain rate took."""

    uniform: Array
    values: Array
    routing: Array
    plain: float

    def logs(self) -> dict[str, Array]:
        """Logarithms of steps ``(seeds,)``: of values over routing at the plain base rate (``routing``), of values over one rate for all, each at its best
        base rate (``uniform``), and for the figure those of both arms over the plain rate, and of routing over the best uniform rate."""
        values, routing = (np.minimum(arm[0], self.plain) for arm in (self.values, self.routing))
        best = {arm: at_best(getattr(self, arm), self.plain) for arm in ARMS}
        return {
            "routing": np.log(values / routing),
            "uniform": np.log(best["values"] / best["uniform"]),
            "values_plain": np.log(values / self.plain),
            "routing_plain": np.log(routing / self.plain),
            "uniform_plain": np.log(best["uniform"] / self.plain),
            "routing_uniform": np.log(best["routing"] / best["uniform"]),
        }


def steps_to(times: Array, losses: Array, level: Array) -> Array:
    """First time ``(R,)`` at which ``losses (T, R)``, at ``times (T,)``, are down to ``level (R,)``: interpolated, at least 1, infinite where never."""
    found = np.full(losses.shape[1], np.inf)
    for r, (loss, target) in enumerate(zip(losses.T, level, strict=True)):
        below = np.flatnonzero(loss <= target)
        if len(below):
            b = below[0]
            part = (loss[b - 1] - target) / (loss[b - 1] - loss[b]) if b else 1.0
            found[r] = max(1.0, times[max(b - 1, 0)] + part * (times[b] - times[max(b - 1, 0)]))
    return found


def at_best(steps: Array, most: float) -> Array:
    """Steps ``(S,)`` of ``steps (base rates, S)``, at most so many, at the base rate that is best for the other seeds: a seed does not choose its own."""
    steps = np.minimum(steps, most)
    logs = np.log(steps)
    others = logs.sum(1, keepdims=True) - logs
    return steps[others.argmin(0), np.arange(steps.shape[1])]


def race(times: Array, losses: Mapping[str, Array]) -> Race:
    """A race from the losses ``(T, base rates, S)`` of each arm at ``times (T,)``."""
    level = losses["uniform"][-1, 0]
    found = {}
    for arm in ARMS:
        n_times, n_rates, n_seeds = losses[arm].shape
        flat = losses[arm].reshape(n_times, -1)
        found[arm] = steps_to(times, flat, np.tile(level, n_rates)).reshape(n_rates, n_seeds)
    return Race(**found, plain=float(times[-1]))


def of_results(results: Results) -> Race:
    """The race of a study. A record holds the mean loss since the last one, each before its step."""
    steps = results["uniform/steps"].astype(float)
    times = (steps[:-1] + steps[1:] - 1) / 2
    rates = len({run["rate"] for run in results.provenance["config"]["groups"][0]["runs"]})
    losses = {arm: results[f"{arm}/loss"][1:].astype(float) for arm in ARMS}
    return race(times, {arm: loss.reshape(len(loss), rates, -1) for arm, loss in losses.items()})


def product(seeds: int, steps: int = 1000, rate: float = 0.005) -> Race:
    """The race of the product of four equal small factors, two of them values: (1 - q k v o)^2 / 2 by gradient descent."""
    sizes = np.random.default_rng(0).uniform(0.2, 0.4, seeds)
    base = rate * np.array(MULTIPLES)[:, None]
    losses = {}
    for arm, (fast_routing, fast_values) in {
        "uniform": (1.0, 1.0),
        "values": (1.0, FACTOR),
        "routing": (FACTOR, 1.0),
    }.items():
        losses[arm] = _descended(sizes, steps, base * fast_routing, base * fast_values)
    return race(np.arange(steps, dtype=float), losses)


def _descended(sizes: Array, steps: int, routing: Array, values: Array) -> Array:
    """Losses ``(steps, base rates, S)`` before every step; both pairs of factors stay equal."""
    x = y = np.ones_like(routing) * sizes
    found = []
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(steps):
            rest = 1 - (x * x) * (y * y)
            found.append(rest**2 / 2)
            x, y = x + routing * rest * (x * (y * y)), y + values * rest * (y * (x * x))
    return np.array(found)


def races(results: Callable[[str], Results]) -> dict[str, Race]:
    """The races of all models, from ``results(study)``."""
    return {name: of_results(results(f"rates_{name}")) for name in TRIALS}


#: Keys of both comparisons, each with its error.
KEYS = {
    "heads": ("rates/heads/routing", "rates/heads/routing_se", "rates/heads/uniform", "rates/heads/uniform_se"),
    "linear": ("rates/linear/routing", "rates/linear/routing_se", "rates/linear/uniform", "rates/linear/uniform_se"),
    "deep": ("rates/deep/routing", "rates/deep/routing_se", "rates/deep/uniform", "rates/deep/uniform_se"),
    "chain": ("rates/chain/routing", "rates/chain/routing_se", "rates/chain/uniform", "rates/chain/uniform_se"),
    "known": ("rates/known/routing", "rates/known/routing_se", "rates/known/uniform", "rates/known/uniform_se"),
}  # fmt: skip


def rate_values(found: Mapping[str, Race]) -> dict[str, float]:
    """Mean logarithms of both comparisons with their errors, and of the control."""
    values: dict[str, float] = {"rates/seeds": next(iter(found.values())).uniform.shape[1]}
    for name, of in found.items():
        logs = of.logs()
        pairs = [(logs[arm].mean(), widened_error(logs[arm])) for arm in ("routing", "uniform")]
        values |= dict(zip(KEYS[name], map(float, np.ravel(pairs)), strict=True))
    control = product(20).logs()
    return values | {
        "rates/known/saved": float(np.exp(-found["known"].logs()["routing_uniform"].mean())),
        "rates/product/routing": float(control["routing"].mean()),
        "rates/product/uniform": float(control["uniform"].mean()),
    }
