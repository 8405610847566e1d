"""Over many random initialisations: does the larger beta become active first? (recall2025, A.4 "Order of learning")"""

from __future__ import annotations

import numpy as np

from .. import theory
from .first_jump import R
from .stages import HEADS, ORDER, Values, activations, experiment


def census(
    beta_scales: tuple[float, ...], ratios: tuple[float, ...], runs: int, seed: int = 0
) -> dict[str, np.ndarray]:
    """How well the order of activation follows the initial ``|beta|`` over random initialisations.

    ``beta = scale |N(0, 1)|`` and ``w = ratio * scale * N(0, 1)``, dot-product loss, each run followed for 20 predicted jump times of a head at the
    scale. Every cell uses the same normals.

    Returns:
        each (ratios, beta_scales): ``pairs``, the share of pairs of heads in which the larger beta is active first, among pairs of which one becomes
        active before the other (chance 1/2; heads active from the start decide nothing); ``finished``, the share of runs with all heads active.
    """
    pop, shape = experiment(), (len(ratios), len(beta_scales))
    rng = np.random.default_rng(seed)
    size, shift = np.abs(rng.normal(size=(runs, HEADS))), rng.normal(size=(runs, HEADS, ORDER))
    starts, until = [], []
    for ratio in ratios:
        for scale in beta_scales:
            starts.append(pop.join(ratio * scale * shift, scale * size))
            until.append(np.full(runs, 20 * theory.jump_limit(ORDER, R) / min(scale, 1.0)))
    # Orders of activation need no more: halving the tolerance changes no share by more than a pair or two.
    times = activations(pop, np.concatenate(starts), np.concatenate(until), rtol=1e-4, atol=1e-7)
    times = times.reshape(-1, runs, HEADS)
    times = np.take_along_axis(times, np.argsort(-size, -1)[None], -1)  # heads by falling beta
    larger = second = np.zeros(len(times))
    for i in range(HEADS):
        for j in range(i + 1, HEADS):
            larger = larger + (times[..., i] < times[..., j]).sum(-1)
            second = second + (times[..., j] < times[..., i]).sum(-1)
    return {
        "pairs": (larger / np.maximum(larger + second, 1)).reshape(shape),
        "finished": np.isfinite(times).all(-1).mean(-1).reshape(shape),
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
        "census/joint_fall": float(joint[0] - joint[-1]),
        "census/w0": pairs[0.0].tolist(),
        "census/ratio_003": pairs[0.03].tolist(),
        "census/ratio_01": pairs[0.1].tolist(),
        "census/ratio_10": pairs[10.0].tolist(),
        "census/spread": [float(np.ptp(pairs[r])) for r in ratios if 0 < r <= 1],
        "census/finished": float(shares["finished"][-1].min()),
    }
