"""What is measured along training: section 9.2 of nagy2026."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ....errors import UserError
from ....statistics import standard_error
from ....store import Results
from ....training.study import Study
from ..runs.studies import SPECTRUM
from ..theory import one_layer as theory
from .shared import by_rate, inside, label, on_probes, printed, rates_of, under, z_of

#: Steps that the document's table shows, and what it prints there.
STEPS = (0, 5_000, 10_000, 18_000)
PRINTED = {
    "rho2": (0.999, 0.924, 0.911, 0.912),
    "alignment": printed("9.2/climbs"),
    "error": (27.1, 6.5, 5.4, 5.8),
}
#: What counts as near: one value of one run scatters by 5 %, times 2.8; over 15 factors that is 0.01 of rho_2.
NEAR_ERROR, NEAR_RHO = 0.14, 0.01


@dataclass(frozen=True)
class Dynamics:
    """Section 9.2 along training, each ``(T, seeds)`` by setting; ``best`` is the best single layer on the same prompts, with standard error."""

    steps: np.ndarray
    error: dict[str, np.ndarray]
    rho: dict[str, np.ndarray]
    rho_ends: dict[str, np.ndarray]
    alignment: dict[str, dict[str, np.ndarray]]
    gain: dict[str, np.ndarray]
    best: tuple[float, float]

    def at(self, values: np.ndarray, step: int) -> np.ndarray:
        """``(seeds,)`` at the recorded step next to this share of 20,000 (at the paper profile: at this step)."""
        wanted = step / 20_000 * self.steps[-1]
        return values[int(np.abs(self.steps - wanted).argmin())]


def dynamics(study: Study, results: Results) -> Dynamics:
    """Error, rho_2 and alignment of every setting at every recorded step."""
    found: dict[str, dict] = {"error": {}, "rho": {}, "ends": {}, "gain": {}, "key": {}, "last": {}}
    for spec in study.groups:
        arrays = {
            n: by_rate(study, results, spec.name, n).astype(float) for n in ("curve_n16", "gain", "key")
        }
        for i, rate in enumerate(rates_of(study, spec.name)):
            name = f"{spec.name.split('-')[0]}, {label(spec.optimiser, rate)}"
            curve, gain, key = (array[:, i] for array in arrays.values())
            found["error"][name] = curve[..., -1]
            found["rho"][name] = theory.rho_by_slope(curve)
            found["ends"][name] = theory.rho_by_ends(curve, study.data.variance)
            found["gain"][name] = theory.alignment(gain, SPECTRUM)
            found["key"][name] = theory.alignment(np.sqrt((key**2).sum(-2)), SPECTRUM)  # over heads
            found["last"][name] = gain[-1]
    steps = results[f"{study.groups[0].name}/steps"]
    by_importance = {"gain": found["gain"], "key": found["key"]}
    best = on_probes(study.groups[0].observe.probes)
    return Dynamics(steps, found["error"], found["rho"], found["ends"], by_importance, found["last"], best)


def nearest(d: Dynamics) -> str:
    """The setting whose errors and rho_2 after step 0 are all together nearest to the printed ones, in units of what counts as near."""

    def distance(name: str) -> float:
        rows = zip(STEPS[1:], PRINTED["error"][1:], PRINTED["rho2"][1:], strict=True)
        return max(
            off
            for step, error, rho in rows
            for off in (
                abs(d.at(d.error[name], step).mean() / error - 1) / NEAR_ERROR,
                abs(d.at(d.rho[name], step).mean() - rho) / NEAR_RHO,
            )
        )

    return min(d.error, key=distance)


def shown(d: Dynamics) -> list[str]:
    """The settings that the figures show: Adam, and of SGD the rate nearest to the printed values and the largest."""
    names = []
    for activation in dict.fromkeys(name.split(",")[0] for name in d.error):
        mine = [n for n in d.error if n.startswith(f"{activation},")]
        sgd = [n for n in mine if "SGD" in n]
        largest = max(sgd, key=lambda n: float(n.split()[-1]))
        pick = replace(d, error={n: d.error[n] for n in sgd})
        names += [n for n in mine if "Adam" in n] + list(dict.fromkeys((largest, nearest(pick))))
    return names


def dynamics_records(d: Dynamics, length: int = 16) -> dict:
    """What decides claim 9.2 and its share of q-unstated."""
    best = theory.best_gain(SPECTRUM, length)
    near = nearest(d)
    rho = np.concatenate([d.at(r, 18_000) for r in d.rho.values()])
    gain = np.concatenate([d.at(a, 18_000) for a in d.alignment["gain"].values()])
    return {
        "9.2/best_alignment": float(theory.alignment(best, SPECTRUM)),
        "9.2/best_error": theory.expected_error(SPECTRUM, length, best),
        "9.2/best_on_probes": d.best[0],
        "9.2/best_on_probes_se": d.best[1],
        "9.2/seeds": next(iter(d.error.values())).shape[1],
        "9.2/settings": len(d.error),
        "9.2/nearest": near,
        "9.2/ends/rho2_18k": float(d.at(d.rho_ends[near], 18_000).mean()),
        **_errors_and_rates(d, near),
        **under(ALIGNMENT_KEYS["gain"], _alignment(d, d.alignment["gain"])),
        **under(ALIGNMENT_KEYS["key"], _alignment(d, d.alignment["key"])),
        "q-unstated/rho2_inside": inside(PRINTED["rho2"][-1], rho),
        "q-unstated/alignment_inside": inside(PRINTED["alignment"][-1], gain),
    }


def _errors_and_rates(d: Dynamics, near: str) -> dict[str, float]:
    """Error and rho_2 at the setting ``near``, each with its standard error.

    That of an error has two parts, over seeds and over the prompts that all seeds share. rho_2 is a slope over lengths of the same prompts and
    the alignment is read off the weights: there it is over seeds alone.
    """
    common = d.best[1] / d.best[0]
    errors = [d.at(d.error[near], step) for step in STEPS]
    rates = [d.at(d.rho[near], step) for step in STEPS]
    error = [float(e.mean()) for e in errors]
    error_se = [float(np.hypot(standard_error(e), common * e.mean())) for e in errors]
    rate, rate_se = ([float(of(r)) for r in rates] for of in (np.mean, standard_error))
    return {
        "9.2/mse_0": error[0],
        "9.2/mse_0_se": error_se[0],
        "9.2/mse_5k": error[1],
        "9.2/mse_5k_se": error_se[1],
        "9.2/mse_10k": error[2],
        "9.2/mse_10k_se": error_se[2],
        "9.2/mse_18k": error[3],
        "9.2/mse_18k_se": error_se[3],
        "9.2/slope/rho2_5k": rate[1],
        "9.2/slope/rho2_5k_se": rate_se[1],
        "9.2/slope/rho2_10k": rate[2],
        "9.2/slope/rho2_10k_se": rate_se[2],
        "9.2/slope/rho2_18k": rate[3],
        "9.2/slope/rho2_18k_se": rate_se[3],
    }


#: Keys of the alignment by what is read as importance: the gain of a covariate, or the norm of its keys.
ALIGNMENT_KEYS = {
    "gain": (
        "9.2/gain/alignment_rise", "9.2/gain/alignment_rise_se", "9.2/gain/alignment_z", "9.2/gain/gradual", "9.2/gain/rising",
    ),
    "key": (
        "9.2/key/alignment_rise", "9.2/key/alignment_rise_se", "9.2/key/alignment_z", "9.2/key/gradual", "9.2/key/rising",
    ),
}  # fmt: skip


def _alignment(d: Dynamics, by_setting: dict[str, np.ndarray]) -> dict:
    """How the alignment rises from start to 18,000 steps, each setting, and how far the printed end is from ours."""
    late = [d.at(a, 18_000) for a in by_setting.values()]
    rises = [end - a[0] for a, end in zip(by_setting.values(), late, strict=True)]
    return {
        "alignment_rise": [float(r.mean()) for r in rises],
        "alignment_rise_se": [float(standard_error(r)) for r in rises],
        "alignment_z": [float(z_of(PRINTED["alignment"][-1], end)) for end in late],
        "gradual": [gradual(d, a) for a in by_setting.values()],
        "rising": sum(bool(r.mean() > 0) for r in rises),
    }


def gradual(d: Dynamics, alignment: np.ndarray) -> bool:
    """Whether the mean alignment rises from start to 18,000 steps, and no stretch of 500 (a fortieth of the training) makes up half of it.

    Raises:
        UserError: an alignment that is not finite, as of a run that diverged.
    """
    if not np.isfinite(alignment).all():
        step = int(d.steps[~np.isfinite(alignment).all(1)][0])
        raise UserError(
            f"an alignment of section 9.2 is not finite at step {step}", "Find the run that diverged."
        )
    mean, rise = alignment.mean(1), float(d.at(alignment, 18_000).mean() - alignment[0].mean())
    if rise <= 0:
        return False
    window = d.steps[-1] / 40
    jumps = [
        mean[j] - mean[i]
        for i in range(len(mean))
        for j in range(i + 1, len(mean))
        if j == i + 1 or d.steps[j] - d.steps[i] <= window
    ]
    return bool(max(jumps) < rise / 2)


def dynamics_rows(d: Dynamics) -> list[dict[str, str]]:
    """A table: setting, errors and rho_2 along training, rho_2 by ends, and both alignments at 18,000 steps."""

    def course(values: np.ndarray, spec: str) -> str:
        return " ".join(format(d.at(values, step).mean(), spec) for step in STEPS)

    def ends(values: np.ndarray) -> str:
        return f"{values[0].mean():+.2f} to {d.at(values, 18_000).mean():+.2f}"

    first = {
        "setting": "the document (one seed)",
        "error": " ".join(f"{e:.1f}" for e in PRINTED["error"]),
        "slope": " ".join(f"{r:.3f}" for r in PRINTED["rho2"]),
        "gain": f"{PRINTED['alignment'][0]:+.2f} to {PRINTED['alignment'][-1]:+.2f}",
    }
    return [first] + [
        {
            "setting": name,
            "error": course(d.error[name], ".1f"),
            "slope": course(d.rho[name], ".3f"),
            "ends": f"{d.at(d.rho_ends[name], 18_000).mean():.3f}",
            "gain": ends(d.alignment["gain"][name]),
            "key": ends(d.alignment["key"][name]),
        }
        for name in d.error
    ]
