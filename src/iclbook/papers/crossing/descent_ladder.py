"""Do all statistics of nagy2026 together tell descent from its imitations on the ladder's own prompts, and if so, what do they say of the ladder?

A stack answers the ladder's regression prompts, lines of digits, after each of as many layers as a model has. Every answer but the first, which is one for all
prompts, is read with noise, as a logit lens reads. The joint score of a model is the share of stacks that descend among those nearest to it, by the five statistics.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from ...draw import numpy_rng
from ...statistics import Estimate
from ..nagy2026 import prompts
from ..nagy2026.ladder import Get, Model, by_size, controls, mixed
from ..nagy2026.ladder_figures import in_words
from ..nagy2026.probe_statistics import alignments
from . import descent
from .descent import Prompts, Stack, scores
from .models import FIRST, Array

#: Stacks that vote on a score.
NEIGHBOURS = 25
#: Prompts of a stack.
PROMPTS = 128
#: Stacks that answer and whose statistics are taken at once: they stay in a core's cache.
TOGETHER = 32


def lines(n: int = PROMPTS) -> Prompts:
    """The ladder's regression prompts as numbers, x with a constant beside it ``(n, k, 2)``, in deviations from 4.5: every prompt has its own curvature."""
    read = prompts.lines(prompts.CORPUS, n)
    tokens = read.tokens.numpy()
    value = np.full(tokens.max() + 1, -1)
    value[list(prompts.CORPUS.digits)] = np.arange(10)
    digits = value[tokens]
    digits = digits[digits >= 0].reshape(n, -1).astype(float)  # x1 y1 ... xk yk x_q
    x = (digits[:, ::2] - 4.5) / np.arange(10).std()
    features = np.stack([x, np.ones_like(x)], -1)
    return Prompts(features[:, :-1], digits[:, 1::2], features[:, -1], read.target.numpy().astype(float))


def _another_order(rng: np.random.Generator, p: Prompts, layers: int) -> tuple[float, Array]:
    order = rng.permutation(layers + 1)
    while (np.diff(order) > 0).all():
        order = rng.permutation(layers + 1)
    return rng.uniform(0.1, 0.9), order


def _towards(goal: Array, layers: int, start: Array, share: Array) -> Array:
    """Even strides from ``start (S,)`` to ``goal (n,)``, as far as the ``share (S,)``."""
    start, way = start[:, None, None], share[:, None, None] * np.linspace(0, 1, layers + 1)
    return start + (goal[:, None] - start) * way


def _jump(p: Prompts, layers: int, start: Array, at: Array) -> Array:
    """Nothing, and in one layer the right answer."""
    before = np.arange(layers + 1) < at[:, None, None]
    return np.where(before, start[:, None, None], p.answer[:, None])


DESCEND = {
    "line": Stack(descent.uniform((0.1, 0.9)), descent.parameter_steps),
    "functions": Stack(descent.uniform((0.1, 0.5), (0.5, 2.0)), descent.function_steps),
}
#: Those that walk to the mean of the context's answers never read the covariates; those that walk to the right answer have looked it up.
OTHERWISE = {
    "sharpening": Stack(descent.uniform((2, 4), (0.2, 0.6)), descent.sharpening_smoothers),
    "averaging": Stack(descent.noise(1, 3), descent.running_means),
    "mean": Stack(descent.uniform((0.3, 1.0)), lambda p, *drawn: _towards(p.y.mean(1), *drawn)),
    "strides": Stack(descent.uniform((0.3, 1.0)), lambda p, *drawn: _towards(p.answer, *drawn)),
    "jump": Stack(lambda rng, p, layers: (rng.integers(1, layers + 1),), _jump),
    "reordered": Stack(_another_order, descent.reordered_steps),
    "others": Stack(descent.rate_and_others(0.1, 0.9), descent.steps_of_others),
}


def read_with_noise(kind: Stack, p: Prompts, layers: int, n: int, rng: np.random.Generator) -> Array:
    """Answers ``(n, prompts, layers + 1)`` of ``n`` stacks: start between 3 and 6 digits, then read with noise of up to half a digit."""
    starts, drawn, noises = [], [], []
    for _ in range(n):
        starts.append(rng.uniform(3, 6))
        drawn.append(kind.draw(rng, p, layers))
        noises.append(rng.uniform(0, 0.5) * rng.standard_normal((len(p.y), layers)))
    read = kind.answer(p, layers, np.array(starts), *map(np.array, zip(*drawn, strict=True)))
    read[..., 1:] += noises
    return np.clip(read, 0, 9, out=read)


def statistics(kind: Stack, p: Prompts, layers: int, n: int, rng: np.random.Generator) -> Array:
    """The five statistics of ``n`` stacks of a kind, ``(n, 5)``."""
    found = []
    for at in range(0, n, TOGETHER):
        read = read_with_noise(kind, p, layers, min(TOGETHER, n - at), rng)
        found.append(np.stack([*scores(alignments(read, p.answer)).values()], 1))
    return np.concatenate(found)


class Judge:
    """Scores of stacks with so many layers: the share of descending ones among the nearest of ``n`` of each side; ``yes`` and ``no`` are scores of stacks without a vote."""

    def __init__(self, layers: int, n: int) -> None:
        rng, p = numpy_rng((FIRST, layers)), lines()

        def drawn() -> tuple[Array, dict[str, Array]]:
            yes = [statistics(kind, p, layers, n // len(DESCEND), rng) for kind in DESCEND.values()]
            no = {name: statistics(kind, p, layers, n // len(OTHERWISE), rng) for name, kind in OTHERWISE.items()}
            return np.concatenate(yes), no

        yes, no = drawn()
        known = np.concatenate([yes, *no.values()])
        self._unit = np.ptp(np.quantile(known, (0.25, 0.75), axis=0), axis=0) + 1e-12
        self._tree = cKDTree(known / self._unit)
        self._descends = np.arange(len(known)) < len(yes)
        yes, no = drawn()
        self.yes, self.no = self(yes), {kind: self(found) for kind, found in no.items()}
        self._usual = self._distance(np.concatenate([yes, *no.values()]))

    def __call__(self, found: Array) -> Array:
        """Scores ``(n,)`` of statistics ``(n, 5)``."""
        nearest = self._tree.query(found / self._unit, NEIGHBOURS)[1]
        return self._descends[nearest].mean(-1)

    def apart(self, found: Array) -> Array:
        """Share of fresh stacks ``(n,)`` that are nearer to their neighbours than these are to theirs: near 1, a model is like no stack."""
        return (self._distance(found)[:, None] > self._usual).mean(-1)

    def _distance(self, found: Array) -> Array:
        return self._tree.query(found / self._unit, NEIGHBOURS)[0].mean(-1)


class Ladder(NamedTuple):
    """Judges by number of layers, and by size scores of the ladder's models and of their controls, and how unlike any stack the models are (:meth:`Judge.apart`)."""

    judges: dict[int, Judge]
    ladder: dict[str, list[float]]
    controls: dict[str, list[float]]
    apart: dict[str, list[float]]


def judged(get: Get, stacks: int) -> Ladder:
    """Verdicts on the models at the end of training, by judges that know ``stacks`` stacks of either side."""
    ladder, alone = mixed(get), [control for _, control in controls(get)]

    def layers(m: Model) -> int:
        return m.arrays["lines_estimate"].shape[-1] - 1

    def statistics_of(m: Model) -> Array:  # (1, 5), at the end of training
        return np.array([list(scores(m.aligned()).values())])

    def judged_by(ask: Callable[[Judge, Array], Array], models: list[Model]) -> dict[str, list[float]]:
        sizes = by_size(models).items()
        return {name: [float(ask(judges[layers(m)], statistics_of(m))[0]) for m in runs] for name, runs in sizes}

    judges = {depth: Judge(depth, stacks) for depth in sorted({layers(m) for m in ladder})}
    return Ladder(
        judges, judged_by(Judge.__call__, ladder), judged_by(Judge.__call__, alone), judged_by(Judge.apart, ladder)
    )


def ladder_values(found: Ladder) -> dict[str, object]:
    """The joint statistic's area where it is worst, and by lot; mean scores of the lowest size, the controls, the best imitation and the worst descent; the median's
    distance; of the size with the highest mean score its name, least score and least distance."""
    of_sizes = [np.mean(said) for said in found.controls.values()]
    units = np.array(of_sizes if len(of_sizes) > 1 else next(iter(found.controls.values())))
    least = min(found.ladder.values(), key=np.mean)
    highest = max(found.ladder, key=lambda name: np.mean(found.ladder[name]))
    judges = found.judges.values()
    imitations = [(judge.yes, said) for judge in judges for said in judge.no.values()]
    return {
        "rungs/area": min(
            (descent.worst(judge.yes, judge.no.values()) for judge in judges), key=lambda each: each.value
        ),
        "rungs/by_lot": max(descent.area_by_lot(yes, said) for yes, said in imitations),
        "rungs/ladder": Estimate.share(round(NEIGHBOURS * sum(least)), NEIGHBOURS * len(least)),
        "rungs/twins": Estimate.mean(units),
        "rungs/imitations": max(said.mean() for _, said in imitations),
        "rungs/descending": min(judge.yes.mean() for judge in judges),
        "rungs/typical_apart": Estimate.of(np.median, np.concatenate([*found.apart.values()])),
        "rungs/highest_size": in_words(highest),
        "rungs/highest": min(found.ladder[highest]),
        "rungs/highest_apart": min(found.apart[highest]),
    }
