"""Section 9.5.1: depth and its remedies without layer norm, and whether depth hurts at all."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ...drawing import style
from ...statistics import Estimate, ratio_error, share_error
from ...store import Results
from ...training import Study
from .arithmetic import SERIES
from .common import apart, by_setting, cross, legend_above, strip

DIMENSIONS = (4, 8, 16)
#: Readings of the length of training, which the paper does not say: shares of 2,000 steps.
LENGTHS = {"s500": 0.25, "s1000": 0.5, "s2000": 1.0}
#: Variant -> how it is called.
VARIANTS = {
    "baseline": "baseline",
    "depth": "depth",
    "sink": "depth + sink",
    "scale": "depth + layer scale",
    "ortho": "depth + orthogonality",
    "full": "depth + all three",
}
#: Colour and mark of the shallow model and of the deep ones.
LOOKS = {"baseline": (style.PALETTE[1], "s"), "depth": (style.PALETTE[0], "o")}

#: Variant -> the paper's means ``(d,)`` over so many seeds, and their standard deviations.
PRINTED = {variant: np.array(SERIES[variant], dtype=float) for variant in VARIANTS}
PRINTED_DEVIATIONS = {variant: np.array(SERIES[f"{variant}_sd"], dtype=float) for variant in VARIANTS}
PRINTED_SEEDS = 6

#: ``errors[d][variant]`` ``(seeds,)``.
Errors = dict[int, dict[str, np.ndarray]]


def errors_after(share: float, results: dict[int, Results]) -> Errors:
    """Errors of the six variants after this share of the training, Adam 0.001; results by dimension."""
    steps = results[DIMENSIONS[0]]["baseline/steps"]
    index = int(np.abs(steps - share * steps[-1]).argmin())
    return {d: {v: r[f"{v}/error_n12"][index].astype(float) for v in VARIANTS} for d, r in results.items()}


def records(reading: str, errors: Errors) -> dict:
    """Records that decide the claims on section 9.5.1 under one reading of the training's length.

    Seed k of every variant sees the same prompts, so every difference is one of pairs. Gains are over half of what a variant gains over another by the
    printed means: what would be a difference.
    """

    def gain(worse: str, better: str, *dimensions: int) -> Estimate:
        return Estimate.mean(np.array([errors[d][worse] - errors[d][better] for d in dimensions or DIMENSIONS]))

    others = ("depth", "sink", "scale", "ortho")
    best = Estimate.mean(np.array([errors[d][v] - errors[d]["full"] for v in others for d in DIMENSIONS]))
    half = (PRINTED["depth"] - PRINTED["scale"]) / 2
    base, depth = errors[4]["baseline"], errors[4]["depth"]
    found = {
        "depth_penalty": gain("depth", "baseline"),
        "scale_gain": gain("depth", "scale") / half,
        "sink_gain": gain("depth", "sink", 4, 8) / ((PRINTED["depth"] - PRINTED["sink"]) / 2)[:2],
        "sink_gain_16": Estimate.mean(errors[16]["depth"] - errors[16]["sink"]),
        "ortho_gain": gain("depth", "ortho") / half,
        "full_gain": best / np.concatenate([(PRINTED[v] - PRINTED["full"]) / 2 for v in others]),
        "depth_change_4": Estimate(float(depth.mean() / base.mean() - 1), ratio_error(depth, base)),
        "means_apart": max(x for v in VARIANTS for x in _distances(v, v, errors)),
        "means_exchanged": _distances("baseline", "depth", errors) + _distances("depth", "baseline", errors),
    }
    return {f"9.5.1/{reading}/{name}": value for name, value in found.items()}


def _distances(printed: str, ours: str, errors: Errors) -> list[float]:
    """Distances of a variant's printed means from what six seeds more would give, in half-widths of prediction intervals that hold all 18 together in
    95 of 100 repetitions (Bonferroni)."""
    level = 1 - 0.05 / (len(PRINTED) * len(DIMENSIONS))
    return [
        apart(mean, errors[d][ours], PRINTED_SEEDS, level) for d, mean in zip(DIMENSIONS, PRINTED[printed], strict=True)
    ]


# -- does depth hurt? -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Errors ``(T, seeds)`` of baseline and depth at the steps ``(T,)`` under one optimiser and rate, and the error of the answer 0."""

    steps: np.ndarray
    base: np.ndarray
    depth: np.ndarray
    zero: float

    @property
    def learns(self) -> bool:
        """Whether the baseline stays finite and ends below 0.9 of the answer 0; the deep model has no say, diverging included."""
        return bool(np.isfinite(self.base[-1]).all() and self.base[-1].mean() < 0.9 * self.zero)

    @property
    def finite(self) -> np.ndarray:
        """Seeds at which the deep model stays finite to the end."""
        return np.isfinite(self.depth[-1])

    @property
    def ratio(self) -> np.ndarray:
        """Mean error of depth over that of the baseline, ``(T,)``, over the seeds at which depth stays finite."""
        return self.depth[:, self.finite].mean(1) / self.base[:, self.finite].mean(1)

    def ratio_error(self, index: int) -> float:
        """Standard error of :attr:`ratio` at a recorded index, seeds being paired; 0 where a single seed is left, as at the smoke profile."""
        base, depth = (errors[index, self.finite] for errors in (self.base, self.depth))
        return ratio_error(depth, base) if len(base) > 1 else 0.0


def depth_grid(studies: dict[int, Study], results: dict[int, Results]) -> dict[tuple[int, str], Pair]:
    """Pairs of baseline and depth by dimension and setting; studies and results by dimension."""
    found = {}
    for d, study in studies.items():
        errors = by_setting(study, results[d], "error_n12")
        for (group, setting), base in errors.items():
            if group.startswith("baseline"):
                depth = errors[group.replace("baseline", "depth"), setting]
                found[d, setting] = Pair(results[d][f"{group}/steps"], base, depth, study.data.variance)
    return found


def depth_records(grid: dict[tuple[int, str], Pair]) -> dict:
    """Records that decide q-depth; the counts alone where no setting learns."""
    learning = [pair for pair in grid.values() if pair.learns]
    counts = {"q-depth/settings": len(grid), "q-depth/learning": len(learning)}
    if not learning:  # too few steps, as at the smoke profile: there is nothing to compare
        return counts
    steps = learning[0].steps
    early = int(np.abs(steps - steps[-1] / 4).argmin())
    final, first = (
        Estimate(*np.array([(pair.ratio[i], pair.ratio_error(i)) for pair in learning]).T) for i in (-1, early)
    )
    hurt = [~(pair.depth[-1] <= pair.base[-1]) for pair in learning]  # a deep model that diverged was hurt
    share = float(np.mean([h.mean() for h in hurt]))  # settings alike, whatever their seeds
    share_se = float(np.linalg.norm([share_error(h.sum(), len(h)) for h in hurt]) / len(hurt))
    return counts | {
        "q-depth/final_ratio": final,
        "q-depth/early_ratio": first,
        "q-depth/final_hurt": int((final.value > 1).sum()),
        "q-depth/early_hurt": int((first.value > 1).sum()),
        "q-depth/share": Estimate(share, share_se),
        "q-depth/diverged": int(sum((~pair.finite).sum() for pair in learning)),
        "q-depth/pairs": sum(len(h) for h in hurt),
    }


# -- figures ---------------------------------------------------------------------------------------------------------------------------


def figure(errors: Errors) -> Figure:
    """Section 9.5.1: error of the six variants at each dimension, every seed; crosses: printed."""
    fig, axes = style.figure(3, height=3.2, sharey=True)
    for i, (ax, d) in enumerate(zip(axes, DIMENSIONS, strict=True)):
        for j, variant in enumerate(VARIANTS):
            kind = variant if variant in LOOKS else "depth"
            strip(
                ax,
                j,
                errors[d][variant],
                *LOOKS[kind],
                kind if variant in LOOKS else None,
                row=True,
                reach=0.24,
                alpha=0.35,
            )
            look = {"fmt": "none", "elinewidth": 1, "color": style.COLOURS["paper"]}
            ax.errorbar([PRINTED[variant][i]], [j + 0.32], xerr=[PRINTED_DEVIATIONS[variant][i]], **look)
        cross(
            ax, [PRINTED[variant][i] for variant in VARIANTS], np.arange(len(VARIANTS)) + 0.32, "printed", ms=6, mew=1.6
        )
        ax.set_yticks(range(len(VARIANTS)), VARIANTS.values())
        ax.grid(axis="y", visible=False)
        ax.set(xlim=(0, 3.3 if d == 16 else None), xlabel="error", title=f"d = {d}")
    axes[0].set_ylim(len(VARIANTS) - 0.4, -0.7)
    legend_above(fig, axes[0], 3, fontsize=9, markerscale=1.5)
    for mark in fig.legends[0].legend_handles:
        mark.set_alpha(1)
    return fig


def course_figure(grid: dict[tuple[int, str], Pair]) -> Figure:
    """Error of baseline and depth along training by Adam 0.001, mean and range over seeds; dashed: the printed errors."""
    fig, axes = style.figure(3, height=3.2)
    for i, (ax, d) in enumerate(zip(axes, DIMENSIONS, strict=True)):
        pair = grid[d, "Adam 0.001"]
        for variant, values in (("baseline", pair.base), ("depth", pair.depth)):
            colour, marker = LOOKS[variant]
            ax.fill_between(pair.steps, values.min(1), values.max(1), color=colour, alpha=0.2, lw=0)
            ax.plot(pair.steps, values.mean(1), color=colour, marker=marker, ms=3, label=variant)
            style.paper_line(ax, PRINTED[variant][i], "printed").set_color(colour)
        ax.set(title=f"d = {d}", xlabel="step", ylim=(0, None))
        ax.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
        style.name_ends(ax)
    axes[0].set_ylabel("error")
    return fig


def grid_figure(grid: dict[tuple[int, str], Pair]) -> Figure:
    """Error of depth over baseline early (open) and at the end of training (filled), a row for each optimiser and rate; above 1 depth hurts."""
    fig, axes = style.figure(3, height=3.2, sharex=True, sharey=True)
    settings = list(dict.fromkeys(setting for _, setting in grid))
    ground = {"ha": "center", "fontsize": 8.5, "bbox": {"fc": style.GROUND, "ec": "none", "pad": 1}}
    for i, (ax, d) in enumerate(zip(axes, DIMENSIONS, strict=True)):
        ax.vlines(1, -0.4, len(settings) - 0.5, color=style.INK, lw=0.9, zorder=1.8)  # below the words
        for j, setting in enumerate(settings):
            pair = grid[d, setting]
            if not pair.learns:
                ax.text(1, j, "does not learn", va="center", **ground)
                continue
            early = int(np.abs(pair.steps - 0.25 * pair.steps[-1]).argmin())
            ax.plot(pair.ratio[[early, -1]], [j, j], color=style.PALETTE[0], lw=1.4)
            for at, face in ((early, style.GROUND), (-1, style.PALETTE[0])):
                name = f"after {pair.steps[at]:,} steps" if j == 0 else None
                ax.plot(pair.ratio[at], j, "o", ms=7, mfc=face, color=style.PALETTE[0], label=name)
        style.paper_line(ax, PRINTED["depth"][i] / PRINTED["baseline"][i], "printed", axis="x")
        ax.text(1, -0.75, "← helps   hurts →", **ground)
        ax.grid(axis="y", visible=False)
        ax.set_yticks(range(len(settings)), settings)
        ax.set(title=f"d = {d}", xlabel="error, depth / baseline")
        style.log_ticks(ax, "x", [0.5, 1, 2])
    axes[0].set(xlim=(0.32, 2.6), ylim=(len(settings) - 0.5, -1.1))
    legend_above(fig, axes[0], 3, fontsize=9)
    return fig
