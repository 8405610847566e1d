"""What is measured on the one-layer models: sections 9.1 and 9.2 of nagy2026 (9.6 is in ``diversity``)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ....errors import UserError
from ....statistics import bootstrap_error, standard_error
from ....store import Results
from ....training import Adam
from ....training.study import Study
from ..runs.specs import Probes
from ..runs.studies import SPECTRUM
from ..theory import one_layer as theory
from .testing import z_of

#: What the document prints.
MASK_ERRORS = {"none": 5.77, "spectral": 5.99, "random": 5.83, "redundant": 5.87}
DYNAMICS = {"0": 0, "5k": 5_000, "10k": 10_000, "18k": 18_000}
PRINTED_DYNAMICS = {
    "rho2": (0.999, 0.924, 0.911, 0.912),
    "alignment": (-0.18, 0.13, 0.26, 0.50),
    "error": (27.1, 6.5, 5.4, 5.8),
    "theory": {"rho2": 0.450, "alignment": 1.0, "error": 0.01},
}
#: What counts as near in section 9.2: one value of one run scatters by 5 %, times 2.8; over 15 factors that is 0.01 of rho_2.
NEAR_ERROR, NEAR_RHO = 0.14, 0.01


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


def on_probes(probes: Probes, name: str = "n16") -> tuple[float, float]:
    """Error of the best single layer of linear attention on the very prompts that the trained models are measured on: mean and standard error."""
    context, query, target = (array.double().numpy() for array in probes.draw()[name])
    lam = np.asarray(probes.task.eigenvalues)
    scale = np.sqrt(lam)[:, None] if probes.task.balanced else 1.0
    length, d = context.shape[0], probes.task.d
    moment = (context[:, d:] * context[:, :d] / scale).mean(0)
    best = theory.best_gain(np.ones(d) if probes.task.balanced else lam, length)
    squared = (target[0] - (best[:, None] * moment * query / scale).sum(0)) ** 2
    return float(squared.mean()), float(squared.std(ddof=1) / np.sqrt(len(squared)))


def common_error(study: Study, name: str = "n16") -> float:
    """Relative standard error that all runs of a study share, being measured on the same prompts; that of the best single layer."""
    mean, error = on_probes(study.groups[0].observe.probes, name)
    return error / mean


# -- section 9.1 ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MaskRuns:
    """Final errors of section 9.1.

    Attributes:
        settings: names of the settings that the document leaves open.
        errors: mask -> ``(settings, seeds)``.
        common: relative standard error that all share, being measured on the same prompts.
    """

    settings: list[str]
    errors: dict[str, np.ndarray]
    common: float

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
    joined = {mask: np.concatenate(rows) for mask, rows in errors.items()}
    return MaskRuns(settings, joined, common_error(study))


def mask_records(runs: MaskRuns) -> dict:
    """What decides claim 9.1 and its share of q-unstated."""
    masked = [mask for mask in MASK_ERRORS if mask != "none"]
    means = {mask: runs.change(mask).mean(1) for mask in masked}
    base = runs.errors["none"]
    z = z_of(MASK_ERRORS["none"], base, runs.common)
    near = int(z.argmin())
    printed = {mask: 100 * (MASK_ERRORS[mask] / MASK_ERRORS["none"] - 1) for mask in masked}
    spreads = {mask: runs.change(mask).std(1, ddof=1) for mask in masked}
    by_seed = np.moveaxis(np.stack([runs.errors[mask] for mask in MASK_ERRORS]), -1, 0)
    return {f"9.1/{mask}_change": means[mask].tolist() for mask in masked} | {
        "9.1/spectral_change_se": standard_error(runs.change("spectral")).tolist(),
        "9.1/random_change_se": standard_error(runs.change("random")).tolist(),
        "9.1/redundant_change_se": standard_error(runs.change("redundant")).tolist(),
        "9.1/spectral_worst_share": _spectral_worst(by_seed),
        "9.1/spectral_worst_share_se": bootstrap_error(_spectral_worst, by_seed),
        "9.1/baseline_z": float(z[near]),
        "9.1/nearest": runs.settings[near],
        "9.1/baseline": float(base[near].mean()),
        "9.1/changes_z": [float(abs(printed[m] - means[m][near]) / spreads[m][near]) for m in masked],
        "9.1/settings": len(runs.settings),
        "9.1/seeds": base.shape[1],
        "9.1/spread": float(spreads["spectral"][near]),
        "9.1/common": runs.common,
        **inside("q-unstated/masks", MASK_ERRORS["none"], base),
        "q-unstated/one_seed": [printed[m] / float(np.median(spreads[m])) for m in masked],
    }


def _spectral_worst(errors: np.ndarray) -> float:
    """Share of settings in which spectral masks have the largest mean of the errors ``(seeds, masks, settings)``, masks as in :data:`MASK_ERRORS`."""
    return float((errors.mean(0).argmax(0) == list(MASK_ERRORS).index("spectral")).mean())


def mask_rows(runs: MaskRuns) -> list[dict[str, str]]:
    """A table: setting, baseline error, mean change by each mask with its standard deviation over seeds."""
    rows = [{"setting": "the document (one seed)", "none": f"{MASK_ERRORS['none']:.2f}"}]
    rows[0] |= {
        m: f"{100 * (e / MASK_ERRORS['none'] - 1):+.1f}" for m, e in MASK_ERRORS.items() if m != "none"
    }
    for i, setting in enumerate(runs.settings):
        base = runs.errors["none"][i]
        row = {"setting": setting, "none": f"{base.mean():.2f} ± {base.std(ddof=1):.2f}"}
        for mask in runs.errors:
            if mask != "none":
                change = runs.change(mask)[i]
                row[mask] = f"{change.mean():+.1f} ± {change.std(ddof=1):.1f}"
        rows.append(row)
    return rows


def inside(key: str, printed: float, values: np.ndarray) -> dict:
    """Whether a printed number lies within everything measured, and the range of that."""
    low, high = float(values.min()), float(values.max())
    return {f"{key}_inside": low <= printed <= high, f"{key}_range": [low, high]}


# -- section 9.2 ------------------------------------------------------------------------------------------------------


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
        found = []
        for i, step in enumerate(DYNAMICS.values()):
            if step:
                error, rho = (PRINTED_DYNAMICS[k][i] for k in ("error", "rho2"))
                found.append(abs(d.at(d.error[name], step).mean() / error - 1) / NEAR_ERROR)
                found.append(abs(d.at(d.rho[name], step).mean() - rho) / NEAR_RHO)
        return max(found)

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
    values: dict = {
        "9.2/best_alignment": float(theory.alignment(best, SPECTRUM)),
        "9.2/best_error": theory.expected_error(SPECTRUM, length, best),
        "9.2/best_on_probes": d.best[0],
        "9.2/best_on_probes_se": d.best[1],
        "9.2/seeds": next(iter(d.error.values())).shape[1],
        "9.2/settings": len(d.error),
        "9.2/nearest": near,
        "9.2/ends/rho2_18k": float(d.at(d.rho_ends[near], 18_000).mean()),
    }
    for name, step in DYNAMICS.items():
        values[f"9.2/mse_{name}"] = float(d.at(d.error[near], step).mean())
        if step:
            values[f"9.2/slope/rho2_{name}"] = float(d.at(d.rho[near], step).mean())
    values |= dynamics_errors(d, near)
    for importance, by_setting in d.alignment.items():
        late = [d.at(a, 18_000) for a in by_setting.values()]
        rise = [float((b - a[0]).mean()) for a, b in zip(by_setting.values(), late, strict=True)]
        key = f"9.2/{importance}"
        values[f"{key}/alignment_rise"] = rise
        values[f"{key}/alignment_z"] = [float(z_of(PRINTED_DYNAMICS["alignment"][-1], b)) for b in late]
        values[f"{key}/alignment"] = [float(b.mean()) for b in late]
        values[f"{key}/gradual"] = [gradual(d, a) for a in by_setting.values()]
        values[f"{key}/rising"] = sum(r > 0 for r in rise)
    last = {
        "rho2": np.concatenate([d.at(r, 18_000) for r in d.rho.values()]),
        "alignment": np.concatenate([d.at(a, 18_000) for a in d.alignment["gain"].values()]),
    }
    for name, array in last.items():
        values |= inside(f"q-unstated/{name}", PRINTED_DYNAMICS[name][-1], array)
    return values


def dynamics_errors(d: Dynamics, near: str) -> dict:
    """Standard errors beside the values of claim 9.2, at the setting ``near`` where one decides.

    That of an error has two parts, over seeds and over the prompts that all seeds share. rho_2 is a slope over lengths of the same prompts and
    the alignment is read off the weights: there it is over seeds alone.
    """
    common = d.best[1] / d.best[0]

    def error(step: int) -> float:
        seeds = d.at(d.error[near], step)
        return float(np.hypot(standard_error(seeds), common * seeds.mean()))

    def rises(importance: str) -> list[float]:
        return [float(standard_error(d.at(a, 18_000) - a[0])) for a in d.alignment[importance].values()]

    return {
        "9.2/mse_0_se": error(DYNAMICS["0"]),
        "9.2/mse_5k_se": error(DYNAMICS["5k"]),
        "9.2/mse_10k_se": error(DYNAMICS["10k"]),
        "9.2/mse_18k_se": error(DYNAMICS["18k"]),
        "9.2/slope/rho2_5k_se": float(standard_error(d.at(d.rho[near], DYNAMICS["5k"]))),
        "9.2/slope/rho2_10k_se": float(standard_error(d.at(d.rho[near], DYNAMICS["10k"]))),
        "9.2/slope/rho2_18k_se": float(standard_error(d.at(d.rho[near], DYNAMICS["18k"]))),
        "9.2/gain/alignment_rise_se": rises("gain"),
        "9.2/key/alignment_rise_se": rises("key"),
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
    printed = PRINTED_DYNAMICS
    rows = [
        {
            "setting": "the document (one seed)",
            "error": " ".join(f"{e:.1f}" for e in printed["error"]),
            "slope": " ".join(f"{r:.3f}" for r in printed["rho2"]),
            "gain": f"{printed['alignment'][0]:+.2f} to {printed['alignment'][-1]:+.2f}",
        }
    ]
    for name in d.error:
        gain, key = (d.alignment[k][name] for k in ("gain", "key"))
        rows.append(
            {
                "setting": name,
                "error": " ".join(f"{d.at(d.error[name], step).mean():.1f}" for step in DYNAMICS.values()),
                "slope": " ".join(f"{d.at(d.rho[name], step).mean():.3f}" for step in DYNAMICS.values()),
                "ends": f"{d.at(d.rho_ends[name], 18_000).mean():.3f}",
                "gain": f"{gain[0].mean():+.2f} to {d.at(gain, 18_000).mean():+.2f}",
                "key": f"{key[0].mean():+.2f} to {d.at(key, 18_000).mean():+.2f}",
            }
        )
    return rows
