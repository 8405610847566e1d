"""Trainings of our own: ten times the rate on values and outputs (agarwal2025, section 7.2) on the papers' models, against ten times on queries and keys, and
against one rate for all, each at many base rates. Plain gradient descent on all prompts of a run at every step, as agarwal2025 trains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .... import random
from ....models import Attention
from ....models.deep_attention import DeepAttention
from ....models.single_head import SingleHead
from ....models.trained_tf import TrainedStep
from ....profiles import check_profile
from ....tasks import Batch
from ....training import FullBatch, Run, Sgd
from ....training.groups import cross_entropy, squared_error
from ....training.study import Group, Study
from .models import CATEGORIES, CHAIN, FIRST, PROMPTS, REGRESSION, prompts

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
        """A draw of the crossing's prompts."""
        return prompts(self.task, seed, self.count)


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
    "linear": Trial(
        OwnPrompts(REGRESSION), Attention, {**_HEADS, "activation": "linear"}, squared_error, 0.02
    ),
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
        OwnPrompts(CATEGORIES),
        TrainedStep,
        {**_CATEGORIES, "init": "glorot", "known": CATEGORIES},
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
            tuple(
                Run(seed, trial.rate * m, trial.scale, factors=factors) for m in multiples for seed in seeds
            ),
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
