"""The toy simulation of agarwal2025, section 7.1, over seeds, initial scales and learning rates, by the closed-form gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .... import random
from ....random import INIT, generator
from ....statistics import bootstrap_error, share_error
from ....tasks.random_targets import RandomTargets
from ..theory import Weights, advantage, compatibility, every_gradient, forward, updates, upstream

#: Section 7.1: T = 5, d_x = 3, d_k = 2, d_v = 2, C = 3 and about 100 steps. The sizes of "small" entries and of the fixed rate are unstated.
TASK, D_K, D_V, STEPS = RandomTargets(), 2, 2, 100
#: Finer since a review: a coarse grid had decided two verdicts.
SCALES = (0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
RATES = (0.01, 0.03, 0.1, 0.15, 0.2, 0.25, 0.3, 1.0)
#: Attention counts as sharp when its effective number of positions, exp(entropy), is at most half of T; as near uniform from 0.9 T on.
SHARP, UNIFORM = 0.5, 0.9
#: The largest rise of one step, over the loss at the start, that a plot of the loss would not show.
BUMP = 0.01
#: A rate at which the loss is smooth from most starts.
SLOW = 0.03


@dataclass(frozen=True)
class Ensemble:
    """Toy runs of one setting, runs first.

    Attributes:
        x, y: data ``(R, T, 3)``, ``(R, T)``.
        weights: at every step, ``STEPS + 1`` entries of stacked weights.
        loss: summed over positions (equation 9), ``(STEPS + 1, R)``.
        positions: effective number of attended positions, mean over queries, ``(STEPS + 1, R)``.
    """

    x: Tensor
    y: Tensor
    weights: list[Weights]
    loss: np.ndarray
    positions: np.ndarray


def effective_positions(alpha: Tensor) -> Tensor:
    """``exp(entropy)`` of each query's attention, mean over queries: ``(...,)``."""
    return (-torch.xlogy(alpha, alpha).sum(-1)).exp().mean(-1)


def start(seeds: Sequence[int], scale: float) -> tuple[Tensor, Tensor, Weights]:
    """Data and initial weights of these seeds; every run depends on its own seed only, and a seed's runs at all scales start alike."""
    numbers = random.numbers(
        TASK, random.keys(seeds), torch.zeros(1, dtype=torch.int64), random.DATA, (), torch.float64
    )
    x, y = TASK.dataset(*(part[:, 0] for part in numbers))
    shapes = ((D_K, TASK.d), (D_K, TASK.d), (D_V, TASK.d), (TASK.n, D_V))
    drawn = []
    for seed in seeds:
        gen = generator(seed, INIT)
        drawn.append([scale * torch.randn(shape, generator=gen, dtype=torch.float64) for shape in shapes])
    return (
        x,
        y,
        Weights(*map(torch.stack, zip(*drawn, strict=True)), torch.zeros(len(seeds), TASK.n).double()),
    )


def descend(w: Weights, d: dict[str, Tensor], rate: float | Tensor) -> Weights:
    """One step on the four matrices, at one rate or at each run's ``(R, 1, 1)``; the bias stays."""
    return Weights(*[p - rate * d[n] for n, p in zip(w._fields[:4], w[:4], strict=True)], w.b)


def train(seeds: Sequence[int], scale: float, rate: float, steps: int = STEPS) -> Ensemble:
    """Run the toy from these seeds."""
    return _trained(*start(seeds, scale), rate, steps)


def at_rates(seeds: Sequence[int], scale: float, rates: Sequence[float]) -> list[Ensemble]:
    """Runs from the same starts at every rate, trained together; one ensemble for each rate, without weights."""
    x, y, w = start(seeds, scale)
    many, n = len(rates), len(seeds)
    every = Weights(*[p.repeat(many, *[1] * (p.dim() - 1)) for p in w])
    rate = torch.tensor(rates, dtype=torch.float64).repeat_interleave(n)[:, None, None]
    run = _trained(x.repeat(many, 1, 1), y.repeat(many, 1), every, rate, STEPS)
    parts = [slice(k * n, (k + 1) * n) for k in range(many)]
    return [Ensemble(x, y, [], run.loss[:, part], run.positions[:, part]) for part in parts]


def _trained(x: Tensor, y: Tensor, w: Weights, rate: float | Tensor, steps: int) -> Ensemble:
    weights, loss, positions = [w], [], []
    for step in range(steps + 1):
        per_position, d = every_gradient(x, y, w)
        loss.append(per_position.sum(-1).numpy())
        positions.append(effective_positions(forward(x, w).alpha).numpy())
        if step < steps:
            w = descend(w, d, rate)
            weights.append(w)
    return Ensemble(x, y, weights, np.array(loss), np.array(positions))


def sharpened(run: Ensemble, below: float = 1.0) -> np.ndarray:
    """Which runs attend to at most half of the positions at the end, with a loss below ``below`` times the first, ``(R,)``; one that blew up has not learned.
    An infinite ``below`` asks nothing of the loss."""
    with np.errstate(invalid="ignore"):
        sharp = run.positions[-1] <= SHARP * TASK.T
        return sharp if np.isinf(below) else sharp & (run.loss[-1] < below * run.loss[0])


def smooth(run: Ensemble) -> np.ndarray:
    """Which runs' loss never rises in one step by more than :data:`BUMP` of its start, ``(R,)``."""
    with np.errstate(invalid="ignore"):
        return (np.diff(run.loss, axis=0) <= BUMP * run.loss[0]).all(0)


def grid(seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """Over initial scales and rates ``(scales, rates)``: shares of runs that sharpen (``share``; ``halved`` with half the loss, ``any`` whatever the loss does),
    whose loss decays smoothly (``smooth``), and of both in one run (``both``); ``start``, mean effective positions before training. ``sharp``: which seeds
    sharpen, ``(seeds, scales, rates)``."""
    shape = (len(SCALES), len(RATES))
    found = {name: np.empty(shape) for name in ("share", "halved", "any", "smooth", "both", "start")}
    found["sharp"] = np.empty((len(seeds), *shape), bool)
    for a, scale in enumerate(SCALES):
        for b, run in enumerate(at_rates(seeds, scale, RATES)):
            sharp, calm = sharpened(run), smooth(run)
            found["sharp"][:, a, b] = sharp
            found["share"][a, b], found["smooth"][a, b] = sharp.mean(), calm.mean()
            found["halved"][a, b] = sharpened(run, 0.5).mean()
            found["any"][a, b] = sharpened(run, np.inf).mean()
            found["both"][a, b], found["start"][a, b] = (sharp & calm).mean(), run.positions[0].mean()
    return found


def chosen_setting(found: dict[str, np.ndarray]) -> tuple[float, float]:
    """Scale and rate at which most runs sharpen along a loss that decays smoothly, as figures 2 to 4 show together, among settings that start near uniform;
    the first of equals. A rule, not an eye."""
    share = np.where(found["start"] >= UNIFORM * TASK.T, found["both"], -1.0)
    a, b = np.unravel_index(int(share.argmax()), share.shape)
    return SCALES[a], RATES[b]


def typical(run: Ensemble) -> int:
    """The run whose final loss and final effective number of positions are together closest (in ranks) to their medians over the runs that sharpen."""
    among = np.flatnonzero(sharpened(run) & smooth(run))
    among = among if len(among) else np.arange(run.loss.shape[1])
    ranks = [np.abs(v[-1, among].argsort().argsort() / len(among) - 0.5) for v in (run.loss, run.positions)]
    return int(among[np.argmin(ranks[0] + ranks[1])])


def smallest_scale(share: np.ndarray) -> float:
    """Smallest initial scale at which half of the runs sharpen at some rate, of shares ``(scales, rates)``; infinite if none."""
    half = (share.max(-1) >= 0.5).nonzero()[0]
    return SCALES[half[0]] if len(half) else float("inf")


def scale_error(sharp: np.ndarray) -> float:
    """Bootstrap error of :func:`smallest_scale` over seeds; samples in which no scale of the grid is enough count as its largest."""
    return bootstrap_error(lambda kept: min(smallest_scale(kept.mean(0)), SCALES[-1]), sharp)


def grid_values(found: dict[str, np.ndarray], seeds: int) -> dict[str, object]:
    """What the claims about figures 2 and 3 and the initial scale record."""
    uniform = found["start"] >= UNIFORM * TASK.T
    best, both = (float(found[name][uniform].max()) for name in ("share", "both"))
    return {
        "toy/seeds": seeds,
        "fig2-3/best": best,
        "fig2-3/best_se": share_error(round(best * seeds), seeds),
        "fig2-3/both": both,
        "fig2-3/both_se": share_error(round(both * seeds), seeds),
        "scale/smallest": smallest_scale(found["share"]),
        "scale/smallest_se": scale_error(found["sharp"]),
        "scale/shares": found["share"].max(1).tolist(),
        "toy/stated_rate": float(found["any"][: SCALES.index(1.0), 0].max()),
        "fig2-3/halved": float(found["halved"][uniform].max()),
        "fig2-3/any": float(found["any"][uniform].max()),
    }


def loss_values(run: Ensemble, slow: Ensemble) -> dict[str, float]:
    """Figure 4 at the chosen rate, and at a small one from the same starts."""
    found = gains(run)
    return found | {f"{key}_slow": value for key, value in gains(slow).items()}


def gains(run: Ensemble) -> dict[str, float]:
    """Figure 4: share of runs whose loss decays smoothly; in those that sharpen, share of the fall that comes while specialisation goes from a tenth to nine
    tenths of its way, and the share of the steps which that takes (medians)."""
    gain, window = [], []
    for r in np.flatnonzero(sharpened(run)):
        way = (run.positions[0, r] - run.positions[:, r]) / (run.positions[0, r] - run.positions[-1, r])
        first, last = np.argmax(way >= 0.1), np.argmax(way >= 0.9)
        fall = run.loss[0, r] - run.loss[-1, r]
        gain.append((run.loss[first, r] - run.loss[last, r]) / fall)
        window.append((last - first) / (len(run.loss) - 1))
    calm = smooth(run)
    return {
        "fig4/smooth": float(calm.mean()),
        "fig4/smooth_se": share_error(int(calm.sum()), len(calm)),
        "fig4/gain": float(np.median(gain)) if gain else float("nan"),
        "fig4/gain_se": bootstrap_error(np.median, np.array(gain)) if gain else float("nan"),
        "fig4/window": float(np.median(window)) if window else float("nan"),
    }


def value_paths(run: Ensemble, r: int) -> np.ndarray:
    """Values of run ``r`` along training, ``(STEPS + 1, T, d_v)``."""
    return np.array([(run.x[r] @ w.W_V[r].mT).numpy() for w in run.weights])


def motion_values(run: Ensemble, draws: int = 2000) -> dict[str, float]:
    """Figure 5: share of the first principal component in the displacements of the five values (median over runs), and the 95th percentile of the same for
    displacements of those lengths in independent directions."""
    moves = (run.x @ (run.weights[-1].W_V - run.weights[0].W_V).mT).numpy()  # (R, T, 2)
    rng = np.random.default_rng(0)
    lengths = np.linalg.norm(moves, axis=-1)
    angles = rng.uniform(0, 2 * np.pi, (draws, TASK.T))
    picked = lengths[rng.integers(len(lengths), size=draws)]
    random = picked[..., None] * np.stack([np.cos(angles), np.sin(angles)], -1)
    own, null = _first(moves), _first(random)
    errors = bootstrap_error(np.median, own), bootstrap_error(lambda shares: np.quantile(shares, 0.95), null)
    return {
        "fig5/pc1": float(np.median(own)),
        "fig5/null": float(np.quantile(null, 0.95)),
        "fig5/pc1_se": float(np.hypot(*errors)),  # of the difference
    }


def first_shares(run: Ensemble) -> np.ndarray:
    """Share of the first principal component in the values' displacements of every run ``(R,)``."""
    return _first((run.x @ (run.weights[-1].W_V - run.weights[0].W_V).mT).numpy())


def _first(moves: np.ndarray) -> np.ndarray:
    spread = np.linalg.svd(moves, compute_uv=False) ** 2
    return spread[..., 0] / spread.sum(-1)


# -- Figure 1: one real step ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OneStep:
    """One step of one run, at the helped pair (i, j), ``A_ij > 0``, with the largest ``alpha_ij |u_i|``; vectors are ``(2,)``. ``dloss`` and ``dadvantage`` are
    pairs: when ``v_j`` alone moves, and when all weights take the step."""

    i: int
    j: int
    v: np.ndarray
    dv: np.ndarray
    u_bar: np.ndarray
    u_i: np.ndarray
    g: np.ndarray
    dg: np.ndarray
    alpha: float
    dloss: tuple[float, float]
    dadvantage: tuple[float, float]


def one_step(run: Ensemble, r: int, step: int, rate: float) -> OneStep:
    """The step at this rate from these weights."""
    w = Weights(*[p[r] for p in run.weights[step]])
    x, y = run.x[r], run.y[r]
    f = forward(x, w)
    u = upstream(f.p, y, w.W_O)
    a = advantage(f.alpha, compatibility(u, f.v))
    i, j = np.unravel_index(int((f.alpha * u.norm(dim=-1)[:, None] * (a > 0)).argmax()), f.alpha.shape)
    dv = updates.value_step(f.alpha, u, rate)
    v = f.v.clone()
    v[j] += dv[j]
    g = f.alpha @ v
    logits = g @ w.W_O.mT + w.b
    own_u = upstream(logits.softmax(-1), y, w.W_O)
    _, d = every_gradient(x, y, w)
    later = descend(w, d, rate)
    h = forward(x, later)
    later_u = upstream(h.p, y, later.W_O)
    grown = [
        float(advantage(alpha, compatibility(t, values))[i, j] - a[i, j])
        for alpha, t, values in ((f.alpha, own_u, v), (h.alpha, later_u, h.v))
    ]
    before = f.logits.log_softmax(-1)[i, y[i]]
    changed = [float(before - o.log_softmax(-1)[i, y[i]]) for o in (logits, h.logits)]
    return OneStep(
        int(i),
        int(j),
        f.v[j].numpy(),
        dv[j].numpy(),
        (f.alpha.mT @ u)[j].numpy(),
        u[i].numpy(),
        f.g[i].numpy(),
        (g - f.g)[i].numpy(),
        float(f.alpha[i, j]),
        (changed[0], changed[1]),
        (grown[0], grown[1]),
    )


def one_step_values(run: Ensemble, r: int, step: int, rate: float) -> dict[str, float]:
    """Figure 1's claims: shares over all runs, each at its own steepest step; the geometry of the drawn run exactly."""
    drawn = one_step(run, r, step, rate)
    every = [one_step(run, k, steepest(run, k), rate) for k in range(run.loss.shape[1])]
    expected = drawn.alpha * drawn.dv
    happens = {
        "fig1/loss_own": [s.dloss[0] < 0 for s in every],
        "fig1/reinforced_own": [s.dadvantage[0] > 0 for s in every],
        "fig1/loss_all": [s.dloss[1] < 0 for s in every],
        "fig1/reinforced_all": [s.dadvantage[1] > 0 for s in every],
    }
    shares = {key: float(np.mean(runs)) for key, runs in happens.items()}
    errors = {f"{key}_se": share_error(sum(runs), len(runs)) for key, runs in happens.items()}
    geometry = {
        "fig1/context": float(np.abs(drawn.dg - expected).max() / np.abs(expected).max()),
        "fig1/direction": float(
            -drawn.dv @ drawn.u_bar / np.linalg.norm(drawn.dv) / np.linalg.norm(drawn.u_bar)
        ),
    }
    return geometry | shares | errors


def steepest(run: Ensemble, r: int) -> int:
    """The step before the largest fall of the loss."""
    return int(np.argmax(-np.diff(run.loss[:, r])))
