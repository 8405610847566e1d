"""The whole two-layer model with a free second layer, trained end to end from random weights: its stages and heads (recall2025, contribution iii)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from .... import random
from ....models import RecallTransformer
from ....project import check_profile
from ....statistics import Estimate
from ....store import Results
from ....tasks import AssociativeRecall, Batch
from ....training import Run, gradient_flow
from ....training.groups import Momentum
from ....training.history import KEPT
from ....training.study import Group, Study
from ..theory.population import Population
from .construction import Values
from .simplifications import passing
from .stages import patience, small

Array = np.ndarray
#: Steps between two records, and held-out sequences at each, the same at all; what these are for, among the purposes of :mod:`iclbook.random`.
EVERY, HELD_OUT, PURPOSE = 20, 512, 50


def losses(model: RecallTransformer, batch: Batch) -> tuple[Tensor, Tensor]:
    """Dot-product loss of a model with A1, A2 and A3 lifted, and that of the output divided by its sum over responses; the model's own code, which knows all
    cases, costs three times as much.

    Args:
        model: with parameters ``w (K, width)`` and ``beta ((K + 1) S, (K + 1) S)``.
        batch: ``context (l, B)`` of tokens, ``target (1, B)``.
    """
    tokens, right = batch.context.T, batch.target.T  # (B, l), (B, 1)
    w, symbols, length = model.w, model.vocabulary, model.length
    place = torch.arange(length, device=w.device)
    offset = place[:, None] - place[None, :]  # (l, l)
    low = 1 if model.a0 else 0
    window = torch.arange(low, low + w.shape[-1], device=w.device)
    picks = (offset.flatten() == window[:, None]).to(w.dtype)  # (width, l l)
    seen = picks.sum(0).unflatten(0, (length, length)) > 0
    raw = (w @ picks).unflatten(-1, (length, length)).masked_fill(~seen, -1e300)
    attention = torch.softmax(raw, -1) * seen.any(-1)[:, None]  # (K, l, l)
    x = (tokens[..., None] == torch.arange(symbols, device=w.device)).to(w.dtype)  # (B, l, S)
    last = attention[:, -1] @ x  # (B, K, S)
    asked = (torch.cat([x[:, -1:], last], 1).flatten(1) @ model.beta).unflatten(-1, (-1, symbols))
    worth = asked @ x.mT  # (B, K + 1, l): what each token is worth to each block of the query
    # the heads' averages of worth, as one product over heads and places together
    averaged = worth[:, 1:].flatten(1) @ attention.permute(0, 2, 1).flatten(0, 1)  # (B, l)
    s = torch.softmax(worth[:, 0] + averaged, -1)
    found = (s * (tokens == right)).sum(-1)  # (B,)
    responses = (s * (tokens >= model.order)).sum(-1)
    return 1 - found.mean(), 1 - (found / responses).mean()


def dot_product_loss(model: nn.Module, batch: Batch) -> Tensor:
    """The first of :func:`losses`."""
    return losses(model, batch)[0]


@lru_cache(maxsize=4)
def held_out(task: AssociativeRecall) -> Batch:
    """Sequences that no run trains on."""
    return task.batch(*random.drawn(task, 0, PURPOSE, (HELD_OUT,)))


@dataclass(frozen=True)
class OnSequences:
    """Observes both losses on held-out sequences."""

    task: AssociativeRecall

    def held_out(self) -> tuple[Tensor, ...]:
        """The sequences."""
        return tuple(held_out(self.task))

    def __call__(self, model: nn.Module, held_out: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """``held_loss`` and ``normalised``."""
        loss, normalised = losses(model, Batch(*held_out))
        return {"held_loss": loss, "normalised": normalised}


def _study(name: str, order: int, a0: bool, scales: dict[str, float], seeds: int, steps: int) -> Study:
    """SGD with momentum, as in section 3, from several initial scales."""
    task = AssociativeRecall(order, 4)
    kwargs = {"order": order, "n_responses": 4, "n_heads": order, "a0": a0, "a1": False, "a2": False, "a3": False}
    groups = tuple(
        Group(
            label,
            RecallTransformer,
            kwargs,
            tuple(Run(seed, rate=0.3, init_scale=scale) for seed in range(seeds)),
            Momentum(0.9),
            dot_product_loss,
            observe=OnSequences(task),
            keep=("w",),
            keep_at=(0, steps),
        )
        for label, scale in scales.items()
    )
    marks = (1, *range(EVERY, steps + 1, EVERY))
    return Study("recall2025", name, task, groups, steps, 64, marks, dtype="float64")


def studies(profile: str) -> dict[str, Study]:
    """Order four with the window kept, from two scales, and with everything lifted (order three at the small profile, for speed)."""
    paper = check_profile(profile) == "paper"
    seeds, steps = ((30, 12), (900, 6000)) if paper else ((2, 2), (40, 80))
    every = (
        _study("free_window", 4, True, {"large": 0.1, "small": 0.01}, seeds[0], steps[0]),
        _study("free_lifted", 4 if paper else 3, False, {"lifted": 0.01}, seeds[1], steps[1]),
    )
    return {study.name: study for study in every}


@dataclass(frozen=True)
class Trained:
    """Trainings of one kind from S seeds: ``steps (T,)``, dot-product ``loss (T, S)`` on held-out sequences, ``normalised (T, S)``, the loss of the output
    divided by its sum over responses, whose plateaus are those of the simplified model, and first-layer scores ``w (2, S, K, width)`` before training and
    after."""

    task: AssociativeRecall
    a0: bool
    steps: Array
    loss: Array
    normalised: Array
    w: Array


def trained(results: Mapping[str, Results]) -> tuple[Trained, Trained, Trained]:
    """The window kept, from a large and from a small scale, and everything lifted; from the results of the studies by name."""
    names, found = ("steps", "held_loss", "normalised", f"{KEPT}w"), []
    for study, group, a0 in (
        ("free_window", "large", True),
        ("free_window", "small", True),
        ("free_lifted", "lifted", False),
    ):
        arrays = [results[study][f"{group}/{name}"] for name in names]
        found.append(Trained(AssociativeRecall(arrays[-1].shape[-2], 4), a0, *arrays))  # a head for each symbol
    return tuple(found)


#: A loss rests at a plateau if it falls there at most a tenth as fast as at the jumps on both of its sides.
SLOWER = 0.1
#: A head singles out an offset that holds this share of its attention.
SINGLED = 0.5


def rests(steps: Array, normalised: Array, task: AssociativeRecall) -> Array:
    """Whether a loss ``(T,)``, sampled at ``steps (T,)``, rests at each plateau between the first and the last, ``(order - 2,)``.

    Its speed at the two middles beside the plateau is compared with its least speed between them. One smooth fall, of whatever shape with a single
    fastest point, rests nowhere.
    """
    middles = [(task.plateau_dp(m) + task.plateau_dp(m + 1)) / 2 for m in range(task.order - 1)]
    at = [passing(steps, -normalised, -middle) for middle in middles]
    speed = -np.diff(normalised) / np.diff(steps)  # (T - 1,)
    found = []
    for before, after in itertools.pairwise(at):
        if not np.isfinite(after):
            found.append(False)
            continue
        first, last = (min(np.searchsorted(steps, t, "right") - 1, len(speed) - 1) for t in (before, after))
        slowest = speed[first : last + 1].min()
        found.append(bool(slowest <= SLOWER * min(speed[first], speed[last])))
    return np.array(found)


def attention_by_offset(w: Array, order: int, a0: bool) -> Array:
    """Attention ``(..., K, order)`` of the heads to the offsets 1 to the order, from their scores ``(..., K, width)``, where a head sees all that it can."""
    e = np.exp(w - w.max(-1, keepdims=True))
    first = 0 if a0 else 1
    return (e / e.sum(-1, keepdims=True))[..., first : first + order]


def offsets_found(w: Array, order: int, a0: bool) -> Array:
    """How many offsets are singled out by some head, ``(S, K, width) -> (S,)``."""
    return (attention_by_offset(w, order, a0) >= SINGLED).any(-2).sum(-1)


def together(task: AssociativeRecall, beta: float = 0.02, records: int = 400) -> float:
    """Share of the plateaus at which the simplified model rests when its heads start with one beta and jump together: a control."""
    pop = Population(task, task.order, task.order)
    start = small(pop, np.full(task.order, beta))
    until = float(patience(pop, np.full(task.order, beta), 3.0))
    flow = gradient_flow(pop.gradient, start, until, np.linspace(0, until, records), rtol=1e-8)
    return float(rests(flow.times, pop.value(flow.states), task).mean())


def free_values(window: Trained, small_scale: Trained, lifted: Trained) -> Values:
    """With the window kept, from two initial scales, and with everything lifted: shares of plateaus and seeds at which the loss rests, of seeds that end below a
    tenth of the first plateau, and of seeds in which all offsets but one find a head; and how many times later, from the small scale, the loss passes the
    middle of the first two plateaus."""
    runs = {"window": window, "small": small_scale, "lifted": lifted}
    calm = {
        name: np.array([rests(run.steps, course, run.task) for course in run.normalised.T])
        for name, run in runs.items()
    }  # each (S, order - 2)
    values: Values = {
        "full/seeds": [run.loss.shape[1] for run in runs.values()],
        "free/rests_each": calm["window"].mean(0).tolist(),
        "free/rests_together": together(window.task),
    }
    first = [
        [passing(run.steps, -c, -(run.task.plateau_dp(0) + run.task.plateau_dp(1)) / 2) for c in run.normalised.T]
        for run in (small_scale, window)
    ]
    values["free/first_later"] = Estimate.ratio(*np.minimum(first, window.steps[-1]))
    at_start = []
    for name, run in runs.items():
        task, n = run.task, run.loss.shape[1]
        learned = run.loss[-1] < task.plateau_dp(0) / 10
        circuits = [offsets_found(run.w[t], task.order, run.a0) >= task.order - 1 for t in (0, -1)]
        at_start.append(float(circuits[0].mean()))
        values |= {
            f"free/rests_{name}": Estimate.share(int(calm[name].sum()), calm[name].size),
            f"free/learned_{name}": Estimate.share(int(learned.sum()), n),
            f"free/found_{name}": Estimate.share(int(circuits[1].sum()), n),
        }
    return values | {"free/found_start": max(at_start)}
