"""Simplification A2 lifted at the paper's size: order four, four responses, three heads, all six orders of the initial beta (recall2025, A.2, A.6)."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from ....tasks import AssociativeRecall
from ....training import Flow, gradient_flow
from ....training.flow import first_crossings
from .. import theory
from ..theory import OwnQueries, Population
from .first_jump import R
from .stages import ACTIVE, HEADS, ORDER, Values, patience, small

RANKS = np.array(list(permutations(range(HEADS))))  # of each head, 0 for the largest beta
SEPARATE = 1.2


def race(pop: Population, scale: float = 0.02, ratio: float = 4.0) -> tuple[np.ndarray, np.ndarray]:
    """From the six orders of ``beta = scale / ratio^rank``, w = 0: times ``(6, K)`` at which the heads become active, and at which the loss passes the
    middles between plateaus; inf for what does not happen long after all heads would have jumped."""
    middles = [(pop.task.plateau_dp(m) + pop.task.plateau_dp(m + 1)) / 2 for m in range(HEADS)]
    betas = scale / ratio**RANKS

    def marks(theta: np.ndarray) -> np.ndarray:
        return np.concatenate([pop.advantage(theta) - ACTIVE, middles - pop.value(theta)[:, None]], -1)

    times = first_crossings(pop.gradient, marks, small(pop, betas), patience(pop, betas), 1e-6, 1e-12).times
    return times[:, :HEADS], times[:, HEADS:]


def apart(jumps: np.ndarray) -> np.ndarray:
    """Least ratio of successive jumps ``(N, K) -> (N,)``; 0 where one is missing."""
    done = np.isfinite(jumps).all(-1)
    with np.errstate(invalid="ignore"):
        return np.where(done, (jumps[:, 1:] / jumps[:, :-1]).min(-1), 0.0)


def ordered(active: np.ndarray) -> np.ndarray:
    """Whether all heads become active, in the order of beta, ``(N, K) -> (N,)``."""
    return np.isfinite(active).all(-1) & (np.argsort(active, -1) == np.argsort(RANKS, -1)).all(-1)


def falling_and_rising(
    scale: float = 0.02, ratio: float = 4.0, points: int = 600
) -> dict[str, tuple[Population, Flow]]:
    """Flows with A2 lifted from beta falling and rising by ``ratio`` from head to head, for the chapter's figure."""
    pop, flows = OwnQueries(AssociativeRecall(ORDER, R), HEADS, ORDER), {}
    until = 5.0 * theory.jump_limit(ORDER, R) / scale
    for name, ranks in (("falling", RANKS[0]), ("rising", RANKS[-1])):
        start = small(pop, scale / ratio**ranks)
        flows[name] = pop, gradient_flow(pop.gradient, start, until, np.linspace(0, until, points), rtol=1e-7)
    return flows


def a2_values() -> Values:
    """What the claims about A2 record: orders of beta, of six, whose jumps stay apart and whose heads follow beta, with A2 and without."""
    task = AssociativeRecall(ORDER, R)
    kept, lifted = (race(kind(task, HEADS, ORDER)) for kind in (Population, OwnQueries))
    return {
        "a2/kept_apart": int((apart(kept[1]) > SEPARATE).sum()),
        "a2/kept_ordered": int(ordered(kept[0]).sum()),
        "a2/apart": int((apart(lifted[1]) > SEPARATE).sum()),
        "a2/ordered": int(ordered(lifted[0]).sum()),
        "a2/falling_apart": float(apart(lifted[1])[0]),
        "a2/falling_active": int(np.isfinite(lifted[0][0]).sum()),
        "a2/rising_ordered": bool(ordered(lifted[0])[-1]),
        "a2/rising_apart": float(apart(lifted[1])[-1]),
    }
