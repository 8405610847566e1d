"""Figures 3, 4, 5 (left) and 8 over draws of W_e, contexts and initialisation, and one block on the authors' own W_e.

Arrays are ``(units, inits)``; errors are those of the units' means, which hold what the initialisations add.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....claims import printed
from ....models.kernels import KERNELS
from ....statistics import bootstrap_error, nested_interval, prediction, standard_error
from ..runs.draws import UNITS
from ..runs.specs import scores
from .learned import Get
from .square import agreement

#: Of the initialisations over which the authors' code averages all share one draw of everything else: their mean counts as one more unit.
PRINTED_UNITS = 1


def over_units(get: Get, profile: str, study: str, group: str, what: str) -> np.ndarray:
    """Early-stopped ``accuracy`` or ``nll`` of a group of ``new<u>_<study>``, ``(units, inits)``."""
    units = range(UNITS[profile].units)
    return np.stack([scores(get(f"new{u}_{study}"), group).stopped(what) for u in units])


def of_units(values: np.ndarray, **keys: str) -> dict[str, float]:
    """``mean`` over units and its standard error ``se``, under the keys given for them."""
    every = {"mean": nested_interval(values).mean, "se": float(standard_error(values.mean(1)))}
    return {key: every[name] for name, key in keys.items()}


def figures3_to_5(get: Get, profile: str) -> dict[str, Any]:
    """What decides whether figures 3, 4 and 5 (left) come out so on new draws."""

    def of(study: str, group: str, what: str) -> np.ndarray:
        return over_units(get, profile, study, group, what)

    def apart(kernel: str, what: str) -> np.ndarray:
        return of("gd", kernel, what) - of("tf", kernel, what)

    def gain(block: int, what: str) -> np.ndarray:
        return of("deep", f"softmax-{block}", what) - of("deep", f"softmax-{block - 1}", what)

    return {
        **of_units(
            apart("softmax", "accuracy"),
            mean="q-new-draws/softmax_accuracy_gap",
            se="q-new-draws/softmax_accuracy_gap_se",
        ),
        **of_units(
            -apart("softmax", "nll"), mean="q-new-draws/softmax_nll_gap", se="q-new-draws/softmax_nll_gap_se"
        ),
        **of_units(
            apart("rbf", "accuracy"),
            mean="q-new-draws/rbf_accuracy_gap",
            se="q-new-draws/rbf_accuracy_gap_se",
        ),
        **of_units(-apart("rbf", "nll"), mean="q-new-draws/rbf_nll_gap", se="q-new-draws/rbf_nll_gap_se"),
        **of_units(
            of("gd", "softmax", "accuracy") - of("gd", "linear", "accuracy"), mean="q-new-draws/linear_gap"
        ),
        **of_units(of("gd", "linear", "nll") - of("gd", "softmax", "nll"), mean="q-new-draws/linear_nll_gap"),
        **of_units(gain(2, "accuracy"), mean="q-new-draws/second_gain", se="q-new-draws/second_gain_se"),
        **of_units(-gain(2, "nll"), mean="q-new-draws/second_nll_gain", se="q-new-draws/second_nll_gain_se"),
        **of_units(-gain(3, "nll"), mean="q-new-draws/third_nll_gain", se="q-new-draws/third_nll_gain_se"),
        **of_units(
            of("two_tf", "tf", "nll") - of("deep", "softmax-2", "nll"),
            mean="q-new-draws/two_block_gap",
            se="q-new-draws/two_block_gap_se",
        ),
        **spreads(of("deep", "softmax-1", "accuracy")),
    }


def spreads(values: np.ndarray) -> dict[str, float]:
    """Standard deviation between units and within them (0 for one initialisation), from ``(units, inits)``; the error is that of their difference."""

    def within(values: np.ndarray) -> float:
        return float(np.sqrt(values.var(1, ddof=1).mean())) if values.shape[1] > 1 else 0.0

    def between(values: np.ndarray) -> float:
        return float(values.mean(1).std(ddof=1))

    return {
        "q-draw-spread/units": between(values),
        "q-draw-spread/inits": within(values),
        "q-draw-spread/units_se": bootstrap_error(lambda drawn: between(drawn) - within(drawn), values),
    }


def figure8(get: Get, profile: str) -> dict[str, Any]:
    """GD against Trained TF over draws, each with one initialisation, by figure 8's rule; and how far the gap moves with the draw."""
    curved = [k for k in KERNELS if k != "linear"]
    accuracy = {
        k: {
            model: over_units(get, profile, study, k, "accuracy")[:, 0]
            for model, study in (("GD", "quad_gd"), ("TF", "quad_tf"))
        }
        for k in curved
    }
    found = agreement(accuracy, curved)
    gaps = np.stack([accuracy[k]["GD"] - accuracy[k]["TF"] for k in curved], axis=1)  # (units, 4)
    return {
        "q-we-draw/gaps": found.gaps,
        "q-we-draw/gaps_se": found.errors,
        "q-we-draw/half_distance": found.half,
        "q-we-draw/crossed_gap": found.crossed,
        "q-we-draw/gaps_sd": gaps.std(0, ddof=1).tolist(),
        "q-we-draw/gaps_sd_se": [
            bootstrap_error(lambda drawn: float(drawn.std(ddof=1)), column) for column in gaps.T
        ],
    }


def published(get: Get, profile: str) -> dict[str, Any]:
    """One block on the authors' W_e against what their code prints for it: our mean minus theirs, how far a mean like theirs may lie from ours, and the
    error over draws of the distance between the two."""
    says = printed("wang2025")
    theirs = {"accuracy": says["authors/accuracy"][0], "nll": says["authors/nll"][0]}

    def off(reading: str, what: str, key: str, reach: str, error: str) -> dict[str, float]:
        units = range(UNITS[profile].published)
        ours = np.array([scores(get(f"published{u}_{reading}"), "softmax").stopped(what)[0] for u in units])

        mean, low, _ = prediction(ours, PRINTED_UNITS)
        deviations = (mean - low) / (ours.std(ddof=1) or 1.0)  # the same for every sample of this size

        def beyond(drawn: np.ndarray) -> float:
            return abs(drawn.mean() - theirs[what]) - deviations * drawn.std(ddof=1)

        return {key: mean - theirs[what], reach: mean - low, error: bootstrap_error(beyond, ours)}

    return {
        **off(
            "narrow",
            "accuracy",
            "q-published/narrow_accuracy",
            "q-published/narrow_accuracy_reach",
            "q-published/narrow_accuracy_se",
        ),
        **off(
            "narrow",
            "nll",
            "q-published/narrow_nll",
            "q-published/narrow_nll_reach",
            "q-published/narrow_nll_se",
        ),
        **off(
            "wide",
            "accuracy",
            "q-published/wide_accuracy",
            "q-published/wide_accuracy_reach",
            "q-published/wide_accuracy_se",
        ),
        **off("wide", "nll", "q-published/wide_nll", "q-published/wide_nll_reach", "q-published/wide_nll_se"),
        **off(
            "printed",
            "accuracy",
            "q-printed-kernel/accuracy",
            "q-printed-kernel/accuracy_reach",
            "q-printed-kernel/accuracy_se",
        ),
        **off(
            "printed",
            "nll",
            "q-printed-kernel/nll",
            "q-printed-kernel/nll_reach",
            "q-printed-kernel/nll_se",
        ),
    }
