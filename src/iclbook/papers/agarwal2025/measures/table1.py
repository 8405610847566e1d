"""Table 1 of agarwal2025: what it prints, and the same numbers from the trained runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats

from .... import claims
from ....statistics import prediction, ratio_error, widened_error
from ....tasks.sticky_chain import StickyChain
from .chain import Curves, steps_to

#: Recorded name of each printed metric.
METRICS = {"loss": "nll", "entropy": "entropy", "accuracy": "accuracy"}
#: Keys of each number of :func:`table` for the published chain, the text's chain, and the published chain from weights of half the size.
KEYS = {
    "loss_em": ("table1/code/loss_em", "table1/text/loss_em", "table1/small/loss_em"),
    "loss_sgd": ("table1/code/loss_sgd", "table1/text/loss_sgd", "table1/small/loss_sgd"),
    "entropy_em": ("table1/code/entropy_em", "table1/text/entropy_em", "table1/small/entropy_em"),
    "entropy_sgd": ("table1/code/entropy_sgd", "table1/text/entropy_sgd", "table1/small/entropy_sgd"),
    "accuracy_em": ("table1/code/accuracy_em", "table1/text/accuracy_em", "table1/small/accuracy_em"),
    "accuracy_sgd": ("table1/code/accuracy_sgd", "table1/text/accuracy_sgd", "table1/small/accuracy_sgd"),
    "steps": ("table1/code/steps", "table1/text/steps", "table1/small/steps"),
    "loss_em_width": ("table1/code/loss_em_width", "table1/text/loss_em_width", "table1/small/loss_em_width"),
    "loss_sgd_width": (
        "table1/code/loss_sgd_width",
        "table1/text/loss_sgd_width",
        "table1/small/loss_sgd_width",
    ),
    "entropy_em_width": (
        "table1/code/entropy_em_width",
        "table1/text/entropy_em_width",
        "table1/small/entropy_em_width",
    ),
    "entropy_sgd_width": (
        "table1/code/entropy_sgd_width",
        "table1/text/entropy_sgd_width",
        "table1/small/entropy_sgd_width",
    ),
    "accuracy_em_width": (
        "table1/code/accuracy_em_width",
        "table1/text/accuracy_em_width",
        "table1/small/accuracy_em_width",
    ),
    "accuracy_sgd_width": (
        "table1/code/accuracy_sgd_width",
        "table1/text/accuracy_sgd_width",
        "table1/small/accuracy_sgd_width",
    ),
    "steps_width": ("table1/code/steps_width", "table1/text/steps_width", "table1/small/steps_width"),
    "speedup": ("table1/code/speedup", "table1/text/speedup", "table1/small/speedup"),
    "speedup_se": ("table1/code/speedup_se", "table1/text/speedup_se", "table1/small/speedup_se"),
    "difference": ("table1/code/difference", "table1/text/difference", "table1/small/difference"),
    "difference_se": ("table1/code/difference_se", "table1/text/difference_se", "table1/small/difference_se"),
    "spreads": ("table1/code/spreads", "table1/text/spreads", "table1/small/spreads"),
    "spread_low": ("table1/code/spread_low", "table1/text/spread_low", "table1/small/spread_low"),
    "spread_high": ("table1/code/spread_high", "table1/text/spread_high", "table1/small/spread_high"),
}


def printed_table() -> dict[str, tuple[float, float]]:
    """What Table 1 prints: mean and standard deviation over seeds of each metric, and of the schedule's steps to SGD's final loss."""
    says = claims.printed("agarwal2025")
    return {
        "loss_em": (says["table1/loss_em"], says["table1/loss_em_sd"]),
        "loss_sgd": (says["table1/loss_sgd"], says["table1/loss_sgd_sd"]),
        "entropy_em": (says["table1/entropy_em"], says["table1/entropy_em_sd"]),
        "entropy_sgd": (says["table1/entropy_sgd"], says["table1/entropy_sgd_sd"]),
        "accuracy_em": (says["table1/accuracy_em"], says["table1/accuracy_em_sd"]),
        "accuracy_sgd": (says["table1/accuracy_sgd"], says["table1/accuracy_sgd_sd"]),
        "steps": (says["table1/steps"], says["table1/steps_sd"]),
        "steps_sgd": (says["table1/steps_sgd"], 0.0),
    }


def table(em: Curves, sgd: Curves) -> dict[str, Any]:
    """Table 1's numbers over all seeds, each with the half-width ``_width`` of the interval in which a mean of the paper's five seeds is expected; the paired
    difference of final loss; and the printed standard deviations over ours with the bounds of their ratio (:func:`spreads`)."""
    steps, five = steps_to(em, sgd["nll"][-1]), int(claims.printed("agarwal2025")["table1/seeds"])
    ends = {f"{m}_{arm}": c[name][-1] for m, name in METRICS.items() for arm, c in (("em", em), ("sgd", sgd))}
    difference = em["nll"][-1] - sgd["nll"][-1]
    found: dict[str, Any] = {
        "seeds": len(em.seeds),
        "speedup": float(sgd.steps[-1] / steps.mean()),
        "speedup_se": ratio_error(np.full(len(steps), sgd.steps[-1]), steps),
        "difference": float(difference.mean()),
        "difference_se": widened_error(difference),
    }
    for name, values in (ends | {"steps": steps}).items():
        expected = prediction(values, five)
        found[name] = expected.mean
        found[f"{name}_sd"], found[f"{name}_width"] = float(values.std(ddof=1)), expected.high - expected.mean
    return found | spreads(found, list(ends), five)


def spreads(found: Mapping[str, Any], names: list[str], five: int) -> dict[str, Any]:
    """Printed standard deviations over ours, in the order of ``names``, and between which bounds such ratios of ``five`` seeds to ours are expected together
    in 95 of 100 repetitions (F test of normal samples)."""
    tail = 0.025 / len(names)  # Bonferroni: all of them together are inside in 95 of 100 repetitions
    low, high = stats.f.ppf((tail, 1 - tail), five - 1, found["seeds"] - 1) ** 0.5
    printed = printed_table()
    return {
        "spreads": [printed[name][1] / found[f"{name}_sd"] for name in names],
        "spread_low": float(low),
        "spread_high": float(high),
    }


def table_values(
    code: dict[str, Any], text: dict[str, Any], small: dict[str, Any], text_chain: StickyChain
) -> dict[str, Any]:
    """Table 1's claims from :func:`table` of the published chain, the text's chain, and the published chain from weights of half the size."""
    values: dict[str, Any] = {
        "table1/code/minimum": StickyChain("code").entropy_rate,
        "table1/text/minimum": text_chain.entropy_rate,
        "table1/small/minimum": StickyChain("code").entropy_rate,
    }
    for i, found in enumerate((code, text, small)):
        values |= {keys[i]: found[name] for name, keys in KEYS.items()}
    return values


def unit_values(found: dict[str, float]) -> dict[str, float]:
    """Section 7.2's "bits", with the standard error of SGD's entropy."""
    return {
        "units/rate_bits": StickyChain("code").entropy_rate / math.log(2),
        "units/sgd_bits": found["entropy_sgd"] / math.log(2),
        "units/sgd_bits_se": found["entropy_sgd_sd"] / math.sqrt(found["seeds"]) / math.log(2),
    }
