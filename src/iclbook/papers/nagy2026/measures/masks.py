"""What is measured on heads restricted to bands: section 9.1 of nagy2026."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....statistics import bootstrap_error, standard_error
from ....store import Results
from ....training.study import Study
from .shared import common_error, final_errors, inside, label, printed, rates_of, z_of

#: The paper's error for each mask.
MASK_ERRORS = dict(zip(("none", "spectral", "random", "redundant"), printed("9.1/changes"), strict=True))
MASKED = tuple(mask for mask in MASK_ERRORS if mask != "none")
#: Its changes against no mask in per cent.
PRINTED_CHANGE = {mask: 100 * (MASK_ERRORS[mask] / MASK_ERRORS["none"] - 1) for mask in MASKED}


@dataclass(frozen=True)
class MaskRuns:
    """Final errors of section 9.1.

    Attributes:
        settings: names of the settings that the paper leaves open.
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
    """What decides the claims on section 9.1 and its share of q-unstated."""
    changes = {mask: runs.change(mask) for mask in MASKED}
    spreads = {mask: change.std(1, ddof=1) for mask, change in changes.items()}
    base = runs.errors["none"]
    z = z_of(MASK_ERRORS["none"], base, runs.common)
    near = int(z.argmin())
    by_seed = np.moveaxis(np.stack([runs.errors[mask] for mask in MASK_ERRORS]), -1, 0)
    return {
        "9.1/spectral_change": changes["spectral"].mean(1).tolist(),
        "9.1/spectral_change_se": standard_error(changes["spectral"]).tolist(),
        "9.1/random_change": changes["random"].mean(1).tolist(),
        "9.1/random_change_se": standard_error(changes["random"]).tolist(),
        "9.1/redundant_change": changes["redundant"].mean(1).tolist(),
        "9.1/redundant_change_se": standard_error(changes["redundant"]).tolist(),
        "9.1/spectral_worst_share": _spectral_worst(by_seed),
        "9.1/spectral_worst_share_se": bootstrap_error(_spectral_worst, by_seed),
        "9.1/nearest": runs.settings[near],
        "9.1/baseline": float(base[near].mean()),
        "9.1/settings": len(runs.settings),
        "9.1/seeds": base.shape[1],
        "9.1/spread": float(spreads["spectral"][near]),
        "9.1/common": runs.common,
        "q-unstated/masks_inside": inside(MASK_ERRORS["none"], base),
        "q-unstated/one_seed": [PRINTED_CHANGE[m] / float(np.median(spreads[m])) for m in MASKED],
    }


def _spectral_worst(errors: np.ndarray) -> float:
    """Share of settings in which spectral masks have the largest mean of the errors ``(seeds, masks, settings)``, masks as in :data:`MASK_ERRORS`."""
    return float((errors.mean(0).argmax(0) == list(MASK_ERRORS).index("spectral")).mean())


#: Heads of the columns of :func:`mask_rows`.
COLUMNS = {
    "setting": "setting",
    "none": "error, no mask",
    "spectral": "change by spectral masks (%)",
    "random": "random (%)",
    "redundant": "redundant (%)",
}


def mask_rows(runs: MaskRuns) -> list[dict[str, str]]:
    """A table: setting, baseline error, mean change by each mask with its standard deviation over seeds."""
    rows = [{"setting": "the paper (one seed)", "none": f"{MASK_ERRORS['none']:.2f}"}]
    rows[0] |= {mask: f"{change:+.1f}" for mask, change in PRINTED_CHANGE.items()}
    for i, setting in enumerate(runs.settings):
        base = runs.errors["none"][i]
        changes = {mask: runs.change(mask)[i] for mask in MASKED}
        rows.append(
            {"setting": setting, "none": f"{base.mean():.2f} ± {base.std(ddof=1):.2f}"}
            | {mask: f"{c.mean():+.1f} ± {c.std(ddof=1):.1f}" for mask, c in changes.items()}
        )
    return rows
