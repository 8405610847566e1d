"""Section 9.6: heads that are asked to differ, by a regulariser (rounds 1 and 2) or by masks (round 3, the oracle)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from ...drawing import style
from ...statistics import Estimate, t_of_mean
from ...store import Results
from ...training.study import Study
from .common import (
    common_error,
    cross,
    final_errors,
    legend_above,
    named_ticks,
    printed_numbers,
    printed_results,
    rates_of,
    strip,
    z_of,
)
from .studies import CONFIGURATIONS

#: What the paper prints in round 1, configuration -> error of baseline and regularised model, and its change in per cent.
_NAMES = ("tiny_strong", "small_strong", "small_medium", "base_strong", "wide_spectrum", "8heads_tiny")
ROUND_1 = dict(
    zip(_NAMES, zip(printed_numbers("9.6/deltas")[::2], printed_numbers("9.6/deltas")[1::2], strict=True), strict=True)
)
PRINTED_CHANGE = dict(zip(_NAMES, printed_results("9.6/deltas"), strict=True))
#: In round 3: all covariates, and the low band.
_ALL = printed_numbers("9.6/balanced")
ROUND_3 = {"baseline": (_ALL[0], 1.31), "diverse": (_ALL[1], 1.32), "oracle": (_ALL[2], 1.34)}


@dataclass(frozen=True)
class DiversityRuns:
    """Rounds 1 and 2 of section 9.6: configuration -> errors ``(rates, seeds)`` without and with the regulariser, and the relative standard error
    that all runs share, being measured on the same prompts."""

    rates: list[float]
    base: dict[str, np.ndarray]
    diverse: dict[str, np.ndarray]
    round_2: tuple[np.ndarray, np.ndarray]
    common: dict[str, float]

    def improvement(self, name: str) -> np.ndarray:
        """Per cent by which the regulariser lowers the error of the same seed, ``(rates, seeds)``."""
        return 100 * (1 - self.diverse[name] / self.base[name])


def diversity_runs(study: Study, results: Results, wide: Study, wide_results: Results) -> DiversityRuns:
    """Errors at 3,000 steps; of ``base_strong`` also at the end (round 2)."""
    base, diverse = {}, {}
    for name, (width, heads, _) in CONFIGURATIONS.items():
        base[name] = final_errors(study, results, f"base_w{width}_h{heads}", step=-2)
        diverse[name] = final_errors(study, results, name, step=-2)
    base["wide_spectrum"] = final_errors(wide, wide_results, "base_w32_h4")
    diverse["wide_spectrum"] = final_errors(wide, wide_results, "wide_spectrum")
    round_2 = tuple(final_errors(study, results, group) for group in ("base_w64_h4", "base_strong"))
    order, shared = list(ROUND_1), common_error(study)
    common = dict.fromkeys(order, shared) | {"wide_spectrum": common_error(wide)}
    return DiversityRuns(
        rates_of(study, "base_strong"), {n: base[n] for n in order}, {n: diverse[n] for n in order}, round_2, common
    )


#: Readings of ``wide_spectrum``, whose spectrum is not printed, and the runs that stand for it. With section 9.1's spectrum it is the same model, task
#: and weight of the regulariser as ``small_medium``.
WIDE_READINGS = {"wide": "wide_spectrum", "same": "small_medium"}


def records(runs: DiversityRuns) -> dict:
    """What decides rounds 1 and 2 of claim 9.6."""
    second = 100 * (1 - runs.round_2[1] / runs.round_2[0])
    same = runs.base["small_strong"]  # the very runs of small_medium's baseline too
    gap = abs(ROUND_1["small_strong"][0] - ROUND_1["small_medium"][0]) / ROUND_1["small_strong"][0]
    wide = {reading: _base_z(runs, "wide_spectrum", stands) for reading, stands in WIDE_READINGS.items()}
    bases = [_base_z(runs, name, name) for name in CONFIGURATIONS]
    return {f"9.6/{reading}/base_z": z for reading, z in wide.items()} | {
        **{f"9.6/{reading}/gain": Estimate.mean(runs.improvement(stands)) for reading, stands in WIDE_READINGS.items()},
        "9.6/round1_gain": Estimate.mean(np.concatenate([runs.improvement(name) for name in CONFIGURATIONS])),
        "9.6/bases_off": sum(z > 2.8 for z in (*bases, min(wide.values()))),
        "9.6/round2_gain": Estimate.mean(second),
        "9.6/seeds": second.shape[1],
        "q-unstated/same_baseline": float(gap / (same.std(1, ddof=1) / same.mean(1)).max()),
    }


def _base_z(runs: DiversityRuns, printed: str, stands: str) -> float:
    """Distance of a printed baseline from ours at the nearest rate, in standard deviations."""
    return float(z_of(ROUND_1[printed][0], runs.base[stands], runs.common[stands]).min())


#: Heads of the columns of :func:`rows`.
COLUMNS = {
    "configuration": "configuration",
    "printed": "baseline, printed",
    "ours": "ours, each rate (± standard deviation)",
    "printed change": "improvement (%), printed",
    "our change": "ours, each rate",
}


def rows(runs: DiversityRuns) -> list[dict[str, str]]:
    """A table of round 1: printed baseline and change, and ours at each rate (mean over seeds, t of the improvement)."""
    rows = []
    for name, stands in [*((n, n) for n in runs.base), ("wide_spectrum", "small_medium")]:
        improvement, base = runs.improvement(stands), runs.base[stands]
        reading = " (own spectrum)" if stands == name else " (9.1's spectrum)"
        means = zip(base.mean(1), base.std(1, ddof=1), strict=True)
        changes = zip(improvement.mean(1), t_of_mean(improvement), strict=True)
        rows.append(
            {
                "configuration": name + (reading if name == "wide_spectrum" else ""),
                "printed": f"{ROUND_1[name][0]:.2f}",
                "ours": ", ".join(f"{m:.2f} ± {s:.2f}" for m, s in means),
                "printed change": f"{PRINTED_CHANGE[name]:+.1f}",
                "our change": ", ".join(f"{m:+.1f} (t = {t:.1f})" for m, t in changes),
            }
        )
    return rows


def balanced_runs(study: Study, results: Results) -> dict[str, dict[str, np.ndarray]]:
    """Round 3: condition -> ``all`` and ``low`` errors ``(rates, seeds)``."""
    probes = (("all", "n16"), ("low", "low"))
    return {
        condition: {name: final_errors(study, results, condition, probe) for name, probe in probes}
        for condition in ROUND_3
    }


def balanced_records(runs: dict[str, dict[str, np.ndarray]]) -> dict:
    """What decides round 3 of claim 9.6."""
    base, diverse, oracle = (runs[name]["all"] for name in ROUND_3)
    return {
        "9.6/round3_gain": Estimate.mean(100 * (1 - diverse / base)),
        "9.6/oracle_change": Estimate.mean(100 * (oracle / base - 1)),
        "9.6/oracle_over_diverse": Estimate.mean(100 * (oracle - diverse) / base),
        "9.6/oracle_does": _word((oracle / base - 1).mean(1)),
    }


def _word(changes: np.ndarray) -> str:
    """What changes ``(rates,)`` of an error do, in a word."""
    if (changes < 0).all():
        return "lowers"
    return "raises" if (changes > 0).all() else "lowers at one rate and raises at another"


def figure(runs: DiversityRuns, balanced: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """Section 9.6. Left: improvement by the regulariser, each seed, rounds 1 and 2. Right: round 3's errors. Crosses: printed."""
    fig, (left, right) = style.figure(2, height=3.4, width_ratios=(1.7, 1))
    for j, rate in enumerate(runs.rates):
        place, colour, marker = (j - 0.5) * 0.3, style.PALETTE[j], "os"[j % 2]
        for i, name in enumerate(runs.base):
            strip(left, i + place, runs.improvement(name)[j], colour, marker, None if i else f"Adam {rate:g}")
        for i, condition in enumerate(ROUND_3):
            for errors in ("all", "low"):
                strip(right, i + place, balanced[condition][errors][j], colour, marker)
    cross(left, range(len(runs.base)), [PRINTED_CHANGE[name] for name in runs.base], "printed")
    for i, printed in enumerate(ROUND_3.values()):
        cross(right, [i, i], printed)
    left.axhline(0, color=style.INK, lw=0.8)
    left.set(ylabel="improvement (%)", title="rounds 1 and 2", ylim=(-12, 12))
    beyond = sum(int((np.abs(runs.improvement(name)) > 12).sum()) for name in runs.base)
    if beyond:
        left.text(0.01, 0.98, f"{beyond} seeds beyond the axis", transform=left.transAxes, va="top", fontsize=7.5)
    legend_above(fig, left, 3, fontsize=8, markerscale=1.5, columnspacing=2)
    named_ticks(left, [n.replace("_", "\n") for n in runs.base], fontsize=8)
    right.set(ylabel="error", title="round 3", ylim=(0, None))
    for errors, what in (("all", "all covariates"), ("low", "low λ only")):
        right.text(2.45, float(balanced["baseline"][errors].mean()), what, rotation=90, va="center", fontsize=7.5)
    right.set_xlim(-0.5, 2.7)
    named_ticks(right, ["baseline", "regularised", "oracle"], fontsize=8)
    return fig
