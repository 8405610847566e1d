"""Table 1 of agarwal2025: what it prints, and the same numbers from the trained runs."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from scipy import stats

from .... import claims
from ....statistics import ratio_error
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
    "speedup": ("table1/code/speedup", "table1/text/speedup", "table1/small/speedup"),
    "speedup_se": ("table1/code/speedup_se", "table1/text/speedup_se", "table1/small/speedup_se"),
    "p": ("table1/code/p", "table1/text/p", "table1/small/p"),
}
#: Keys of the width within which a number agrees with the printed one, see :func:`welch`.
WIDTHS = {
    "loss_em": ("table1/code/loss_em_width", "table1/text/loss_em_width", "table1/small/loss_em_width"),
    "loss_sgd": ("table1/code/loss_sgd_width", "table1/text/loss_sgd_width", "table1/small/loss_sgd_width"),
    "entropy_em": (
        "table1/code/entropy_em_width",
        "table1/text/entropy_em_width",
        "table1/small/entropy_em_width",
    ),
    "entropy_sgd": (
        "table1/code/entropy_sgd_width",
        "table1/text/entropy_sgd_width",
        "table1/small/entropy_sgd_width",
    ),
    "accuracy_em": (
        "table1/code/accuracy_em_width",
        "table1/text/accuracy_em_width",
        "table1/small/accuracy_em_width",
    ),
    "accuracy_sgd": (
        "table1/code/accuracy_sgd_width",
        "table1/text/accuracy_sgd_width",
        "table1/small/accuracy_sgd_width",
    ),
    "steps": ("table1/code/steps_width", "table1/text/steps_width", "table1/small/steps_width"),
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
    }


def table(em: Curves, sgd: Curves, paper_seeds: Iterable[int]) -> dict[str, float]:
    """Table 1's numbers over all seeds; the t-test on the document's five."""
    steps = steps_to(em, sgd["nll"][-1])
    five = tuple(s for s in paper_seeds if s in em.seeds)
    found = {"steps": float(steps.mean()), "steps_sd": float(steps.std(ddof=1))}
    found["speedup"], found["seeds"] = float(sgd.steps[-1] / steps.mean()), len(em.seeds)
    found["speedup_se"] = ratio_error(np.full(len(steps), sgd.steps[-1]), steps)
    found["p"] = float(stats.ttest_rel(em.only(five)["nll"][-1], sgd.only(five)["nll"][-1]).pvalue)
    for metric, name in METRICS.items():
        for arm, curve in (("em", em), ("sgd", sgd)):
            found[f"{metric}_{arm}"] = float(curve[name][-1].mean())
            found[f"{metric}_{arm}_sd"] = float(curve[name][-1].std(ddof=1))
    return found


def table_values(
    code: dict[str, float], text: dict[str, float], small: dict[str, float], text_chain: StickyChain
) -> dict[str, float]:
    """Table 1's claims from :func:`table` of the published chain, the text's chain, and the published chain from weights of half the size."""
    printed = printed_table()
    values: dict[str, float] = {
        "table1/code/minimum": StickyChain("code").entropy_rate,
        "table1/text/minimum": text_chain.entropy_rate,
        "table1/small/minimum": StickyChain("code").entropy_rate,
    }
    for i, found in enumerate((code, text, small)):
        values |= {keys[i]: found[name] for name, keys in KEYS.items()}
        values |= {
            keys[i]: welch(printed[name][1], found[f"{name}_sd"], int(found["seeds"]))
            for name, keys in WIDTHS.items()
        }
    return values


def welch(printed: float, own: float, seeds: int) -> float:
    """2.8 standard deviations of the difference of two means, from both spreads: theirs over 5 seeds, ours over ``seeds``."""
    return 2.8 * math.sqrt(printed**2 / claims.printed("agarwal2025")["table1/seeds"] + own**2 / seeds)


def unit_values(found: dict[str, float]) -> dict[str, float]:
    """Section 7.2's "bits", and the standard errors of SGD's entropy and loss by themselves (Table 1's widths hold the printed spread too)."""
    root = math.sqrt(found["seeds"])
    return {
        "units/rate_bits": StickyChain("code").entropy_rate / math.log(2),
        "units/sgd_bits": found["entropy_sgd"] / math.log(2),
        "units/sgd_bits_se": found["entropy_sgd_sd"] / root / math.log(2),
        "table1/code/loss_sgd_se": found["loss_sgd_sd"] / root,
    }
