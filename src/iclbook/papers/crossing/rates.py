"""Two laws of agarwal2025 on other models: routing by advantage (equation 23), and ten times the rate on values and outputs (section 7.2), against ten times on
queries and keys and against one rate for all, each at many base rates. Plain gradient descent on all prompts of a run at every step, as agarwal2025 trains."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ... import random
from ...draw import numpy_rng, torch_rng
from ...models import Attention
from ...models.attention import ACTIVATIONS
from ...models.deep_attention import DeepAttention
from ...models.single_head import SingleHead
from ...models.trained_tf import TrainedStep
from ...project import check_profile
from ...statistics import Estimate
from ...store import Results
from ...tasks import Batch
from ...tasks.categorical import Anchors
from ...training import FullBatch, Group, Observation, Run, Sgd, Study, cross_entropy, squared_error
from ..agarwal2025 import closed_forms
from ..recall2025.stages import first_passage
from .models import CATEGORIES, CHAIN, FIRST, REGRESSION, Array, next_symbol, prompts, read_out, sequence

Race = dict[str, Array]
ARMS = ("uniform", "values", "routing")
#: Factor on the rate of the chosen matrices, as in agarwal2025.
FACTOR = 10.0
#: Base rates over the plain one.
MULTIPLES = tuple(2 ** (k / 2) for k in range(15))
STEPS, SEEDS, COUNT = 500, 32, 64


@dataclass(frozen=True)
class OwnPrompts:
    """A run's prompts of a task, all of them at every step, for :class:`iclbook.training.FullBatch`."""

    task: Any

    def dataset(self, seed: int) -> Batch:
        """A draw of the crossing's prompts; categories with the embeddings of the seed."""
        task = replace(self.task, embed_seed=seed) if isinstance(self.task, Anchors) else self.task
        return prompts(task, seed, COUNT)


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
        """A draw of the crossing's sequences."""
        return sequence(seed)


@dataclass(frozen=True)
class Nothing(Observation):
    """Observes nothing: losses are all that is asked."""

    def __call__(self, model: nn.Module, held_out: None) -> dict[str, Tensor]:
        """Nothing."""
        return {}


class Trial(NamedTuple):
    """A model and how it is trained: the lowest rate, the scale of its initialisation, which parameters are values and outputs or queries and keys, and which are held."""

    data: Any
    model: type[nn.Module]
    kwargs: Mapping[str, Any]
    loss: Any
    rate: float
    scale: float = 1.0
    values: tuple[str, ...] = ("value", "output")
    routing: tuple[str, ...] = ("query", "key")
    held: tuple[str, ...] = ()


_HEADS = {"d": REGRESSION.d, "n_heads": 2}
_STACK = {"d": REGRESSION.d, "width": 12, "n_layers": 3, "layer_norm": False}
_CHAIN = {"d_x": CHAIN.d, "d_k": 3, "d_v": 3, "n_classes": CHAIN.n}
_CATEGORIES = {"d": CATEGORIES.d, "n_classes": CATEGORIES.n_classes, "width": CATEGORIES.width, "init": "glorot"}
_KNOWN = OwnPrompts(KnownCategories(**vars(CATEGORIES)))
_ROUTING = ("W_Q", "W_K")
TRIALS: dict[str, Trial] = {
    "heads": Trial(OwnPrompts(REGRESSION), Attention, _HEADS, squared_error, 0.02),
    "linear": Trial(OwnPrompts(REGRESSION), Attention, {**_HEADS, "activation": "linear"}, squared_error, 0.02),
    # the bias of keys adds the same to all scores of a query
    "deep": Trial(OwnPrompts(REGRESSION), DeepAttention, _STACK, squared_error, 0.01, held=("key_bias",)),
    "chain": Trial(
        OwnSequence(), SingleHead, _CHAIN, next_symbol, 0.1, scale=0.1, values=("W_V", "W_O"), routing=_ROUTING
    ),
    "known": Trial(
        _KNOWN, TrainedStep, _CATEGORIES, cross_entropy, 0.02, values=("W_V", "P"), routing=_ROUTING, held=("embed",)
    ),
}


def rate_studies(profile: str) -> dict[str, Study]:
    """Studies of all arms of each model at all base rates, base rates slowest. Plain rates were chosen on seeds 0 and 1, the chain's after a first run."""
    paper = check_profile(profile) == "paper"
    n_seeds, steps, multiples = (SEEDS, STEPS, MULTIPLES) if paper else (2, 12, MULTIPLES[::7])
    seeds = range(FIRST, FIRST + n_seeds)
    marks = tuple(np.unique(np.geomspace(1, steps, 90).round().astype(int)).tolist())
    studies = {}
    for name, trial in TRIALS.items():
        groups = []
        for arm, quicker in {"uniform": (), "values": trial.values, "routing": trial.routing}.items():
            factors = (*((parameter, 0.0) for parameter in trial.held), *((parameter, FACTOR) for parameter in quicker))
            runs = [Run(seed, trial.rate * m, trial.scale, factors=factors) for m in multiples for seed in seeds]
            how = {"observe": Nothing(), "may_diverge": True}
            groups.append(Group(arm, trial.model, trial.kwargs, tuple(runs), Sgd(), trial.loss, **how))
        data, key = FullBatch(trial.data), f"rates_{name}"
        pays = STEPS if name == "deep" else None  # the compiler takes longer than it saves the others
        studies[key] = Study("crossing", key, data, tuple(groups), steps, 1, marks, compile_from=pays)
    return studies


def steps_to(times: Array, losses: Array, level: Array) -> Array:
    """First time ``(...)`` at which ``losses (T, ...)``, at ``times (T,)``, are down to a level: interpolated, at least 1, infinite where never."""
    return np.maximum(first_passage(times, -losses, -level), 1.0)


def at_best(steps: Array) -> Array:
    """Steps ``(S,)`` of ``steps (base rates, S)`` at the base rate that is best for the other seeds: a seed does not choose its own."""
    logs = np.log(steps)
    others = logs.sum(1, keepdims=True) - logs
    return steps[others.argmin(0), np.arange(steps.shape[1])]


def race(times: Array, losses: Mapping[str, Array]) -> Race:
    """Logarithms of ratios of steps ``(S,)`` to the loss at which the plain rate ends, at most as many as that took, from losses ``(T, base rates, S)`` of each arm."""
    level, plain = losses["uniform"][-1, 0], float(times[-1])
    every = {arm: np.minimum(steps_to(times, loss, level), plain) for arm, loss in losses.items()}
    best = {arm: at_best(steps) for arm, steps in every.items()}
    return {
        "routing": np.log(every["values"][0] / every["routing"][0]),
        "uniform": np.log(best["values"] / best["uniform"]),
        "values_plain": np.log(every["values"][0] / plain),
        "routing_plain": np.log(every["routing"][0] / plain),
        "uniform_plain": np.log(best["uniform"] / plain),
        "routing_uniform": np.log(best["routing"] / best["uniform"]),
    }


def of_results(results: Results) -> Race:
    """The race of a study. A record holds the mean loss since the last one, each before its step."""
    steps = results["uniform/steps"].astype(float)
    times = (steps[:-1] + steps[1:] - 1) / 2
    rates = len({run["rate"] for run in results.provenance["config"]["groups"][0]["runs"]})
    losses = {arm: results[f"{arm}/loss"][1:].astype(float) for arm in ARMS}
    return race(times, {arm: loss.reshape(len(loss), rates, -1) for arm, loss in losses.items()})


def product(seeds: int, steps: int = 1000, rate: float = 0.005) -> Race:
    """The race of the product of four equal small factors, two of them values: (1 - q k v o)^2 / 2 by gradient descent. Both pairs of factors stay equal."""
    sizes = numpy_rng(0).uniform(0.2, 0.4, seeds)
    base, losses = rate * np.array(MULTIPLES)[:, None], {}
    for arm, quicker in {"uniform": (1.0, 1.0), "values": (1.0, FACTOR), "routing": (FACTOR, 1.0)}.items():
        routing, values = (base * factor for factor in quicker)
        x = y = np.ones_like(base) * sizes
        found = []
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(steps):
                rest = 1 - (x * x) * (y * y)
                found.append(rest**2 / 2)
                x, y = x + routing * rest * (x * (y * y)), y + values * rest * (y * (x * x))
        losses[arm] = np.array(found)
    return race(np.arange(steps, dtype=float), losses)


def rate_values(found: Mapping[str, Race]) -> dict[str, object]:
    """Mean logarithms of both comparisons of each model, and of the control."""
    values: dict[str, object] = {"rates/seeds": len(found["known"]["routing"])}
    for name, logs in found.items():
        for arm in ("routing", "uniform"):
            values[f"rates/{name}/{arm}"] = Estimate.mean(logs[arm])
    control = product(20)
    values |= {f"rates/{name}/saved": np.exp(-found[name]["routing_uniform"].mean()) for name in ("deep", "known")}
    return values | {
        "rates/product/routing": control["routing"].mean(),
        "rates/product/uniform": control["uniform"].mean(),
    }


# -- routing by advantage (agarwal2025, equation 23) --------------------------------------------------------------------------


def deviation(activation: str, seed: int) -> float:
    """Largest deviation of ``dL/ds_i = a_i (b_i - sum_j a_j b_j)``, ``b_j = dL/da_j``, from autograd on a random head with this activation, over the largest gradient."""
    model = Attention(2, 2, activation=activation).double()
    model.initialise(torch_rng(seed))
    batch = prompts(REGRESSION, seed)
    folded = torch.einsum("hed,db->heb", model.circuits()["kq"][:, :, :2], batch.query)
    scores = torch.einsum("heb,leb->hlb", folded, batch.context).detach().requires_grad_()
    weights, values = ACTIVATIONS[activation](scores), read_out(model, batch)[:, 0].detach()  # (H, L, B)
    answer = (weights * values).sum((0, 1))
    by_score, by_answer = torch.autograd.grad(((answer - batch.target[0]) ** 2).mean(), [scores, answer])
    law = closed_forms.score_gradient(weights.mT, (by_answer * values).mT).mT.detach()
    return float((law - by_score).abs().max() / by_score.abs().max())


def routing_values(draws: int) -> dict[str, float]:
    """Least deviation over the draws, of each activation that is not softmax."""
    every = range(FIRST, FIRST + draws)
    return {f"routing/{kind}": min(deviation(kind, seed) for seed in every) for kind in ("affine", "square", "linear")}
