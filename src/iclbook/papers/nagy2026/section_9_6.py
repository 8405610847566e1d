"""Section 9.6: heads that are asked to differ, by a regulariser (rounds 1 and 2) or by masks (round 3, the oracle)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from ...drawing import style
from ...statistics import Estimate
from ...store import Results
from ...training import Study
from .arithmetic import ITEMS, printed_numbers
from .common import by_rate, cross, legend_above, on_probes, strip
from .studies import CONFIGURATIONS

#: Round 1's configurations: error of the baseline, and change by the regulariser in per cent, as printed.
_NAMES = ("tiny_strong", "small_strong", "small_medium", "base_strong", "wide_spectrum", "8heads_tiny")
PRINTED_BASE = dict(zip(_NAMES, printed_numbers("9.6/deltas")[::2], strict=True))
PRINTED_CHANGE = dict(zip(_NAMES, map(float, ITEMS["9.6/deltas"].expects.split()), strict=True))
#: Round 3: errors on all covariates.
ROUND_3 = dict(zip(("baseline", "diverse", "oracle"), printed_numbers("9.6/balanced"), strict=True))
#: Readings of ``wide_spectrum``, whose spectrum is not printed, and the runs that stand for it. With section 9.1's spectrum it is the same model, task
#: and weight of the regulariser as ``small_medium``.
WIDE_READINGS = {"wide": "wide_spectrum", "same": "small_medium"}


@dataclass(frozen=True)
class Diversity:
    """Errors ``(rates, seeds)`` of a configuration without and with the regulariser, and the relative standard error that all runs share, being measured on
    the same prompts: that of the best single layer."""

    rates: list[float]
    base: np.ndarray
    diverse: np.ndarray
    common: float

    @property
    def improvement(self) -> np.ndarray:
        """Per cent by which the regulariser lowers the error of the same seed, ``(rates, seeds)``."""
        return 100 * (1 - self.diverse / self.base)

    def base_z(self, printed: float) -> float:
        """Distance of a printed baseline from the mean of ours at the nearest rate, in standard deviations, those that seeds share included."""
        mean = self.base.mean(-1)
        return float((np.abs(printed - mean) / np.hypot(self.base.std(-1, ddof=1), self.common * mean)).min())


def _errors(study: Study, results: Results, group: str, step: int = -1) -> np.ndarray:
    """Error ``(rates, seeds)`` with the whole context, at a recorded index."""
    return np.stack([curve[step, ..., -1] for curve in by_rate(study, results, group, "curve_n16").values()])


def diversity_runs(study: Study, results: Results, wide: Study, wide_results: Results) -> dict[str, Diversity]:
    """Configurations of round 1 at 3,000 steps, in the paper's order; and ``round 2``, ``base_strong`` at the end."""

    of_study, of_wide = (on_probes(s.groups[0].observe.probes) for s in (study, wide))

    def pair(of: tuple[Study, Results], best: Estimate, name: str, size: tuple[int, int], step: int) -> Diversity:
        base = _errors(*of, "base_w{}_h{}".format(*size), step)
        return Diversity([*by_rate(*of, name, "loss")], base, _errors(*of, name, step), best.error / best.value)

    sizes = {name: (width, heads) for name, (width, heads, _) in CONFIGURATIONS.items()}
    found = {name: pair((study, results), of_study, name, size, -2) for name, size in sizes.items()}
    found["wide_spectrum"] = pair((wide, wide_results), of_wide, "wide_spectrum", (32, 4), -1)
    round_2 = pair((study, results), of_study, "base_strong", sizes["base_strong"], -1)
    return {name: found[name] for name in _NAMES} | {"round 2": round_2}


def records(runs: dict[str, Diversity]) -> dict:
    """Records that decide rounds 1 and 2 of claim 9.6."""
    same = runs["small_strong"].base  # the very runs of small_medium's baseline too
    gap = abs(PRINTED_BASE["small_strong"] - PRINTED_BASE["small_medium"]) / PRINTED_BASE["small_strong"]
    wide = {reading: runs[stands].base_z(PRINTED_BASE["wide_spectrum"]) for reading, stands in WIDE_READINGS.items()}
    bases = [runs[name].base_z(PRINTED_BASE[name]) for name in CONFIGURATIONS]
    return {
        **{f"9.6/{reading}/base_z": z for reading, z in wide.items()},
        **{
            f"9.6/{reading}/typical_gain": Estimate.typical(runs[stands].improvement)
            for reading, stands in WIDE_READINGS.items()
        },
        "9.6/round1_typical": Estimate.typical(np.concatenate([runs[name].improvement for name in CONFIGURATIONS])),
        "9.6/bases_off": sum(z > 2.8 for z in (*bases, min(wide.values()))),
        "9.6/round2_gain": Estimate.mean(runs["round 2"].improvement),
        "9.6/seeds": runs["round 2"].base.shape[1],
        "q-unstated/same_baseline": float(gap / (same.std(1, ddof=1) / same.mean(1)).max()),
    }


def balanced_runs(study: Study, results: Results) -> dict[str, np.ndarray]:
    """Round 3: condition -> errors ``(rates, seeds)``."""
    return {condition: _errors(study, results, condition) for condition in ROUND_3}


def matched_rate(runs: dict[str, np.ndarray]) -> int:
    """The rate, by number, whose baseline is nearest to the printed one, in standard deviations over seeds."""
    base = runs["baseline"]
    return int((np.abs(ROUND_3["baseline"] - base.mean(1)) / base.std(1, ddof=1)).argmin())


def balanced_records(runs: dict[str, np.ndarray], rates: Sequence[float]) -> dict:
    """Records that decide round 3 of claim 9.6, in per cent of the same seed's baseline, at the rate whose baseline is the printed one (:func:`matched_rate`). ``other``: at
    the other rate, how far the printed baseline is from ours in standard deviations, and the share of seeds that the regulariser helps."""
    base, diverse, oracle = (runs[name] for name in ROUND_3)
    at = matched_rate(runs)
    other = (at + 1) % len(rates)  # itself at the small profile, which has one rate
    gain = 100 * (1 - diverse / base)
    return {
        "9.6/matched/rate": rates[at],
        "9.6/matched/gain": Estimate.typical(gain[at]),
        "9.6/matched/oracle_change": Estimate.typical(100 * (oracle / base - 1)[at]),
        "9.6/matched/oracle_over_diverse": Estimate.typical(100 * ((oracle - diverse) / base)[at]),
        "9.6/other/rate": rates[other],
        "9.6/other/base_z": float((ROUND_3["baseline"] - base[other].mean()) / base[other].std(ddof=1)),
        "9.6/other/helped": Estimate.share(gain[other] > 0),
    }


#: Seeds whose errors lie farther apart than this, with none between, ended in two basins.
GAP = 0.2


def basins(errors: np.ndarray) -> list[np.ndarray]:
    """Errors ``(seeds,)``, sorted and parted where the next is more than :data:`GAP` above."""
    errors = np.sort(errors)
    return np.split(errors, 1 + np.flatnonzero(np.diff(errors) > GAP))


def figure(runs: dict[str, Diversity], balanced: Mapping[str, np.ndarray]) -> Figure:
    """Section 9.6. First: improvement by the regulariser, each seed, rounds 1 and 2. Then round 3's errors on all covariates. Crosses: printed."""
    fig, (left, right) = style.figure(2, height=3.6, width_ratios=(1.25, 1))
    for j, rate in enumerate(runs["round 2"].rates):
        place, look = (
            (j - 0.5) * 0.36,
            {"colour": style.PALETTE[j], "marker": "os"[j], "row": True, "reach": 0.17, "alpha": 0.3},
        )
        for i, name in enumerate(_NAMES):
            label = None if i else f"Adam {rate:g}"
            strip(left, i + place, runs[name].improvement[j], typical=True, label=label, **look)
        for i, condition in enumerate(ROUND_3):
            for basin in basins(balanced[condition][j]):
                strip(right, i + place, basin, **look)
    cross(left, [*PRINTED_CHANGE.values()], range(len(_NAMES)), "printed")
    cross(right, [*ROUND_3.values()], range(len(ROUND_3)))
    beyond = sum(int((np.abs(runs[name].improvement) > 12).sum()) for name in _NAMES)
    left.axvline(0, color=style.INK, lw=0.8)
    left.set(xlabel="improvement of the error (%)", xlim=(-12, 12), ylabel="four heads, full penalty unless named")
    left.set_title("rounds 1 and 2" + f"\n({beyond} seeds beyond the axis)" * bool(beyond))
    left.set_yticks(range(len(_NAMES)), [_in_words(name) for name in _NAMES])
    right.set(xlabel="error on all covariates", title="round 3", xlim=(2, None))
    right.set_yticks(range(len(ROUND_3)), ["none", "penalty", "oracle"])
    for ax, rows in ((left, _NAMES), (right, ROUND_3)):
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.grid(axis="y", visible=False)
    legend_above(fig, left, 3, fontsize=9, markerscale=1.2)
    for mark in fig.legends[0].legend_handles:
        mark.set_alpha(1)
    return fig


def _in_words(name: str) -> str:
    """Width of a configuration, and heads and weight of the penalty where they are not four and 1."""
    if name not in CONFIGURATIONS:
        return name.replace("_", " ")
    width, heads, weight = CONFIGURATIONS[name]
    share = "half" if weight == 0.5 else f"{weight:g} of the"
    return f"width {width}" + f",\n{heads} heads" * (heads != 4) + f",\n{share} penalty" * (weight != 1)
