"""Section 9.5.1: depth and its remedies without layer norm, and whether depth hurts at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ...drawing import style
from ...statistics import Estimate, ratio_error, share_error
from ...store import Results
from ...training.study import Study
from . import arithmetic
from .common import apart, by_rate, cross, label, legend_above, rates_of

DIMENSIONS = (4, 8, 16)
#: Variant -> the paper's (mean, standard deviation) for each dimension, over so many seeds.
PRINTED_ABLATION = {
    variant: tuple((float(mean), float(sd)) for mean, sd in row) for variant, row in arithmetic.ABLATION.items()
}
PRINTED_SEEDS = 6
#: Readings of the length of training, which the paper does not say: shares of 2,000 steps.
LENGTHS = {"s500": 0.25, "s1000": 0.5, "s2000": 1.0}
#: Variant -> how it is called, its colour and its mark.
VARIANTS = {
    "baseline": ("baseline", style.PALETTE[1], "s"),
    "depth": ("depth", style.PALETTE[0], "o"),
    "sink": ("depth + sink", style.PALETTE[2], "D"),
    "scale": ("depth + layer scale", style.PALETTE[3], "^"),
    "ortho": ("depth + orthogonality", style.PALETTE[4], "v"),
    "full": ("depth + all three", style.PALETTE[5], "P"),
}


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


def records(reading: str, errors: dict[int, dict[str, np.ndarray]]) -> dict:
    """What decides the claims on section 9.5.1 under one reading of the training's length; ``errors[d][variant]`` ``(seeds,)``.

    Seed k of every variant sees the same prompts, so every difference is one of pairs.
    """

    def gain(worse: str, better: str, *dimensions: int) -> Estimate:
        return Estimate.mean(np.array([errors[d][worse] - errors[d][better] for d in dimensions or DIMENSIONS]))

    others = [v for v in PRINTED_ABLATION if v not in ("baseline", "full")]
    best = Estimate.mean(np.array([errors[d][v] - errors[d]["full"] for v in others for d in DIMENSIONS]))
    half = half_of_printed_gain("depth", "scale")
    base, depth = errors[4]["baseline"], errors[4]["depth"]
    found = {
        "depth_penalty": gain("depth", "baseline"),
        "scale_gain": gain("depth", "scale") / half,
        "sink_gain": gain("depth", "sink", 4, 8) / half_of_printed_gain("depth", "sink")[:2],
        "sink_gain_16": Estimate.mean(errors[16]["depth"] - errors[16]["sink"]),
        "ortho_gain": gain("depth", "ortho") / half,
        "full_gain": best / np.concatenate([half_of_printed_gain(v, "full") for v in others]),
        "depth_change_4": Estimate(float(depth.mean() / base.mean() - 1), ratio_error(depth, base)),
        **_means(errors),
    }
    return {f"9.5.1/{reading}/{name}": value for name, value in found.items()}


def half_of_printed_gain(worse: str, better: str) -> np.ndarray:
    """Half of what a variant gains over another by the printed means, at each dimension: what would be a difference."""
    rows = zip(PRINTED_ABLATION[worse], PRINTED_ABLATION[better], strict=True)
    return np.array([(first - second) / 2 for (first, _), (second, _) in rows])


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
            both = [by_rate(study, results[d], name, "error_n12").astype(float) for name in (spec.name, depth)]
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
    share = float(np.mean([h.mean() for h in hurt]))  # settings alike, whatever their seeds
    share_se = float(np.linalg.norm([share_error(h.sum(), len(h)) for h in hurt]) / len(hurt))
    return counts | {
        "q-depth/final_ratio": Estimate(np.array(final), np.array([grid.ratio_error(s, -1) for s in learning])),
        "q-depth/early_ratio": Estimate(np.array(first), np.array([grid.ratio_error(s, early) for s in learning])),
        "q-depth/final_hurt": sum(r > 1 for r in final),
        "q-depth/early_hurt": sum(r > 1 for r in first),
        "q-depth/share": Estimate(share, share_se),
        "q-depth/diverged": int(sum((~grid.finite(s)).sum() for s in learning)),
        "q-depth/pairs": sum(len(h) for h in hurt),
    }


# -- figures ---------------------------------------------------------------------------------------------------------------------------


def figure(errors: Mapping[int, Mapping[str, np.ndarray]]) -> Figure:
    """Section 9.5.1: error of the six variants at each dimension, every seed (``errors[d][variant]`` ``(seeds,)``); crosses: printed."""
    fig, axes = style.figure(3, height=2.9, sharey=True)
    for i, (ax, d) in enumerate(zip(axes, DIMENSIONS, strict=True)):
        for j, (variant, values) in enumerate(errors[d].items()):
            _, colour, marker = VARIANTS[variant]
            spread = j + np.linspace(-0.08, 0.08, len(values))
            ax.plot(values, spread, marker, ms=2.6, mew=0, alpha=0.6, color=colour)
            ax.plot([values.mean()] * 2, [j - 0.17, j + 0.17], color=colour, lw=2.2)
            mean, sd = PRINTED_ABLATION[variant][i]
            look = {"fmt": "x", "ms": 6, "mew": 1.6, "elinewidth": 1, "color": style.COLOURS["paper"]}
            ax.errorbar([mean], [j + 0.32], xerr=[sd], label="printed (± sd)" if j == 0 else None, **look)
        ax.set_yticks(range(len(errors[d])), [VARIANTS[v][0] for v in errors[d]])
        ax.grid(axis="y", visible=False)
        ax.set(title=f"d = {d}", xlim=(0, None), xlabel="error")
    axes[0].invert_yaxis()
    legend_above(fig, axes[0], 1)
    return fig


def course_figure(runs: Ablation) -> Figure:
    """Error of baseline and depth along training, mean and range over seeds; dashed: the printed errors."""
    fig, axes = style.figure(3, height=3.2)
    for i, (ax, d) in enumerate(zip(axes, DIMENSIONS, strict=True)):
        for variant in ("baseline", "depth"):
            values, (name, colour, marker) = runs.errors[d][variant], VARIANTS[variant]
            ax.fill_between(runs.steps, values.min(1), values.max(1), color=colour, alpha=0.2, lw=0)
            ax.plot(runs.steps, values.mean(1), color=colour, marker=marker, ms=3, label=name)
            line = style.paper_line(ax, PRINTED_ABLATION[variant][i][0], f"{variant}, printed")
            line.set_color(colour)
        ax.set(title=f"d = {d}", xlabel="step", ylim=(0, None))
        ax.xaxis.set_major_locator(MaxNLocator(4))
    axes[0].set_ylabel("error")
    legend_above(fig, axes[0], 4, columnspacing=2)
    return fig


def grid_figure(grid: DepthGrid) -> Figure:
    """Error of depth over baseline along training, one line for each optimiser and rate that learns; above 1 depth hurts."""
    fig, axes = style.figure(3, height=3.2, sharey=True)
    settings = list(dict.fromkeys(name.split(", ")[1] for name in grid.pairs))
    for i, (ax, d) in enumerate(zip(axes, DIMENSIONS, strict=True)):
        for name in (s for s in grid.pairs if s.startswith(f"d = {d},") and grid.learns(s)):
            setting = name.split(", ")[1]
            look = {"color": style.PALETTE[settings.index(setting)], "marker": "os^Dv"[settings.index(setting) % 5]}
            ax.plot(grid.steps, grid.ratio(name), ms=3, label=setting, **look)
        ax.axhline(1, color=style.INK, lw=0.9)
        style.paper_line(ax, PRINTED_ABLATION["depth"][i][0] / PRINTED_ABLATION["baseline"][i][0], "printed")
        ax.set(title=f"d = {d}", xlabel="step")
        ax.xaxis.set_major_locator(MaxNLocator(4))
    style.log_ticks(axes[0], "y", [0.5, 1, 2])
    axes[0].set_ylabel("error of depth / baseline")
    for y, words in ((2.3, "depth hurts"), (0.42, "depth helps")):
        axes[0].text(0, y, words, fontsize=8.5, va="center")
    shown = {label: h for ax in axes for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    order = [name for name in (*settings, "printed") if name in shown]
    fig.legend([shown[n] for n in order], order, loc="outside upper center", ncols=len(order), fontsize=8)
    return fig


def changes_figure(errors: Mapping[int, Mapping[str, np.ndarray]]) -> Figure:
    """Change of the mean error against plain depth in per cent, by component and dimension, with two standard errors; crosses: printed."""
    fig, axes = style.figure(3, height=2.6, sharex=True, sharey=True)
    components = ("sink", "scale", "ortho", "full")
    for i, (ax, d) in enumerate(zip(axes, DIMENSIONS, strict=True)):
        depth = errors[d]["depth"]
        for j, variant in enumerate(components):
            _, colour, marker = VARIANTS[variant]
            paired = 100 * (errors[d][variant] - depth) / depth.mean()
            two_errors = 2 * paired.std(ddof=1) / np.sqrt(len(paired))
            ax.errorbar([paired.mean()], [j], xerr=[two_errors], fmt=marker, ms=5, color=colour, capsize=2)
            printed = 100 * (PRINTED_ABLATION[variant][i][0] / PRINTED_ABLATION["depth"][i][0] - 1)
            cross(ax, printed, j + 0.3, None if j else "printed", ms=6, mew=1.6)
        ax.axvline(0, color=style.INK, lw=0.9)
        ax.set_yticks(range(len(components)), [VARIANTS[v][0] for v in components])
        ax.grid(axis="y", visible=False)
        ax.set(title=f"d = {d}", xlabel="change (%)")
    axes[0].invert_yaxis()
    legend_above(fig, axes[0], 1)
    return fig
