"""Do all statistics of nagy2026 together tell descent from its imitations on the ladder's own prompts, and if so, what do they say of the ladder?

A stack answers the ladder's regression prompts, lines of digits, after each of as many layers as a model has. Those that descend fit a line, or a function with
a kernel, by gradient steps; the others are the imitations of :mod:`.descent` in digits, and three that know where to go: to the mean of the answers in the context,
or to the right answer in even strides or in one jump. Every answer but the first, which is one for all prompts, is read with noise, as a logit lens reads. The joint
score of a model is the share of stacks that descend among those nearest to it, by the five statistics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from ....statistics import widened_error
from ...nagy2026.probes import prompts
from ...nagy2026.probes.alignment import alignments
from ...nagy2026.probes.models import Get, Model, by_size, mixed, twins
from ..runs.models import FIRST
from .descent import area, area_by_lot, area_error, kernel, scores

Array = np.ndarray
#: Stacks that vote on a score.
NEIGHBOURS = 25
#: Prompts of a stack.
PROMPTS = 128
#: Stacks whose statistics are taken at once: they stay in a core's cache.
TOGETHER = 32


class Lines(NamedTuple):
    """``x, y (n, k)`` in the context, query and answer ``(n,)``; x in deviations of a digit from the middle, 4.5: within a prompt neither centred nor of unit
    variance, so that a prompt has a curvature of its own."""

    x: Array
    y: Array
    query: Array
    answer: Array


def lines(n: int = PROMPTS) -> Lines:
    """The ladder's regression prompts, as numbers."""
    read = prompts.lines(prompts.CORPUS, n)
    tokens = read.tokens.numpy()
    value = np.full(tokens.max() + 1, -1)
    value[list(prompts.CORPUS.digits)] = np.arange(10)
    digits = value[tokens]
    digits = digits[digits >= 0].reshape(n, -1).astype(float)  # x1 y1 ... xk yk x_q
    x, y, query = digits[:, :-1:2], digits[:, 1::2], digits[:, -1]
    unit = np.arange(10).std()
    return Lines((x - 4.5) / unit, y, (query - 4.5) / unit, read.target.numpy().astype(float))


Stack = Callable[[Lines, int, float, np.random.Generator], Array]


def line_descent(p: Lines, layers: int, start: float, rng: np.random.Generator) -> Array:
    """Gradient steps on slope and level of a line, from a level ``start``: answers ``(n, layers + 1)``."""
    rate, slope, level = rng.uniform(0.1, 0.9), np.zeros(len(p.y)), np.full(len(p.y), start)
    answers = [level]
    for _ in range(layers):
        residual = p.y - slope[:, None] * p.x - level[:, None]
        slope, level = slope + rate * (residual * p.x).mean(1), level + rate * residual.mean(1)
        answers.append(slope * p.query + level)
    return np.stack(answers, 1)


def function_descent(p: Lines, layers: int, start: float, rng: np.random.Generator) -> Array:
    """Gradient steps in functions: ``f <- f + rate sum_i (y_i - f(x_i)) k(x_i, .)``."""
    rate, width = rng.uniform(0.1, 0.5), rng.uniform(0.5, 2.0)
    among = kernel(p.x[..., None], p.x[..., None], width)
    to_query = kernel(p.query[:, None, None], p.x[..., None], width)[:, 0]
    at_keys, at_query = np.full(p.y.shape, start), np.full(len(p.y), start)
    answers = [at_query]
    for _ in range(layers):
        residual = p.y - at_keys
        at_keys = at_keys + rate * np.einsum("nij,nj->ni", among, residual)
        at_query = at_query + rate * (to_query * residual).sum(1)
        answers.append(at_query)
    return np.stack(answers, 1)


def sharpening(p: Lines, layers: int, start: float, rng: np.random.Generator) -> Array:
    """Kernel smoothers whose width shrinks from layer to layer."""
    answers = [np.full(len(p.y), start)]
    for width in np.geomspace(rng.uniform(2, 4), rng.uniform(0.2, 0.6), layers):
        k = kernel(p.query[:, None, None], p.x[..., None], width)[:, 0]
        answers.append((k * p.y).sum(1) / (k.sum(1) + 1e-300))
    return np.stack(answers, 1)


def averaging(p: Lines, layers: int, start: float, rng: np.random.Generator) -> Array:
    """Running means of noisy answers; the prompt is never read."""
    noise = rng.uniform(1, 3) * rng.standard_normal((len(p.answer), layers + 1))
    return (p.answer[:, None] + noise).cumsum(1) / np.arange(1, layers + 2)


def to_the_mean(p: Lines, layers: int, start: float, rng: np.random.Generator) -> Array:
    """Even strides to the mean of the context's answers, all or part of the way: the covariates are never read."""
    share = rng.uniform(0.3, 1.0) * np.linspace(0, 1, layers + 1)
    return start + (p.y.mean(1) - start)[:, None] * share


def strides(p: Lines, layers: int, start: float, rng: np.random.Generator) -> Array:
    """Even strides to the right answer, all or part of the way: somebody looked it up."""
    share = rng.uniform(0.3, 1.0) * np.linspace(0, 1, layers + 1)
    return start + (p.answer[:, None] - start) * share


def one_jump(p: Lines, layers: int, start: float, rng: np.random.Generator) -> Array:
    """Nothing, and in one layer the right answer."""
    at = rng.integers(1, layers + 1)
    return np.where(np.arange(layers + 1) < at, start, p.answer[:, None])


def reordered(p: Lines, layers: int, start: float, rng: np.random.Generator) -> Array:
    """A stack that descends, read in another order of its layers."""
    order = rng.permutation(layers + 1)
    while (np.diff(order) > 0).all():
        order = rng.permutation(layers + 1)
    return line_descent(p, layers, start, rng)[:, order]


def of_others(p: Lines, layers: int, start: float, rng: np.random.Generator) -> Array:
    """A stack that descends on the prompts of others."""
    return line_descent(p, layers, start, rng)[rng.permutation(len(p.y))]


DESCEND: dict[str, Stack] = {"line": line_descent, "functions": function_descent}
OTHERWISE: dict[str, Stack] = {
    "sharpening": sharpening,
    "averaging": averaging,
    "mean": to_the_mean,
    "strides": strides,
    "jump": one_jump,
    "reordered": reordered,
    "others": of_others,
}


def statistics(make: Stack, p: Lines, layers: int, n: int, rng: np.random.Generator) -> Array:
    """The five statistics of ``n`` stacks of a kind, ``(n, 5)``: start between 3 and 6 digits, then read with noise of up to half a digit."""
    reads = []
    for _ in range(n):
        read = make(p, layers, rng.uniform(3, 6), rng)
        read[:, 1:] += rng.uniform(0, 0.5) * rng.standard_normal(read[:, 1:].shape)
        reads.append(np.clip(read, 0, 9))
    parts = [alignments(np.stack(reads[at : at + TOGETHER]), p.answer) for at in range(0, n, TOGETHER)]
    return np.concatenate([np.stack([*scores(part).values()], 1) for part in parts])


class Judge:
    """Scores of stacks with so many layers: the share of descending ones among the nearest of ``n`` that descend and ``n`` that do not.

    Distances are in interquartile ranges of each statistic, whose tails are heavy. Both sides have equal votes.
    """

    def __init__(self, layers: int, n: int) -> None:
        rng, p = np.random.default_rng((FIRST, layers)), lines()

        def drawn() -> tuple[Array, dict[str, Array]]:
            yes = [statistics(make, p, layers, n // len(DESCEND), rng) for make in DESCEND.values()]
            return np.concatenate(yes), {
                name: statistics(make, p, layers, n // len(OTHERWISE), rng)
                for name, make in OTHERWISE.items()
            }

        yes, no = drawn()
        known = np.concatenate([yes, *no.values()])
        self._unit = np.ptp(np.quantile(known, (0.25, 0.75), axis=0), axis=0) + 1e-12
        self._tree = cKDTree(known / self._unit)
        self._descends = np.arange(len(known)) < len(yes)
        #: Scores of stacks that had no vote: those that descend, and the others by kind.
        fresh = drawn()
        self.yes, self.no = self(fresh[0]), {kind: self(found) for kind, found in fresh[1].items()}
        self._usual = self._distance(np.concatenate([fresh[0], *fresh[1].values()]))

    def __call__(self, found: Array) -> Array:
        """Scores ``(n,)`` of statistics ``(n, 5)``."""
        nearest = self._tree.query(found / self._unit, NEIGHBOURS)[1]
        return self._descends[nearest].mean(-1)

    def apart(self, found: Array) -> Array:
        """Share of fresh stacks ``(n,)`` that are nearer to their neighbours than these are to theirs: near 1, a model is like no stack."""
        return (self._distance(found)[:, None] > self._usual).mean(-1)

    def _distance(self, found: Array) -> Array:
        return self._tree.query(found / self._unit, NEIGHBOURS)[0].mean(-1)

    @property
    def worst(self) -> tuple[float, float]:
        """Area under the ROC curve against the kind of imitation that is told worst, and its error."""
        kind = min(self.no, key=lambda k: area(self.yes, self.no[k]))
        return area(self.yes, self.no[kind]), area_error(self.yes, self.no[kind])


class Rungs(NamedTuple):
    """Judges by number of layers, scores by size of the ladder's models and of their twins, and how unlike any stack the models are (:meth:`Judge.apart`)."""

    judges: dict[int, Judge]
    ladder: dict[str, list[float]]
    twins: dict[str, list[float]]
    apart: list[float]


def judged(get: Get, stacks: int) -> Rungs:
    """Every model at the end of training, by judges that know ``stacks`` stacks of either side."""
    ladder, alone = mixed(get), [twin for _, twin in twins(get)]
    judges = {layers: Judge(layers, stacks) for layers in sorted({_layers(m) for m in ladder})}

    def scored(models: list[Model]) -> dict[str, list[float]]:
        return {
            name: [float(judges[_layers(m)](_statistics(m))[0]) for m in runs]
            for name, runs in by_size(models).items()
        }

    apart = [float(judges[_layers(m)].apart(_statistics(m))[0]) for m in ladder]
    return Rungs(judges, scored(ladder), scored(alone), apart)


def _statistics(m: Model) -> Array:
    """``(1, 5)`` at the end of training."""
    return np.array([list(scores(m.aligned()).values())])


def rung_values(found: Rungs) -> dict[str, float]:
    """The joint statistic on stacks of known kind, for the number of layers at which it is worst, and once it is drawn by lot which of them descend; what it
    says of the ladder and of the twins, means and errors over sizes; and of known stacks: the largest mean score of a kind of imitation, the least of those
    that descend."""

    def mean(scored: dict[str, list[float]]) -> tuple[float, float]:
        of_sizes = [float(np.mean(said)) for said in scored.values()]
        units = np.array(of_sizes if len(of_sizes) > 1 else next(iter(scored.values())))
        return float(units.mean()), float(widened_error(units))

    values: dict[str, float] = {}
    values["rungs/area"], values["rungs/area_se"] = min(judge.worst for judge in found.judges.values())
    values["rungs/by_lot"] = max(
        area_by_lot(judge.yes, said) for judge in found.judges.values() for said in judge.no.values()
    )
    values["rungs/ladder"], values["rungs/ladder_se"] = mean(found.ladder)
    values["rungs/twins"], values["rungs/twins_se"] = mean(found.twins)
    values["rungs/imitations"] = max(
        float(said.mean()) for judge in found.judges.values() for said in judge.no.values()
    )
    values["rungs/descending"] = min(float(judge.yes.mean()) for judge in found.judges.values())
    values["rungs/apart"] = float(np.mean(found.apart))
    return values


def _layers(m: Model) -> int:
    return m.arrays["lines_estimate"].shape[-1] - 1
