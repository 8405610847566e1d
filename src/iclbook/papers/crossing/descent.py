"""Do the statistics of nagy2026 tell stacks that descend from stacks that do not? Read-outs of both kinds, made by hand, so that the truth is known.

Those that descend take gradient steps on the prompt's own least squares, in parameters or in functions; the others still come nearer to the answer.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ...draw import numpy_rng
from ...statistics import Estimate, bootstrap_error
from ..nagy2026.probe_statistics import Alignment, alignments
from .models import FIRST, Array

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


# -- what stacks answer: ``(prompts, layers, start (S,), *drawn (S, ...)) -> (S, n, layers + 1)`` ----------------------------


def parameter_steps(p: Prompts, layers: int, start: Array, rate: Array) -> Array:
    """Gradient steps on the mean over the context of ``(y - theta . x)^2 / 2``, prompt by prompt, from zero but for the last parameter, which is ``start``."""
    gram, xy = np.einsum("nki,nkj->nij", p.x, p.x) / p.y.shape[1], np.einsum("nki,nk->ni", p.x, p.y) / p.y.shape[1]
    theta = np.zeros((len(start), *p.query.shape))  # (S, n, d)
    theta[..., -1] = start[:, None]
    answers = [(theta * p.query).sum(-1)]
    for _ in range(layers):
        theta = theta + rate[:, None, None] * (xy - np.einsum("nij,snj->sni", gram, theta))
        answers.append((theta * p.query).sum(-1))
    return np.stack(answers, -1)


def kernel(a: Array, b: Array, width: Array) -> Array:
    """``exp(-|a - b|^2 / (2 width^2))`` of points ``(n, i, d)`` and ``(n, j, d)``, for each width ``(S,)``: ``(S, n, i, j)``."""
    return np.exp(-((a[:, :, None] - b[:, None]) ** 2).sum(-1) / (2 * width[:, None, None, None] ** 2))


def function_steps(p: Prompts, layers: int, start: Array, rate: Array, width: Array) -> Array:
    """Gradient steps in functions: ``f <- f + rate sum_i (y_i - f(x_i)) k(x_i, .)``."""
    among, to_query = kernel(p.x, p.x, width), kernel(p.query[:, None], p.x, width)[:, :, 0]
    at_keys, at_query = np.ones((len(start), *p.y.shape)) * start[:, None, None], np.outer(start, np.ones(len(p.y)))
    answers = [at_query]
    for _ in range(layers):
        residual = p.y - at_keys
        at_keys = at_keys + rate[:, None, None] * np.einsum("snij,snj->sni", among, residual)
        at_query = at_query + rate[:, None] * (to_query * residual).sum(-1)
        answers.append(at_query)
    return np.stack(answers, -1)


def sharpening_smoothers(p: Prompts, layers: int, start: Array, first: Array, last: Array) -> Array:
    """Kernel smoothers whose width shrinks from layer to layer: no layer takes a step along a gradient."""
    answers = [np.outer(start, np.ones(len(p.y)))]
    for width in np.geomspace(first, last, layers):
        k = kernel(p.query[:, None], p.x, width)[:, :, 0]
        answers.append((k * p.y).sum(-1) / (k.sum(-1) + 1e-300))
    return np.stack(answers, -1)


def running_means(p: Prompts, layers: int, start: Array, noise: Array) -> Array:
    """Running means of noisy answers: the error shrinks, the prompt is never read."""
    return (p.answer[:, None] + noise).cumsum(-1) / np.arange(1, layers + 2)


def reordered_steps(p: Prompts, layers: int, start: Array, rate: Array, order: Array) -> Array:
    """A stack that descends, read in another order of its layers."""
    return np.take_along_axis(parameter_steps(p, layers, start, rate), order[:, None], -1)


def steps_of_others(p: Prompts, layers: int, start: Array, rate: Array, others: Array) -> Array:
    """A stack that descends on the prompts of others."""
    return np.take_along_axis(parameter_steps(p, layers, start, rate), others[..., None], 1)


class Stack(NamedTuple):
    """A kind of stack: ``draw(rng, prompts, layers)`` gives the numbers that one stack draws, ``answer`` is one of the functions above."""

    draw: Callable[[np.random.Generator, Prompts, int], tuple[Array | float, ...]]
    answer: Callable[..., Array]

    def __call__(self, p: Prompts, layers: int, start: float, rng: np.random.Generator) -> Array:
        """Answers of one stack, ``(n, layers + 1)``."""
        drawn = (np.asarray(part)[None] for part in self.draw(rng, p, layers))
        return self.answer(p, layers, np.array([start]), *drawn)[0]


def uniform(*ranges: tuple[float, float]) -> Callable[..., tuple[float, ...]]:
    """Draws a number from each range."""
    return lambda rng, p, layers: tuple(rng.uniform(*each) for each in ranges)


def noise(low: float, high: float) -> Callable[..., tuple[Array]]:
    """Draws a size of the noise, then noise for every answer."""
    return lambda rng, p, layers: (rng.uniform(low, high) * rng.standard_normal((len(p.answer), layers + 1)),)


def rate_and_others(low: float, high: float) -> Callable[..., tuple[float, Array]]:
    """Draws a rate, then whose prompts are answered."""
    return lambda rng, p, layers: (rng.uniform(low, high), rng.permutation(len(p.y)))


DESCEND = {
    "parameters": Stack(uniform((0.1, 0.6)), parameter_steps),
    "functions": Stack(uniform((0.05, 0.25), (1.0, 3.0)), function_steps),
}
OTHERWISE = {
    "sharpening": Stack(uniform((3, 6), (0.4, 0.8)), sharpening_smoothers),
    "averaging": Stack(noise(0.5, 1.5), running_means),
    "reordered": Stack(lambda rng, p, layers: (rng.uniform(0.1, 0.6), rng.permutation(layers + 1)), reordered_steps),
    "others": Stack(rate_and_others(0.1, 0.6), steps_of_others),
}


# -- what statistics say of them ---------------------------------------------------------------------------------------------


def scores(found: Alignment) -> dict[str, Array]:
    """Score of each statistic for descent, larger for more: the paper's criteria; of one model or of many."""
    return {
        "slope": found.slope,
        "r2": found.r2,
        "signs": found.signs,
        "reduction": -found.remaining,
        "rate": -abs(found.rho_pred - found.rho_obs),
    }


def sample(stacks: int) -> dict[str, dict[str, Array]]:
    """Scores ``{statistic: {"descend": (n,), kind: (n,)}}`` of stacks that descend, half of each kind, and as many of each other kind, all on own prompts."""
    rng = numpy_rng(FIRST)

    def of(kind: Stack, n: int) -> dict[str, Array]:
        reads, answers = [], []
        for _ in range(n):
            p = draw(rng)
            reads.append(kind(p, LAYERS, 0.0, rng))
            answers.append(p.answer)
        return scores(alignments(np.stack(reads), np.stack(answers)))

    halves = [of(kind, stacks // len(DESCEND)) for kind in DESCEND.values()]
    found = {name: of(kind, stacks) for name, kind in OTHERWISE.items()}
    found["descend"] = {name: np.concatenate([half[name] for half in halves]) for name in halves[0]}
    return {name: {kind: by[name] for kind, by in found.items()} for name in halves[0]}


def placements(values: Array, others: Array) -> Array:
    """Share, for each of the values ``(n,)``, of others ``(m,)`` that it exceeds; ties count half."""
    others = np.sort(others)
    return sum(np.searchsorted(others, values, side) for side in ("left", "right")) / (2 * len(others))


def area(yes: Array, no: Array) -> Estimate:
    """Area under the ROC curve, the chance that a stack that descends scores higher than one that does not, with its bootstrap error over both groups."""
    sides = placements(yes, no), placements(-no, -yes)
    return Estimate(float(sides[0].mean()), float(np.hypot(*(bootstrap_error(np.mean, side) for side in sides))))


def worst(yes: Array, no: Iterable[Array]) -> Estimate:
    """Area against the kind that is distinguished worst."""
    return area(yes, min(no, key=lambda other: placements(yes, other).mean()))


def area_by_lot(yes: Array, no: Array) -> float:
    """The control: the area once it is drawn by lot which of the stacks descend."""
    drawn = numpy_rng(FIRST).permutation(np.concatenate([yes, no]))
    return placements(drawn[: len(yes)], drawn[len(yes) :]).mean()


def descent_values(by: Mapping[str, Mapping[str, Array]]) -> dict[str, object]:
    """Area of each statistic against the kind that it tells worst, and the largest area when it is drawn by lot which stacks descend."""
    values: dict[str, object] = {}
    lots = []
    for name, groups in by.items():
        others = [groups[kind] for kind in OTHERWISE]
        values[f"roc/{name}"] = worst(groups["descend"], others)
        lots += [area_by_lot(groups["descend"], other) for other in others]
    return values | {"roc/by_lot": max(lots)}
