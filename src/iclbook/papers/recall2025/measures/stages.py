"""Plateaus and jumps of the simplified model along exact flows, under both losses (recall2025, Section 3, appendix A.3, A.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations

import numpy as np

from ....draw import numpy_rng
from ....statistics import Estimate, clustered_share_error
from ....tasks import AssociativeRecall
from ....training import Flow, gradient_flow
from ....training.computation import Computation
from ....training.flow import first_crossings
from ..theory.closed_forms import chained_times, jump_limit
from ..theory.population import Population
from .construction import Values

Array = np.ndarray
#: A head is active once a match at its own offset adds this much to a score.
ACTIVE = 1.0
#: The paper's experiments: order k + 1 = 4, k = 3 heads, 4 responses, attention shown at these steps.
ORDER, HEADS, R = 4, 3, 4
SNAPSHOTS = (800, 1750, 4500)


def experiment(loss: str = "dp", order: int = ORDER, n_heads: int = HEADS, window: int | None = None) -> Population:
    """Three heads on the task of order four. The window is the order; ``window=3`` is the other reading (A0 with k = 3 heads)."""
    return Population(AssociativeRecall(order, R), n_heads, window or order, loss=loss)


def small(pop: Population, betas: tuple[float, ...] | Array) -> Array:
    """Starts with these beta ``(..., K)`` and ``w = 0``, ``(..., size)``."""
    betas = np.asarray(betas, dtype=float)
    return pop.join(np.zeros((*betas.shape[:-1], pop.n_heads, pop.window)), betas)


def activations(pop: Population, starts: Array, until: float | Array, rtol: float = 1e-6, atol: float = 1e-10) -> Array:
    """Times ``(N, K)`` at which the heads of an ensemble of starts ``(N, size)`` become active (``gamma_h >= 1``); inf for heads not active by ``until``."""
    active = lambda theta: pop.advantage(theta) - ACTIVE  # noqa: E731
    return first_crossings(pop.gradient, active, starts, until, rtol, atol)


def activation_times(pop: Population, flow: Flow) -> Array:
    """The same along recorded states ``(T, ..., size)``, interpolated, ``(..., K)``; inf if a head never is active."""
    gamma = pop.advantage(flow.states)
    above = gamma >= ACTIVE
    first = above.argmax(0)
    before = np.maximum(first - 1, 0)
    low, high = (np.take_along_axis(gamma, i[None], 0)[0] for i in (before, first))
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(high > low, (ACTIVE - low) / (high - low), 1.0)
    times = flow.times[before] + part * (flow.times[first] - flow.times[before])
    return np.where(above.any(0), times, np.inf)


def patience(pop: Population, betas: Array, factor: float = 40.0) -> Array:
    """``factor`` times the jump time of the head with the least of these beta ``(..., K)``, from ``w = 0``: long enough for all jumps, ``(...)``."""
    return factor * jump_limit(pop.task.order, R, pop.kappa) / np.min(betas, axis=-1)


def follow(pop: Population, betas: tuple[float, ...], beyond: float = 2.0, rtol: float = 1e-9) -> tuple[Flow, Array]:
    """The exact flow from these beta and ``w = 0`` until ``beyond`` times its last jump (or until :func:`patience`), and its activation times ``(K,)``."""

    def active(head: int) -> Callable[[Array], float]:
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


def plateaus(pop: Population, start: Array, times: Array) -> tuple[list[float], float]:
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


def plateau_errors(pop: Population, start: Array, times: Array) -> dict[str, float]:
    """Largest relative deviation of the loss, and of second-layer attention, from the frequencies on the plateaus before the last."""
    closed = pop.task.plateau_ce if pop.loss == "ce" else pop.task.plateau_dp
    losses, attention = plateaus(pop, start, times)
    return {"loss": max(abs(m / closed(n) - 1) for n, m in enumerate(losses)), "attention": attention}


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


def plateau_values(scans: Mapping[str, dict[str, list[float]]]) -> Values:
    """Deviations at the largest ratio of beta, and whether that of attention falls with every larger ratio; of scans by the reading of the window."""
    values: Values = {"plateaus/k/length": scans["k"]["length"]}
    for window, scan in scans.items():
        values |= {
            f"plateaus/{window}/loss_last": scan["loss"][-1],
            f"plateaus/{window}/attention": scan["attention"],
            f"plateaus/{window}/attention_last": scan["attention"][-1],
            f"plateaus/{window}/attention_falling": bool((np.diff(scan["attention"]) < 0).all()),
        }
    return values


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
    rng = numpy_rng(seed)
    both = {loss: experiment(loss) for loss in ("dp", "ce")}
    betas = beta_scale * np.abs(rng.normal(size=(runs, HEADS)))
    starts = both["dp"].join(beta_scale * rng.normal(size=(runs, HEADS, ORDER)), betas)
    until = 20 * jump_limit(ORDER, R) / beta_scale
    times = {loss: activations(pop, starts, until, 1e-4, 1e-8) for loss, pop in both.items()}
    same, decided = np.zeros(runs), np.zeros(runs)
    for i in range(HEADS):
        for j in range(i):
            first = [_first(t[:, i], t[:, j]) for t in times.values()]
            known = (first[0] != 0) & (first[1] != 0)
            same += (first[0] == first[1]) & known
            decided += known
    return {"losses/random_pairs": Estimate(float(same.sum() / decided.sum()), clustered_share_error(same, decided))}


def _first(x: Array, y: Array) -> Array:
    """1 where x is first, -1 where y is, 0 where neither happens or both at once (at the start)."""
    return (x < y).astype(int) - (y < x).astype(int)


def loss_times(betas: tuple[float, ...], dot: Array, cross: Array) -> Values:
    """Activation times ``(K,)`` under cross-entropy over those under the dot product, measured and by the chained closed forms, and ratios of successive
    times under each. ``ce/ratio_first``: the closed ratio of the first jump for every jump, as if each chose among all orderings."""
    growth_dot, growth_cross = (times[1:] / times[:-1] for times in (dot, cross))
    ratio = chained_times(betas, ORDER, R, "ce") / chained_times(betas, ORDER, R, "dp")
    return {
        "ce/ratio": (cross / dot).tolist(),
        "ce/ratio_closed": ratio.tolist(),
        "ce/ratio_first": [float(ratio[0])] * len(ratio),
        "losses/durations": (growth_cross / growth_dot).tolist(),
        "losses/durations_dp": growth_dot.tolist(),
        "losses/durations_ce": growth_cross.tolist(),
    }


# -- plateaus at several ratios of beta, made once and kept -------------------------------------------------------------------

#: Ratios of successive beta, and readings of the window.
RATIOS = (4.0, 10.0, 100.0, 1e3, 1e4)
WINDOWS = {"order": ORDER, "k": HEADS}


def scanned(window: str, ratios: Sequence[int]) -> dict[str, Array]:
    """:func:`plateau_scan` at these ratios, by number, each ``(M,)``."""
    scan = plateau_scan(experiment(window=WINDOWS[window]), [RATIOS[number] for number in ratios])
    return {name: np.array(values) for name, values in scan.items()}


def kept_scans(results: Mapping[str, Array]) -> dict[str, dict[str, list[float]]]:
    """The stored scans by reading of the window."""
    names = ("loss", "attention", "length")
    return {window: {name: results[f"{window}/{name}"].tolist() for name in names} for window in WINDOWS}


#: The flows are followed to a tenth of the last number.
PLATEAUS = Computation("recall2025", "plateaus", scanned, tuple(WINDOWS), 0, len(RATIOS), 1e-6)
