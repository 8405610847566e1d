"""Jumps after the first: proposition A.2, stitching, and the symmetry near the origin (recall2025, Section 3, appendix A.4, A.6)."""

import numpy as np

from ...draw import numpy_rng
from ...statistics import Estimate
from ...tasks import AssociativeRecall
from ...training import first_crossings, gradient_flow
from .stages import ACTIVE, HEADS, ORDER, WINDOWS, R, Values, activations, experiment, patience, small
from .theorem_3_1 import start
from .theory import Array, Population, chained_times, jump_limit

CASES = ((3, 1), (4, 1), (4, 2))  # order, heads learned before
#: Ratios of the three initial beta, as in the chapter's other flows.
FALLING = np.array([1.0, 1 / 4, 1 / 16])


def initialisation(pop: Population, learned: int, beta: float, w: float, eps: float) -> Array:
    """``I_h`` with h - 1 = ``learned``: these heads at ``w = w e_i`` and ``beta``, the next at ``eps``, the others at zero."""
    heads, betas = np.zeros((pop.n_heads, pop.window)), np.zeros(pop.n_heads)
    heads[:learned] = w * np.eye(learned, pop.window)
    betas[:learned], betas[learned] = beta, eps
    return pop.join(heads, betas)


def later_jump(order: int, learned: int, eps: float = 1e-3, c: float = 60.0) -> tuple[float, float]:
    """Time of the jump from I_h (``beta^2 = c``, ``w = c e_i``) over that of the reduced order's first jump, and the predicted factor ``k / (k - h + 1)``."""
    left = order - learned
    pop, reduced = (Population(AssociativeRecall(n, R), n, n) for n in (order, left))
    until, times = 4 * order / left * jump_limit(left, R) / eps, []
    full = initialisation(pop, learned, np.sqrt(c), c, eps)
    for p, theta, h in ((pop, full, learned), (reduced, start(reduced, eps), 0)):
        active = [lambda state, p=p, h=h: p.advantage(state)[h] - ACTIVE]
        times.append(gradient_flow(p.gradient, theta, until, events=active, stop_at=0).first())
    return times[0] / times[1], order / left


def stationarity() -> dict[str, Array]:
    """Proposition A.2 a, order four: largest gradient of the two learned heads (``w = 40 e_i``) against c, what a match adds to a score, so that ``beta^2 = c``."""
    pop, learned, sizes = Population(AssociativeRecall(4, R), 4, 4), 2, np.arange(8.0, 19.0, 2.0)
    found = []
    for c in sizes:
        by_w, by_beta = pop.split(pop.gradient(initialisation(pop, learned, np.sqrt(c), 40.0, 0.01)))
        found.append(max(np.abs(by_w[:learned]).max(), np.abs(by_beta[:learned]).max()))
    return {"c": sizes, "score": np.array(found)}


def stationarity_values(found: dict[str, Array]) -> Values:
    """Exponents in c of gradients over ``e^-c``, where c is the score that a match adds and where it is beta (I_h), and the log slope of ``gradient / sqrt(c)``."""
    c, c_beta, log = found["c"], np.sqrt(found["c"]), np.log(found["score"])
    return {
        "propA2/growth_score": np.polyfit(np.log(c), log + c, 1)[0],
        "propA2/growth_beta": np.polyfit(np.log(c_beta), log + c_beta, 1)[0],
        "propA2/slope": np.polyfit(c, log - np.log(c) / 2, 1)[0],
    }


def jump_counts(orders: tuple[int, ...] = (2, 3, 4)) -> Values:
    """Order k with k heads and window k, beta falling by 2 from 0.02: how many heads become active, and by what factor the last one's beta grows."""
    count, last = [], []
    for order in orders:
        pop = Population(AssociativeRecall(order, R), order, order)
        betas = 0.02 / 2.0 ** np.arange(order)
        until = float(patience(pop, betas))
        times = activations(pop, small(pop, betas)[None], until, 1e-7, 1e-12)[0]
        flow = gradient_flow(pop.gradient, small(pop, betas), until, rtol=1e-8)
        count.append(int(np.isfinite(times).sum()))
        last.append(pop.split(flow.states[-1])[1][-1] / betas[-1])
    return {"jumps/count": count, "jumps/k_minus_1": [k - 1 for k in orders], "jumps/last_beta": last}


def stitched(scales: tuple[float, float] = (0.01, 0.003), large: float = 2.0) -> Values:
    """Until ``beta_1`` is ``large``: exponents in the scale of the other heads' largest parameter and gradient; activation times over the chain's, carried on or afresh."""
    pop, largest = experiment(), []
    for scale in scales:
        begin, until = small(pop, scale * FALLING), float(patience(pop, scale * FALLING))
        stop = [lambda x: pop.split(x)[1][0] - large]
        flow = gradient_flow(pop.gradient, begin, until, events=stop, stop_at=0, rtol=1e-9)
        both = (pop.split(flow.states), pop.split(pop.gradient(flow.states)))
        largest.append([max(np.abs(w[:, 1:]).max(), np.abs(beta[:, 1:]).max()) for w, beta in both])
    exponents = np.log(np.divide(*largest[::-1])) / np.log(scales[1] / scales[0])
    betas = scales[1] * FALLING
    times = activations(pop, small(pop, betas)[None], patience(pop, betas), 1e-8, 1e-13)[0]
    return {
        "stitch/parameters": exponents[0],
        "stitch/gradients": exponents[1],
        "stitch/carried": times / chained_times(tuple(betas), ORDER, R),
        "stitch/afresh": times / chained_times(tuple(betas), ORDER, R, carried=False),
    }


def sharpness(pop: Population, scales: tuple[float, ...]) -> Array:
    """Length of each plateau over the time in which the loss then falls from 0.9 to 0.1 of its step, ``(scales, K)``; 0 for one passed without rest."""
    steps = [(pop.task.plateau_dp(m), pop.task.plateau_dp(m + 1)) for m in range(HEADS)]
    levels = np.array([a * share + b * (1 - share) for a, b in steps for share in (0.9, 0.1)])
    betas = np.array(scales)[:, None] * FALLING
    passed = lambda theta: levels - pop.value(theta)[:, None]  # noqa: E731
    until = 100 * patience(pop, betas)
    times = first_crossings(pop.gradient, passed, small(pop, betas), until, 1e-7, 1e-12).reshape(-1, HEADS, 2)
    begin = np.concatenate([np.zeros((len(times), 1)), times[:, :-1, 1]], 1)
    return np.maximum(times[..., 0] - begin, 0) / (times[..., 1] - times[..., 0])


def pronounced(scales: tuple[float, ...] = (0.3, 0.1, 0.03, 0.01)) -> Values:
    """Least factor, over jumps and scales, by which plateaus grow against jumps when the initial scale falls to about a third, with either window."""
    found = {name: sharpness(experiment(window=window), scales) for name, window in WINDOWS.items()}
    return {f"pronounced/{name}": (of[1:] / of[:-1]).min() for name, of in found.items()}


def symmetry(starts: int = 24, scales: tuple[float, ...] = (1e-1, 1e-2, 1e-3)) -> Values:
    """Exponent in lambda of the distance between flows from ``lambda (w, beta)`` for ``T / lambda``, over lambda, median over starts: 1 for a symmetry near the origin."""
    found: Values = {}
    for name, window in WINDOWS.items():
        pop, ends = experiment(window=window), []
        rngs = [numpy_rng(seed) for seed in range(starts)]
        drawn = [(rng.normal(size=(pop.n_heads, pop.window)), np.abs(rng.normal(size=pop.n_heads))) for rng in rngs]
        directions = np.stack([pop.join(*parts) for parts in drawn])
        for scale in scales:  # the starts of one scale move at one pace, so they share their time steps
            until = 0.2 * jump_limit(ORDER, R) / scale
            flow = gradient_flow(pop.gradient, scale * directions, until, [until], rtol=1e-11, atol=1e-16)
            ends.append(flow.states[-1] / scale)
        first, second = np.linalg.norm(np.diff(ends, axis=0), axis=-1)
        exponents = np.log(first / second) / np.log(scales[0] / scales[1])
        found[f"symmetry/{name}"] = Estimate.of(np.median, exponents)
    return found
