"""Whole trainings of the simplified model: later jumps, plateaus, Figures 1 and 4, the order of activation (recall2025, Section 3, A.4, A.6)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, permutations

import numpy as np

from ...tasks import AssociativeRecall
from ...theory import recall2025 as theory
from ...theory.recall2025 import Population
from ...training import Flow, gradient_flow
from .first_jump import R

#: A head counts as active from the time when a match at its own offset adds this much to a score.
ACTIVE = 1.0
#: The document's experiments: order k + 1 = 4 with k = 3 heads, and its snapshots.
ORDER, HEADS = 4, 3
SNAPSHOTS = (800, 1750, 4500)


def experiment(
    loss: str = "dp",
    gamma: float = 0.0,
    matrix: str = "lemma",
    order: int = ORDER,
    n_heads: int = HEADS,
    window: int | None = None,
) -> Population:
    """Three heads on the task of order four. The window is the order; ``window=3`` is the other reading (A0 with k = 3 heads)."""
    return Population(AssociativeRecall(order, R), n_heads, window or order, gamma, matrix, loss)


def small(pop: Population, betas: tuple[float, ...] | np.ndarray) -> np.ndarray:
    """Start with these beta and ``w = 0``."""
    return pop.join(np.zeros((pop.n_heads, pop.window)), np.asarray(betas, dtype=float))


def activation_times(pop: Population, flow: Flow) -> np.ndarray:
    """Times ``(..., K)`` at which each head becomes active; inf if it never does. The flow may be an ensemble."""
    gamma = pop.advantage(flow.states)  # (T, ..., K)
    above = gamma >= ACTIVE
    first = above.argmax(0)
    before = np.maximum(first - 1, 0)
    low, high = (np.take_along_axis(gamma, i[None], 0)[0] for i in (before, first))
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(high > low, (ACTIVE - low) / (high - low), 1.0)
    times = flow.times[before] + part * (flow.times[first] - flow.times[before])
    return np.where(above.any(0), times, np.inf)


def follow(pop: Population, betas: tuple[float, ...], slowest: float = 40.0) -> Flow:
    """The exact flow from small beta and ``w = 0`` until every head has had time to jump."""
    until = slowest * theory.jump_limit(pop.task.order, R, pop.kappa) / min(betas)
    return gradient_flow(pop.gradient, small(pop, betas), until, rtol=1e-9)


def plateaus(pop: Population, flow: Flow, times: np.ndarray) -> list[float]:
    """Loss halfway (in log time) between jumps, the initial plateau first; after the last jump, the end of the flow."""
    order = np.sort(times[np.isfinite(times)])
    edges = [order[0] * 0.01, *order, flow.times[-1]]
    value = pop.value(flow.states)
    middles = [float(np.sqrt(a * b)) for a, b in pairwise(edges[:-1])]
    return [float(np.interp(t, flow.times, value)) for t in middles] + [float(value[-1])]


def output_frequencies(pop: Population, flow: Flow, times: np.ndarray) -> list[float]:
    """On each plateau, the largest difference between second-layer attention and the uniform law on the permutations that match what is learned."""
    order, head = np.sort(times), np.argsort(times)
    edges = [order[0] * 0.01, *order]
    worst = []
    for n in range(len(order)):
        t = np.sqrt(edges[n] * edges[n + 1])
        i = int(np.argmin(np.abs(flow.times - t)))
        matched = (
            np.all([pop.match[:, h, h] > 0 for h in head[:n]], axis=0) if n else np.ones(len(pop.match), bool)
        )
        worst.append(
            float(np.abs(pop.weights(flow.states[i]) - matched / matched.sum()).max() * matched.sum())
        )
    return worst


def jump_counts(order: int, loss: str = "dp") -> dict[str, object]:
    """Order k with k heads and window k, beta falling by 2: activation times, and what is left of the last head's beta."""
    pop = Population(AssociativeRecall(order, R), order, order, loss=loss)
    betas = tuple(0.02 / 2**h for h in range(order))
    flow = follow(pop, betas)
    times = activation_times(pop, flow)
    end = pop.split(flow.states[-1])[1]
    return {
        "jumps": int(np.isfinite(times).sum()),
        "last": float(end[-1] / betas[-1]),
        "loss": float(pop.value(flow.states[-1])),
    }


@dataclass(frozen=True)
class Training:
    """A stochastic training.

    Attributes:
        steps: ``(T,)`` recorded steps.
        loss: ``(T, S)`` batch loss of every seed.
        states: ``(T, S, size)``.
    """

    steps: np.ndarray
    loss: np.ndarray
    states: np.ndarray


def sgd(
    pop: Population,
    betas: tuple[float, ...],
    rate: float,
    momentum: float,
    steps: int,
    batch: int,
    seeds: int,
    every: int = 10,
) -> Training:
    """SGD with heavy-ball momentum on fresh batches, all seeds side by side (Section 3: "SGD with momentum on the DP loss")."""
    rng = np.random.default_rng(0)
    theta = np.tile(small(pop, betas), (seeds, 1))
    velocity, kept, losses, states = np.zeros_like(theta), [], [], []
    for step in range(steps + 1):
        gradient, loss = pop.sampled_gradient(theta, batch, rng)
        if step % every == 0 or step in SNAPSHOTS:
            kept.append(step)
            losses.append(loss)
            states.append(theta.copy())
        velocity = momentum * velocity + gradient
        theta = theta - rate * velocity
    return Training(np.array(kept), np.array(losses), np.array(states))


def matching_settings(
    pop: Population,
    scales: tuple[float, ...] = (0.3, 0.1, 0.03),
    ratios: tuple[float, ...] = (1.5, 2.0, 3.0, 4.0, 6.0, 10.0),
) -> list[dict[str, float]]:
    """For initial beta ``scale / ratio^h``: effective rates ``rate / (1 - momentum)`` for which steps 800, 1750 and 4500 lie on plateaus 1, 2 and 3.

    A head jumps at the flow time t_h, which is step ``t_h / rate``: the wanted rates satisfy ``t_1 < 800 r < t_2 < 1750 r < t_3 < 4500 r``.
    """
    found = []
    for scale in scales:
        for ratio in ratios:
            times = activation_times(pop, follow(pop, tuple(scale / ratio**h for h in range(HEADS))))
            low = max(t / s for t, s in zip(times, SNAPSHOTS, strict=True))
            high = min(t / s for t, s in zip(times[1:], SNAPSHOTS[:2], strict=True))
            found.append(
                {
                    "scale": scale,
                    "ratio": ratio,
                    "low": float(low),
                    "high": float(high),
                    "times": times.tolist(),
                }
            )
    return found


def later_jump(order: int, learned: int, eps: float, c: float = 60.0) -> dict[str, float]:
    """Jump of head ``learned + 1`` from the initialisation I_h with the first ``learned`` heads at ``beta^2 = c``, ``w = c e_i``, against the first jump on the task of reduced order.

    Returns:
        the factor between the two times and the one that counting offsets predicts, ``order / (order - learned)``.
    """
    pop = Population(AssociativeRecall(order, R), order, order)
    w, beta = np.zeros((order, order)), np.zeros(order)
    for h in range(learned):
        w[h, h], beta[h] = c, np.sqrt(c)
    beta[learned] = eps
    reduced = Population(AssociativeRecall(order - learned, R), order - learned, order - learned)
    first = np.zeros(reduced.size)
    first[reduced.n_heads * reduced.window] = eps
    times = []
    for p, theta, h in ((pop, pop.join(w, beta), learned), (reduced, first, 0)):
        until = 4 * order / (order - learned) * theory.jump_limit(order - learned, R) / eps

        def active(state: np.ndarray, p: Population = p, h: int = h) -> float:
            return float(p.advantage(state)[h]) - ACTIVE

        flow = gradient_flow(p.gradient, theta, until, events=[active], stop_at_events=True)
        times.append(float(flow.events[0][0]))
    return {"ratio": times[0] / times[1], "predicted": order / (order - learned)}


def stationarity(
    order: int = 4, learned: int = 2, sizes: tuple[float, ...] = (4.0, 6.0, 8.0, 10.0, 12.0, 14.0)
) -> dict[str, np.ndarray | float]:
    """Proposition A.2 a: largest gradient of the learned heads against the score c that a match adds, and the slope of its logarithm."""
    pop = Population(AssociativeRecall(order, R), order, order)
    size = []
    for c in sizes:
        w, beta = np.zeros((order, order)), np.zeros(order)
        for h in range(learned):
            w[h, h], beta[h] = 40.0, np.sqrt(c)
        beta[learned] = 0.01
        gw, gb = pop.split(pop.gradient(pop.join(w, beta)))
        size.append(float(max(np.abs(gw[:learned]).max(), np.abs(gb[:learned]).max())))
    slope = float(np.polyfit(sizes[2:], np.log(size[2:]), 1)[0])
    return {"c": np.array(sizes), "gradient": np.array(size), "slope": slope}


def activations(pop: Population, theta: np.ndarray, until: float, stretches: int = 60) -> np.ndarray:
    """Activation times ``(runs, K)`` of an ensemble of starts ``(runs, size)``; inf for heads not active by ``until``.

    The time is cut into stretches that grow geometrically, and a run leaves the ensemble once all its heads are active: what follows is slow and stiff.
    """
    times, left = np.full((len(theta), pop.n_heads), np.inf), np.arange(len(theta))
    edges = np.concatenate([[0.0], np.geomspace(until * 1e-4, until, stretches)])
    for low, high in pairwise(edges):
        flow = gradient_flow(
            pop.gradient,
            theta,
            high - low,
            np.linspace(0, high - low, 9),
            method="RK45",
            rtol=1e-5,
            atol=1e-8,
        )
        times[left] = np.minimum(times[left], low + activation_times(pop, flow))
        going = ~np.isfinite(times[left]).all(-1)
        theta, left = flow.states[-1][going], left[going]
        if not len(left):
            break
    return times


def census(
    beta_scales: tuple[float, ...], w_scales: tuple[float, ...], runs: int, seed: int = 0
) -> dict[str, np.ndarray]:
    """How well the order of activation follows the initial ``|beta|`` over random initialisations.

    ``beta = scale |N(0, 1)|``, ``w = scale N(0, 1)``, dot-product loss, followed for 20 predicted jump times of a head at the scale.

    Returns:
        each (w_scales, beta_scales): ``pairs``, the share of pairs of heads in which the larger beta is active first, among pairs of which one is active at
        the end (chance 1/2); ``in_order``, the share of runs with all three heads active in order; ``finished``, the share with all three active.
    """
    pop, shape = experiment(), (len(w_scales), len(beta_scales))
    found = {name: np.full(shape, np.nan) for name in ("pairs", "in_order", "finished")}
    for b, beta_scale in enumerate(beta_scales):
        rng = np.random.default_rng(seed)
        size, shift = np.abs(rng.normal(size=(runs, HEADS))), rng.normal(size=(runs, HEADS, ORDER))
        for a, w_scale in enumerate(w_scales):
            theta = pop.join(w_scale * shift, beta_scale * size)
            times = activations(pop, theta, until=20 * theory.jump_limit(ORDER, R) / min(beta_scale, 1.0))
            times = np.take_along_axis(times, np.argsort(-size, -1), -1)  # heads by falling beta
            pairs = [(times[:, i], times[:, j]) for i in range(HEADS) for j in range(i + 1, HEADS)]
            decided = sum((np.minimum(x, y) < np.inf).sum() for x, y in pairs)
            done = np.isfinite(times).all(-1)
            if decided:
                found["pairs"][a, b] = sum((x < y).sum() for x, y in pairs) / decided
            found["in_order"][a, b] = (done & (np.diff(np.where(done[:, None], times, 0)) > 0).all(-1)).mean()
            found["finished"][a, b] = done.mean()
    return found


def orders_follow(pop: Population, scale: float = 0.02) -> int:
    """Of the six orders of three initial beta, in how many the heads become active in that order."""
    right = 0
    for ranks in permutations(range(HEADS)):
        betas = tuple(scale / 2.0 ** np.array(ranks))
        times = activation_times(pop, follow(pop, betas))
        right += int(list(np.argsort(times)) == list(np.argsort(ranks)))
    return right


def staged_share(pop: Population, training: Training, betas: tuple[float, ...]) -> dict[str, float]:
    """Over the seeds: share with 1, 2, 3 active heads at the three snapshots, and share whose heads activate in the order of ``betas``."""
    counts = np.stack(
        [(pop.advantage(training.states[training.steps == s][0]) >= ACTIVE).sum(-1) for s in SNAPSHOTS]
    )
    times = activation_times(pop, Flow(training.steps.astype(float), training.states))
    ranked = np.argsort(-np.asarray(betas))
    ordered = (np.argsort(times, -1) == ranked).all(-1) & np.isfinite(times).all(-1)
    return {
        "staged": float((counts == np.arange(1, HEADS + 1)[:, None]).all(0).mean()),
        "ordered": float(ordered.mean()),
    }


def choose(settings: list[dict[str, float]]) -> dict[str, float]:
    """The setting whose range of effective rates is widest (in ratio): by rule, not by eye; its middle is ``effective``."""
    best = max(settings, key=lambda s: s["high"] / s["low"])
    return {**best, "effective": float(np.sqrt(best["low"] * best["high"]))}


def plateau_errors(pop: Population, flow: Flow, times: np.ndarray) -> dict[str, float]:
    """Largest relative deviation of the loss, and of second-layer attention, from the frequencies on the plateaus before the last."""
    closed = pop.task.plateau_ce if pop.loss == "ce" else pop.task.plateau_dp
    measured = plateaus(pop, flow, times)[:-1]
    loss = max(abs(m / closed(n) - 1) for n, m in enumerate(measured))
    return {"loss": loss, "attention": max(output_frequencies(pop, flow, times))}
