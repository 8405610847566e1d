"""The chain of jumps (recall2025, Section 3, A.3, A.4, A.6): its times, how sharp it is, and the symmetry of the flow near the origin."""

from __future__ import annotations

import itertools

import numpy as np

from ....training import gradient_flow
from ....training.flow import first_crossings
from .. import theory
from ..theory import Population
from .first_jump import R
from .stages import HEADS, ORDER, Values, activations, experiment, patience, small

#: Ratios of the three initial beta, as in the chapter's other flows.
FALLING = np.array([1.0, 1 / 4, 1 / 16])


def loss_times(betas: tuple[float, ...], dot: np.ndarray, cross: np.ndarray) -> Values:
    """Activation times ``(K,)`` under cross-entropy over those under the dot product, and the same of the chained closed forms.

    ``ce/ratio_first``: the ratio of the first jump for all, as if every jump chose among all orderings. ``losses/durations``: ratios of successive times.
    """
    growth_dot, growth_cross = (times[1:] / times[:-1] for times in (dot, cross))
    closed = {loss: theory.chained_times(betas, ORDER, R, loss) for loss in ("dp", "ce")}
    ratio = closed["ce"] / closed["dp"]
    return {
        "ce/ratio": (cross / dot).tolist(),
        "ce/ratio_closed": ratio.tolist(),
        "ce/ratio_first": [float(ratio[0])] * len(ratio),
        "losses/durations": (growth_cross / growth_dot).tolist(),
        "losses/durations_dp": growth_dot.tolist(),
        "losses/durations_ce": growth_cross.tolist(),
    }


def stitched(scales: tuple[float, ...] = (0.1, 0.03, 0.01, 0.003), large: float = 2.0) -> Values:
    """From ``beta = scale (1, 1/4, 1/16)`` until ``beta_1`` is ``large``: how the other heads' largest parameter and gradient on the way go with the scale
    (exponents over the last two scales), and activation times at the smallest scale over the chained ones, heads carried on or begun afresh."""
    pop, parameters, gradients = experiment(), [], []
    for scale in scales[-2:]:
        start = small(pop, scale * FALLING)
        until = float(patience(pop, scale * FALLING))
        flow = gradient_flow(
            pop.gradient, start, until, events=[lambda x: pop.split(x)[1][0] - large], stop_at=0, rtol=1e-9
        )
        parts = (pop.split(flow.states), pop.split(pop.gradient(flow.states)))
        for (w, beta), kept in zip(parts, (parameters, gradients), strict=True):
            kept.append(max(np.abs(w[:, 1:]).max(), np.abs(beta[:, 1:]).max()))
    step = np.log(scales[-1] / scales[-2])
    betas = scales[-1] * FALLING
    times = activations(pop, small(pop, betas)[None], patience(pop, betas), 1e-8, 1e-13)[0]
    carried, afresh = (theory.chained_times(tuple(betas), ORDER, R, carried=c) for c in (True, False))
    return {
        "stitch/parameters": float(np.log(parameters[1] / parameters[0]) / step),
        "stitch/gradients": float(np.log(gradients[1] / gradients[0]) / step),
        "stitch/carried": (times / carried).tolist(),
        "stitch/afresh": (times / afresh).tolist(),
    }


def sharpness(pop: Population, scales: tuple[float, ...]) -> np.ndarray:
    """Length of each plateau over the time in which the loss then falls from 0.9 to 0.1 of the step to the next, ``(scales, K)``; 0 for a plateau that is
    passed without rest."""
    levels = [
        pop.task.plateau_dp(m) * share + pop.task.plateau_dp(m + 1) * (1 - share)
        for m in range(HEADS)
        for share in (0.9, 0.1)
    ]
    betas = np.array(scales)[:, None] * FALLING
    found = first_crossings(
        pop.gradient,
        lambda theta: np.array(levels) - pop.value(theta)[:, None],
        small(pop, betas),
        100 * patience(pop, betas),
        1e-7,
        1e-12,
    ).times.reshape(-1, HEADS, 2)
    begin = np.concatenate([np.zeros((len(found), 1)), found[:, :-1, 1]], 1)
    return np.maximum(found[..., 0] - begin, 0) / (found[..., 1] - found[..., 0])


def pronounced(scales: tuple[float, ...] = (0.3, 0.1, 0.03, 0.01)) -> Values:
    """Least factor, over jumps and scales, by which plateaus grow against jumps when the initial scale falls to about a third, with either window."""
    order, short = (sharpness(experiment(window=w), scales) for w in (ORDER, HEADS))
    return {
        "pronounced/order": float((order[1:] / order[:-1]).min()),
        "pronounced/k": float((short[1:] / short[:-1]).min()),
    }


def scaling_exponent(pop: Population, scales: tuple[float, ...] = (1e-1, 1e-2, 1e-3), seed: int = 0) -> float:
    """How the flow from ``(lambda w, lambda beta)`` for a time ``T / lambda``, over lambda, tends to its limit: the exponent in lambda of the distance
    between successive scales (1: a symmetry of the equations near the origin, up to corrections of order lambda)."""
    rng = np.random.default_rng(seed)
    direction = pop.join(rng.normal(size=(pop.n_heads, pop.window)), np.abs(rng.normal(size=pop.n_heads)))
    ends = []
    for scale in scales:
        until = 0.2 * theory.jump_limit(ORDER, R) / scale
        flow = gradient_flow(pop.gradient, scale * direction, until, [until], rtol=1e-11, atol=1e-16)
        ends.append(flow.states[-1] / scale)
    first, second = (np.linalg.norm(b - a) for a, b in itertools.pairwise(ends))
    return float(np.log(first / second) / np.log(scales[0] / scales[1]))


def symmetry() -> Values:
    """The scaling of w, beta and 1/t together, with the window as long as the permutations and with one that is shorter (a control)."""
    return {
        "symmetry/order": scaling_exponent(experiment()),
        "symmetry/k": scaling_exponent(experiment(window=HEADS)),
    }
