"""Does the head with the larger initial beta become active first, over random initialisations? (recall2025, A.4 "Order of learning")"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ....draw import numpy_rng
from ....project import check_profile
from ....statistics import Estimate, bootstrap_error, clustered_share_error
from ....training.computation import Computation
from ..theory.closed_forms import jump_limit
from .construction import Values
from .stages import HEADS, ORDER, R, activations, experiment

Array = np.ndarray


@dataclass(frozen=True)
class Grid:
    """``runs`` initialisations ``beta = scale |N(0, 1)|``, ``w = ratio * scale * N(0, 1)`` at every ratio and scale."""

    beta_scales: tuple[float, ...]
    ratios: tuple[float, ...]
    runs: int

    @property
    def cells(self) -> list[tuple[float, float]]:
        """Ratio and scale of each cell."""
        return list(product(self.ratios, self.beta_scales))


GRIDS = {
    "paper": Grid((0.01, 0.1, 0.3, 1.0), (0.0, 0.03, 0.1, 1.0, 10.0), 200),
    "smoke": Grid((0.01, 1.0), (0.0, 0.03, 0.1, 1.0, 10.0), 40),
}


def cell_times(grid: Grid, cells: Sequence[int], seed: int = 0) -> Array:
    """Activation times ``(cells, runs, K)`` of the heads, by falling beta, under the dot-product loss, in these cells, by number; inf for never.

    Each run is followed for 20 predicted jump times of a head at the scale. Every cell uses the same normals.
    """
    pop, rng = experiment(), numpy_rng(seed)
    size, shift = np.abs(rng.normal(size=(grid.runs, HEADS))), rng.normal(size=(grid.runs, HEADS, ORDER))
    starts, until = [], []
    for ratio, scale in (grid.cells[cell] for cell in cells):
        starts.append(pop.join(ratio * scale * shift, scale * size))
        until.append(np.full(grid.runs, 20 * jump_limit(ORDER, R) / min(scale, 1.0)))
    # orders of activation need no more: halving the tolerance changes no share by more than a pair or two
    times = activations(pop, np.concatenate(starts), np.concatenate(until), rtol=1e-4, atol=1e-7)
    return np.take_along_axis(times.reshape(-1, grid.runs, HEADS), np.argsort(-size, -1)[None], -1)


def activated(profile: str, cells: Sequence[int]) -> dict[str, Array]:
    """Activation ``times (M, runs, K)`` in these cells of a profile's grid; not a number for never."""
    times = cell_times(GRIDS[profile], cells)
    return {"times": np.where(np.isfinite(times), times, np.nan)}


def census_computation(profile: str) -> Computation:
    """All cells of a profile's grid. Rounding moves a time by no more than a billionth, and by a millionth between two machines."""
    group, count = check_profile(profile), len(GRIDS[profile].cells)
    return Computation("recall2025", "census", activated, (group,), 0, count, 1e-6, (group,))


def kept_times(results: Mapping[str, Array], profile: str) -> Array:
    """The stored times ``(cells, runs, K)`` of a profile's grid; inf for never."""
    times = results[f"{profile}/times"]
    return np.where(np.isnan(times), np.inf, times)


def shares(grid: Grid, times: Array) -> dict[str, Array]:
    """How well activation follows the initial beta, from the ``times (cells, runs, K)`` of a whole grid.

    Returns:
        each (ratios, beta_scales): ``pairs``, the share of pairs of heads in which the larger beta is first, among pairs of which one is active before the
        other (chance 1/2), and ``finished``, the share of runs with all heads active; each (ratios, beta_scales, runs): ``larger``, the pairs of a run in
        which the larger beta is first, and ``decided``, the pairs that count.
    """
    shape, runs = (len(grid.ratios), len(grid.beta_scales)), grid.runs
    larger = second = np.zeros((len(times), runs))
    for i in range(HEADS):
        for j in range(i + 1, HEADS):
            larger = larger + (times[..., i] < times[..., j])
            second = second + (times[..., j] < times[..., i])
    decided = larger + second
    return {
        "pairs": (larger.sum(-1) / np.maximum(decided.sum(-1), 1)).reshape(shape),
        "finished": np.isfinite(times).all(-1).mean(-1).reshape(shape),
        "larger": larger.reshape(*shape, runs),
        "decided": decided.reshape(*shape, runs),
    }


def order_values(found: dict[str, Array], grid: Grid) -> Values:
    """Shares of pairs in the order of beta at each ratio, one number a scale, with errors over runs; the ratio 1 scales beta and w together.

    All cells of a run use the same normals, so the range over the scales is bootstrapped over runs.
    """

    def at(ratio: float) -> Estimate:
        i = grid.ratios.index(ratio)
        errors = [clustered_share_error(*cell) for cell in zip(found["larger"][i], found["decided"][i], strict=True)]
        return Estimate(found["pairs"][i].tolist(), errors)

    def spread(runs: Array) -> float:  # (runs, 2, beta_scales)
        return float(np.ptp(runs[:, 0].sum(0) / runs[:, 1].sum(0)))

    together, smallest = at(1.0), int(np.argmin(grid.beta_scales))
    between = [i for i, ratio in enumerate(grid.ratios) if 0 < ratio <= 1]
    units = [np.stack([found["larger"][i], found["decided"][i]]).transpose(2, 0, 1) for i in between]
    return {
        "census/runs": grid.runs,
        "census/joint": [together.value[i] for i in np.argsort(grid.beta_scales)],
        "census/joint_small": Estimate(together.value[smallest], together.error[smallest]),
        "census/w0": at(0.0),
        "census/ratio_003": at(0.03),
        "census/ratio_01": at(0.1),
        "census/ratio_10": at(10.0),
        "census/spread": Estimate(
            [float(np.ptp(found["pairs"][i])) for i in between], [bootstrap_error(spread, u) for u in units]
        ),
        "census/finished": float(found["finished"][-1].min()),
    }
