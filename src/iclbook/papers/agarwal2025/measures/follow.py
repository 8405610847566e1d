"""Figure 9, the diagnostics of section 8.1 and the sizes of gradients, from the runs whose weights are kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ....random import INIT, generator
from ....statistics import bootstrap_error, share_error, standard_error
from ....store import Results
from ....tasks.sticky_chain import StickyChain
from ....training.study import Study
from ..runs.full_batch import MATRICES, runs_of
from ..runs.shown import unpack, value_paths
from ..runs.studies import ARMS
from ..theory import Weights, causal_mask
from ..theory import gradients as closed
from ..theory.causal import step
from .cases import random_weights, rank_correlation
from .passes import causal_pass, score_steps
from .sequences import data

#: A run has diverged when its loss is above this many times that of its start.
LOST = 10.0


@dataclass(frozen=True)
class Followed:
    """One run: its ``chain``, ``seed`` and the ``sizes`` of its model, recorded ``steps``, its loss at each (nats), and its weights ``flat (records, 820)``."""

    chain: StickyChain
    seed: int
    sizes: dict[str, int]
    steps: np.ndarray
    loss: np.ndarray
    flat: np.ndarray

    def weights(self, record: int) -> Weights:
        """Weights at a record, float64."""
        return unpack(self.flat[record], self.sizes)

    def inputs(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets of its own sequence, float64."""
        seq = data(self.chain, self.seed).train
        return seq.x.double(), seq.y


def followed(study: Study, results: Results, arm: str) -> list[Followed]:
    """Every seed's run of one arm."""
    (group,) = study.groups
    own = results.group(group.name)
    return [
        Followed(
            study.data.task.chain,
            group.runs[r].seed,
            dict(group.kwargs),
            own["steps"],
            own["nll"][:, r],
            own["weights"][:, r],
        )
        for r in runs_of(group, ARMS)[arm]
    ]


# -- Figure 9 -------------------------------------------------------------------------------------------------------------


def trajectory_values(study: Study, results: Results) -> dict[str, float]:
    """EM against SGD on the 200 sampled values of each seed: lengths, alignment, straightness, and how focused attention is at the end."""
    (group,) = study.groups
    own, runs = results.group(group.name), runs_of(group, ARMS)
    sgd, em = runs["sgd"], runs["em"]
    straight = own["straight"].mean(1)
    longer = own["length"][em] > own["length"][sgd]  # (seeds, values)
    aligned, straighter = own["pc1"][em] - own["pc1"][sgd], straight[em] - straight[sgd]
    focus, focus_sgd = own["spread"][-1, em], own["spread"][-1, sgd]
    return {
        "fig9/longer": float(longer.mean(1).min()),
        "fig9/longer_se": least_of_shares_error(longer),
        "fig9/aligned": float(aligned.min()),
        "fig9/aligned_se": bootstrap_error(np.min, aligned),
        "fig9/straight": float(straighter.min()),
        "fig9/straight_se": bootstrap_error(np.min, straighter),
        "fig9/focus_em": float(focus.mean()),
        "fig9/focus_em_se": float(standard_error(focus)),
        "fig9/focus_sgd": float(focus_sgd.mean()),
        "fig9/focus_sgd_se": float(standard_error(focus_sgd)),
        "fig9/ratio": float((own["length"][em].mean(1) / own["length"][sgd].mean(1)).mean()),
    }


def least_of_shares_error(happens: np.ndarray) -> float:
    """Standard error of the least share over seeds ``(seeds, samples)``: of other seeds (bootstrap) and of other samples in the least one."""
    hits = happens.sum(1)
    seeds = bootstrap_error(np.min, hits / happens.shape[1])
    return float(np.hypot(seeds, share_error(int(hits.min()), happens.shape[1])))


def projected(runs: list[Followed]) -> tuple[list[np.ndarray], float]:
    """Sampled values of several runs of one seed on the first two principal components of all their starts and ends: ``(records, 200, 2)`` each, and the
    share of variance that these two hold."""
    paths = [value_paths(run.chain, run.seed, run.flat, run.sizes) for run in runs]
    ends = np.concatenate([p[i] for p in paths for i in (0, -1)])
    centre = ends.mean(0)
    _, size, axes = np.linalg.svd(ends - centre, full_matrices=False)
    return [(p - centre) @ axes[:2].T for p in paths], float((size[:2] ** 2).sum() / (size**2).sum())


# -- diagnostics ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Diagnostics:
    """Section 8.1 at one moment of a run; matrices are ``(T, T)``, queries first.

    Attributes:
        alpha, b, a_adv: attention, compatibility, and the advantage matrix as section 8.1 defines it.
        usage: column sums of attention ``(T,)``.
        by_position: what usage would be if attention were uniform, ``sum_{i >= j} 1 / i``.
        norms: of the values ``(T,)``.
        pull: norms of the values' gradients ``(T,)``.
    """

    alpha: Tensor
    b: Tensor
    a_adv: Tensor
    usage: Tensor
    by_position: Tensor
    norms: Tensor
    pull: Tensor


def usage_by_position(T: int) -> Tensor:
    """Column sums ``(T,)`` of uniform causal attention: ``sum_{i >= j} 1 / i``."""
    return (1 / torch.arange(1, T + 1).double()).flip(0).cumsum(0).flip(0)


def diagnose(run: Followed, record: int) -> Diagnostics:
    """All of section 8.1's diagnostics at a record, for the summed loss."""
    x, y = run.inputs()
    w = run.weights(record)
    f = closed.forward(x, w, causal_mask(len(x)))
    u = closed.upstream(f.p, y, w.W_O)
    b = closed.compatibility(u, f.v)
    pull = closed.value_gradient(f.alpha, u).norm(dim=-1)
    advantage = -closed.advantage(f.alpha, b)
    return Diagnostics(
        f.alpha, b, advantage, f.alpha.sum(0), usage_by_position(len(x)), f.v.norm(dim=-1), pull
    )


def diagnostics_of_runs(runs: list[Followed]) -> dict[str, float | int]:
    """Section 8.1's claims halfway through every run: means over seeds."""
    every = [diagnostic_values(run, len(run.steps) // 2) for run in runs]
    found: dict[str, float | int] = {key: float(np.mean([v[key] for v in every])) for key in every[0]}
    return found | {
        "diag/seeds": len(runs),
        "diag/predicts_se": float(standard_error([v["diag/predicts"] for v in every])),
        "diag/usage_se": float(standard_error([v["diag/usage"] for v in every])),
    }


@lru_cache(maxsize=4)
def sampled_pairs(T: int, pairs: int) -> tuple[Tensor, Tensor]:
    """Queries and visible keys of so many pairs of positions, the same for every run of a length."""
    rows, columns = torch.tril_indices(T, T)
    pick = torch.randperm(len(rows), generator=generator(0, 9))[:pairs]
    return rows[pick], columns[pick]


def diagnostic_values(run: Followed, record: int, pairs: int = 20_000) -> dict[str, float]:
    """Section 8.1's claims on one run: whether A^adv, sign and size as printed, predicts the scores' next step, and what column usage tells."""
    x, y = run.inputs()
    at = sampled_pairs(len(x), pairs)
    found = causal_pass(x, y, run.weights(record), at)
    moved = score_steps(found, x, at)
    position = torch.corrcoef(torch.stack([found.usage, usage_by_position(len(x))]))[0, 1] ** 2
    return {
        "diag/predicts": rank_correlation(found.adv, moved),
        "diag/weighted": rank_correlation(found.ds, moved),
        "diag/usage": rank_correlation(found.usage, found.dv.norm(dim=-1)),
        "diag/position": float(position),
    }


# -- gradient sizes, and the sum of equation 9 ----------------------------------------------------------------------------


def activation_ratio(runs: list[Followed], until: int = 100) -> dict[str, float]:
    """Root mean square of dL/dv over the larger of those of dL/dq and dL/dk, at the first and the last record up to ``until``: median over runs."""
    ratios: list[float] = []
    for run in runs:
        x, y = run.inputs()
        for record in (0, int(np.flatnonzero(run.steps <= until)[-1])):
            found = causal_pass(x, y, run.weights(record))
            q, k, v = (float(d.square().mean().sqrt()) for d in (found.dq, found.dk, found.dv))
            ratios.append(v / max(q, k))
    return {"sizes/activation_v_over_qk": float(np.median(ratios))}


def size_exponents(chain: StickyChain, seeds: tuple[int, ...]) -> dict[str, list[float]]:
    """Exponents in the initial scale of the gradients of W_V, W_O, W_Q, W_K (mean over seeds), and the leading order at small weights: u is of first order,
    so W_V and W_O have 1; b has 2 and meets one of q and k, so W_Q and W_K have 3."""
    scales = np.array([0.01, 0.02, 0.04])
    order, slopes = ("W_V", "W_O", "W_Q", "W_K"), []
    for seed in seeds:
        own = data(chain, seed)
        sizes = []
        for scale in scales:
            w = random_weights(generator(seed, INIT), chain.d, 10, 15, chain.n, float(scale))
            got = step(own.train.x.double(), own.target.double(), *w[:4])
            sizes.append([float(getattr(got, name).norm()) for name in order])
        slopes.append(np.polyfit(np.log(scales), np.log(sizes), 1)[0])
    return {"sizes/exponents": np.mean(slopes, 0).tolist()}


def summed_loss(chain: StickyChain, seed: int, steps: int, rate: float = 0.01) -> np.ndarray:
    """Mean loss along SGD on the SUM over positions, as equation 9 is printed, at the stated rate; float64.

    ``(steps,)``, or up to the first loss above :data:`LOST` times that of the start: what a run does after it has diverged is decided by rounding.
    """
    own = data(chain, seed)
    x, target = own.train.x.double(), own.target.double()
    weights = list(random_weights(generator(seed, INIT), chain.d, 10, 15, chain.n, 0.1)[:4])
    losses: list[float] = []
    for _ in range(steps):
        got = step(x, target, *weights)
        losses.append(float(got.loss))
        if not losses[-1] <= LOST * losses[0]:
            break
        weights = [p - rate * len(x) * getattr(got, name) for p, name in zip(weights, MATRICES, strict=True)]
    return np.array(losses)
