"""Over many random initialisations: does the larger beta become active first? (recall2025, A.4 "Order of learning")"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ....statistics import bootstrap_error, clustered_share_error
from .. import theory
from .first_jump import R
from .stages import HEADS, ORDER, Values, activations, experiment


@dataclass(frozen=True)
class Grid:
    """What the census is taken over: ``runs`` initialisations ``beta = scale |N(0, 1)|`` and ``w = ratio * scale * N(0, 1)`` of each cell."""

    beta_scales: tuple[float, ...]
    ratios: tuple[float, ...]
    runs: int

    @property
    def cells(self) -> list[tuple[float, float]]:
        """Ratio and scale of each cell."""
        return list(product(self.ratios, self.beta_scales))


def cell_times(grid: Grid, cells: Sequence[int], seed: int = 0) -> np.ndarray:
    """Activation times ``(cells, runs, K)`` of the heads, by falling beta, in these cells, by number, under the dot-product loss; inf for never.

    Each run is followed for 20 predicted jump times of a head at the scale. Every cell uses the same normals.
    """
    pop, rng = experiment(), np.random.default_rng(seed)
    size, shift = np.abs(rng.normal(size=(grid.runs, HEADS))), rng.normal(size=(grid.runs, HEADS, ORDER))
    starts, until = [], []
    for ratio, scale in (grid.cells[cell] for cell in cells):
        starts.append(pop.join(ratio * scale * shift, scale * size))
        until.append(np.full(grid.runs, 20 * theory.jump_limit(ORDER, R) / min(scale, 1.0)))
    # Orders of activation need no more: halving the tolerance changes no share by more than a pair or two.
    times = activations(pop, np.concatenate(starts), np.concatenate(until), rtol=1e-4, atol=1e-7)
    return np.take_along_axis(times.reshape(-1, grid.runs, HEADS), np.argsort(-size, -1)[None], -1)


def census(grid: Grid, times: np.ndarray) -> dict[str, np.ndarray]:
    """How well the order of activation follows the initial ``|beta|`` over random initialisations, from the ``times (cells, runs, K)`` of a whole grid.

    Returns:
        each (ratios, beta_scales): ``pairs``, the share of pairs of heads in which the larger beta is active first, among pairs of which one becomes
        active before the other (chance 1/2; heads active from the start decide nothing); ``finished``, the share of runs with all heads active;
        each (ratios, beta_scales, runs): ``larger``, the pairs of a run in which the larger beta is first, and ``decided``, those that count.
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


def census_values(
    shares: dict[str, np.ndarray], beta_scales: tuple[float, ...], ratios: tuple[float, ...]
) -> Values:
    """What the claims record; the line ``ratio = 1`` moves beta and w together."""
    pairs = {ratio: shares["pairs"][i] for i, ratio in enumerate(ratios)}
    joint = pairs[1.0][np.argsort(beta_scales)]
    return {
        "census/joint": joint.tolist(),
        "census/joint_small": float(joint[0]),
        "census/w0": pairs[0.0].tolist(),
        "census/ratio_003": pairs[0.03].tolist(),
        "census/ratio_01": pairs[0.1].tolist(),
        "census/ratio_10": pairs[10.0].tolist(),
        "census/spread": [float(np.ptp(pairs[r])) for r in ratios if 0 < r <= 1],
        "census/finished": float(shares["finished"][-1].min()),
        **census_errors(shares, beta_scales, ratios),
    }


def census_errors(
    shares: dict[str, np.ndarray], beta_scales: tuple[float, ...], ratios: tuple[float, ...]
) -> Values:
    """Standard errors over runs beside what :func:`census_values` records; the cells of one run use the same normals, so differences are paired."""
    counts = {
        ratio: (larger, decided)  # each (beta_scales, runs)
        for ratio, larger, decided in zip(ratios, shares["larger"], shares["decided"], strict=True)
    }

    def each_scale(ratio: float) -> list[float]:
        return [clustered_share_error(*cell) for cell in zip(*counts[ratio], strict=True)]

    def spread(runs: np.ndarray) -> float:  # (runs, 2, beta_scales)
        return float(np.ptp(runs[:, 0].sum(0) / runs[:, 1].sum(0)))

    return {
        "census/joint_small_se": each_scale(1.0)[np.argmin(beta_scales)],
        "census/w0_se": each_scale(0.0),
        "census/ratio_003_se": each_scale(0.03),
        "census/ratio_01_se": each_scale(0.1),
        "census/ratio_10_se": each_scale(10.0),
        "census/spread_se": [
            bootstrap_error(spread, np.moveaxis(np.array(counts[r]), -1, 0)) for r in ratios if 0 < r <= 1
        ],
    }
