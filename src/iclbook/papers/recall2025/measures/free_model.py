"""Stages and heads of the whole model trained end to end (recall2025, Section 3 and "empirical validation on small transformers")."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ....statistics import bootstrap_error, share_error
from ....store import Results
from ....tasks import AssociativeRecall
from ....training import gradient_flow
from ..theory import Population
from .relaxed import passing
from .stages import Values, patience, small


@dataclass(frozen=True)
class Trained:
    """Trainings of one kind from several seeds.

    Attributes:
        task: what they learn.
        a0: heads see a window of the order; lifted, all places.
        steps: ``(T,)``.
        loss: ``(T, S)`` dot-product loss of every seed on held-out sequences.
        normalised: ``(T, S)`` loss of the output divided by its sum over responses: its plateaus are those of the simplified model.
        w: ``(T, S, K, width)`` first-layer scores.
    """

    task: AssociativeRecall
    a0: bool
    steps: np.ndarray
    loss: np.ndarray
    normalised: np.ndarray
    w: np.ndarray


def trained(results: Mapping[str, Results]) -> tuple[Trained, Trained, Trained]:
    """The window kept, from a large and from a small scale, and everything lifted; from the results of the studies by name."""

    def of(study: str, group: str, order: int, a0: bool) -> Trained:
        names = ("steps", "held_loss", "normalised", "w")
        return Trained(
            AssociativeRecall(order, 4), a0, *(results[study][f"{group}/{name}"] for name in names)
        )

    return (
        of("free_window", "large", 4, True),
        of("free_window", "small", 4, True),
        of("free_lifted", "lifted", 3, False),
    )


#: A plateau counts as one if the loss falls at most half as fast there as at the jumps on both of its sides.
SLOWER = 0.5
#: A head singles out an offset that holds this share of its attention.
SINGLED = 0.5


def rests(steps: np.ndarray, normalised: np.ndarray, task: AssociativeRecall) -> np.ndarray:
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


def attention_by_offset(w: np.ndarray, order: int, a0: bool) -> np.ndarray:
    """Attention ``(..., K, order)`` of the heads to the offsets 1 to the order, from their scores ``(..., K, width)``, where a head sees all that it can."""
    e = np.exp(w - w.max(-1, keepdims=True))
    first = 0 if a0 else 1
    return (e / e.sum(-1, keepdims=True))[..., first : first + order]


def offsets_found(w: np.ndarray, order: int, a0: bool) -> np.ndarray:
    """How many offsets are singled out by some head, ``(S, K, width) -> (S,)``."""
    return (attention_by_offset(w, order, a0) >= SINGLED).any(-2).sum(-1)


def together(task: AssociativeRecall, beta: float = 0.02, records: int = 400) -> float:
    """Share of the plateaus at which the simplified model rests when its heads start with one beta and jump together: a control."""
    pop = Population(task, task.order, task.order)
    start = small(pop, np.full(task.order, beta))
    until = float(patience(pop, np.full(task.order, beta), 3.0))
    flow = gradient_flow(pop.gradient, start, until, np.linspace(0, until, records), rtol=1e-8)
    return float(rests(flow.times, pop.value(flow.states), task).mean())


def rest_share(run: Trained) -> tuple[np.ndarray, float]:
    """Share of seeds that rest at each plateau ``(order - 2,)``, and the standard error of the share of all, seeds and plateaus."""
    calm = np.array([rests(run.steps, course, run.task) for course in run.normalised.T])  # (S, order - 2)
    return calm.mean(0), share_error(int(calm.sum()), calm.size)


def free_values(window: Trained, small_scale: Trained, lifted: Trained) -> Values:
    """What the claims about training end to end record: with the window kept at the paper's size, from two initial scales, and with everything lifted
    at order three."""
    runs = (window, small_scale, lifted)
    calm, errors = zip(*(rest_share(run) for run in runs), strict=True)
    last = [run.loss[-1] / run.task.plateau_dp(0) for run in runs]  # each (S,)
    worst = max(last, key=np.max)
    first_found, found = ([offsets_found(run.w[i], run.task.order, run.a0) for run in runs] for i in (0, -1))
    return {
        "full/seeds": window.loss.shape[1],
        "free/loss": float(worst.max()),
        "free/loss_se": bootstrap_error(np.max, worst),
        "free/rests_window": float(calm[0].mean()),
        "free/rests_window_se": errors[0],
        "free/rests_small": float(calm[1].mean()),
        "free/rests_small_se": errors[1],
        "free/rests_lifted": float(calm[2].mean()),
        "free/rests_lifted_se": errors[2],
        "free/rests_each": calm[0].tolist(),
        "free/rests_together": together(window.task),
        "free/offsets_window": int(min(found[0].min(), found[1].min())),
        "free/offsets_lifted": int(found[2].min()),
        "free/offsets_start": int(max(n.max() for n in first_found)),
    }
