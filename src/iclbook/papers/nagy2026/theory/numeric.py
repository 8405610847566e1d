"""Nagy 2026: the statements in floating point, at many points; independent of the solver."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from .formula import Atom, holds
from .proposition import Proposition
from .sums import Induction

#: How far floating point may miss a conclusion, relative.
SLACK = 1e-9
_EQUATION_SLACK = 1e-12


def draw(proposition: Proposition, points: int, seed: int) -> tuple[dict[str, np.ndarray], int]:
    """Points that satisfy the hypotheses: half random in [-3, 3], half on the grid of step 1/2, where the border cases lie.

    Args:
        points: draws before those that break a hypothesis are thrown away.
        seed: of the generator.

    Returns:
        (variables as arrays of shape (kept,), kept).
    """
    rng = np.random.default_rng(seed)
    half = points // 2
    values = {
        name: np.concatenate([rng.uniform(-3, 3, half), rng.integers(-6, 7, points - half) / 2])
        for name in proposition.variables
    }
    with np.errstate(all="ignore"):
        for name, build in proposition.given.items():
            values[name] = np.broadcast_to(build(SimpleNamespace(**values)), (points,)).astype(float)
        v = proposition.defined(values)
        good = np.ones(points, dtype=bool)
        for value in values.values():
            good &= np.isfinite(value) & (np.abs(value) < 1e3)
        for hypothesis in proposition.hypotheses:
            node = hypothesis(v)
            equation = isinstance(node, Atom) and node.symbol == "="
            good &= np.broadcast_to(holds(node, _EQUATION_SLACK if equation else 0.0), (points,))
    return {name: value[good] for name, value in values.items()}, int(good.sum())


def evaluate(
    item: Proposition | Induction, points: int = 20_000, seed: int = 0, lenient: bool = True
) -> tuple[int, int]:
    """Evaluate a statement at many points that satisfy its hypotheses.

    Args:
        item: the statement.
        points: number of draws.
        seed: of the generator.
        lenient: whether a strict inequality that rounding cannot tell from equality counts as true.

    Returns:
        (points that satisfied the hypotheses, points at which the conclusion failed).
    """
    if isinstance(item, Induction):
        rng = np.random.default_rng(seed)
        sizes = (1, 2, 3, 7, 50)
        missed = [item.violation(rng, points // (10 * len(sizes)), d) for d in sizes]
        return sum(len(m) for m in missed), int(sum((m > SLACK).sum() for m in missed))
    values, kept = draw(item, points, seed)
    if not kept:
        return 0, 0
    truth: Any = holds(item.conclusion(item.defined(values)), SLACK, lenient)
    return kept, int(kept - np.broadcast_to(truth, (kept,)).sum())
