"""Nagy 2026: the statements in floating point, at many points; independent of the solver."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from .formula import Atom, holds
from .proposition import Induction, Proposition

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


# -- by how much sums over any number of channels miss their statement: n random points with d channels (or layers), relative, (n,) ---------


def _negative_energy(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return np.maximum(0, -np.sum(rng.normal(size=(n, d)) ** 2, axis=1))


def _expansion(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    g = rng.normal(size=(n, d))
    after = g * rng.uniform(-1, 1, size=(n, d))
    return np.maximum(0, np.sum(after**2, 1) / np.sum(g**2, 1) - 1)


def _energy_difference(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    kappa, g = rng.normal(size=(2, n, d))
    u = -kappa * g
    right = np.sum((kappa * g) ** 2, 1)
    return np.abs(np.sum(u**2, 1) - right) / (1 + right)


def _cauchy_schwarz(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    g, h = rng.normal(size=(2, n, d))
    return np.maximum(0, np.sum(g * h, 1) ** 2 / (np.sum(g**2, 1) * np.sum(h**2, 1)) - 1)


def _definite(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    g = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.3)
    return (np.sum(g**2, 1) == 0) != (g == 0).all(1)


def _layers(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    a, w_star, e = rng.uniform(0.1, 2, n), rng.normal(size=n), rng.normal(size=n)
    eta = rng.uniform(0, 2, n) / a
    w = w_star + e
    for _ in range(d):
        w = w - eta * (a * w - a * w_star)
    return np.abs((w - w_star) ** 2 - (1 - eta * a) ** (2 * d) * e**2)


def _decay(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    h = rng.uniform(0.01, 3, n)
    return np.maximum(0, (1 / (1 + h)) ** d * (1 + d * h) - 1)


#: By the id of the statement.
VIOLATIONS: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "MN1": _negative_energy,
    "MN1/always": _negative_energy,
    "MN1/definite": _definite,
    "MN1/cauchy-schwarz": _cauchy_schwarz,
    "MN2": _expansion,
    "MN3": _energy_difference,
    "C/k-layers": _layers,
    "A7/limit": _decay,
}


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
        missed = [VIOLATIONS[item.id](rng, points // (10 * len(sizes)), d) for d in sizes]
        return sum(len(m) for m in missed), int(sum((m > SLACK).sum() for m in missed))
    values, kept = draw(item, points, seed)
    if not kept:
        return 0, 0
    truth: Any = holds(item.conclusion(item.defined(values)), SLACK, lenient)
    return kept, int(kept - np.broadcast_to(truth, (kept,)).sum())
