"""What is measured on depth and its remedies: section 9.5.1 of nagy2026, and whether depth hurts at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....statistics import ratio_error, share_error, standard_error
from ....store import Results
from ....training.study import Study
from ..theory import arithmetic
from .shared import apart, by_rate, label, rates_of, under

DIMENSIONS = (4, 8, 16)
#: Variant -> the paper's (mean, standard deviation) for each dimension, over so many seeds.
PRINTED_ABLATION = {
    variant: tuple((float(mean), float(sd)) for mean, sd in row)
    for variant, row in arithmetic.ABLATION.items()
}
PRINTED_SEEDS = 6
#: Readings of the length of training, which the paper does not say: the share of 2,000 steps, and the keys that each is recorded by.
LENGTHS = {"s500": 0.25, "s1000": 0.5, "s2000": 1.0}
KEYS = {
    "s500": (
        "9.5.1/s500/depth_penalty", "9.5.1/s500/depth_penalty_se", "9.5.1/s500/depth_change_4", "9.5.1/s500/depth_change_4_se",
        "9.5.1/s500/scale_gain", "9.5.1/s500/scale_gain_se", "9.5.1/s500/sink_gain", "9.5.1/s500/sink_gain_se",
        "9.5.1/s500/sink_gain_16", "9.5.1/s500/sink_gain_16_se", "9.5.1/s500/ortho_gain", "9.5.1/s500/ortho_gain_se",
        "9.5.1/s500/full_gain", "9.5.1/s500/full_gain_se", "9.5.1/s500/means_apart", "9.5.1/s500/means_exchanged",
    ),
    "s1000": (
        "9.5.1/s1000/depth_penalty", "9.5.1/s1000/depth_penalty_se", "9.5.1/s1000/depth_change_4", "9.5.1/s1000/depth_change_4_se",
        "9.5.1/s1000/scale_gain", "9.5.1/s1000/scale_gain_se", "9.5.1/s1000/sink_gain", "9.5.1/s1000/sink_gain_se",
        "9.5.1/s1000/sink_gain_16", "9.5.1/s1000/sink_gain_16_se", "9.5.1/s1000/ortho_gain", "9.5.1/s1000/ortho_gain_se",
        "9.5.1/s1000/full_gain", "9.5.1/s1000/full_gain_se", "9.5.1/s1000/means_apart", "9.5.1/s1000/means_exchanged",
    ),
    "s2000": (
        "9.5.1/s2000/depth_penalty", "9.5.1/s2000/depth_penalty_se", "9.5.1/s2000/depth_change_4", "9.5.1/s2000/depth_change_4_se",
        "9.5.1/s2000/scale_gain", "9.5.1/s2000/scale_gain_se", "9.5.1/s2000/sink_gain", "9.5.1/s2000/sink_gain_se",
        "9.5.1/s2000/sink_gain_16", "9.5.1/s2000/sink_gain_16_se", "9.5.1/s2000/ortho_gain", "9.5.1/s2000/ortho_gain_se",
        "9.5.1/s2000/full_gain", "9.5.1/s2000/full_gain_se", "9.5.1/s2000/means_apart", "9.5.1/s2000/means_exchanged",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Ablation:
    """Section 9.5.1: ``errors[d][variant]`` ``(T, seeds)`` at the steps ``steps`` ``(T,)``, Adam 0.001."""

    steps: np.ndarray
    errors: dict[int, dict[str, np.ndarray]]

    def at(self, share: float) -> dict[int, dict[str, np.ndarray]]:
        """``[d][variant]`` ``(seeds,)`` after this share of the training."""
        index = int(np.abs(self.steps - share * self.steps[-1]).argmin())
        return {d: {v: e[index] for v, e in by.items()} for d, by in self.errors.items()}


def ablation_runs(results: dict[int, Results]) -> Ablation:
    """The six variants at each dimension; ``results`` by dimension."""
    errors = {d: {v: r[f"{v}/error_n12"].astype(float) for v in PRINTED_ABLATION} for d, r in results.items()}
    return Ablation(next(iter(results.values()))["baseline/steps"], errors)


def ablation_records(reading: str, errors: dict[int, dict[str, np.ndarray]]) -> dict:
    """What decides the claims on section 9.5.1 under one reading of the training's length; ``errors[d][variant]`` ``(seeds,)``.

    Seed k of every variant sees the same prompts, so every difference is one of pairs.
    """

    def gain(worse: str, better: str, d: int) -> tuple[float, float]:
        difference = errors[d][worse] - errors[d][better]
        return float(difference.mean()), float(standard_error(difference))

    gains = {
        "depth_penalty": [gain("depth", "baseline", d) for d in DIMENSIONS],
        "scale_gain": [gain("depth", "scale", d) for d in DIMENSIONS],
        "sink_gain": [gain("depth", "sink", d) for d in DIMENSIONS[:2]],
        "ortho_gain": [
            tuple(x / half for x in gain("depth", "ortho", d))
            for d, half in zip(DIMENSIONS, half_of_printed_gain("scale"), strict=True)
        ],
        "full_gain": [
            gain(v, "full", d) for v in PRINTED_ABLATION if v not in ("baseline", "full") for d in DIMENSIONS
        ],
    }
    values: dict[str, float | list[float]] = {}
    for name, pairs in gains.items():
        means, deviations = zip(*pairs, strict=True)
        values[name], values[f"{name}_se"] = list(means), list(deviations)
    values["sink_gain_16"], values["sink_gain_16_se"] = gain("depth", "sink", 16)
    base, depth = errors[4]["baseline"], errors[4]["depth"]
    values["depth_change_4"] = float(depth.mean() / base.mean() - 1)
    values["depth_change_4_se"] = ratio_error(depth, base)
    return under(KEYS[reading], values | _means(errors))


def half_of_printed_gain(variant: str) -> list[float]:
    """Half of what a component gains over plain depth by the printed means, at each dimension: what would be a difference."""
    rows = zip(PRINTED_ABLATION["depth"], PRINTED_ABLATION[variant], strict=True)
    return [(depth - error) / 2 for (depth, _), (error, _) in rows]


def _means(errors: dict[int, dict[str, np.ndarray]]) -> dict:
    """Largest distance of the 18 printed means from what six seeds more would give, in half-widths of prediction intervals that hold all 18 together in
    95 of 100 repetitions (Bonferroni); and the distances with baseline and depth exchanged."""
    level = 1 - 0.05 / (len(PRINTED_ABLATION) * len(DIMENSIONS))

    def distances(variant: str, ours: str) -> list[float]:
        rows = zip(PRINTED_ABLATION[variant], DIMENSIONS, strict=True)
        return [apart(mean, errors[d][ours], PRINTED_SEEDS, level=level) for (mean, _), d in rows]

    return {
        "means_apart": max(x for v in PRINTED_ABLATION for x in distances(v, v)),
        "means_exchanged": distances("baseline", "depth") + distances("depth", "baseline"),
    }


# -- does depth hurt? -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DepthGrid:
    """Baseline against depth over optimisers and rates: setting -> errors ``(T, seeds)`` of both, and the error of the answer 0."""

    steps: np.ndarray
    pairs: dict[str, tuple[np.ndarray, np.ndarray]]
    zero: dict[str, float]

    def learns(self, setting: str) -> bool:
        """Whether the baseline stays finite and ends below 0.9 of the answer 0; the deep model has no say, diverging included."""
        base = self.pairs[setting][0][-1]
        return bool(np.isfinite(base).all() and base.mean() < 0.9 * self.zero[setting])

    def finite(self, setting: str) -> np.ndarray:
        """Seeds at which the deep model stays finite to the end."""
        return np.isfinite(self.pairs[setting][1][-1])

    def ratio(self, setting: str) -> np.ndarray:
        """Mean error of depth over that of the baseline, ``(T,)``, over the seeds at which depth stays finite."""
        base, depth = (errors[:, self.finite(setting)] for errors in self.pairs[setting])
        return depth.mean(1) / base.mean(1)

    def ratio_error(self, setting: str, index: int) -> float:
        """Standard error of :meth:`ratio` at a recorded index, seeds being paired; 0 where a single seed is left, as at the smoke profile."""
        base, depth = (errors[index, self.finite(setting)] for errors in self.pairs[setting])
        return ratio_error(depth, base) if len(base) > 1 else 0.0


def depth_grid(studies: dict[int, Study], results: dict[int, Results]) -> DepthGrid:
    """All pairs of baseline and depth; studies and results by dimension."""
    pairs, zero = {}, {}
    for d, study in studies.items():
        for spec in study.groups:
            family, _, optimiser = spec.name.partition("-")
            if family != "baseline":
                continue
            depth = "depth" + (f"-{optimiser}" if optimiser else "")
            both = [
                by_rate(study, results[d], name, "error_n12").astype(float) for name in (spec.name, depth)
            ]
            for i, rate in enumerate(rates_of(study, spec.name)):
                name = f"d = {d}, {label(spec.optimiser, rate)}"
                pairs[name] = (both[0][:, i], both[1][:, i])
                zero[name] = study.data.variance
    steps = next(iter(results.values()))["baseline/steps"]
    return DepthGrid(steps, pairs, zero)


def depth_records(grid: DepthGrid) -> dict:
    """What decides q-depth; the counts alone where no setting learns."""
    learning = [s for s in grid.pairs if grid.learns(s)]
    counts = {"q-depth/settings": len(grid.pairs), "q-depth/learning": len(learning)}
    if not learning:  # too few steps, as at the smoke profile: there is nothing to compare
        return counts
    early = int(np.abs(grid.steps - grid.steps[-1] / 4).argmin())
    # a deep model that diverged was hurt
    hurt = [~(grid.pairs[s][1][-1] <= grid.pairs[s][0][-1]) for s in learning]
    final, first = ([float(grid.ratio(s)[i]) for s in learning] for i in (-1, early))
    return counts | {
        "q-depth/final_ratio": final,
        "q-depth/final_ratio_se": [grid.ratio_error(s, -1) for s in learning],
        "q-depth/early_ratio": first,
        "q-depth/early_ratio_se": [grid.ratio_error(s, early) for s in learning],
        "q-depth/final_hurt": sum(r > 1 for r in final),
        "q-depth/early_hurt": sum(r > 1 for r in first),
        "q-depth/share": float(np.mean([h.mean() for h in hurt])),  # settings alike, whatever their seeds
        "q-depth/share_se": float(np.linalg.norm([share_error(h.sum(), len(h)) for h in hurt]) / len(hurt)),
        "q-depth/diverged": int(sum((~grid.finite(s)).sum() for s in learning)),
        "q-depth/pairs": sum(len(h) for h in hurt),
    }
