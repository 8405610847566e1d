"""What is measured on the models of several layers: sections 9.5 and 9.5.1 of nagy2026."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....statistics import ratio_error, ratio_terms, share_error, standard_error, t_of_mean
from ....store import Results
from ....training.study import Study
from ..runs.studies import VARIANTS
from ..theory import architectures, arithmetic
from .one_layer import by_rate, label, rates_of
from .testing import nearest_z

#: What the document prints: errors by context length, sink attention and layer scales by layer.
CONTEXTS = (5, 8, 12)
PRINTED_ERRORS = {"baseline": (0.512, 0.232, 0.176), "guided": (0.360, 0.096, 0.035)}
PRINTED_SINKS = (0.165, 0.255, 0.301, 0.335)
PRINTED_SCALES = (0.786, 0.790, 0.740, 0.728)
DIMENSIONS = (4, 8, 16)
#: Section 9.5.1: variant -> (mean, standard deviation) for each dimension, 6 seeds.
PRINTED_ABLATION = {
    variant: tuple((float(mean), float(sd)) for mean, sd in row)
    for variant, row in arithmetic.ABLATION.items()
}
PRINTED_SEEDS = 6
VARIANT_NAMES = {
    "baseline": "baseline (2 layers, width 32)",
    "depth": "depth (4 layers, width 24)",
    "sink": "depth + sink",
    "scale": "depth + layer scale",
    "ortho": "depth + orthogonality",
    "full": "depth + all three",
}


# -- section 9.5 ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Guided:
    """One reading of section 9.5 at the end of training.

    Attributes:
        errors: model -> ``(contexts, seeds)``.
        sinks, scales: ``(layers, seeds)`` of the guided model.
        training: model -> ``(seeds,)`` mean training loss over the last stretch (dropout on).
    """

    errors: dict[str, np.ndarray]
    sinks: np.ndarray
    scales: np.ndarray
    training: dict[str, np.ndarray]

    @property
    def improvement(self) -> np.ndarray:
        """``1 - guided / baseline`` of the mean errors, by context length."""
        return 1 - self.errors["guided"].mean(1) / self.errors["baseline"].mean(1)

    @property
    def improvement_terms(self) -> np.ndarray:
        """What each seed adds to its deviation, ``(contexts, seeds)``: seeds are paired over models and over contexts."""
        rows = zip(self.errors["guided"], self.errors["baseline"], strict=True)
        return np.array([-ratio_terms(guided, base) for guided, base in rows])


def guided_readings(studies: dict[str, Study], results: dict[str, Results]) -> dict[str, Guided]:
    """Readings of section 9.5: ``set<rate>`` on 4,000 prompts, ``fresh`` on new ones, ``v295`` on 4,000 prompts with the weight variance
    that the printed ratios imply; ``results`` by name of the study."""
    found = {}
    for name, prefix in (("guided", "set"), ("guided_fresh", "fresh"), ("guided_v295", "v295")):
        study = studies[name]
        for rate in dict.fromkeys(run.rate for run in study.groups[0].runs):
            keep = np.array([run.rate == rate for run in study.groups[0].runs])
            groups = {model: results[name].group(model) for model in PRINTED_ERRORS}
            reading = f"{prefix}{rate:.0e}".replace("e-0", "e-") if prefix == "set" else prefix
            found[reading] = Guided(
                {
                    model: np.stack([g[f"error_n{n}"][-1, keep].astype(float) for n in CONTEXTS])
                    for model, g in groups.items()
                },
                groups["guided"]["sink"][-1, keep].T.astype(float),
                groups["guided"]["scale"][-1, keep].T.astype(float),
                {model: g["loss"][-1, keep].astype(float) for model, g in groups.items()},
            )
    return found


def parameter_records(study: Study) -> dict:
    """Parameters of the trained models, and the search for architectures with the printed counts."""
    counts = {}
    for spec in study.groups:
        model = spec.model(**dict(spec.kwargs))
        counts[spec.name] = sum(p.numel() for p in model.parameters())
    found = architectures.search()
    return {
        "9.5/baseline_parameters": counts["baseline"],
        "9.5/guided_parameters": counts["guided"],
        "q-parameters/both": len(found["both"]),
        "q-parameters/baselines": found["baseline"],
        "q-parameters/tried": found["tried"],
        "q-parameters/excess": counts["guided"] / counts["baseline"] - 1,
        "q-parameters/nearest_width": architectures.nearest_width(found["both"][0]) if found["both"] else 0,
    }


def guided_records(reading: str, g: Guided) -> dict:
    """What decides claim 9.5 under one reading."""
    base, guided = g.errors["baseline"], g.errors["guided"]
    z = [
        nearest_z(printed, row[None])
        for model in PRINTED_ERRORS
        for printed, row in zip(PRINTED_ERRORS[model], g.errors[model], strict=True)
    ]
    key = f"9.5/{reading}"
    return {
        f"{key}/improvement": float(g.improvement[-1]),
        f"{key}/improvement_se": float(standard_error(g.improvement_terms[-1])),
        f"{key}/improvement_t": float(t_of_mean(base[-1] - guided[-1])),
        f"{key}/errors_z": z,
        f"{key}/improvement_growth": np.diff(g.improvement).tolist(),
        f"{key}/improvement_growth_se": standard_error(np.diff(g.improvement_terms, axis=0)).tolist(),
        f"{key}/sink_rise": np.diff(g.sinks.mean(1)).tolist(),
        f"{key}/sink_rise_se": standard_error(np.diff(g.sinks, axis=0)).tolist(),
        f"{key}/scale_rise": np.diff(g.scales.mean(1)).tolist(),
        f"{key}/scale_rise_se": standard_error(np.diff(g.scales, axis=0)).tolist(),
        f"{key}/errors": [float(x) for x in (*base.mean(1), *guided.mean(1))],
        f"{key}/sinks": g.sinks.mean(1).tolist(),
        f"{key}/scales": g.scales.mean(1).tolist(),
        f"{key}/seeds": base.shape[1],
    }


# -- section 9.5.1 ----------------------------------------------------------------------------------------------------


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


#: Readings of 9.5.1, which does not say how long it trains: key -> share of 2,000 steps.
LENGTHS = {"s500": 0.25, "s1000": 0.5, "s2000": 1.0}


def ablation_records(reading: str, errors: dict[int, dict[str, np.ndarray]]) -> dict:
    """What decides claim 9.5.1 under one reading of the training's length; ``errors[d][variant]`` ``(seeds,)``.

    Seed k of every variant sees the same prompts, so every difference is tested in pairs.
    """

    def t(worse: str, better: str) -> list[float]:
        return [float(t_of_mean(errors[d][worse] - errors[d][better])) for d in DIMENSIONS]

    sink = t("depth", "sink")
    others = [t(v, "full") for v in VARIANTS if v not in ("baseline", "full")]
    key = f"9.5.1/{reading}"
    return {
        f"{key}/depth_t": t("depth", "baseline"),
        f"{key}/scale_t": t("depth", "scale"),
        f"{key}/sink_t": sink,
        f"{key}/sink_finding": sink[0] > 2.8 and sink[1] > 2.8 and sink[2] <= 2.8,
        f"{key}/ortho_t": t("depth", "ortho"),
        f"{key}/full_t": [min(column) for column in zip(*others, strict=True)],
        f"{key}/means_z": [
            float(abs(printed - e.mean()) / np.sqrt(sd**2 / PRINTED_SEEDS + e.var(ddof=1) / len(e)))
            for v, row in PRINTED_ABLATION.items()
            for (printed, sd), e in zip(row, (errors[d][v] for d in DIMENSIONS), strict=True)
        ],
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
