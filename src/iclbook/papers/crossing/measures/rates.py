"""Ten times the rate on values and outputs (agarwal2025, section 7.2) on the papers' models, against ten times on queries and keys and against one rate for all,
each at many base rates. Plain gradient descent on all prompts of a run at every step, as agarwal2025 trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .... import random
from ....draw import numpy_rng
from ....models import Attention
from ....models.deep_attention import DeepAttention
from ....models.single_head import SingleHead
from ....models.trained_tf import TrainedStep
from ....project import check_profile
from ....statistics import Estimate, widened_error
from ....store import Results
from ....tasks import Batch
from ....tasks.categorical import Anchors
from ....training import FullBatch, Run, Sgd
from ....training.groups import cross_entropy, squared_error
from ....training.study import Group, Study
from .models import CATEGORIES, CHAIN, FIRST, PROMPTS, REGRESSION, prompts

Array = np.ndarray
ARMS = ("uniform", "values", "routing")
#: Factor on the rate of the chosen matrices, as in agarwal2025.
FACTOR = 10.0
#: Base rates over the plain one.
MULTIPLES = tuple(2 ** (k / 2) for k in range(15))
STEPS, SEEDS, COUNT = 500, 32, 64


@dataclass(frozen=True)
class OwnPrompts:
    """A run's prompts, all of them at every step, for :class:`iclbook.training.FullBatch`.

    Attributes:
        task: where they come from.
        count: how many.
    """

    task: Any
    count: int = COUNT

    def dataset(self, seed: int) -> Batch:
        """A draw of the crossing's prompts; categories with the embeddings of the seed."""
        task = replace(self.task, embed_seed=seed) if isinstance(self.task, Anchors) else self.task
        return prompts(task, seed, self.count)


@dataclass(frozen=True)
class KnownCategories(Anchors):
    """Categories whose embeddings ``W_e`` are those from which a model of seed ``embed_seed`` starts: the model knows what its data are drawn from."""

    @property
    def embedding(self) -> Tensor:
        """``W_e`` ``(d', C)``, the first numbers of the seed's initialisation."""
        w = torch.empty(self.width, self.n_classes)
        return w.normal_(0.0, 1.0, generator=random.generator(self.embed_seed, random.INIT))


@dataclass(frozen=True)
class OwnSequence:
    """A run's sequence of the sticky chain, for :class:`iclbook.training.FullBatch`."""

    def dataset(self, seed: int) -> Batch:
        """Inputs ``(T - 1, d)`` and one-hot targets ``(T - 1, n)``."""
        seq = CHAIN.sequence(*random.drawn(CHAIN, seed, PROMPTS, (), dtype=torch.float64))
        return Batch(seq.x, seq.x[:0], nn.functional.one_hot(seq.y, CHAIN.n).to(seq.x))


def next_symbol(model: nn.Module, batch: Batch) -> Tensor:
    """Mean over positions of ``-log p_{i, y_i}``."""
    return -(model(batch.context).log_softmax(-1) * batch.target).sum(-1).mean()


@dataclass(frozen=True)
class Nothing:
    """Observes nothing: losses are all that is asked."""

    def held_out(self) -> None:
        """Nothing."""

    def __call__(self, model: nn.Module, held_out: None) -> dict[str, Tensor]:
        """Nothing."""
        return {}


@dataclass(frozen=True)
class Trial:
    """A model and how it is trained.

    Attributes:
        rate: the plain one, the lowest base rate.
        scale: of the model's own initialisation.
        values, routing: parameters that are values and outputs, and queries and keys.
        held: parameters that do not move.
    """

    data: Any
    model: type[nn.Module]
    kwargs: Mapping[str, Any]
    loss: Any
    rate: float
    scale: float = 1.0
    values: tuple[str, ...] = ("value", "output")
    routing: tuple[str, ...] = ("query", "key")
    held: tuple[str, ...] = ()

    def arms(self) -> dict[str, tuple[tuple[str, float], ...]]:
        """Factors on the rate of named parameters, by the arm's name."""
        held = tuple((name, 0.0) for name in self.held)
        quicker = {"uniform": (), "values": self.values, "routing": self.routing}
        return {arm: (*held, *((name, FACTOR) for name in names)) for arm, names in quicker.items()}


_HEADS = {"d": REGRESSION.d, "n_heads": 2}
_STACK = {"d": REGRESSION.d, "width": 12, "n_layers": 3, "layer_norm": False}
_CATEGORIES = {"d": CATEGORIES.d, "n_classes": CATEGORIES.n_classes, "width": CATEGORIES.width}
TRIALS: dict[str, Trial] = {
    "heads": Trial(OwnPrompts(REGRESSION), Attention, _HEADS, squared_error, 0.02),
    "linear": Trial(OwnPrompts(REGRESSION), Attention, {**_HEADS, "activation": "linear"}, squared_error, 0.02),
    "deep": Trial(
        OwnPrompts(REGRESSION),
        DeepAttention,
        _STACK,
        squared_error,
        0.01,
        held=("key_bias",),  # adds the same to all scores of a query
    ),
    "chain": Trial(
        OwnSequence(),
        SingleHead,
        {"d_x": CHAIN.d, "d_k": 3, "d_v": 3, "n_classes": CHAIN.n},
        next_symbol,
        0.1,
        0.1,
        values=("W_V", "W_O"),
        routing=("W_Q", "W_K"),
    ),
    "known": Trial(
        OwnPrompts(KnownCategories(**vars(CATEGORIES))),
        TrainedStep,
        {**_CATEGORIES, "init": "glorot"},
        cross_entropy,
        0.02,
        values=("W_V", "P"),
        routing=("W_Q", "W_K"),
        held=("embed",),
    ),
}


def study(name: str, seeds: range, steps: int, multiples: tuple[float, ...]) -> Study:
    """All arms of a model at all base rates, base rates slowest; one step a record at first, then more and more."""
    trial = TRIALS[name]
    groups = tuple(
        Group(
            arm,
            trial.model,
            trial.kwargs,
            tuple(Run(seed, trial.rate * m, trial.scale, factors=factors) for m in multiples for seed in seeds),
            Sgd(),
            trial.loss,
            observe=Nothing(),
            may_diverge=True,
        )
        for arm, factors in trial.arms().items()
    )
    marks = np.unique(np.geomspace(1, steps, 90).round().astype(int))
    return Study(
        "crossing",
        f"rates_{name}",
        FullBatch(trial.data),
        groups,
        steps,
        1,
        tuple(int(step) for step in marks),
        compile_from=None,
    )


def rate_studies(profile: str) -> dict[str, Study]:
    """The studies of faster values at a profile, by name; seeds from :data:`FIRST` on, rates were chosen on seeds 0 and 1,
    that of the chain after a first run, whose best uniform rate was the highest."""
    if check_profile(profile) == "paper":
        every = [study(name, range(FIRST, FIRST + SEEDS), STEPS, MULTIPLES) for name in TRIALS]
    else:
        every = [study(name, range(FIRST, FIRST + 2), 12, MULTIPLES[::7]) for name in TRIALS]
    return {each.name: each for each in every}


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
    sizes = numpy_rng(0).uniform(0.2, 0.4, seeds)
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


def rate_values(found: Mapping[str, Race]) -> dict[str, object]:
    """Mean logarithms of both comparisons of each model, and of the control."""
    values: dict[str, object] = {"rates/seeds": next(iter(found.values())).uniform.shape[1]}
    for name, of in found.items():
        logs = of.logs()
        for arm in ("routing", "uniform"):
            values[f"rates/{name}/{arm}"] = Estimate(float(logs[arm].mean()), widened_error(logs[arm]))
    control = product(20).logs()
    return values | {
        "rates/known/saved": float(np.exp(-found["known"].logs()["routing_uniform"].mean())),
        "rates/product/routing": float(control["routing"].mean()),
        "rates/product/uniform": float(control["uniform"].mean()),
    }
