"""What is measured on the one-layer models: sections 9.1, 9.2 and 9.6 of nagy2026."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...store import Results
from ...theory.nagy2026 import one_layer as theory
from ...training import Adam
from ..study import Study
from .studies import CONFIGURATIONS, SPECTRUM
from .testing import nearest_z, one_sample_t

#: What the document prints.
MASK_ERRORS = {"none": 5.77, "spectral": 5.99, "random": 5.83, "redundant": 5.87}
DYNAMICS = {"0": 0, "5k": 5_000, "10k": 10_000, "18k": 18_000}
PRINTED_DYNAMICS = {
    "rho2": (0.999, 0.924, 0.911, 0.912),
    "alignment": (-0.18, 0.13, 0.26, 0.50),
    "error": (27.1, 6.5, 5.4, 5.8),
    "theory": {"rho2": 0.450, "alignment": 1.0, "error": 0.01},
}
ROUND_1 = {  # baseline, regularised
    "tiny_strong": (3.20, 3.29),
    "small_strong": (2.70, 2.67),
    "small_medium": (1.13, 1.12),
    "base_strong": (0.81, 0.79),
    "wide_spectrum": (5.36, 5.41),
    "8heads_tiny": (2.47, 2.46),
}
ROUND_3 = {"baseline": (3.81, 1.31), "diverse": (3.84, 1.32), "oracle": (3.94, 1.34)}


def rates_of(study: Study, group: str) -> list[float]:
    """Learning rates of a group, in the order of its runs."""
    spec = next(g for g in study.groups if g.name == group)
    return list(dict.fromkeys(run.rate for run in spec.runs))


def by_rate(study: Study, results: Results, group: str, name: str) -> np.ndarray:
    """An array ``(T, R, ...)`` of a group as ``(T, rates, seeds, ...)``."""
    array = results[f"{group}/{name}"]
    return array.reshape(array.shape[0], len(rates_of(study, group)), -1, *array.shape[2:])


def label(optimiser: object, rate: float) -> str:
    """``Adam 0.001``."""
    return f"{'Adam' if isinstance(optimiser, Adam) else 'SGD'} {rate:g}"


def final_errors(
    study: Study, results: Results, group: str, probe: str = "n16", step: int = -1
) -> np.ndarray:
    """Error ``(rates, seeds)`` with the whole context, at a recorded index."""
    return by_rate(study, results, group, f"curve_{probe}")[step, ..., -1].astype(float)


# -- section 9.1 ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MaskRuns:
    """Final errors of section 9.1.

    Attributes:
        settings: names of the settings that the document leaves open.
        errors: mask -> ``(settings, seeds)``.
    """

    settings: list[str]
    errors: dict[str, np.ndarray]

    def change(self, mask: str) -> np.ndarray:
        """Change against no mask of the same seed in per cent, ``(settings, seeds)``; positive is worse."""
        return 100 * (self.errors[mask] / self.errors["none"] - 1)


def mask_runs(study: Study, results: Results) -> MaskRuns:
    """Section 9.1's errors, one row for each setting."""
    settings: list[str] = []
    errors: dict[str, list[np.ndarray]] = {mask: [] for mask in MASK_ERRORS}
    for spec in study.groups:
        mask, activation, _ = spec.name.split("-")
        errors[mask].append(final_errors(study, results, spec.name))
        if mask == "none":
            settings += [f"{activation}, {label(spec.optimiser, r)}" for r in rates_of(study, spec.name)]
    return MaskRuns(settings, {mask: np.concatenate(rows) for mask, rows in errors.items()})


def mask_records(runs: MaskRuns) -> dict:
    """What decides claim 9.1 and its share of q-unstated."""
    masked = [mask for mask in MASK_ERRORS if mask != "none"]
    means = {mask: runs.change(mask).mean(1) for mask in masked}
    base = runs.errors["none"]
    z = np.abs(MASK_ERRORS["none"] - base.mean(1)) / base.std(1, ddof=1)
    near = int(z.argmin())
    printed = {mask: 100 * (MASK_ERRORS[mask] / MASK_ERRORS["none"] - 1) for mask in masked}
    spreads = {mask: runs.change(mask).std(1, ddof=1) for mask in masked}
    worst = np.stack([runs.errors[mask].mean(1) for mask in MASK_ERRORS]).argmax(0)
    return {f"9.1/{mask}_change": means[mask].tolist() for mask in masked} | {
        "9.1/spectral_worst_share": float((worst == list(MASK_ERRORS).index("spectral")).mean()),
        "9.1/baseline_z": float(z[near]),
        "9.1/nearest": runs.settings[near],
        "9.1/baseline": float(base[near].mean()),
        "9.1/changes_z": [float(abs(printed[m] - means[m][near]) / spreads[m][near]) for m in masked],
        "9.1/settings": len(runs.settings),
        "9.1/seeds": base.shape[1],
        "q-unstated/masks_low": float(base.min()),
        "q-unstated/masks_high": float(base.max()),
        "q-unstated/one_seed": [printed[m] / float(np.median(spreads[m])) for m in masked],
    }


# -- section 9.2 ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dynamics:
    """Section 9.2 along training, each ``(T, seeds)`` by setting."""

    steps: np.ndarray
    error: dict[str, np.ndarray]
    rho: dict[str, np.ndarray]
    rho_ends: dict[str, np.ndarray]
    alignment: dict[str, dict[str, np.ndarray]]

    def at(self, values: np.ndarray, step: int) -> np.ndarray:
        """``(seeds,)`` at the recorded step next to this share of 20,000 (at the paper profile: at this step)."""
        wanted = step / 20_000 * self.steps[-1]
        return values[int(np.abs(self.steps - wanted).argmin())]


def dynamics(study: Study, results: Results) -> Dynamics:
    """Error, rho_2 and alignment of every setting at every recorded step."""
    found: dict[str, dict] = {"error": {}, "rho": {}, "ends": {}, "gain": {}, "key": {}}
    for spec in study.groups:
        name = f"{spec.name.split('-')[0]}, {label(spec.optimiser, spec.runs[0].rate)}"
        arrays = results.group(spec.name)
        curve = arrays["curve_n16"].astype(float)
        found["error"][name] = curve[..., -1]
        found["rho"][name] = theory.rho_by_slope(curve)
        found["ends"][name] = theory.rho_by_ends(curve, study.task.variance)
        found["gain"][name] = theory.alignment(arrays["gain"].astype(float), SPECTRUM)
        norms = np.sqrt((arrays["key"].astype(float) ** 2).sum(-2))  # over heads
        found["key"][name] = theory.alignment(norms, SPECTRUM)
    steps = results[f"{study.groups[0].name}/steps"]
    by_importance = {"gain": found["gain"], "key": found["key"]}
    return Dynamics(steps, found["error"], found["rho"], found["ends"], by_importance)


def dynamics_records(d: Dynamics, length: int = 16) -> dict:
    """What decides claim 9.2 and its share of q-unstated."""
    best = theory.best_gain(SPECTRUM, length)
    values: dict = {
        "9.2/best_alignment": float(theory.alignment(best, SPECTRUM)),
        "9.2/best_error": theory.expected_error(SPECTRUM, length, best),
        "9.2/seeds": next(iter(d.error.values())).shape[1],
        "9.2/settings": len(d.error),
    }
    for name, step in DYNAMICS.items():
        if step:
            values[f"9.2/mse_{name}"] = [float(d.at(e, step).mean()) for e in d.error.values()]
        values[f"9.2/slope/rho2_{name}"] = [float(d.at(r, step).mean()) for r in d.rho.values()]
    values["9.2/ends/rho2_18k"] = [float(d.at(r, 18_000).mean()) for r in d.rho_ends.values()]
    for importance, by_setting in d.alignment.items():
        late = [d.at(a, 18_000) for a in by_setting.values()]
        start = [a[0] for a in by_setting.values()]
        pairs = list(zip(late, start, strict=True))
        values[f"9.2/{importance}/alignment_rise"] = [float((b - a).mean()) for b, a in pairs]
        values[f"9.2/{importance}/alignment_z"] = [
            float(abs(PRINTED_DYNAMICS["alignment"][-1] - b.mean()) / b.std(ddof=1)) for b in late
        ]
        values[f"9.2/{importance}/alignment"] = [float(b.mean()) for b in late]
    values["9.2/largest_jump"] = [_largest_jump(d.steps, a) for a in d.alignment["gain"].values()]
    rho = np.concatenate([d.at(r, 18_000) for r in d.rho.values()])
    gain = np.concatenate([d.at(a, 18_000) for a in d.alignment["gain"].values()])
    for name, array in (("rho2", rho), ("alignment", gain)):
        values[f"q-unstated/{name}_low"], values[f"q-unstated/{name}_high"] = (
            float(array.min()),
            float(array.max()),
        )
    return values


def _largest_jump(steps: np.ndarray, alignment: np.ndarray) -> float:
    """Largest rise of the mean alignment between neighbouring records after the first fortieth, over the whole rise."""
    mean = alignment.mean(1)
    late = mean[steps >= steps[-1] / 40]
    return float(np.abs(np.diff(late)).max() / abs(mean[-1] - mean[0]))


# -- section 9.6 ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DiversityRuns:
    """Rounds 1 and 2 of section 9.6: configuration -> errors ``(rates, seeds)`` without and with the regulariser."""

    rates: list[float]
    base: dict[str, np.ndarray]
    diverse: dict[str, np.ndarray]
    round_2: tuple[np.ndarray, np.ndarray]

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
    order = list(ROUND_1)
    return DiversityRuns(
        rates_of(study, "base_strong"), {n: base[n] for n in order}, {n: diverse[n] for n in order}, round_2
    )


def diversity_records(runs: DiversityRuns) -> dict:
    """What decides rounds 1 and 2 of claim 9.6."""
    improvements = {name: runs.improvement(name) for name in runs.base}
    second = 100 * (1 - runs.round_2[1] / runs.round_2[0])
    printed = {name: 100 * (1 - b / a) for name, (a, b) in ROUND_1.items()}
    same = runs.base["small_strong"]  # the very runs of small_medium's baseline too
    gap = abs(ROUND_1["small_strong"][0] - ROUND_1["small_medium"][0]) / ROUND_1["small_strong"][0]
    return {
        "9.6/round1_t": [float(t) for i in improvements.values() for t in one_sample_t(i)],
        "9.6/round1_z": [nearest_z(printed[name], i) for name, i in improvements.items()],
        "9.6/round1_mean": [float(m) for i in improvements.values() for m in i.mean(1)],
        "9.6/round2_t": one_sample_t(second).tolist(),
        "9.6/round2_mean": second.mean(1).tolist(),
        "9.6/round2_wins": (second > 0).mean(1).tolist(),
        "9.6/seeds": second.shape[1],
        "q-unstated/same_baseline": float(gap / (same.std(1, ddof=1) / same.mean(1)).max()),
    }


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
    errors = np.stack([base.mean(1), diverse.mean(1), oracle.mean(1)])
    low = runs["baseline"]["low"]
    return {
        "9.6/round3_t": one_sample_t(100 * (1 - diverse / base)).tolist(),
        "9.6/oracle_t": one_sample_t(100 * (oracle / base - 1)).tolist(),
        "9.6/oracle_change": (100 * (oracle / base - 1)).mean(1).tolist(),
        "9.6/oracle_worst": [bool(w == 2) for w in errors.argmax(0)],
        "9.6/round3_z": [nearest_z(p, e) for p, e in zip(ROUND_3["baseline"], (base, low), strict=True)],
        "9.6/round3_errors": [float(x) for x in (*base.mean(1), *low.mean(1))],
        "q-unstated/balanced_low": float(base.min()),
        "q-unstated/balanced_high": float(base.max()),
    }
