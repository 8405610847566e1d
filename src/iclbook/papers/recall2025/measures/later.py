"""Later jumps (recall2025, Proposition A.2): their time against the first jump of reduced order, stationarity of learned heads, their number."""

from __future__ import annotations

import numpy as np

from ....tasks import AssociativeRecall
from ....training import gradient_flow
from .. import theory
from ..theory import Population
from .first_jump import R, start
from .stages import ACTIVE, Values, activations, patience, small

CASES = ((3, 1), (4, 1), (4, 2))  # order, heads learned before


def initialisation(pop: Population, learned: int, beta: float, w: float, eps: float) -> np.ndarray:
    """``I_h`` with h - 1 = ``learned``: these heads at ``w = w e_i`` and ``beta``, the next at ``eps``, the others at zero."""
    heads, betas = np.zeros((pop.n_heads, pop.window)), np.zeros(pop.n_heads)
    for h in range(learned):
        heads[h, h], betas[h] = w, beta
    betas[learned] = eps
    return pop.join(heads, betas)


def later_jump(order: int, learned: int, eps: float, c: float = 60.0) -> dict[str, float]:
    """Jump of head ``learned + 1`` from I_h with ``beta^2 = c``, ``w = c e_i``, against the first jump on the task of reduced order.

    Returns:
        the factor between the two times and the one that counting offsets predicts, ``order / (order - learned)``.
    """
    pop = Population(AssociativeRecall(order, R), order, order)
    reduced = Population(AssociativeRecall(order - learned, R), order - learned, order - learned)
    until = 4 * order / (order - learned) * theory.jump_limit(order - learned, R) / eps
    times = []
    for p, theta, h in (
        (pop, initialisation(pop, learned, np.sqrt(c), c, eps), learned),
        (reduced, start(reduced, eps), 0),
    ):

        def active(state: np.ndarray, p: Population = p, h: int = h) -> float:
            return float(p.advantage(state)[h]) - ACTIVE

        times.append(gradient_flow(p.gradient, theta, until, events=[active], stop_at=0).first())
    return {"ratio": times[0] / times[1], "predicted": order / (order - learned)}


def stationarity(
    order: int = 4, learned: int = 2, sizes: tuple[float, ...] = (8.0, 10.0, 12.0, 14.0, 16.0, 18.0)
) -> dict[str, np.ndarray]:
    """Proposition A.2 a: largest gradient of the learned heads (``w = 40 e_i``) against c.

    Returns:
        ``c``; ``score``, the gradient where a match adds the score c (the proof: "assume gamma_i = c"); ``beta`` where ``beta_i = c`` as in I_h, at
        ``c_beta`` with the same scores.
    """
    pop = Population(AssociativeRecall(order, R), order, order)

    def gradient(beta: float) -> float:
        by_w, by_beta = pop.split(pop.gradient(initialisation(pop, learned, beta, 40.0, 0.01)))
        return float(max(np.abs(by_w[:learned]).max(), np.abs(by_beta[:learned]).max()))

    c = np.array(sizes)
    return {
        "c": c,
        "score": np.array([gradient(np.sqrt(x)) for x in c]),
        "c_beta": np.sqrt(c),
        "beta": np.array([gradient(np.sqrt(x)) for x in c]),
    }


def stationarity_values(found: dict[str, np.ndarray]) -> Values:
    """Slopes that the claims record: gradients times e^c must not grow if they are O(e^-c)."""
    c, score = found["c"], np.log(found["score"])
    return {
        "propA2/growth_score": float(np.polyfit(np.log(c), score + c, 1)[0]),
        "propA2/growth_beta": float(
            np.polyfit(np.log(found["c_beta"]), np.log(found["beta"]) + found["c_beta"], 1)[0]
        ),
        "propA2/slope": float(np.polyfit(c, score - np.log(c) / 2, 1)[0]),
    }


def jump_counts(orders: tuple[int, ...] = (2, 3, 4)) -> Values:
    """Order k with k heads and window k, beta falling by 2 from 0.02: how many heads become active, and what the last one's beta grows to, over its start."""
    count, last = [], []
    for order in orders:
        pop = Population(AssociativeRecall(order, R), order, order)
        betas = 0.02 / 2.0 ** np.arange(order)
        until = float(patience(pop, betas))
        times = activations(pop, small(pop, betas)[None], until, 1e-7, 1e-12)[0]
        flow = gradient_flow(pop.gradient, small(pop, betas), until, rtol=1e-8)
        count.append(int(np.isfinite(times).sum()))
        last.append(float(pop.split(flow.states[-1])[1][-1] / betas[-1]))
    return {"jumps/count": count, "jumps/k_minus_1": [k - 1 for k in orders], "jumps/last_beta": last}
