"""Plateaus, jumps and the order of learning in the simplified model along exact flows, under both losses (recall2025, Section 3, appendix A.3, A.4)."""

from collections.abc import Mapping, Sequence
from itertools import permutations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...draw import numpy_rng
from ...project import check_profile
from ...statistics import Estimate, bootstrap_error, clustered_share_error
from ...tasks import AssociativeRecall
from ...training import Computation, Flow, first_crossings, gradient_flow
from .theory import Array, Population, chained_times, jump_limit

Values = dict[str, object]
#: A head is active once a match at its own offset adds this much to a score.
ACTIVE = 1.0
#: The paper's experiments: order k + 1 = 4, k = 3 heads, 4 responses, attention shown at these steps.
ORDER, HEADS, R = 4, 3, 4
SNAPSHOTS = (800, 1750, 4500)
#: Readings of the window: the order; and A0 with k = 3 heads.
WINDOWS = {"order": ORDER, "k": HEADS}
#: All orders of three initial beta: the rank of each head, 0 for the largest.
RANKS = np.array(list(permutations(range(HEADS))))


def experiment(loss: str = "dp", order: int = ORDER, n_heads: int = HEADS, window: int | None = None) -> Population:
    """Three heads on the task of order four; the window is the order unless given."""
    return Population(AssociativeRecall(order, R), n_heads, window or order, loss=loss)


def small(pop: Population, betas: ArrayLike) -> Array:
    """Starts with these beta ``(..., K)`` and ``w = 0``, ``(..., size)``."""
    betas = np.asarray(betas, dtype=float)
    return pop.join(np.zeros((*betas.shape[:-1], pop.n_heads, pop.window)), betas)


def middles(task: AssociativeRecall, count: int) -> Array:
    """Dot-product losses halfway between one plateau and the next, from the first on, ``(count,)``: a loss jumps where it passes them."""
    levels = np.array([task.plateau_dp(m) for m in range(count + 1)])
    return (levels[:-1] + levels[1:]) / 2


def first_passage(times: Array, values: Array, level: ArrayLike) -> Array:
    """Time at which rising ``values (T, ...)`` first reach a level, between records by a straight line; inf if never, ``(...)``."""
    above = values >= level
    first = above.argmax(0)
    before = np.maximum(first - 1, 0)
    low, high = (np.take_along_axis(values, i[None], 0)[0] for i in (before, first))
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(high > low, (level - low) / (high - low), 1.0)
    return np.where(above.any(0), times[before] + part * (times[first] - times[before]), np.inf)


def activations(pop: Population, starts: Array, until: float | Array, rtol: float = 1e-6, atol: float = 1e-10) -> Array:
    """Times ``(N, K)`` at which the heads of an ensemble of starts ``(N, size)`` become active (``gamma_h >= 1``); inf for heads not active by ``until``."""
    return first_crossings(pop.gradient, lambda theta: pop.advantage(theta) - ACTIVE, starts, until, rtol, atol)


def ordered(times: Array) -> Array:
    """Whether all heads become active in the order of beta, of :data:`RANKS`, ``(6, K) -> (6,)``."""
    return np.isfinite(times).all(-1) & (np.argsort(times, -1) == np.argsort(RANKS, -1)).all(-1)


def patience(pop: Population, betas: ArrayLike, factor: float = 40.0) -> Array:
    """``factor`` times the jump time of the head with the least of these beta ``(..., K)``, from ``w = 0``: long enough for all jumps, ``(...)``."""
    return factor * jump_limit(pop.task.order, R, pop.kappa) / np.min(betas, axis=-1)


def follow(pop: Population, betas: ArrayLike, beyond: float = 1.0, rtol: float = 1e-9) -> tuple[Flow, Array]:
    """The exact flow from these beta and ``w = 0`` until ``beyond`` times its last jump, at most until :func:`patience`, and its activation times ``(K,)``."""
    events = [lambda theta, h=h: pop.advantage(theta)[h] - ACTIVE for h in range(pop.n_heads)]
    events.append(lambda theta: pop.advantage(theta).min() - ACTIVE)
    start, end = small(pop, betas), float(patience(pop, betas))
    flow = gradient_flow(pop.gradient, start, end, events=events, stop_at=pop.n_heads, rtol=rtol)
    times = np.array([flow.first(h) for h in range(pop.n_heads)])
    if beyond > 1:
        last = flow.times[-1]
        rest = gradient_flow(pop.gradient, flow.states[-1], (beyond - 1) * last, rtol=rtol)
        joined = np.concatenate([flow.times, last + rest.times[1:]])
        flow = Flow(joined, np.concatenate([flow.states, rest.states[1:]]))
    return flow, times


# -- plateaus ----------------------------------------------------------------------------------------------------------------


def plateau_errors(pop: Population, start: Array, times: Array) -> dict[str, float]:
    """Halfway between the jumps of the flow from ``start (size,)`` in log time: largest relative deviation of the ``loss`` from the closed form of its plateau, and of
    second-layer ``attention`` from equal shares on the permutations that match what is learned."""
    closed = pop.task.plateau_ce if pop.loss == "ce" else pop.task.plateau_dp
    heads = np.argsort(times)
    edges = np.array([times[heads[0]] * 0.01, *times[heads]])
    at = np.sqrt(edges[1:] * edges[:-1])
    states = gradient_flow(pop.gradient, start, at[-1], at, rtol=1e-9).states
    matched, attention = np.ones(len(pop.match), bool), []
    for head, state in zip(heads, states, strict=True):
        attention.append(np.abs(pop.weights(state) - matched / matched.sum()).max() * matched.sum())
        matched &= pop.match[:, head, head] > 0
    loss = [abs(value / closed(n) - 1) for n, value in enumerate(pop.value(states))]
    return {"loss": max(loss), "attention": max(attention)}


def plateau_scan(pop: Population, ratios: Sequence[float]) -> dict[str, Array]:
    """For each ratio of successive beta, from 0.02 down: :func:`plateau_errors`, and the ``length`` of the plateau between the first two jumps."""
    found = []
    for ratio in ratios:
        flow, times = follow(pop, 0.02 / ratio ** np.arange(pop.n_heads), rtol=1e-7)
        found.append(plateau_errors(pop, flow.states[0], times) | {"length": times[1] - times[0]})
    return {name: np.array([each[name] for each in found]) for name in found[0]}


#: Ratios of successive beta.
RATIOS = (4.0, 10.0, 100.0, 1e3, 1e4)


def scanned(window: str, ratios: Sequence[int]) -> dict[str, Array]:
    """:func:`plateau_scan` at these ratios, by number, each ``(M,)``."""
    return plateau_scan(experiment(window=WINDOWS[window]), [RATIOS[number] for number in ratios])


#: The flows are followed to a tenth of the last number.
PLATEAUS = Computation("recall2025", "plateaus", scanned, tuple(WINDOWS), 0, len(RATIOS), 1e-6)


def plateau_values(scans: Mapping[str, Array]) -> Values:
    """Deviations at the largest ratio of beta, and whether that of attention falls with every larger ratio; of the results of :data:`PLATEAUS`."""
    values: Values = {"plateaus/ratios": RATIOS, "plateaus/k/length": scans["k/length"]}
    for window in WINDOWS:
        attention = scans[f"{window}/attention"]
        values |= {
            f"plateaus/{window}/loss_last": scans[f"{window}/loss"][-1],
            f"plateaus/{window}/attention": attention,
            f"plateaus/{window}/attention_last": attention[-1],
            f"plateaus/{window}/attention_falling": (np.diff(attention) < 0).all(),
        }
    return values


# -- both losses -------------------------------------------------------------------------------------------------------------


def orders_follow(pop: Population, scale: float = 0.02) -> int:
    """Count of the six orders of three initial beta in which the heads become active in that order."""
    betas = scale / 2.0**RANKS
    return int(ordered(activations(pop, small(pop, betas), patience(pop, betas), 1e-6, 1e-12)).sum())


def losses_agree(runs: int, scale: float = 0.1) -> Values:
    """Random starts, w as large as beta: share of pairs of heads that become active in the same order under both losses, with its error over runs."""
    rng, both = numpy_rng(0), [experiment(loss) for loss in ("dp", "ce")]
    betas = scale * np.abs(rng.normal(size=(runs, HEADS)))
    starts = both[0].join(scale * rng.normal(size=(runs, HEADS, ORDER)), betas)
    until = 20 * jump_limit(ORDER, R) / scale
    times = np.array([activations(pop, starts, until, 1e-4, 1e-8) for pop in both])  # (2, runs, K)
    before = times[..., :, None] < times[..., None, :]  # (2, runs, K, K), each pair twice
    same = before.all(0).sum((-2, -1))
    decided = (before | before.swapaxes(-2, -1)).all(0).sum((-2, -1)) / 2
    return {"losses/random_pairs": Estimate(same.sum() / decided.sum(), clustered_share_error(same, decided))}


def loss_times(betas: tuple[float, ...], dot: Array, cross: Array) -> Values:
    """Activation times ``(K,)`` under cross-entropy over those under the dot product, measured, by the chain, and by its first jump alone; ratios of successive times."""
    growth_dot, growth_cross = (times[1:] / times[:-1] for times in (dot, cross))
    ratio = chained_times(betas, ORDER, R, "ce") / chained_times(betas, ORDER, R, "dp")
    return {
        "ce/ratio": cross / dot,
        "ce/ratio_closed": ratio,
        "ce/ratio_first": np.full(len(ratio), ratio[0]),
        "losses/durations": growth_cross / growth_dot,
        "losses/durations_dp": growth_dot,
        "losses/durations_ce": growth_cross,
    }


# -- the order of learning over random initialisations: is the head with the larger initial beta active first? (A.4) ----------


class Grid(NamedTuple):
    """``runs`` initialisations ``beta = scale |N(0, 1)|``, ``w = ratio * scale * N(0, 1)`` at every ratio and scale; a cell is a ratio with a scale."""

    beta_scales: tuple[float, ...]
    ratios: tuple[float, ...]
    runs: int


GRIDS = {
    "paper": Grid((0.01, 0.1, 0.3, 1.0), (0.0, 0.03, 0.1, 1.0, 10.0), 200),
    "smoke": Grid((0.01, 1.0), (0.0, 0.03, 0.1, 1.0, 10.0), 40),
}


def activated(profile: str, cells: Sequence[int]) -> dict[str, Array]:
    """``times (cells, runs, K)`` of activation of the heads, by falling beta, in cells of a profile's grid, by number; NaN for never. Every cell uses the same normals."""
    pop, rng, grid = experiment(), numpy_rng(0), GRIDS[profile]
    size, shift = np.abs(rng.normal(size=(grid.runs, HEADS))), rng.normal(size=(grid.runs, HEADS, ORDER))
    starts, until = [], []
    every = list(product(grid.ratios, grid.beta_scales))
    for ratio, scale in (every[cell] for cell in cells):
        starts.append(pop.join(ratio * scale * shift, scale * size))
        until.append(np.full(grid.runs, 20 * jump_limit(ORDER, R) / min(scale, 1.0)))
    # orders of activation need no more: halving the tolerance changes no share by more than a pair or two
    times = activations(pop, np.concatenate(starts), np.concatenate(until), rtol=1e-4, atol=1e-7)
    times = np.take_along_axis(times.reshape(-1, grid.runs, HEADS), np.argsort(-size, -1)[None], -1)
    return {"times": np.where(np.isfinite(times), times, np.nan)}


def census_computation(profile: str) -> Computation:
    """Computation of a profile's grid, all cells. Rounding moves a time by no more than a billionth, and by a millionth between two machines."""
    group, grid = check_profile(profile), GRIDS[profile]
    count = len(grid.ratios) * len(grid.beta_scales)
    return Computation("recall2025", "census", activated, (group,), 0, count, 1e-6, (group,))


def shares(grid: Grid, times: Array) -> dict[str, Array]:
    """Per cell the shares of ``pairs`` with the larger beta first, and of runs ``finished``; per run too the pairs with the ``larger`` first and those ``decided``."""
    times = times.reshape(len(grid.ratios), len(grid.beta_scales), grid.runs, HEADS)
    finished = np.isfinite(times).all(-1).mean(-1)
    times = np.where(np.isnan(times), np.inf, times)
    i, j = np.triu_indices(HEADS, 1)
    larger, decided = (times[..., i] < times[..., j]).sum(-1), (times[..., i] != times[..., j]).sum(-1)
    pairs = larger.sum(-1) / np.maximum(decided.sum(-1), 1)
    return {"pairs": pairs, "finished": finished, "larger": larger, "decided": decided}


def order_values(found: dict[str, Array], grid: Grid) -> Values:
    """Shares of pairs in the order of beta at each ratio, one number a scale, with errors over runs, whose cells share their normals: ranges over scales are bootstrapped."""

    def at(ratio: float) -> Estimate:
        i = grid.ratios.index(ratio)
        return Estimate(found["pairs"][i], np.array([clustered_share_error(*cell) for cell in both[i]]))

    def spread(runs: Array) -> float:  # (runs, 2, beta_scales)
        return float(np.ptp(runs[:, 0].sum(0) / runs[:, 1].sum(0)))

    both = np.stack([found["larger"], found["decided"]], 2)  # (ratios, beta_scales, 2, runs)
    together, smallest = at(1.0), int(np.argmin(grid.beta_scales))
    between = [i for i, ratio in enumerate(grid.ratios) if 0 < ratio <= 1]
    errors = [bootstrap_error(spread, both[i].transpose(2, 1, 0)) for i in between]
    return {
        "census/runs": grid.runs,
        "census/joint": together.value[np.argsort(grid.beta_scales)],
        "census/joint_small": together[smallest],
        "census/w0": at(0.0),
        "census/ratio_003": at(0.03),
        "census/ratio_01": at(0.1),
        "census/ratio_10": at(10.0),
        "census/spread": Estimate(np.ptp(found["pairs"][between], axis=1), np.array(errors)),
        "census/finished": found["finished"][-1].min(),
    }
