"""Is the learned scale of he2025 a minimum or a noise level? Rates, batch sizes and the true loss of a head pair."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....statistics import share_error
from ....store import Results
from ....training.study import Study
from .. import theory
from .circuits import Heads, pairs, read_heads
from .sampling import extremes_error, ratio_of_means_error, run_sd

Records = dict[str, Any]
Array = np.ndarray
BATCHES = (64, 256, 1024)


@dataclass(frozen=True)
class Settings:
    """Two heads at three learning rates (rising) and three batch sizes: batch -> rate -> heads."""

    rates: list[float]
    heads: Mapping[int, Mapping[float, Heads]]

    @property
    def gamma(self) -> dict[int, list[np.ndarray]]:
        """Settled gamma of the runs that end as a pair: batch -> one array a rate."""
        return {
            b: [h.settled(h.gamma)[pairs(h)] for h in by_rate.values()] for b, by_rate in self.heads.items()
        }


def read_settings(study: Study, results: Callable[[int], Results]) -> Settings:
    """Of the study at one batch size, the rates; of ``results(batch)``, the heads."""
    rates = [g.runs[0].rate for g in study.groups]
    found = {b: results(b) for b in BATCHES}
    heads = {b: {r: read_heads(res.group(f"rate_{r:g}")) for r in rates} for b, res in found.items()}
    return Settings(rates, heads)


@dataclass(frozen=True)
class Valley:
    """The true loss of a pair (gamma, -gamma) with its best mu, on a grid of gamma, and its minimum."""

    gamma: np.ndarray
    loss: list[float]
    best: theory.Optimum


def valley(points: int, d: int, L: int, noise_var: float) -> Valley:
    """Evaluated at ``points`` values of gamma, evenly in the logarithm."""
    grid = np.geomspace(0.02, 0.6, points)
    losses = [theory.pair_exact(g, d, L, noise_var).loss for g in grid]
    return Valley(grid, losses, theory.pair_optimum_exact(d, L, noise_var))


def minimiser_records(two: Heads, settings: Settings, best: theory.Optimum, loss_of_013: float) -> Records:
    """The pair's minimum, and how the trained gamma depends on rate and batch size.

    Args:
        two: two heads at the paper's size.
        loss_of_013: the pair's true loss at gamma = 0.13.
    """
    gamma = settings.gamma
    slow = settings.heads[256][settings.rates[0]]
    quarter = slow.gamma[np.argmin(np.abs(slow.steps - 0.75 * slow.steps[-1]))]
    over_best = two.settled(two.gamma) / best.omega
    fast, least = gamma[256][2], gamma[256][0]
    small, large = gamma[64][1], gamma[1024][1]
    return {
        "minimiser/gamma": best.omega,
        "minimiser/interior": bool(best.omega > 0.01),
        "minimiser/gamma_ratio": over_best.tolist(),
        "minimiser/gamma_ratio_sd": run_sd(over_best),
        "minimiser/cost_of_013": loss_of_013 / best.loss - 1,
        "minimiser/still_falling": float((1 - slow.gamma[-1] / quarter)[pairs(slow)].mean()),
        "minimiser/rate_ratio": float(fast.mean() / least.mean()),
        "minimiser/rate_ratio_se": ratio_of_means_error(fast, least),
        "minimiser/batch_ratio": float(small.mean() / large.mean()),
        "minimiser/batch_ratio_se": ratio_of_means_error(small, large),
    }


def reduced_records(two: Heads) -> Records:
    """The model of two numbers per head: its one-sided runs, and where the others settle."""
    sided = two.one_sided
    gammas = two.settled(two.gamma)[~sided].tolist()
    return {
        "reduced/runs": len(sided),
        "reduced/one_sided": int(sided.sum()),
        "reduced/gamma": gammas if not sided.all() else "no such run",
    }


def robust_records(settings: Settings) -> Records:
    """Share of the runs of all settings with one head of each sign, matched; share of those that end otherwise, in this, than the same start under the paper's
    own rate and batch; and the range of gamma over the settings."""

    def ends(h: Heads) -> Array:
        omega, mu = h.settled(h.omega), h.settled(h.mu)
        return theory.sign_matched(omega, mu) & ~theory.one_sided(omega, mu)

    pattern = [ends(h) for by_rate in settings.heads.values() for h in by_rate.values()]
    own = ends(settings.heads[256][settings.rates[len(settings.rates) // 2]])
    starts = min(map(len, pattern))  # that all settings have
    gammas = [runs for by_rate in settings.gamma.values() for runs in by_rate]
    sizes = [runs.mean() for runs in gammas]
    return {
        "robust/pattern_share": float(np.concatenate(pattern).mean()),
        "robust/changed": float(np.mean([end[:starts] != own[:starts] for end in pattern])),
        "robust/gamma_ratio": float(max(sizes) / min(sizes)),
        "robust/gamma_ratio_se": extremes_error(gammas),
    }


#: The settings of :func:`..runs.studies.variations`, and their studies.
VARIATIONS = {
    "momentum": "variations_optimisers",
    "adamw": "variations_optimisers",
    "d10": "variations_d10",
    "noisy": "variations_noisy",
}


def read_variations(results: Callable[[str], Results]) -> dict[str, Heads]:
    """Two heads under each other optimiser and on other data, from ``results(study)``."""
    return {
        name: read_heads(results(study).group(name if name in ("momentum", "adamw") else "adam"))
        for name, study in VARIATIONS.items()
    }


def variation_records(found: Mapping[str, Heads]) -> Records:
    """For each variation: the share of runs that end with heads of one sign; of the others, the share whose heads are matched and the mean of what their
    outputs leave over of each other. Where no run ends with heads of both signs, none is matched and all is left over."""
    runs, one_sided, matched, sums = [], [], [], []
    for h in found.values():
        omega, mu = h.settled(h.omega), h.settled(h.mu)
        sided = theory.one_sided(omega, mu)
        runs.append(len(sided))
        one_sided.append(float(sided.mean()))
        both = ~sided
        matched.append(float(theory.sign_matched(omega, mu)[both].mean()) if both.any() else 0.0)
        sums.append(float(theory.zero_sum(mu)[both].mean()) if both.any() else 1.0)
    return {
        "variations/runs": runs,
        "variations/one_sided": one_sided,
        "variations/one_sided_se": [
            share_error(round(share * n), n) for share, n in zip(one_sided, runs, strict=True)
        ],
        "variations/matched": matched,
        "variations/sum": sums,
    }
