"""The synthetic probe of Figure 1 (nagy2026, section 8.1): descent curves, contraction of each channel, and which generator draws its spectrum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np

from ....statistics import share_error

#: What the paper prints of the probe.
PRINTED = {
    "largest": 108.0,
    "smallest": 0.9,
    "n": 20,
    "d": 5,
    "steps": 20,
    "curvatures": (0.3, 0.6, 1.0, 1.5),
}


def design(eigenvalues: Sequence[float], n: int, seed: int = 0) -> np.ndarray:
    """A random ``(n, d)`` design whose Gram matrix ``X^T X`` has exactly these eigenvalues."""
    rng = np.random.default_rng(seed)
    d = len(eigenvalues)
    left = np.linalg.qr(rng.standard_normal((n, d)))[0]
    right = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return left * np.sqrt(eigenvalues) @ right.T


def balanced_step(eigenvalues: Sequence[float]) -> float:
    """``eta* = 2 / (lambda_min + lambda_max)`` (Theorem D2)."""
    return 2 / (min(eigenvalues) + max(eigenvalues))


def factors(eigenvalues: Sequence[float], eta: float) -> np.ndarray:
    """``(1 - eta lambda_i)^2``, what each channel's squared error is multiplied by in a step."""
    return (1 - eta * np.asarray(eigenvalues)) ** 2


def scalar_descent(a: float, eta: float, steps: int, w_star: float = 1.0) -> np.ndarray:
    """Loss ``L(w_k) / L(w_0)``, ``(steps + 1,)``, of descent on ``L = a w^2 - 2 b w + c`` from ``w_0 = 0``, realisable (``c = b^2 / a``)."""
    b, c, w, losses = a * w_star, a * w_star**2, 0.0, []
    for _ in range(steps + 1):
        losses.append(a * w * w - 2 * b * w + c)
        w = w - eta * (a * w - b)
    return np.array(losses) / losses[0]


def channel_errors(x: np.ndarray, eta: float, steps: int, seed: int = 0) -> np.ndarray:
    """Squared error of each eigenchannel over its start, ``(steps + 1, d)``, of descent from 0 on ``|X w - y|^2 / 2``; channels by eigenvalue."""
    rng = np.random.default_rng(seed)
    w_star = rng.standard_normal(x.shape[1])
    gram, cross = x.T @ x, x.T @ (x @ w_star)
    vectors = np.linalg.eigh(gram)[1]
    w, rows = np.zeros_like(w_star), []
    for _ in range(steps + 1):
        rows.append(((w - w_star) @ vectors) ** 2)
        w = w - eta * (gram @ w - cross)
    return np.array(rows) / rows[0]


# -- which generator? -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    """A way to draw the probe's design: generator, what is drawn before it, how columns are scaled."""

    generator: str
    first: str
    scaling: str
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.generator}(42), {self.first} first, columns times {self.scaling}({self.low:g}, {self.high:g}, 5)"


GENERATORS: dict[str, Callable[[int], Callable[..., np.ndarray]]] = {
    "RandomState": lambda seed: np.random.RandomState(seed).randn,
    "default_rng": lambda seed: lambda *shape: np.random.default_rng(seed).standard_normal(shape),
}
FIRST = ("X", "w*")
LOWS = (0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 1.0)
HIGHS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 10.0)
#: Columns are multiplied by these, or by their square roots (eigenvalues spread so), or in falling order.
SCALINGS: dict[str, Callable[[float, float], np.ndarray]] = {
    "linspace": lambda low, high: np.linspace(low, high, 5),
    "geomspace": lambda low, high: np.geomspace(low, high, 5),
    "falling linspace": lambda low, high: np.linspace(high, low, 5),
    "falling geomspace": lambda low, high: np.geomspace(high, low, 5),
    "root of linspace": lambda low, high: np.sqrt(np.linspace(low, high, 5)),
    "root of geomspace": lambda low, high: np.sqrt(np.geomspace(low, high, 5)),
}


@cache
def recipes() -> list[Recipe]:
    """The recipes searched."""
    return [
        Recipe(generator, first, scaling, low, high)
        for generator in GENERATORS
        for first in FIRST
        for scaling in SCALINGS
        for low in LOWS
        for high in HIGHS
        if low < high
    ]


@cache
def scalings() -> np.ndarray:
    """``(recipes, 5)`` what each recipe multiplies the columns by."""
    return np.stack([SCALINGS[r.scaling](r.low, r.high) for r in recipes()])


@cache
def drawn_by() -> np.ndarray:
    """``(recipes,)`` which of :func:`grams` each recipe scales."""
    kinds = list(grams(0))
    return np.array([kinds.index((r.generator, r.first)) for r in recipes()])


#: One-digit numbers: what a factor may be where the five are chosen freely.
ONE_DIGIT = tuple(k / 10 for k in range(1, 10)) + tuple(float(k) for k in range(1, 10))


def grams(seed: int) -> dict[tuple[str, str], np.ndarray]:
    """Generator and what it draws first -> ``X^T X`` ``(d, d)`` of the design before its columns are scaled."""
    n, d = PRINTED["n"], PRINTED["d"]
    found = {}
    for generator, make in GENERATORS.items():
        drawn = make(seed)((n + 1) * d)
        for first, numbers in (("X", drawn[: n * d]), ("w*", drawn[d:])):
            base = numbers.reshape(n, d)
            found[generator, first] = base.T @ base
    return found


def designs(seed: int) -> tuple[list[Recipe], np.ndarray]:
    """Every recipe and the ``X^T X`` ``(recipes, 5, 5)`` that it gives at this seed."""
    every, by_column = recipes(), scalings()
    unscaled = np.stack(list(grams(seed).values()))[drawn_by()]
    return every, by_column[:, :, None] * unscaled * by_column[:, None]


def spectra(seed: int) -> tuple[list[Recipe], np.ndarray]:
    """Every recipe and the eigenvalues ``(recipes, 5)`` of its design, rising."""
    every, scaled = designs(seed)
    return every, np.linalg.eigvalsh(scaled)


def matches(eigenvalues: np.ndarray) -> np.ndarray:
    """Which spectra ``(recipes, d)`` round to the printed lambda_5 (to units) and lambda_1 (to tenths)."""
    return (np.abs(eigenvalues[:, -1] - PRINTED["largest"]) <= 0.5) & (
        np.abs(eigenvalues[:, 0] - PRINTED["smallest"]) <= 0.05
    )


def count_matches(scaled: np.ndarray) -> int:
    """How many of the positive semidefinite ``(..., d, d)`` have a spectrum that :func:`matches`. Each entry of a diagonal lies between the least and
    the largest eigenvalue, and the latter is at most the trace, so that most are told without their eigenvalues."""
    diagonal, slack = np.diagonal(scaled, axis1=-2, axis2=-1), 1e-6
    possible = diagonal.max(-1) <= PRINTED["largest"] + 0.5 + slack
    possible &= diagonal.sum(-1) >= PRINTED["largest"] - 0.5 - slack
    possible &= diagonal.min(-1) >= PRINTED["smallest"] - 0.05 - slack
    return int(matches(np.linalg.eigvalsh(scaled[possible])).sum())


def lists(seed: int) -> tuple[int, int]:
    """How many rising lists of five one-digit factors, with every generator and order, there are, and how many of them give the printed ends."""
    columns = np.array(list(combinations(ONE_DIGIT, PRINTED["d"])))
    found = [count_matches(columns[:, :, None] * gram * columns[:, None]) for gram in grams(seed).values()]
    return len(found) * len(columns), sum(found)


def search(other_seeds: int = 200) -> dict:
    """Recipes that give the printed spectrum at seed 42, and how often a search of this size finds one by chance.

    Returns:
        ``tried``, ``found`` (recipes), ``nearest`` (recipe, its eigenvalues), ``chance`` (share of other seeds with a match) and its
        standard error ``chance_se``.
    """
    every, eigenvalues = spectra(42)
    hits = matches(eigenvalues)
    distance = np.abs(np.log(eigenvalues[:, -1] / PRINTED["largest"])) + np.abs(
        np.log(eigenvalues[:, 0] / PRINTED["smallest"])
    )
    nearest = int(distance.argmin())
    others = [count_matches(designs(seed)[1]) > 0 for seed in range(1000, 1000 + other_seeds)]
    return {
        "tried": len(every),
        "found": [recipe for recipe, hit in zip(every, hits, strict=True) if hit],
        "nearest": (every[nearest], eigenvalues[nearest]),
        "chance": float(np.mean(others)),
        "chance_se": share_error(sum(others), len(others)),
    }
