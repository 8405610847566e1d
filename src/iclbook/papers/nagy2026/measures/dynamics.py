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
from .shared import apart, by_rate, inside, label, on_probes, printed, rates_of, under

#: Steps that the paper's table shows, and what it prints there.
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
    """What decides the claims on section 9.2, its printed numbers, and its share of q-unstated."""
    near = nearest(d)
    rho = np.concatenate([d.at(r, 18_000) for r in d.rho.values()])
    gain = np.concatenate([d.at(a, 18_000) for a in d.alignment["gain"].values()])
    return {
        **_best_layer(length),
        "9.2/best_on_probes": d.best[0],
        "9.2/best_on_probes_se": d.best[1],
        "9.2/seeds": next(iter(d.error.values())).shape[1],
        "9.2/settings": len(d.error),
        "9.2/nearest": near,
        "9.2/mse_18k": float(d.at(d.error[near], 18_000).mean()),
        "9.2/slope/rho2_18k": float(d.at(d.rho[near], 18_000).mean()),
        "9.2/ends/rho2_18k": float(d.at(d.rho_ends[near], 18_000).mean()),
        **under(RHO_KEYS["slope"], _rates(d, d.rho)),
        **under(RHO_KEYS["ends"], _rates(d, d.rho_ends)),
        **under(ALIGNMENT_KEYS["gain"], _alignment(d, d.alignment["gain"])),
        **under(ALIGNMENT_KEYS["key"], _alignment(d, d.alignment["key"])),
        "q-unstated/rho2_inside": inside(PRINTED["rho2"][-1], rho),
        "q-unstated/alignment_inside": inside(PRINTED["alignment"][-1], gain),
    }


def _best_layer(length: int) -> dict[str, float]:
    """The table's column "Theory" for the best single layer of linear attention: alignment, error, and rho_2 in both readings."""
    best = theory.best_gain(SPECTRUM, length)
    curve = np.array([theory.expected_error(SPECTRUM, n, best) for n in range(1, length + 1)])
    return {
        "9.2/best_alignment": float(theory.alignment(best, SPECTRUM)),
        "9.2/best_error": float(curve[-1]),
        "9.2/best_rho_slope": float(theory.rho_by_slope(curve)),
        "9.2/best_rho_ends": float(theory.rho_by_ends(curve, sum(SPECTRUM))),
    }


#: Keys of rho_2 by how it is read: the slope over the context, or the mean factor from no example to 16.
RHO_KEYS = {
    "slope": (
        "9.2/slope/fall", "9.2/slope/fall_se", "9.2/slope/late_fall", "9.2/slope/late_fall_se", "9.2/slope/apart",
        "9.2/slope/apart_exchanged",
    ),
    "ends": (
        "9.2/ends/fall", "9.2/ends/fall_se", "9.2/ends/late_fall", "9.2/ends/late_fall_se", "9.2/ends/apart",
        "9.2/ends/apart_exchanged",
    ),
}  # fmt: skip
#: Keys of the alignment by what is read as importance: the gain of a covariate, or the norm of its keys.
ALIGNMENT_KEYS = {
    "gain": (
        "9.2/gain/alignment_rise", "9.2/gain/alignment_rise_se", "9.2/gain/alignment_apart", "9.2/gain/alignment_apart_start",
        "9.2/gain/gradual", "9.2/gain/rising",
    ),
    "key": (
        "9.2/key/alignment_rise", "9.2/key/alignment_rise_se", "9.2/key/alignment_apart", "9.2/key/alignment_apart_start",
        "9.2/key/gradual", "9.2/key/rising",
    ),
}  # fmt: skip


def _rates(d: Dynamics, rho: dict[str, np.ndarray]) -> dict:
    """Change of rho_2 from start to 18,000 steps and from 10,000 to the end, each setting; and how far the printed errors and rho_2 are from the
    setting that comes nearest to all of them, beside the same columns with 5,000 and 10,000 steps exchanged."""
    falls = [d.at(r, 18_000) - r[0] for r in rho.values()]
    late = [r[-1] - d.at(r, 10_000) for r in rho.values()]
    return {
        "fall": [float(f.mean()) for f in falls],
        "fall_se": [float(standard_error(f)) for f in falls],
        "late_fall": [float(f.mean()) for f in late],
        "late_fall_se": [float(standard_error(f)) for f in late],
        "apart": nearest_course(d, rho, (0, 1, 2, 3)),
        "apart_exchanged": nearest_course(d, rho, (0, 2, 1, 3)),
    }


def nearest_course(d: Dynamics, rho: dict[str, np.ndarray], order: tuple[int, ...]) -> float:
    """Distance of the printed errors and rho_2, its columns taken in this order, from what one seed more would give, in half-widths of its prediction
    interval: the largest of all, in the setting where that is least. rho_2 at the start is left out, as any untrained model has it.

    Errors are measured on prompts that all seeds share; rho_2 is a slope over lengths of the same prompts.
    """
    common = d.best[1] / d.best[0]

    def distance(name: str) -> float:
        errors = [
            apart(PRINTED["error"][k], d.at(d.error[name], step), common=common)
            for k, step in zip(order, STEPS, strict=True)
        ]
        rates = [
            apart(PRINTED["rho2"][k], d.at(rho[name], step))
            for k, step in zip(order[1:], STEPS[1:], strict=True)
        ]
        return max(*errors, *rates)

    return min(distance(name) for name in d.error)


def _alignment(d: Dynamics, by_setting: dict[str, np.ndarray]) -> dict:
    """How the alignment rises from start to 18,000 steps, each setting, and how far the printed end, and the printed start, are from ours there."""
    late = [d.at(a, 18_000) for a in by_setting.values()]
    rises = [end - a[0] for a, end in zip(by_setting.values(), late, strict=True)]
    return {
        "alignment_rise": [float(r.mean()) for r in rises],
        "alignment_rise_se": [float(standard_error(r)) for r in rises],
        "alignment_apart": [apart(PRINTED["alignment"][-1], end) for end in late],
        "alignment_apart_start": [apart(PRINTED["alignment"][0], end) for end in late],
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


#: Heads of the columns of :func:`dynamics_rows`.
COLUMNS = {
    "setting": "setting",
    "error": "error at 0, 5k, 10k, 18k steps",
    "slope": "ρ₂ (slope) there",
    "ends": "ρ₂ (ends), 18k",
    "gain": "alignment of gains, 0 to 18k",
    "key": "of keys",
}


def dynamics_rows(d: Dynamics) -> list[dict[str, str]]:
    """A table: setting, errors and rho_2 along training, rho_2 by ends, and both alignments at 18,000 steps."""

    def course(values: np.ndarray, spec: str) -> str:
        return " ".join(format(d.at(values, step).mean(), spec) for step in STEPS)

    def ends(values: np.ndarray) -> str:
        return f"{values[0].mean():+.2f} to {d.at(values, 18_000).mean():+.2f}"

    first = {
        "setting": "the paper (one seed)",
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
