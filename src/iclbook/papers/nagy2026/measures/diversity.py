"""What is measured on the regularised heads: section 9.6 of nagy2026."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....statistics import standard_error, t_of_mean
from ....store import Results
from ....training.study import Study
from ..runs.studies import CONFIGURATIONS
from .shared import common_error, final_errors, inside, nearest_z, printed, rates_of, under

#: What the paper prints in round 1, configuration -> error of baseline and regularised model, and its change in per cent.
_NAMES = ("tiny_strong", "small_strong", "small_medium", "base_strong", "wide_spectrum", "8heads_tiny")
ROUND_1 = dict(
    zip(_NAMES, zip(printed("9.6/deltas")[::2], printed("9.6/deltas")[1::2], strict=True), strict=True)
)
PRINTED_CHANGE = {name: 100 * (1 - after / before) for name, (before, after) in ROUND_1.items()}
#: In round 3: all covariates, and the low band.
_ALL = printed("9.6/balanced")
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
        rates_of(study, "base_strong"),
        {n: base[n] for n in order},
        {n: diverse[n] for n in order},
        round_2,
        common,
    )


#: Readings of ``wide_spectrum``, whose spectrum is not printed: the runs that stand for it, and the keys that it is recorded by. With section
#: 9.1's spectrum it is the same model, task and weight of the regulariser as ``small_medium``.
WIDE_READINGS = {
    "wide_spectrum": ("9.6/wide/gain", "9.6/wide/gain_se", "9.6/wide/base_z"),
    "small_medium": ("9.6/same/gain", "9.6/same/gain_se", "9.6/same/base_z"),
}


def diversity_records(runs: DiversityRuns) -> dict:
    """What decides rounds 1 and 2 of claim 9.6."""
    improvements = {name: runs.improvement(name) for name in CONFIGURATIONS}
    second = 100 * (1 - runs.round_2[1] / runs.round_2[0])
    same = runs.base["small_strong"]  # the very runs of small_medium's baseline too
    gap = abs(ROUND_1["small_strong"][0] - ROUND_1["small_medium"][0]) / ROUND_1["small_strong"][0]
    wide, values = [], {}
    for stands, keys in WIDE_READINGS.items():
        change, off = runs.improvement(stands), _base_z(runs, "wide_spectrum", stands)
        wide.append(off)
        values |= under(keys, _mean_and_error("gain", change) | {"base_z": off})
    bases = [_base_z(runs, name, name) for name in CONFIGURATIONS]
    first = _mean_and_error("gain", np.concatenate(list(improvements.values())))
    again = _mean_and_error("gain", second)
    return values | {
        "9.6/round1_gain": first["gain"],
        "9.6/round1_gain_se": first["gain_se"],
        "9.6/bases_off": sum(z > 2.8 for z in (*bases, min(wide))),
        "9.6/round2_gain": again["gain"],
        "9.6/round2_gain_se": again["gain_se"],
        "9.6/seeds": second.shape[1],
        "q-unstated/same_baseline": float(gap / (same.std(1, ddof=1) / same.mean(1)).max()),
    }


def _mean_and_error(name: str, values: np.ndarray) -> dict[str, list[float]]:
    """Mean over seeds of ``(settings, seeds)`` and its standard error."""
    return {name: values.mean(-1).tolist(), f"{name}_se": standard_error(values).tolist()}


def _base_z(runs: DiversityRuns, printed: str, stands: str) -> float:
    """Distance of a printed baseline from ours at the nearest rate, in standard deviations."""
    return nearest_z(ROUND_1[printed][0], runs.base[stands], runs.common[stands])


#: Heads of the columns of :func:`diversity_rows`.
COLUMNS = {
    "configuration": "configuration",
    "printed": "baseline, printed",
    "ours": "ours, each rate (± standard deviation)",
    "printed change": "improvement (%), printed",
    "our change": "ours, each rate",
}


def diversity_rows(runs: DiversityRuns) -> list[dict[str, str]]:
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
    probes: Sequence[tuple[str, str]] = (("all", "n16"), ("low", "low"))
    return {
        condition: {name: final_errors(study, results, condition, probe) for name, probe in probes}
        for condition in ROUND_3
    }


def balanced_records(runs: dict[str, dict[str, np.ndarray]]) -> dict:
    """What decides round 3 of claim 9.6."""
    base, diverse, oracle = (runs[name]["all"] for name in ROUND_3)
    gain = _mean_and_error("gain", 100 * (1 - diverse / base))
    lost = _mean_and_error("lost", 100 * (oracle / base - 1))
    more = _mean_and_error("more", 100 * (oracle - diverse) / base)
    return {
        "9.6/round3_gain": gain["gain"],
        "9.6/round3_gain_se": gain["gain_se"],
        "9.6/oracle_change": lost["lost"],
        "9.6/oracle_change_se": lost["lost_se"],
        "9.6/oracle_over_diverse": more["more"],
        "9.6/oracle_over_diverse_se": more["more_se"],
        "9.6/oracle_does": _word((oracle / base - 1).mean(1)),
        "q-unstated/balanced_inside": inside(ROUND_3["baseline"][0], base),
    }


def _word(changes: np.ndarray) -> str:
    """What changes ``(rates,)`` of an error do, in a word."""
    if (changes < 0).all():
        return "lowers"
    return "raises" if (changes > 0).all() else "lowers at one rate and raises at another"
