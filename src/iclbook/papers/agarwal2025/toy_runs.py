"""Runs of the toy simulation of agarwal2025, section 7.1, over seeds, initial scales and learning rates, by the closed-form gradients."""

from collections import namedtuple
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from ... import random
from ...random import INIT, generator
from ...tasks.sticky_chain import RandomTargets
from .closed_forms import Weights, every_gradient, forward, random_weights

#: Section 7.1: T = 5, d_x = 3, d_k = 2, d_v = 2, C = 3 and about 100 steps. The sizes of "small" entries and of the fixed rate are unstated.
TASK, D_K, D_V, STEPS = RandomTargets(), 2, 2, 100
SCALES = (0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
RATES = (0.01, 0.03, 0.1, 0.15, 0.2, 0.25, 0.3, 1.0)
#: Attention counts as sharp when its effective number of positions, exp(entropy), is at most half of T; as near uniform from 0.9 T on.
SHARP, UNIFORM = 0.5, 0.9
#: The largest rise of one step, over the loss at the start, that a plot of the loss would not show.
BUMP = 0.01
#: A loss that has doubled has blown up: how far, rounding decides.
FAR = 2.0

#: Toy runs of one setting: data ``x`` ``(R, T, 3)`` and ``y`` ``(R, T)``; a list of stacked ``weights`` at each of ``STEPS + 1`` steps; arrays of the ``loss``,
#: summed over positions (equation 9), and of the effective number of attended ``positions``, mean over queries, ``(STEPS + 1, R)``.
Ensemble = namedtuple("Ensemble", "x y weights loss positions")


def effective_positions(alpha: Tensor) -> Tensor:
    """``exp(entropy)`` of each query's attention, mean over queries: ``(...,)``."""
    return (-torch.xlogy(alpha, alpha).sum(-1)).exp().mean(-1)


def descend(w: Weights, d: dict[str, Tensor], rate: float | Tensor, bias: bool = False) -> Weights:
    """One step on the four matrices, and with ``bias`` on the bias of equation 7; at one rate or at each run's ``(R,)``."""
    rate = torch.as_tensor(rate, dtype=torch.float64).reshape(-1, 1, 1)
    moved = [p - rate * d[n] for n, p in zip(w._fields[:4], w[:4], strict=True)]
    return Weights(*moved, w.b - rate[..., 0] * d["b"] if bias else w.b)


def train(seeds: Sequence[int], scale: float, rate: float | Tensor, bias: bool = False) -> Ensemble:
    """The toy from these seeds at one initial scale, and at one rate or each run's ``(R,)``; ``bias``: whether the bias of equation 7 is trained or stays at 0.
    Every run depends on its own seed only, and a seed's runs at all scales start alike."""
    step = torch.zeros(1, dtype=torch.int64)
    numbers = random.numbers(TASK, random.keys(seeds), step, random.DATA, (), torch.float64)
    x, y = TASK.dataset(*(part[:, 0] for part in numbers))
    drawn = [random_weights(generator(seed, INIT), TASK.d, D_K, D_V, TASK.n, scale) for seed in seeds]
    w = Weights(*map(torch.stack, zip(*drawn, strict=True)))
    weights, loss, positions = [], [], []
    jitter = random.replica_errors()
    for _ in range(STEPS + 1):
        weights.append(w)
        if jitter is not None:
            w = Weights(*[random.jittered(p, jitter, 2.0**-29) for p in w])  # a rounding unit of double precision
        f = forward(x, w)
        per_position, d = every_gradient(x, y, w, known=f)
        loss.append(per_position.sum(-1).numpy())
        positions.append(effective_positions(f.alpha).numpy())
        w = descend(w, d, rate, bias)
    return Ensemble(x, y, weights, np.array(loss), np.array(positions))


def ends(run: Ensemble) -> dict[str, np.ndarray]:
    """Of each run effective positions at its ``end``, 0 where it blew up; the share of the loss that is ``left``, and the largest ``rise`` of one step over the first loss."""
    with np.errstate(invalid="ignore", over="ignore"):
        left, rise = run.loss[-1] / run.loss[0], np.diff(run.loss, axis=0).max(0) / run.loss[0]
    return {"end": np.where(left < FAR, run.positions[-1], 0), "left": np.fmin(left, FAR), "rise": np.fmin(rise, FAR)}


def sharp_and_smooth(found: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Which runs, by their :func:`ends`, attend to at most half of the positions with a loss below the first; and which never rise by more than :data:`BUMP`."""
    return (found["end"] <= SHARP * TASK.T) & (found["left"] < 1), found["rise"] <= BUMP


def sweep(reading: str, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """With the bias of equation 7 ``frozen`` or ``trained``: :func:`ends` of all runs ``(S, scales, rates)``, and ``start`` ``(S, scales)``, effective positions before."""
    rates = torch.tensor(RATES, dtype=torch.float64).repeat_interleave(len(seeds))  # the runs of all rates side by side
    every = []
    for scale in SCALES:
        run = train([*seeds] * len(RATES), scale, rates, bias=reading == "trained")
        found = {name: part.reshape(len(RATES), -1).T.astype(np.float32) for name, part in ends(run).items()}
        every.append(found | {"start": run.positions[0, : len(seeds)]})
    return {name: np.stack([found[name] for found in every], 1) for name in every[0]}
