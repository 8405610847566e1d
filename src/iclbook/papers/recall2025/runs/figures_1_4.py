"""Figures 1 and 4 (recall2025): settings whose jumps lie between the printed steps, and stochastic training at one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product

import numpy as np

from ....draw import numpy_rng
from ....statistics import Estimate
from ....training import Flow
from ..measures.construction import Values
from ..measures.stages import ACTIVE, HEADS, SNAPSHOTS, activation_times, activations, patience, small
from ..theory.population import Population

Array = np.ndarray
MOMENTUM, BATCH = 0.9, 64
#: The grid of initial beta: with the long window jump times go like 1 / beta, with the short one like log(1 / beta), hence the wide ratios.
SCALES = (1.0, 0.3, 0.1, 0.03)
RATIOS = (1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 30.0, 100.0, 1e3, 1e4)


@dataclass(frozen=True)
class Setting:
    """Initial beta ``scale / ratio^h``, the flow times ``(K,)`` of its jumps, and the effective rates ``rate / (1 - momentum)`` for which the printed steps lie
    on plateaus 1, 2 and 3: those strictly between ``low`` and ``high``, and none unless ``low < high``."""

    scale: float
    ratio: float
    low: float
    high: float
    times: tuple[float, ...]

    @property
    def fits(self) -> bool:
        return self.low < self.high

    @property
    def effective(self) -> float:
        """The geometric middle of the range."""
        return float(np.sqrt(self.low * self.high))

    def betas(self) -> tuple[float, ...]:
        """Initial beta, the largest first."""
        return tuple(self.scale / self.ratio**h for h in range(len(self.times)))


def matching_settings(
    pop: Population, scales: tuple[float, ...] = SCALES, ratios: tuple[float, ...] = RATIOS
) -> list[Setting]:
    """Every setting of the grid. A head jumps at the flow time t_h, which is step ``t_h / r``: rates r fit where ``t_1 < 800 r < t_2 < 1750 r < t_3 < 4500 r``."""
    grid = list(product(scales, ratios))
    betas = np.array([[scale / ratio**h for h in range(HEADS)] for scale, ratio in grid])
    # beta goes down to 1e-8: an absolute tolerance far below it, and w of the order of its square
    times = activations(pop, small(pop, betas), patience(pop, betas), rtol=1e-6, atol=1e-13)
    found = []
    for (scale, ratio), t in zip(grid, times, strict=True):
        low = max(a / s for a, s in zip(t, SNAPSHOTS, strict=True))
        high = min(a / s for a, s in zip(t[1:], SNAPSHOTS[:-1], strict=True))
        found.append(Setting(scale, ratio, float(low), float(high), tuple(t.tolist())))
    return found


#: Ranges of rates whose ratios differ by less than this are equally wide. Several settings reach the widest possible, 1750 / 800, exactly: which
#: of them is largest in floating point is a matter of rounding.
TIE = 1e-6


def choose(settings: list[Setting]) -> Setting | None:
    """The fitting setting whose range of effective rates is widest (in ratio): by rule, not by eye. The first of equals; None if no setting fits."""
    fitting = [s for s in settings if s.fits]
    widest = max((s.high / s.low for s in fitting), default=0.0)
    return next((s for s in fitting if s.high / s.low >= widest * (1 - TIE)), None)


@dataclass(frozen=True)
class Training:
    """Stochastic training: recorded ``steps (T,)``, batch ``loss (T, ..., S)`` of every seed, and ``states (T, ..., S, size)``."""

    steps: Array
    loss: Array
    states: Array

    def each(self) -> list[Training]:
        """Trainings from several starts, one by one."""
        return [Training(self.steps, self.loss[:, i], self.states[:, i]) for i in range(self.loss.shape[1])]


@lru_cache(maxsize=1)
def matching_responses(steps: int, seeds: int, batch: int, n_permutations: int, chance: float) -> Array:
    """In how many sequences of each fresh batch the response of each permutation equals the right one, ``(steps, seeds, n!)``; the same batches for all
    trainings of as many steps and seeds."""
    counts = numpy_rng(0).binomial(batch, chance, (steps, seeds, n_permutations))
    return counts.astype(np.min_scalar_type(batch))


def sgd(
    pop: Population,
    betas: tuple[float, ...] | Array,
    rate: float,
    momentum: float,
    steps: int,
    batch: int,
    seeds: int,
    every: int = 10,
) -> Training:
    """SGD with heavy-ball momentum on fresh batches, all seeds side by side (Section 3: "SGD with momentum on the DP loss"), from ``betas (..., K)``."""
    chance = 1 / pop.task.n_responses
    counts = matching_responses(steps + 1, seeds, batch, pop.task.n_permutations, chance)
    theta = np.repeat(small(pop, betas)[..., None, :], seeds, -2)  # (..., S, size)
    velocity, kept, losses, states = np.zeros_like(theta), [], [], []
    for step, matching in enumerate(counts):
        share = np.broadcast_to(matching / batch, (*theta.shape[:-1], pop.task.n_permutations))
        gradient, loss = pop.counted_gradient(theta, share)
        if step % every == 0 or step in SNAPSHOTS:
            kept.append(step)
            losses.append(loss)
            states.append(theta.copy())
        velocity = momentum * velocity + gradient
        theta = theta - rate * velocity
    return Training(np.array(kept), np.array(losses), np.array(states))


def staged_share(pop: Population, training: Training, betas: tuple[float, ...] | Array) -> dict[str, Estimate]:
    """Shares of seeds with 1, 2, 3 active heads at the printed steps (``staged``), and whose heads activate in the order of ``betas`` (``ordered``)."""
    counts = np.stack([(pop.advantage(training.states[training.steps == s][0]) >= ACTIVE).sum(-1) for s in SNAPSHOTS])
    times = activation_times(pop, Flow(training.steps.astype(float), training.states))
    ordered = (np.argsort(times, -1) == np.argsort(-np.asarray(betas))).all(-1) & np.isfinite(times).all(-1)
    staged = (counts == np.arange(1, HEADS + 1)[:, None]).all(0)
    return {
        name: Estimate.share(int(hits.sum()), len(hits)) for name, hits in (("staged", staged), ("ordered", ordered))
    }


def together_share(pop: Population, training: Training) -> Estimate:
    """Share of seeds in which every beta rises fastest at a jump of its own: of the steps at which the population loss passes the middles between plateaus, the
    nearest in ratio is that of the head's place in line."""
    value = pop.value(training.states)  # (T, S)
    levels = [pop.task.plateau_dp(m) for m in range(HEADS + 1)]
    jumps = np.stack([training.steps[(value < (a + b) / 2).argmax(0)] for a, b in pairwise(levels)])  # (K, S)
    speed = np.diff(pop.split(training.states)[1], axis=0) / np.diff(training.steps)[:, None, None]
    rises = np.sort(training.steps[speed.argmax(0)], -1)  # (S, K)
    nearest = np.abs(np.log(np.maximum(rises, 1))[:, :, None] - np.log(jumps.T)[:, None]).argmin(-1)
    hits = (nearest == np.arange(HEADS)).all(-1)
    return Estimate.share(int(hits.sum()), len(hits))


def trained(readings: Mapping[str, Population], seeds: int) -> tuple[Values, dict[tuple[str, str], Training]]:
    """SGD at the setting that fits the printed steps best, for each reading of the window, with the order of beta of Figure 1 and reversed (Figure 4).

    Returns:
        what is recorded, and the trainings by figure and reading.
    """
    values: Values = {"fig1/seeds": seeds, "fig1/tried": len(SCALES) * len(RATIOS)}
    runs = {}
    for window, pop in readings.items():
        settings = matching_settings(pop)
        values[f"fig1/{window}/settings"] = sum(s.fits for s in settings)
        chosen = choose(settings)
        assert chosen is not None, f"no setting prints the steps with the window {window}"
        prefix = "fig1" if window == "order" else f"fig1/{window}"
        rate = chosen.effective * (1 - MOMENTUM)
        values |= {
            f"{prefix}/rate": rate,
            f"{prefix}/rate_low": chosen.low * (1 - MOMENTUM),
            f"{prefix}/rate_high": chosen.high * (1 - MOMENTUM),
            f"{prefix}/scale": chosen.scale,
            f"{prefix}/ratio": chosen.ratio,
        }
        starts = np.array([chosen.betas(), chosen.betas()[::-1]])
        both = sgd(pop, starts, rate, MOMENTUM, max(SNAPSHOTS) + 500, BATCH, seeds).each()
        for figure, start, run in zip(("fig1", "fig4"), starts, both, strict=True):
            runs[figure, window] = run
            shares = staged_share(pop, run, start)
            values |= {f"{figure}/{window}/{name}": share for name, share in shares.items()}
        values[f"fig1/{window}/together"] = together_share(pop, runs["fig1", window])
    return values, runs
