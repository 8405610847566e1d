"""Signed pairs (he2025, key findings 2 and 3) on models and tasks away from home: do the heads' outputs sum to zero, and is what they answer a debiased step?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from ....models import attend
from ....statistics import standard_error
from ....store import Results
from ...he2025.measures.circuits import settled
from ...he2025.theory.patterns import zero_sum
from ..runs.models import prompts
from ..runs.pairs import TASKS
from .kernels import PROMPTS, steps, unexplained

Array = np.ndarray
#: What is measured -> study and group.
MODELS = {
    "embedded": ("pairs_embedded", "softmax"),
    "linear": ("pairs_embedded", "linear"),
    "wide": ("pairs_wide", "softmax"),
    "short": ("pairs_short", "softmax"),
    "descent": ("pairs_descent", "softmax"),
}


@dataclass(frozen=True)
class Pairs:
    """Of the trained runs of one model.

    Attributes:
        omega, mu: ``(R, H)`` mean diagonal of each head's KQ, and its output of a label.
        sums: ``(R,)`` abs(sum mu) over sum abs(mu).
        debiased, vanilla: ``(R,)`` share of the answers that the best step leaves unexplained, with covariates centred and as they are.
    """

    omega: Array
    mu: Array
    sums: Array
    debiased: Array
    vanilla: Array


def pairs(results: Mapping[str, Results]) -> dict[str, Pairs]:
    """All models, from the results of the studies by name."""
    return {name: _of(results[study], study, group) for name, (study, group) in MODELS.items()}


def _of(results: Results, study: str, group: str) -> Pairs:
    task = TASKS[study]
    kq, ov = (results[f"{group}/{name}"].astype(float) for name in ("kq", "ov"))
    omega = np.trace(kq[..., : task.d, : task.d], axis1=-2, axis2=-1) / task.d
    omega, mu = (settled(results[f"{group}/steps"], values) for values in (omega, ov[..., 0, -1]))
    batch = prompts(task, 0, PROMPTS)
    answers = np.stack(
        [
            attend(torch.from_numpy(k), torch.from_numpy(o), batch.context, batch.query, group)[0].numpy()
            for k, o in zip(kq[-1], ov[-1], strict=True)
        ]
    )
    if f"{group}/direct" in results.arrays:
        answers += results[f"{group}/direct"][-1] @ batch.query.numpy()
    every = steps(task)
    debiased, vanilla = (
        np.array([unexplained(a, every[kernel]) for a in answers]) for kernel in ("centred", "linear")
    )
    return Pairs(omega, mu, zero_sum(mu), debiased, vanilla)


def pair_values(found: Mapping[str, Pairs]) -> dict[str, float]:
    """Means over runs with their standard errors; ``both``: how many runs have heads that compare with both signs, and the largest sum among them (1, as of
    heads of one sign, where there are none)."""
    embedded, linear, wide, short, descent = (found[name] for name in MODELS)
    gain = {name: p.vanilla - p.debiased for name, p in found.items()}
    wide_both, short_both, descent_both = (
        p.sums[(p.omega > 0).any(1) & (p.omega < 0).any(1)] for p in (wide, short, descent)
    )
    return {
        "pairs/runs": len(embedded.sums),
        "pairs/embedded/sum": float(embedded.sums.mean()),
        "pairs/embedded/sum_se": float(standard_error(embedded.sums)),
        "pairs/embedded/gain": float(gain["embedded"].mean()),
        "pairs/embedded/gain_se": float(standard_error(gain["embedded"])),
        "pairs/embedded/left": float(embedded.debiased.mean()),
        "pairs/linear/sum": float(linear.sums.mean()),
        "pairs/linear/gain": float(gain["linear"].mean()),
        "pairs/linear/gain_se": float(standard_error(gain["linear"])),
        "pairs/linear/left": float(linear.debiased.mean()),
        "pairs/wide/sum": float(wide.sums.mean()),
        "pairs/wide/sum_se": float(standard_error(wide.sums)),
        "pairs/wide/both": len(wide_both),
        "pairs/wide/both_sum": float(wide_both.max()) if len(wide_both) else 1.0,
        "pairs/wide/gain": float(gain["wide"].mean()),
        "pairs/wide/gain_se": float(standard_error(gain["wide"])),
        "pairs/short/sum": float(short.sums.mean()),
        "pairs/short/sum_se": float(standard_error(short.sums)),
        "pairs/short/both": len(short_both),
        "pairs/short/both_sum": float(short_both.max()) if len(short_both) else 1.0,
        "pairs/short/gain": float(gain["short"].mean()),
        "pairs/short/gain_se": float(standard_error(gain["short"])),
        "pairs/descent/sum": float(descent.sums.mean()),
        "pairs/descent/sum_se": float(standard_error(descent.sums)),
        "pairs/descent/both": len(descent_both),
        "pairs/descent/both_sum": float(descent_both.max()) if len(descent_both) else 1.0,
        "pairs/descent/gain": float(gain["descent"].mean()),
        "pairs/descent/gain_se": float(standard_error(gain["descent"])),
    }
