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

from ....draw import numpy_rng
from ....statistics import Estimate, widened_error
from ...nagy2026 import prompts
from ...nagy2026.ladder import Get, Model, by_size, mixed, twins
from ...nagy2026.probe_statistics import alignments
from .descent import area, area_by_lot, area_error, kernel, scores
from .models import FIRST

Array = np.ndarray
#: Stacks that vote on a score.
NEIGHBOURS = 25
#: Prompts of a stack.
PROMPTS = 128
#: Stacks that answer and whose statistics are taken at once: they stay in a core's cache.
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


class Stack(NamedTuple):
    """A kind of stack.

    Attributes:
        draw: ``draw(rng, prompts, layers)``: the numbers that one stack draws.
        answer: ``answer(prompts, layers, start (S,), *drawn (S, ...))``: answers of S stacks after each layer, ``(S, n, layers + 1)``.
    """

    draw: Callable[[np.random.Generator, Lines, int], tuple[Array | float, ...]]
    answer: Callable[..., Array]

    def __call__(self, p: Lines, layers: int, start: float, rng: np.random.Generator) -> Array:
        """Answers of one stack, ``(n, layers + 1)``."""
        drawn = (np.asarray(part)[None] for part in self.draw(rng, p, layers))
        return self.answer(p, layers, np.array([start]), *drawn)[0]


def _line(p: Lines, layers: int, start: Array, rate: Array) -> Array:
    rate, level = rate[:, None], np.repeat(start[:, None], len(p.y), 1)
    slope = np.zeros_like(level)
    x, y, xx, xy = (part.mean(1) for part in (p.x, p.y, p.x**2, p.x * p.y))
    answers = [level]
    for _ in range(layers):
        slope, level = slope + rate * (xy - slope * xx - level * x), level + rate * (y - slope * x - level)
        answers.append(slope * p.query + level)
    return np.stack(answers, -1)


def _functions(p: Lines, layers: int, start: Array, rate: Array, width: Array) -> Array:
    width, rate = width[:, None, None, None], rate[:, None]
    among = kernel(p.x[..., None], p.x[..., None], width)  # (S, n, k, k)
    to_query = kernel(p.query[:, None, None], p.x[..., None], width)[:, :, 0]
    at_query = np.repeat(start[:, None], len(p.y), 1)
    at_keys = np.repeat(at_query[..., None], p.y.shape[1], -1)
    answers = [at_query]
    for _ in range(layers):
        residual = p.y - at_keys
        at_keys = at_keys + rate[..., None] * np.einsum("snij,snj->sni", among, residual)
        at_query = at_query + rate * (to_query * residual).sum(-1)
        answers.append(at_query)
    return np.stack(answers, -1)


def _sharpening(p: Lines, layers: int, start: Array, first: Array, last: Array) -> Array:
    answers = [np.repeat(start[:, None], len(p.y), 1)]
    for width in np.geomspace(first, last, layers):
        k = kernel(p.query[:, None, None], p.x[..., None], width[:, None, None, None])[:, :, 0]
        answers.append((k * p.y).sum(-1) / (k.sum(-1) + 1e-300))
    return np.stack(answers, -1)


def _towards(goal: Array, layers: int, start: Array, share: Array) -> Array:
    """Even strides from ``start (S,)`` to ``goal (n,)``, as far as the ``share (S,)``."""
    start, way = start[:, None, None], share[:, None, None] * np.linspace(0, 1, layers + 1)
    return start + (goal[:, None] - start) * way


#: Gradient steps on slope and level of a line, from a level ``start``.
line_descent = Stack(lambda rng, p, layers: (rng.uniform(0.1, 0.9),), _line)
#: Gradient steps in functions: ``f <- f + rate sum_i (y_i - f(x_i)) k(x_i, .)``.
function_descent = Stack(lambda rng, p, layers: (rng.uniform(0.1, 0.5), rng.uniform(0.5, 2.0)), _functions)
#: Kernel smoothers whose width shrinks from layer to layer.
sharpening = Stack(lambda rng, p, layers: (rng.uniform(2, 4), rng.uniform(0.2, 0.6)), _sharpening)
#: Running means of noisy answers; the prompt is never read.
averaging = Stack(
    lambda rng, p, layers: (rng.uniform(1, 3) * rng.standard_normal((len(p.answer), layers + 1)),),
    lambda p, layers, start, noise: (p.answer[:, None] + noise).cumsum(-1) / np.arange(1, layers + 2),
)
#: Even strides to the mean of the context's answers, all or part of the way: the covariates are never read.
to_the_mean = Stack(
    lambda rng, p, layers: (rng.uniform(0.3, 1.0),),
    lambda p, layers, start, share: _towards(p.y.mean(1), layers, start, share),
)
#: Even strides to the right answer, all or part of the way: somebody looked it up.
strides = Stack(
    lambda rng, p, layers: (rng.uniform(0.3, 1.0),),
    lambda p, layers, start, share: _towards(p.answer, layers, start, share),
)
#: Nothing, and in one layer the right answer.
one_jump = Stack(
    lambda rng, p, layers: (rng.integers(1, layers + 1),),
    lambda p, layers, start, at: np.where(
        np.arange(layers + 1) < at[:, None, None], start[:, None, None], p.answer[:, None]
    ),
)


def _another_order(rng: np.random.Generator, p: Lines, layers: int) -> tuple[Array, float]:
    order = rng.permutation(layers + 1)
    while (np.diff(order) > 0).all():
        order = rng.permutation(layers + 1)
    return order, *line_descent.draw(rng, p, layers)


#: A stack that descends, read in another order of its layers.
reordered = Stack(
    _another_order,
    lambda p, layers, start, order, rate: np.take_along_axis(_line(p, layers, start, rate), order[:, None], -1),
)
#: A stack that descends on the prompts of others.
of_others = Stack(
    lambda rng, p, layers: (*line_descent.draw(rng, p, layers), rng.permutation(len(p.y))),
    lambda p, layers, start, rate, others: np.take_along_axis(_line(p, layers, start, rate), others[..., None], 1),
)

DESCEND = {"line": line_descent, "functions": function_descent}
OTHERWISE = {
    "sharpening": sharpening,
    "averaging": averaging,
    "mean": to_the_mean,
    "strides": strides,
    "jump": one_jump,
    "reordered": reordered,
    "others": of_others,
}


def read_with_noise(kind: Stack, p: Lines, layers: int, n: int, rng: np.random.Generator) -> Array:
    """Answers ``(n, prompts, layers + 1)`` of ``n`` stacks: start between 3 and 6 digits, then read with noise of up to half a digit."""
    starts, drawn, noise = [], [], []
    for _ in range(n):
        starts.append(rng.uniform(3, 6))
        drawn.append(kind.draw(rng, p, layers))
        noise.append(rng.uniform(0, 0.5) * rng.standard_normal((len(p.y), layers)))
    read = kind.answer(p, layers, np.array(starts), *map(np.array, zip(*drawn, strict=True)))
    read[..., 1:] += noise
    return np.clip(read, 0, 9, out=read)


def statistics(kind: Stack, p: Lines, layers: int, n: int, rng: np.random.Generator) -> Array:
    """The five statistics of ``n`` stacks of a kind, ``(n, 5)``."""
    found = []
    for at in range(0, n, TOGETHER):
        read = read_with_noise(kind, p, layers, min(TOGETHER, n - at), rng)
        found.append(np.stack([*scores(alignments(read, p.answer)).values()], 1))
    return np.concatenate(found)


class Judge:
    """Scores of stacks with so many layers: the share of descending ones among the nearest of ``n`` that descend and ``n`` that do not.

    Distances are in interquartile ranges of each statistic, whose tails are heavy. Both sides have equal votes.
    """

    def __init__(self, layers: int, n: int) -> None:
        rng, p = numpy_rng((FIRST, layers)), lines()

        def drawn() -> tuple[Array, dict[str, Array]]:
            yes = [statistics(kind, p, layers, n // len(DESCEND), rng) for kind in DESCEND.values()]
            return np.concatenate(yes), {
                name: statistics(kind, p, layers, n // len(OTHERWISE), rng) for name, kind in OTHERWISE.items()
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


class Ladder(NamedTuple):
    """Judges by number of layers, scores by size of the ladder's models and of their twins, and how unlike any stack the models are (:meth:`Judge.apart`)."""

    judges: dict[int, Judge]
    ladder: dict[str, list[float]]
    twins: dict[str, list[float]]
    apart: list[float]


def judged(get: Get, stacks: int) -> Ladder:
    """Every model at the end of training, by judges that know ``stacks`` stacks of either side."""
    ladder, alone = mixed(get), [twin for _, twin in twins(get)]
    judges = {layers: Judge(layers, stacks) for layers in sorted({_layers(m) for m in ladder})}

    def scored(models: list[Model]) -> dict[str, list[float]]:
        return {
            name: [float(judges[_layers(m)](_statistics(m))[0]) for m in runs] for name, runs in by_size(models).items()
        }

    apart = [float(judges[_layers(m)].apart(_statistics(m))[0]) for m in ladder]
    return Ladder(judges, scored(ladder), scored(alone), apart)


def _statistics(m: Model) -> Array:
    """``(1, 5)`` at the end of training."""
    return np.array([list(scores(m.aligned()).values())])


def ladder_values(found: Ladder) -> dict[str, object]:
    """The joint statistic on stacks of known kind, for the number of layers at which it is worst, and once it is drawn by lot which of them descend; what it
    says of the size of the ladder of which it says least, and of the twins, mean and error over sizes; and of known stacks: the largest mean score of a kind
    of imitation, the least of those that descend."""

    def mean(scored: dict[str, list[float]]) -> Estimate:
        of_sizes = [float(np.mean(said)) for said in scored.values()]
        units = np.array(of_sizes if len(of_sizes) > 1 else next(iter(scored.values())))
        return Estimate(float(units.mean()), widened_error(units))

    least = min(found.ladder.values(), key=np.mean)
    judges = found.judges.values()
    imitations = [(judge.yes, said) for judge in judges for said in judge.no.values()]
    return {
        "rungs/area": Estimate(*min(judge.worst for judge in judges)),
        "rungs/by_lot": max(area_by_lot(yes, said) for yes, said in imitations),
        "rungs/ladder": Estimate.share(round(NEIGHBOURS * sum(least)), NEIGHBOURS * len(least)),
        "rungs/twins": mean(found.twins),
        "rungs/imitations": max(float(said.mean()) for _, said in imitations),
        "rungs/descending": min(float(judge.yes.mean()) for judge in judges),
        "rungs/apart": float(np.mean(found.apart)),
    }


def _layers(m: Model) -> int:
    return m.arrays["lines_estimate"].shape[-1] - 1
