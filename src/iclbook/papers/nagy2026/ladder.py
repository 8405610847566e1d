"""The ladder: eleven small language models and perturbed copies of their training without regression, read by section 8's probes; one function a claim.

``get(name)`` gives the results of a study of :mod:`.ladder_study`. Lists are over models, a size and a seed each, smallest first. Standard errors are over
models where a mean is over models.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...draw import numpy_rng
from ...statistics import Estimate
from ...store import Results
from . import prompts, results
from .ladder_study import ladder_studies
from .probe_statistics import (
    Alignment,
    alignment,
    causal_heads,
    contraction,
    curvature_correlation,
    errors,
    noise_around_prior,
    power,
    shuffled_targets,
)
from .readout import effective_rank, emergence_gap

Array = np.ndarray
Get = Callable[[str], Results]


class Model(NamedTuple):
    """One model of the ladder over training.

    Attributes:
        name: such as ``l2w32``.
        run: place of its seed.
        steps: ``(T,)``.
        arrays: of the probes, ``(T, ...)`` each.
    """

    name: str
    run: int
    steps: Array
    arrays: dict[str, Array]

    @property
    def target(self) -> Array:
        """``(n,)`` right answers of the regression prompts."""
        return _target(self.arrays["lines_estimate"].shape[1])

    @property
    def width(self) -> int:
        """Of the embedding, see :func:`.ladder_study.size_name`."""
        return int(self.name.partition("w")[2])

    def aligned(self, at: int = -1, which: str = "lines") -> Alignment:
        """Statistics of section 8.4 at a checkpoint; ``which`` may be ``shuffled``, with the context's y in another order."""
        return alignment(self.arrays[f"{which}_estimate"][at], self.target)

    def curvature(self) -> float:
        """Correlation of a prompt's own decay by layer with its Gram sum at the end of training (section 8.4, caveat iii)."""
        estimate = self.arrays["lines_estimate"][-1]
        return curvature_correlation(estimate, self.target, _gram_inputs(len(estimate)))

    def reductions(self) -> Array:
        """Error reduction at every checkpoint, ``(T,)``."""
        mae = np.stack([errors(e, self.target) for e in self.arrays["lines_estimate"]])
        return mae[:, 0] - mae[:, -1]


@lru_cache(maxsize=4)
def _target(n: int) -> Array:
    """``(n,)`` right answers, not to be written to: every model at every checkpoint is asked the same."""
    target = prompts.lines(prompts.CORPUS, n).target.numpy()
    target.flags.writeable = False
    return target


@lru_cache(maxsize=4)
def _gram_inputs(n: int) -> Array:
    """``x`` ``(n, k)`` of the same prompts."""
    return prompts.lines(prompts.CORPUS, n).x.numpy()


def models(results: Results) -> list[Model]:
    """All models of a study."""
    found = []
    for name in dict.fromkeys(key.split("/", 1)[0] for key in results.arrays):
        group = results.group(name)
        for run in range(group["loss"].shape[1]):
            arrays = {k: v[:, run] for k, v in group.items() if k != "steps"}
            found.append(Model(name, run, group["steps"], arrays))
    return found


def mixed(get: Get) -> list[Model]:
    """The models that saw regression."""
    return models(get("ladder_small")) + models(get("ladder_large"))


def twins(get: Get) -> list[tuple[Model, Model]]:
    """Pairs of a model and its twin, which saw no regression."""
    with_law = {(m.name, m.run): m for m in models(get("ladder_small"))}
    return [(with_law[m.name, m.run], m) for m in models(get("ladder_twin"))]


def by_size(every: list[Model]) -> dict[str, list[Model]]:
    """Models by their name, every seed of a size together, smallest first."""
    found: dict[str, list[Model]] = {}
    for m in every:
        found.setdefault(m.name, []).append(m)
    return found


#: An error reduction below this is a valley (digits).
VALLEY = -0.1
#: Draws of null models for each model of the ladder.
NULL_DRAWS = 40


def trained(profile: str, device: str = "auto") -> Get:
    """What gives the results of the ladder's studies by name."""
    return {study.name: results(study.name, profile, device) for study in ladder_studies(profile)}.__getitem__


def _mean(values: list[float]) -> Estimate:
    return Estimate.mean(np.array(values))


def alignments(get: Get) -> dict[str, object]:
    """Sections 8 and 8.4, finding 1: slope, signs and error reduction at the end of training, and how much more error models with regression take away."""
    every = [m.aligned() for m in mixed(get)]
    more = [model.aligned().reduction - twin.aligned().reduction for model, twin in twins(get)]
    return {
        **{
            f"ladder/alignment/{name}": _mean([getattr(a, name) for a in every])
            for name in ("slope", "signs", "reduction")
        },
        "ladder/alignment/curvature": _mean([m.curvature() for m in mixed(get)]),
        "ladder/twin/reduction_lost": _mean(more),
    }


def nulls(get: Get) -> dict[str, object]:
    """What remains of finding 1 under null models: noise with the read-out's own means and deviations, other prompts' answers, a context without a law."""
    found: dict[str, list[float]] = {}
    for m in mixed(get):
        estimate, true, noise = m.arrays["lines_estimate"][-1].astype(float), m.aligned(), _noise(m)
        other = shuffled_targets(estimate, m.target, NULL_DRAWS)
        for name, value in (
            ("noise_signs", noise["signs"]),
            ("signs_above_noise", true.signs - noise["signs"]),
            ("r2_above_noise", true.r2 - noise["r2"]),
            ("reduction_by_prompt", true.reduction - float(np.mean([a.reduction for a in other]))),
            ("reduction_by_law", _by_law(m)),
        ):
            found.setdefault(name, []).append(value)
    shares = {}
    for name in ("signs", "reduction"):
        pairs = [[getattr(m.aligned(), name) - _noise(m)[name] for m in pair] for pair in twins(get)]
        model, twin = np.array(pairs).T
        shares[f"ladder/twin/{name}_share"] = Estimate.ratio(twin, model)
    return {f"ladder/nulls/{name}": _mean(values) for name, values in found.items()} | shares


def _noise(m: Model) -> dict[str, float]:
    """Mean statistics of noise with the read-out's own means and deviations at the end of training."""
    drawn = noise_around_prior(m.arrays["lines_estimate"][-1].astype(float), m.target, NULL_DRAWS)
    return {name: float(np.mean([getattr(a, name) for a in drawn])) for name in ("signs", "r2", "reduction")}


def _by_law(m: Model) -> float:
    """Error reduction less that with the context's y in another order, over the prompts that another order changes."""
    kinds = (prompts.lines(prompts.CORPUS, len(m.target), order=order).tokens for order in ("true", "shuffled"))
    changed = np.not_equal(*(tokens.numpy() for tokens in kinds)).any(1)
    true, other = (
        alignment(m.arrays[f"{which}_estimate"][-1][changed], m.target[changed]) for which in ("lines", "shuffled")
    )
    return true.reduction - other.reduction


def rates(get: Get) -> dict[str, object]:
    """Finding 4: the local slope against the decay by layer, and both against the error that is left."""
    every = mixed(get)
    aligned = [m.aligned() for m in every]
    layers = [m.arrays["lines_estimate"].shape[-1] - 1 for m in every]
    apart = [abs(a.rho_pred / a.rho_obs - 1) for a in aligned]
    compounded = [a.rho_obs**L / a.remaining for a, L in zip(aligned, layers, strict=True)]
    return {"ladder/rates/apart": apart, "ladder/rates/compounded": compounded}


def emergence(get: Get) -> dict[str, object]:
    """Finding 2: valley before the peak and crossing out of it; of models without regression, whose peak is noise, the least of the whole course."""
    valleys, crossed = [], []
    for m in mixed(get):
        before = m.reductions()[: m.reductions().argmax() + 1]
        valleys.append(float(before.min()))
        crossed.append(before.min() < VALLEY and before[-1] > 0)
    return {
        "ladder/emergence/valley": _mean(valleys),
        "ladder/emergence/twin_valley": _mean([float(twin.reductions().min()) for _, twin in twins(get)]),
        "ladder/emergence/crossed": float(np.mean(crossed)),
    }


def truncation(get: Get) -> dict[str, object]:
    """Section 8.3: accuracy with and without the directions below rank_tau, and the same number of random directions."""
    last, other = ([_gap(m, drop) for m in mixed(get)] for drop in ("last", "random"))
    return {
        "ladder/truncation/gap": _mean(last),
        "ladder/truncation/gap_above_random": _mean([a - b for a, b in zip(last, other, strict=True)]),
    }


def _gap(m: Model, drop: str) -> float:
    """Emergence gap at the end of training with the ``last``, ``first`` or ``random`` directions dropped."""
    accuracy = (m.arrays[f"truncated_{drop}"][-1] > 0).mean(-1)
    return emergence_gap(accuracy, m.width, round(effective_rank(m.arrays["singular"][-1])))


def power_values() -> dict[str, object]:
    """What the paper's own numbers of models and layers can show, without any model: ladders of seven and nine models, a percentile of 144 heads, and
    a course that falls in one layer of twelve only."""
    seven, nine, none = power(7, 0.59), power(9, 0.59), power(7, 0.0)
    middle, last = (np.where(np.arange(13) < at, 5.0, 5e-3) for at in (6, 12))
    return {
        "forecast/power_7": seven.significant,
        "forecast/power_9": nine.significant,
        "forecast/false_best_of_4": none.best,
        "forecast/width_7": seven.width,
        "forecast/skill_7": seven.skill,
        "ladder/heads/of_144": len(causal_heads(numpy_rng(0).standard_normal((12, 12)))),
        "ladder/induction/one_jump_r2": contraction(middle[None]).r2,
        "ladder/induction/last_jump_r2": contraction(last[None]).r2,
    }


def records(get: Get) -> dict[str, object]:
    """Everything that the rows ``q-ladder-...`` are decided by."""
    return alignments(get) | nulls(get) | rates(get) | emergence(get) | truncation(get)
