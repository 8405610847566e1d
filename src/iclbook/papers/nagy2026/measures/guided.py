"""What is measured on the theory-guided model: section 9.5 of nagy2026."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....statistics import ratio_terms, standard_error, t_of_mean
from ....store import Results
from ....training.study import Study
from ..theory import architectures
from .shared import nearest_z, printed, under

CONTEXTS = (5, 8, 12)
#: What the document prints: errors by context length, sink attention and layer scales by layer.
PRINTED_ERRORS = {"baseline": printed("9.5/contexts")[::2], "guided": printed("9.5/contexts")[1::2]}
PRINTED_SINKS = tuple(share / 100 for share in printed("9.5/sink"))
PRINTED_SCALES = printed("9.5/scales")
#: Readings, and the keys that each is recorded by: on 4,000 prompts at two rates, on new prompts at each step, and on 4,000 prompts with the
#: weight variance that the printed ratios imply.
KEYS = {
    "set1e-3": (
        "9.5/set1e-3/improvement", "9.5/set1e-3/improvement_se", "9.5/set1e-3/improvement_t", "9.5/set1e-3/errors_z",
        "9.5/set1e-3/improvement_growth", "9.5/set1e-3/improvement_growth_se", "9.5/set1e-3/sink_rise",
        "9.5/set1e-3/sink_rise_se", "9.5/set1e-3/scale_rise", "9.5/set1e-3/scale_rise_se",
    ),
    "set3e-3": (
        "9.5/set3e-3/improvement", "9.5/set3e-3/improvement_se", "9.5/set3e-3/improvement_t", "9.5/set3e-3/errors_z",
        "9.5/set3e-3/improvement_growth", "9.5/set3e-3/improvement_growth_se", "9.5/set3e-3/sink_rise",
        "9.5/set3e-3/sink_rise_se", "9.5/set3e-3/scale_rise", "9.5/set3e-3/scale_rise_se",
    ),
    "fresh": (
        "9.5/fresh/improvement", "9.5/fresh/improvement_se", "9.5/fresh/improvement_t", "9.5/fresh/errors_z",
        "9.5/fresh/improvement_growth", "9.5/fresh/improvement_growth_se", "9.5/fresh/sink_rise",
        "9.5/fresh/sink_rise_se", "9.5/fresh/scale_rise", "9.5/fresh/scale_rise_se",
    ),
    "v295": (
        "9.5/v295/improvement", "9.5/v295/improvement_se", "9.5/v295/improvement_t", "9.5/v295/errors_z",
        "9.5/v295/improvement_growth", "9.5/v295/improvement_growth_se", "9.5/v295/sink_rise",
        "9.5/v295/sink_rise_se", "9.5/v295/scale_rise", "9.5/v295/scale_rise_se",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Guided:
    """One reading of section 9.5 at the end of training.

    Attributes:
        errors: model -> ``(contexts, seeds)``.
        sinks, scales: ``(layers, seeds)`` of the guided model.
    """

    errors: dict[str, np.ndarray]
    sinks: np.ndarray
    scales: np.ndarray

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
    values = {
        "improvement": float(g.improvement[-1]),
        "improvement_se": float(standard_error(g.improvement_terms[-1])),
        "improvement_t": float(t_of_mean(base[-1] - guided[-1])),
        "errors_z": [
            nearest_z(error, row[None])
            for model in PRINTED_ERRORS
            for error, row in zip(PRINTED_ERRORS[model], g.errors[model], strict=True)
        ],
        "improvement_growth": np.diff(g.improvement).tolist(),
        "improvement_growth_se": standard_error(np.diff(g.improvement_terms, axis=0)).tolist(),
        "sink_rise": np.diff(g.sinks.mean(1)).tolist(),
        "sink_rise_se": standard_error(np.diff(g.sinks, axis=0)).tolist(),
        "scale_rise": np.diff(g.scales.mean(1)).tolist(),
        "scale_rise_se": standard_error(np.diff(g.scales, axis=0)).tolist(),
    }
    return under(KEYS[reading], values)
