"""Do the statistics of nagy2026 tell stacks that descend from stacks that do not? Read-outs of both kinds, made by hand, so that the truth is known.

A stack is a set of prompts with an answer read after each layer. Those that descend take gradient steps on the prompt's own least squares, in parameters
or in functions. Those that do not, still come nearer to the answer: a kernel smoother that sharpens, a running mean of noisy answers; or they have lost
what makes them steps: layers in another order, the answers of other prompts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ....draw import numpy_rng
from ....statistics import Estimate, bootstrap_error
from ...nagy2026.probe_statistics import Alignment, alignments
from .models import FIRST

Array = np.ndarray
PROMPTS, PAIRS, LAYERS = 64, 12, 8


class Prompts(NamedTuple):
    """``x (n, k, d)``, ``y (n, k)``, queries ``(n, d)`` and their answers ``(n,)``."""

    x: Array
    y: Array
    query: Array
    answer: Array


def draw(rng: np.random.Generator) -> Prompts:
    """Regression without noise, of a dimension drawn from 2 to 4."""
    d = int(rng.integers(2, 5))
    x, beta = rng.standard_normal((PROMPTS, PAIRS + 1, d)), rng.standard_normal((PROMPTS, d)) / np.sqrt(d)
    y = np.einsum("nkd,nd->nk", x, beta)
    return Prompts(x[:, :-1], y[:, :-1], x[:, -1], y[:, -1])


def parameter_descent(p: Prompts, rng: np.random.Generator) -> Array:
    """``LAYERS`` gradient steps from zero on each prompt's least squares, at a rate drawn for the stack: answers ``(n, LAYERS + 1)``."""
    rate, beta = rng.uniform(0.1, 0.6), np.zeros(p.query.shape)
    answers = [np.zeros(len(beta))]
    for _ in range(LAYERS):
        residual = p.y - np.einsum("nkd,nd->nk", p.x, beta)
        beta = beta + rate * np.einsum("nk,nkd->nd", residual, p.x) / PAIRS
        answers.append((beta * p.query).sum(1))
    return np.stack(answers, 1)


def kernel(a: Array, b: Array, width: float) -> Array:
    """``exp(-|a - b|^2 / (2 width^2))`` of points ``(n, i, d)`` and ``(n, j, d)``: ``(n, i, j)``."""
    return np.exp(-((a[:, :, None] - b[:, None]) ** 2).sum(-1) / (2 * width**2))


def function_descent(p: Prompts, rng: np.random.Generator) -> Array:
    """The same in functions: ``f <- f + rate sum_i (y_i - f(x_i)) k(x_i, .)``."""
    rate, width = rng.uniform(0.1, 0.5), rng.uniform(1.0, 3.0)
    among, to_query = kernel(p.x, p.x, width), kernel(p.query[:, None], p.x, width)[:, 0]
    at_keys, at_query = np.zeros(p.y.shape), np.zeros(len(p.y))
    answers = [at_query]
    for _ in range(LAYERS):
        residual = p.y - at_keys
        at_keys = at_keys + rate * np.einsum("nij,nj->ni", among, residual) / 2
        at_query = at_query + rate * (to_query * residual).sum(1) / 2
        answers.append(at_query)
    return np.stack(answers, 1)


def sharpening(p: Prompts, rng: np.random.Generator) -> Array:
    """Kernel smoothers whose width shrinks from layer to layer: nobody steps along a gradient."""
    widths = np.geomspace(rng.uniform(3, 6), rng.uniform(0.4, 0.8), LAYERS)
    answers = [np.zeros(len(p.y))]
    for width in widths:
        k = kernel(p.query[:, None], p.x, width)[:, 0]
        answers.append((k * p.y).sum(1) / (k.sum(1) + 1e-300))
    return np.stack(answers, 1)


def averaging(p: Prompts, rng: np.random.Generator) -> Array:
    """Running means of noisy answers: the error shrinks, the prompt is never read."""
    noisy = p.answer[:, None] + rng.uniform(0.5, 1.5) * rng.standard_normal((len(p.answer), LAYERS + 1))
    return noisy.cumsum(1) / np.arange(1, LAYERS + 2)


def reordered(p: Prompts, rng: np.random.Generator) -> Array:
    """A stack that descends, read in another order of its layers."""
    return parameter_descent(p, rng)[:, rng.permutation(LAYERS + 1)]


def of_others(p: Prompts, rng: np.random.Generator) -> Array:
    """A stack that descends on the prompts of others."""
    return parameter_descent(p, rng)[rng.permutation(PROMPTS)]


DESCEND = {"parameters": parameter_descent, "functions": function_descent}
OTHERWISE = {"sharpening": sharpening, "averaging": averaging, "reordered": reordered, "others": of_others}


def scores(found: Alignment) -> dict[str, Array]:
    """What each statistic says for descent, larger for more: the paper's criteria; of one model or of many."""
    return {
        "slope": found.slope,
        "r2": found.r2,
        "signs": found.signs,
        "reduction": -found.remaining,
        "rate": -abs(found.rho_pred - found.rho_obs),
    }


def sample(stacks: int) -> dict[str, dict[str, Array]]:
    """Scores of ``stacks`` stacks that ``descend``, half of each kind, and of as many of each kind that does not; every stack has prompts of its own:
    ``{group: {statistic: (n,)}}``."""
    rng = numpy_rng(FIRST)

    def of(make: Callable[[Prompts, np.random.Generator], Array], n: int) -> dict[str, Array]:
        reads, answers = [], []
        for _ in range(n):
            p = draw(rng)
            reads.append(make(p, rng))
            answers.append(p.answer)
        return scores(alignments(np.stack(reads), np.stack(answers)))

    halves = [of(make, stacks // len(DESCEND)) for make in DESCEND.values()]
    yes = {name: np.concatenate([half[name] for half in halves]) for name in halves[0]}
    return {"descend": yes} | {name: of(make, stacks) for name, make in OTHERWISE.items()}


def _passed(values: Array, others: Array) -> Array:
    """How many of the others ``(m,)`` each value ``(n,)`` exceeds, and how many it exceeds or equals, ``(n, 2)``."""
    others = np.sort(others)
    return np.stack([np.searchsorted(others, values, side) for side in ("left", "right")], 1)


def _share(passed: Array, others: int) -> float:
    """Share of pairs in which a value exceeds one of so many others, from what each has :func:`_passed`; ties count half."""
    return float((passed.sum(0) / (len(passed) * others)).mean())


def area(yes: Array, no: Array) -> float:
    """Area under the ROC curve: the chance that a stack that descends scores higher than one that does not; ties count half."""
    return _share(_passed(yes, no), len(no))


def area_error(yes: Array, no: Array) -> float:
    """Bootstrap error over stacks of both groups."""
    sides = (_passed(yes, no), len(no)), (_passed(-no, -yes), len(yes))
    return float(np.hypot(*(bootstrap_error(lambda drawn, m=m: _share(drawn, m), passed) for passed, m in sides)))


def area_by_lot(yes: Array, no: Array) -> float:
    """The control: the area once it is drawn by lot which of the stacks descend."""
    drawn = numpy_rng(FIRST).permutation(np.concatenate([yes, no]))
    return area(drawn[: len(yes)], drawn[len(yes) :])


def roc(found: dict[str, dict[str, Array]]) -> dict[str, dict[str, Array]]:
    """Scores by statistic and group: ``{statistic: {"descend": (n,), kind: (n,)}}``."""
    return {name: {group: by[name] for group, by in found.items()} for name in found["descend"]}


def worst(groups: dict[str, Array]) -> tuple[float, float]:
    """Area against the kind that a statistic tells worst, and its error."""
    kind = min(OTHERWISE, key=lambda k: area(groups["descend"], groups[k]))
    return area(groups["descend"], groups[kind]), area_error(groups["descend"], groups[kind])


def descent_values(by: dict[str, dict[str, Array]]) -> dict[str, object]:
    """Area of each statistic against the kind that it tells worst, and the largest area when it is drawn by lot which stacks descend."""
    values: dict[str, object] = {f"roc/{name}": Estimate(*worst(groups)) for name, groups in by.items()}
    pairs = [(groups["descend"], groups[kind]) for groups in by.values() for kind in OTHERWISE]
    return values | {"roc/by_lot": max(area_by_lot(*pair) for pair in pairs)}
