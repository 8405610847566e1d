"""Signed pairs (he2025, key findings 2 and 3) on models and tasks away from home: do the heads' outputs sum to zero, and is what they answer a debiased step?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ....statistics import standard_error
from ....store import Results
from ...he2025.circuits import settled
from ...he2025.dynamics import zero_sum
from ..runs.models import prompts
from ..runs.pairs import TASKS
from .kernels import PROMPTS, answers, steps, unexplained

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

    @property
    def both(self) -> Array:
        """``(R,)`` runs whose heads compare with both signs."""
        return (self.omega > 0).any(1) & (self.omega < 0).any(1)

    @property
    def taken(self) -> Array:
        """``(R,)`` share of what the plain step leaves that the debiased step takes away."""
        return 1 - self.debiased / self.vanilla


def pairs(results: Mapping[str, Results]) -> dict[str, Pairs]:
    """All models, from the results of the studies by name."""
    return {name: _of(results[study], study, group) for name, (study, group) in MODELS.items()}


def _of(results: Results, study: str, group: str) -> Pairs:
    task = TASKS[study]
    kq, ov = (results[f"{group}/{name}"].astype(float) for name in ("kq", "ov"))
    omega = np.trace(kq[..., : task.d, : task.d], axis1=-2, axis2=-1) / task.d
    omega, mu = (settled(results[f"{group}/steps"], values) for values in (omega, ov[..., 0, -1]))
    batch = prompts(task, 0, PROMPTS)
    answered = answers(kq[-1], ov[-1], batch, group)
    if f"{group}/direct" in results.arrays:
        answered += results[f"{group}/direct"][-1] @ batch.query.numpy()
    debiased, vanilla = (unexplained(answered, step) for step in steps(batch, ("centred", "linear")).values())
    return Pairs(omega, mu, zero_sum(mu), debiased, vanilla)


def pair_values(found: Mapping[str, Pairs]) -> dict[str, float]:
    """Means over runs with their standard errors. ``both``: how many runs have heads that compare with both signs, and the largest sum among them (1, as of
    heads of one sign, where there are none); ``taken``: what a debiased step takes away of what the plain step leaves, in those runs; ``one_sign/taken``:
    the most that it takes in any other run (0 where there are none)."""
    embedded, linear, wide, short, descent = (found[name] for name in MODELS)
    wide_both, short_both, descent_both = (p.sums[p.both] for p in (wide, short, descent))
    taken = {name: p.taken[p.both] if p.both.any() else p.taken for name, p in found.items()}
    others = np.concatenate([p.taken[~p.both] for p in (wide, short, descent)])
    return {
        "pairs/runs": len(embedded.sums),
        "pairs/embedded/sum": float(embedded.sums.mean()),
        "pairs/embedded/sum_se": float(standard_error(embedded.sums)),
        "pairs/embedded/taken": float(taken["embedded"].mean()),
        "pairs/embedded/taken_se": _error(taken["embedded"]),
        "pairs/embedded/left": float(embedded.debiased.mean()),
        "pairs/linear/sum": float(linear.sums.mean()),
        "pairs/linear/taken": float(linear.taken.mean()),
        "pairs/linear/taken_se": _error(linear.taken),
        "pairs/linear/left": float(linear.debiased.mean()),
        "pairs/wide/sum": float(wide.sums.mean()),
        "pairs/wide/sum_se": float(standard_error(wide.sums)),
        "pairs/wide/both": len(wide_both),
        "pairs/wide/both_sum": float(wide_both.max()) if len(wide_both) else 1.0,
        "pairs/wide/taken": float(taken["wide"].mean()),
        "pairs/wide/taken_se": _error(taken["wide"]),
        "pairs/short/sum": float(short.sums.mean()),
        "pairs/short/sum_se": float(standard_error(short.sums)),
        "pairs/short/both": len(short_both),
        "pairs/short/both_sum": float(short_both.max()) if len(short_both) else 1.0,
        "pairs/short/taken": float(taken["short"].mean()),
        "pairs/short/taken_se": _error(taken["short"]),
        "pairs/descent/sum": float(descent.sums.mean()),
        "pairs/descent/sum_se": float(standard_error(descent.sums)),
        "pairs/descent/both": len(descent_both),
        "pairs/descent/both_sum": float(descent_both.max()) if len(descent_both) else 1.0,
        "pairs/descent/taken": float(taken["descent"].mean()),
        "pairs/descent/taken_se": _error(taken["descent"]),
        "pairs/one_sign/taken": float(others.max()) if len(others) else 0.0,
    }


def _error(runs: Array) -> float:
    """Standard error of a mean; 0 of a single run, as a short training may leave one."""
    return float(standard_error(runs)) if len(runs) > 1 else 0.0
