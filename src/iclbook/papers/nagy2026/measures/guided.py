"""What is measured on the theory-guided model: section 9.5 of nagy2026."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....statistics import ratio_terms, standard_error
from ....store import Results
from ....training.study import Study
from ..theory import architectures
from .shared import apart, printed, under

CONTEXTS = (5, 8, 12)
OTHER = {"baseline": "guided", "guided": "baseline"}
#: What the paper prints: errors by context length, sink attention and layer scales by layer.
PRINTED_ERRORS = {"baseline": printed("9.5/contexts")[::2], "guided": printed("9.5/contexts")[1::2]}
PRINTED_SINKS = tuple(share / 100 for share in printed("9.5/sink"))
PRINTED_SCALES = printed("9.5/scales")
#: Headline errors (baseline, guided), their improvement in per cent, and the final training losses.
HEADLINE = printed("9.5/gain")
HEADLINE_GAIN, SHORT_GAIN = 67.1, 29.8  # the second at 5 examples
PRINTED_LOSSES = printed("9.5/losses")
#: Readings, and the keys that each is recorded by: on 4,000 prompts at two rates, on new prompts at each step, and on 4,000 prompts with the
#: weight variance that the printed ratios imply.
KEYS = {
    "set1e-3": (
        "9.5/set1e-3/improvement", "9.5/set1e-3/improvement_se", "9.5/set1e-3/improvement_growth", "9.5/set1e-3/improvement_growth_se",
        "9.5/set1e-3/sink_rise", "9.5/set1e-3/sink_rise_se", "9.5/set1e-3/scale_rise", "9.5/set1e-3/scale_rise_se",
        "9.5/set1e-3/errors_apart", "9.5/set1e-3/errors_exchanged", "9.5/set1e-3/headline_apart", "9.5/set1e-3/headline_exchanged",
        "9.5/set1e-3/gain_apart", "9.5/set1e-3/gain_apart_short", "9.5/set1e-3/training_apart", "9.5/set1e-3/training_exchanged",
    ),
    "set3e-3": (
        "9.5/set3e-3/improvement", "9.5/set3e-3/improvement_se", "9.5/set3e-3/improvement_growth", "9.5/set3e-3/improvement_growth_se",
        "9.5/set3e-3/sink_rise", "9.5/set3e-3/sink_rise_se", "9.5/set3e-3/scale_rise", "9.5/set3e-3/scale_rise_se",
        "9.5/set3e-3/errors_apart", "9.5/set3e-3/errors_exchanged", "9.5/set3e-3/headline_apart", "9.5/set3e-3/headline_exchanged",
        "9.5/set3e-3/gain_apart", "9.5/set3e-3/gain_apart_short", "9.5/set3e-3/training_apart", "9.5/set3e-3/training_exchanged",
    ),
    "fresh": (
        "9.5/fresh/improvement", "9.5/fresh/improvement_se", "9.5/fresh/improvement_growth", "9.5/fresh/improvement_growth_se",
        "9.5/fresh/sink_rise", "9.5/fresh/sink_rise_se", "9.5/fresh/scale_rise", "9.5/fresh/scale_rise_se",
        "9.5/fresh/errors_apart", "9.5/fresh/errors_exchanged", "9.5/fresh/headline_apart", "9.5/fresh/headline_exchanged",
        "9.5/fresh/gain_apart", "9.5/fresh/gain_apart_short", "9.5/fresh/training_apart", "9.5/fresh/training_exchanged",
    ),
    "v295": (
        "9.5/v295/improvement", "9.5/v295/improvement_se", "9.5/v295/improvement_growth", "9.5/v295/improvement_growth_se",
        "9.5/v295/sink_rise", "9.5/v295/sink_rise_se", "9.5/v295/scale_rise", "9.5/v295/scale_rise_se",
        "9.5/v295/errors_apart", "9.5/v295/errors_exchanged", "9.5/v295/headline_apart", "9.5/v295/headline_exchanged",
        "9.5/v295/gain_apart", "9.5/v295/gain_apart_short", "9.5/v295/training_apart", "9.5/v295/training_exchanged",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Guided:
    """One reading of section 9.5 at the end of training.

    Attributes:
        errors: model -> ``(contexts, seeds)``.
        losses: model -> ``(seeds,)``, mean training loss since the record before the last, dropout and regulariser included.
        sinks, scales: ``(layers, seeds)`` of the guided model.
    """

    errors: dict[str, np.ndarray]
    losses: dict[str, np.ndarray]
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
                {model: g["loss"][-1, keep].astype(float) for model, g in groups.items()},
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
    """What decides the claims on section 9.5 under one reading."""
    base, guided = g.errors["baseline"], g.errors["guided"]
    values = {
        "improvement": float(g.improvement[-1]),
        "improvement_se": float(standard_error(g.improvement_terms[-1])),
        "improvement_growth": np.diff(g.improvement).tolist(),
        "improvement_growth_se": standard_error(np.diff(g.improvement_terms, axis=0)).tolist(),
        "sink_rise": np.diff(g.sinks.mean(1)).tolist(),
        "sink_rise_se": standard_error(np.diff(g.sinks, axis=0)).tolist(),
        "scale_rise": np.diff(g.scales.mean(1)).tolist(),
        "scale_rise_se": standard_error(np.diff(g.scales, axis=0)).tolist(),
        **_against_printed(g),
        "gain_apart": apart(HEADLINE_GAIN, 100 * (1 - guided[-1] / base[-1])),
        "gain_apart_short": apart(SHORT_GAIN, 100 * (1 - guided[-1] / base[-1])),
    }
    return under(KEYS[reading], values)


def _against_printed(g: Guided) -> dict:
    """Printed errors at 5, 8 and 12 examples, headline errors (read as at 12) and training losses: the largest distance from what one seed more would
    give, in half-widths of its prediction interval, and the distances of each number from the *other* model's seeds."""
    rows = {
        "errors": [
            (PRINTED_ERRORS[model][i], g.errors[model][i], g.errors[other][i])
            for model, other in OTHER.items()
            for i in range(len(CONTEXTS))
        ],
        "headline": [
            (error, g.errors[model][-1], g.errors[other][-1])
            for error, (model, other) in zip(HEADLINE, OTHER.items(), strict=True)
        ],
        "training": [
            (loss, g.losses[model], g.losses[other])
            for loss, (model, other) in zip(PRINTED_LOSSES, OTHER.items(), strict=True)
        ],
    }
    found: dict[str, float | list[float]] = {}
    for name, row in rows.items():
        found[f"{name}_apart"] = max(apart(number, own) for number, own, _ in row)
        found[f"{name}_exchanged"] = [apart(number, other) for number, _, other in row]
    return found
