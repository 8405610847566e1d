"""Figures 1 and 4 (recall2025): settings whose jumps lie between the printed steps, and stochastic training at one of them."""

from collections import namedtuple
from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...draw import numpy_rng
from ...statistics import Estimate
from .stages import ACTIVE, HEADS, SNAPSHOTS, Values, activations, first_passage, middles, patience, small
from .theory import Array, Population

MOMENTUM, BATCH = 0.9, 64
#: The grid of initial beta: with the long window jump times go like 1 / beta, with the short one like log(1 / beta), hence the wide ratios.
SCALES = (1.0, 0.3, 0.1, 0.03)
RATIOS = (1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 30.0, 100.0, 1e3, 1e4)
#: Ranges of rates whose ratios differ by less than this are equally wide: several reach the widest possible, 1750 / 800, up to rounding. The first is taken.
TIE = 1e-6
#: Initial beta ``scale / ratio^h``, and the effective rates ``rate / (1 - momentum)`` for which the printed steps lie on plateaus 1, 2 and 3: those strictly
#: between ``low`` and ``high``.
Setting = namedtuple("Setting", "scale ratio low high")


def matching_settings(pop: Population) -> list[Setting]:
    """The settings of the grid whose jumps, at flow times t_h, fit the printed steps at some rate r: ``t_1 < 800 r < t_2 < 1750 r < t_3 < 4500 r``."""
    grid = list(product(SCALES, RATIOS))
    betas = np.array([scale / ratio ** np.arange(HEADS) for scale, ratio in grid])
    # beta goes down to 1e-8: an absolute tolerance far below it, and w of the order of its square
    times = activations(pop, small(pop, betas), patience(pop, betas), rtol=1e-6, atol=1e-13)
    low, high = (times / SNAPSHOTS).max(1), (times[:, 1:] / SNAPSHOTS[:-1]).min(1)
    return [Setting(*grid[i], low[i], high[i]) for i in np.flatnonzero(low < high)]


class Training(NamedTuple):
    """Stochastic training: recorded ``steps (T,)``, batch ``loss (T, ..., S)`` of every seed, and ``states (T, ..., S, size)``."""

    steps: Array
    loss: Array
    states: Array


def sgd(
    pop: Population, betas: ArrayLike, rate: float, momentum: float, steps: int, batch: int, seeds: int, every: int = 10
) -> Training:
    """SGD with heavy-ball momentum on fresh batches (Section 3) from ``betas (..., K)``, by counts of right responses; every start meets the same batches."""
    chance, orderings, rng = 1 / pop.task.n_responses, pop.task.n_permutations, numpy_rng(0)
    theta = np.repeat(small(pop, betas)[..., None, :], seeds, -2)  # (..., S, size)
    velocity, kept, losses, states = np.zeros_like(theta), [], [], []
    for step in range(steps + 1):
        share = rng.binomial(batch, chance, (seeds, orderings)) / batch
        gradient, loss = pop.counted_gradient(theta, np.broadcast_to(share, (*theta.shape[:-1], orderings)))
        if step % every == 0 or step in SNAPSHOTS:
            kept.append(step)
            losses.append(loss)
            states.append(theta.copy())
        velocity = momentum * velocity + gradient
        theta = theta - rate * velocity
    return Training(np.array(kept), np.array(losses), np.array(states))


def staged_share(pop: Population, training: Training, betas: Array) -> dict[str, Estimate]:
    """Shares of seeds with 1, 2, 3 active heads at the printed steps (``staged``), and whose heads activate in the order of ``betas`` (``ordered``)."""
    advantage = pop.advantage(training.states)  # (T, S, K)
    counts = np.stack([(advantage[training.steps == s][0] >= ACTIVE).sum(-1) for s in SNAPSHOTS], -1)
    times = first_passage(training.steps.astype(float), advantage, ACTIVE)
    in_order = (np.argsort(times, -1) == np.argsort(-betas)).all(-1) & np.isfinite(times).all(-1)
    staged = (counts == np.arange(1, HEADS + 1)).all(-1)
    return {name: Estimate.share(hits) for name, hits in (("staged", staged), ("ordered", in_order))}


def together_share(pop: Population, training: Training) -> Estimate:
    """Share of seeds in which every beta rises fastest nearest, in ratio of steps, to a jump of its own, where the population loss passes the middle of two plateaus."""
    steps, fallen = training.steps, pop.value(training.states)[..., None] < middles(pop.task, HEADS)  # (T, S, K)
    jumps = steps[fallen.argmax(0)]
    speed = np.diff(pop.split(training.states)[1], axis=0) / np.diff(steps)[:, None, None]
    rises = np.sort(steps[speed.argmax(0)], -1)  # (S, K)
    nearest = np.abs(np.log(np.maximum(rises, 1))[:, :, None] - np.log(jumps)[:, None]).argmin(-1)
    return Estimate.share((nearest == np.arange(HEADS)).all(-1))


def trained(readings: Mapping[str, Population], seeds: int) -> tuple[Values, dict[tuple[str, str], Training]]:
    """SGD at the setting that fits the printed steps best, for each window, with beta falling (Figure 1) and rising (Figure 4): values, and trainings by figure and window."""
    values: Values = {"fig1/seeds": seeds, "fig1/tried": len(SCALES) * len(RATIOS)}
    runs = {}
    for window, pop in readings.items():
        fitting = matching_settings(pop)
        assert fitting, "no setting shows the printed stages at any rate: widen the grid of scales and ratios"
        most = max(s.high / s.low for s in fitting)
        scale, ratio, low, high = next(s for s in fitting if s.high / s.low >= most * (1 - TIE))  # by rule, not by eye
        middle = float(np.sqrt(low * high))
        prefix = "fig1" if window == "order" else f"fig1/{window}"
        rates = {"rate": middle, "rate_low": low, "rate_high": high}
        values |= {f"{prefix}/{name}": rate * (1 - MOMENTUM) for name, rate in rates.items()}
        values |= {f"{prefix}/scale": scale, f"{prefix}/ratio": ratio, f"fig1/{window}/settings": len(fitting)}
        falling = scale / ratio ** np.arange(HEADS)
        starts = np.array([falling, falling[::-1]])
        both = sgd(pop, starts, middle * (1 - MOMENTUM), MOMENTUM, max(SNAPSHOTS) + 500, BATCH, seeds)
        for i, figure in enumerate(("fig1", "fig4")):
            run = runs[figure, window] = Training(both.steps, both.loss[:, i], both.states[:, i])
            shares = staged_share(pop, run, starts[i])
            values |= {f"{figure}/{window}/{name}": share for name, share in shares.items()}
        values[f"fig1/{window}/together"] = together_share(pop, runs["fig1", window])
    return values, runs
