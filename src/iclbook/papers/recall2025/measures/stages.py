"""Plateaus and jumps of the simplified model along exact flows (recall2025, Section 3, A.3, A.4)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np

from ....statistics import clustered_share_error
from ....tasks import AssociativeRecall
from ....training import Flow, gradient_flow
from ....training.flow import first_crossings
from .. import theory
from ..theory import Population
from .first_jump import R

Values = dict[str, float | list[float] | bool]

#: A head counts as active from the time when a match at its own offset adds this much to a score.
ACTIVE = 1.0
#: The paper's experiments: order k + 1 = 4 with k = 3 heads, and its snapshots.
ORDER, HEADS = 4, 3
SNAPSHOTS = (800, 1750, 4500)


def experiment(
    loss: str = "dp",
    order: int = ORDER,
    n_heads: int = HEADS,
    window: int | None = None,
) -> Population:
    """Three heads on the task of order four. The window is the order; ``window=3`` is the other reading (A0 with k = 3 heads)."""
    return Population(AssociativeRecall(order, R), n_heads, window or order, loss=loss)


def small(pop: Population, betas: tuple[float, ...] | np.ndarray) -> np.ndarray:
    """Starts with these beta ``(..., K)`` and ``w = 0``, ``(..., size)``."""
    betas = np.asarray(betas, dtype=float)
    return pop.join(np.zeros((*betas.shape[:-1], pop.n_heads, pop.window)), betas)


def activations(
    pop: Population, starts: np.ndarray, until: float | np.ndarray, rtol: float = 1e-6, atol: float = 1e-10
) -> np.ndarray:
    """Times ``(N, K)`` at which the heads of an ensemble of starts ``(N, size)`` become active; inf for heads not active by ``until``.

    A run is left once all its heads are active: what follows is slow.
    """
    return first_crossings(
        pop.gradient, lambda theta: pop.advantage(theta) - ACTIVE, starts, until, rtol, atol
    ).times


def activation_times(pop: Population, flow: Flow) -> np.ndarray:
    """The same along recorded states ``(T, ..., K)``, between them by straight lines; inf if a head never is active. The flow may be an ensemble."""
    gamma = pop.advantage(flow.states)
    above = gamma >= ACTIVE
    first = above.argmax(0)
    before = np.maximum(first - 1, 0)
    low, high = (np.take_along_axis(gamma, i[None], 0)[0] for i in (before, first))
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(high > low, (ACTIVE - low) / (high - low), 1.0)
    times = flow.times[before] + part * (flow.times[first] - flow.times[before])
    return np.where(above.any(0), times, np.inf)


def patience(pop: Population, betas: np.ndarray, factor: float = 40.0) -> np.ndarray:
    """A time ``(...)`` in which every head from ``w = 0`` and these beta ``(..., K)`` has long had time to jump, one after another."""
    return factor * theory.jump_limit(pop.task.order, R, pop.kappa) / np.min(betas, axis=-1)


def follow(
    pop: Population, betas: tuple[float, ...], beyond: float = 2.0, rtol: float = 1e-9
) -> tuple[Flow, np.ndarray]:
    """The exact flow from small beta and ``w = 0`` until ``beyond`` times the time of its last jump, and its activation times ``(K,)``.

    A head that never becomes active keeps the flow going to ``patience`` and has time inf.
    """

    def active(head: int) -> Callable[[np.ndarray], float]:
        return lambda theta: float(pop.advantage(theta)[head]) - ACTIVE

    events = [active(h) for h in range(pop.n_heads)] + [lambda x: float(pop.advantage(x).min()) - ACTIVE]
    end = float(patience(pop, np.asarray(betas)))
    flow = gradient_flow(pop.gradient, small(pop, betas), end, events=events, stop_at=pop.n_heads, rtol=rtol)
    times = np.array([e[0] if len(e) else np.inf for e in flow.events[: pop.n_heads]])
    if beyond <= 1 or not np.isfinite(times).all():
        return flow, times
    last = flow.times[-1]
    rest = gradient_flow(pop.gradient, flow.states[-1], (beyond - 1) * last, rtol=rtol)
    joined = np.concatenate([flow.times, last + rest.times[1:]])
    return Flow(joined, np.concatenate([flow.states, rest.states[1:]])), times


def plateaus(pop: Population, start: np.ndarray, times: np.ndarray) -> tuple[list[float], float]:
    """On every plateau before the last of the flow from ``start (size,)``, halfway between its jumps in log time.

    Returns:
        the losses, and over all of them the largest difference, relative, between second-layer attention and the uniform law on the permutations
        that match what is learned.
    """
    head = np.argsort(times)
    edges = np.array([times[head[0]] * 0.01, *times[head]])
    middles = np.sqrt(edges[1:] * edges[:-1])
    states = gradient_flow(pop.gradient, start, middles[-1], middles, rtol=1e-9).states
    worst = 0.0
    for n, state in enumerate(states):
        matched = np.all([pop.match[:, h, h] > 0 for h in head[:n]] + [np.ones(len(pop.match), bool)], axis=0)
        off = np.abs(pop.weights(state) - matched / matched.sum()).max() * matched.sum()
        worst = max(worst, float(off))
    return pop.value(states).tolist(), worst


def plateau_errors(pop: Population, start: np.ndarray, times: np.ndarray) -> dict[str, float]:
    """Largest relative deviation of the loss, and of second-layer attention, from the frequencies on the plateaus before the last."""
    closed = pop.task.plateau_ce if pop.loss == "ce" else pop.task.plateau_dp
    losses, attention = plateaus(pop, start, times)
    return {
        "loss": max(abs(m / closed(n) - 1) for n, m in enumerate(losses)),
        "attention": attention,
    }


def plateau_scan(pop: Population, ratios: tuple[float, ...], scale: float = 0.02) -> dict[str, list[float]]:
    """Plateaus against the ratio of successive beta, from ``beta = (scale, scale / ratio, scale / ratio^2)``.

    Returns:
        for each ratio: deviation of the ``loss`` and of the ``attention`` from the frequencies, and the ``length`` of the plateau between the first
        two jumps.
    """
    found: dict[str, list[float]] = {"loss": [], "attention": [], "length": []}
    for ratio in ratios:
        flow, times = follow(pop, tuple(scale / ratio**h for h in range(pop.n_heads)), beyond=1.0, rtol=1e-7)
        for name, value in plateau_errors(pop, flow.states[0], times).items():
            found[name].append(value)
        found["length"].append(float(times[1] - times[0]))
    return found


def plateau_values(order: dict[str, list[float]], k: dict[str, list[float]]) -> Values:
    """What the claims about plateaus record of the scans with either window: deviations at the largest ratio, and whether that of attention falls with it."""

    def falling(scan: dict[str, list[float]]) -> bool:
        return bool((np.diff(scan["attention"]) < 0).all())

    return {
        "plateaus/order/loss_last": order["loss"][-1],
        "plateaus/order/attention": order["attention"],
        "plateaus/order/attention_last": order["attention"][-1],
        "plateaus/order/attention_falling": falling(order),
        "plateaus/k/loss_last": k["loss"][-1],
        "plateaus/k/attention": k["attention"],
        "plateaus/k/attention_last": k["attention"][-1],
        "plateaus/k/attention_falling": falling(k),
        "plateaus/k/length": k["length"],
    }


def orders_follow(pop: Population, scale: float = 0.02) -> int:
    """Of the six orders of three initial beta, in how many the heads become active in that order."""
    ranks = np.array(list(permutations(range(HEADS))))
    betas = scale / 2.0**ranks
    times = activations(pop, small(pop, betas), patience(pop, betas), 1e-6, 1e-12)
    return int((np.argsort(times, -1) == np.argsort(ranks, -1)).all(-1).sum())


def losses_agree(runs: int, seed: int = 0, beta_scale: float = 0.1) -> Values:
    """Random starts, w as large as beta, under both losses: share of pairs of heads that become active in the same order under both.

    The pairs of a run are not independent: the standard error is over runs.
    """
    rng = np.random.default_rng(seed)
    both = {loss: experiment(loss) for loss in ("dp", "ce")}
    betas = beta_scale * np.abs(rng.normal(size=(runs, HEADS)))
    starts = both["dp"].join(beta_scale * rng.normal(size=(runs, HEADS, ORDER)), betas)
    until = 20 * theory.jump_limit(ORDER, R) / beta_scale
    times = {loss: activations(pop, starts, until, 1e-4, 1e-8) for loss, pop in both.items()}
    same, decided = np.zeros(runs), np.zeros(runs)
    for i in range(HEADS):
        for j in range(i):
            first = [_first(t[:, i], t[:, j]) for t in times.values()]
            known = (first[0] != 0) & (first[1] != 0)
            same += (first[0] == first[1]) & known
            decided += known
    return {
        "losses/random_pairs": float(same.sum() / decided.sum()),
        "losses/random_pairs_se": clustered_share_error(same, decided),
    }


def _first(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """1 where x is first, -1 where y is, 0 where neither happens or both at once (at the start)."""
    return (x < y).astype(int) - (y < x).astype(int)
