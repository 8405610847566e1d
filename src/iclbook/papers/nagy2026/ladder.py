"""The ladder: eleven small language models and perturbed copies of their training without regression, read by section 8's probes.

``get(name)`` gives the results of a study of :mod:`.ladder_study`. Lists are over models, a size and a seed each, smallest first. Standard errors are over
models where a mean is over models.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...draw import numpy_rng
from ...statistics import Estimate, student
from ...store import Results
from . import probe_statistics, prompts, results
from .ladder_study import ladder_studies
from .probe_statistics import Alignment, alignment
from .readout import effective_rank, emergence_gap

Array = np.ndarray
Get = Callable[[str], Results]


class Model(NamedTuple):
    """One model of the ladder over training.

    Attributes:
        name: of layers and the embedding's width, such as ``l2w32``.
        run: place of its seed.
        steps: ``(T,)``.
        arrays: of the probes, ``(T, ...)`` each.
        block: of :data:`BLOCKS` parts of the prompts, the one that is left out; None for all prompts.
    """

    name: str
    run: int
    steps: Array
    arrays: dict[str, Array]
    block: int | None = None

    def kept(self, n: int) -> Array:
        """Which of ``n`` prompts count, ``(n,)``."""
        return np.arange(n) * BLOCKS // n != (BLOCKS if self.block is None else self.block)

    def lines(self, kind: str = "lines") -> Array:
        """Estimates of the regression prompts that count, ``(T, n, L + 1)``; ``kind`` may be ``shuffled``, with the context's y in another order."""
        found = self.arrays[f"{kind}_estimate"]
        return found if self.block is None else found[:, self.kept(found.shape[1])]

    def asked(self, shuffled: bool = False) -> prompts.Lines:
        """The regression prompts that count."""
        n = self.arrays["lines_estimate"].shape[1]
        return prompts.Lines(*(of[self.kept(n)] for of in _lines(n, shuffled)))

    @property
    def target(self) -> Array:
        """``(n,)`` right answers of the regression prompts."""
        return self.asked().target.numpy()

    @property
    def final(self) -> Array:
        """Estimates by layer at the end of training, ``(n, L + 1)``."""
        return self.lines()[-1].astype(float)

    def aligned(self, which: str = "lines") -> Alignment:
        """Statistics of section 8.4 at the end of training; ``which`` as for :meth:`lines`."""
        return alignment(self.lines(which)[-1], self.target)

    def noise(self) -> Alignment:
        """Statistics of noise with the read-out's own means and deviations at the end of training, ``(NULL_DRAWS,)`` each."""
        return probe_statistics.noise_around_prior(self.final, self.target, NULL_DRAWS)

    def reductions(self) -> Array:
        """Error reduction at every checkpoint, ``(T,)``."""
        mae = np.stack([probe_statistics.errors(e, self.target) for e in self.lines()])
        return mae[:, 0] - mae[:, -1]

    def valley(self) -> float:
        """Least error reduction before its peak."""
        found = self.reductions()
        return float(found[: found.argmax() + 1].min())

    def by_prompt(self) -> float:
        """Error reduction less its mean under all other orders of the answers over the prompts."""
        other = np.abs(self.target[:, None, None] - self.final[:, [0, -1]]).mean((0, 1))
        return self.aligned().reduction - float(other[0] - other[1])

    def by_law(self) -> float:
        """Error reduction less that with the context's y in another order, over the prompts that another order changes."""
        changed = np.not_equal(*(self.asked(shuffled).tokens.numpy() for shuffled in (False, True))).any(1)
        true, other = (alignment(self.lines(w)[-1][changed], self.target[changed]) for w in ("lines", "shuffled"))
        return true.reduction - other.reduction

    def emergence_gap(self, drop: str) -> float:
        """Accuracy of truncations of the embedding that keep its rank or more, less that of those that keep fewer, with the ``last`` or ``random`` directions
        dropped."""
        margin = self.arrays[f"truncated_{drop}"][-1]  # (K, n)
        accuracy = (margin[:, self.kept(margin.shape[1])] > 0).mean(-1)
        return emergence_gap(
            accuracy, int(self.name.partition("w")[2]), round(effective_rank(self.arrays["singular"][-1]))
        )


@lru_cache(maxsize=4)
def _lines(n: int, shuffled: bool = False) -> prompts.Lines:
    """The regression prompts that every model is asked at every checkpoint."""
    return prompts.lines(prompts.CORPUS, n, shuffled=shuffled)


def models(results: Results) -> list[Model]:
    """Models of a study."""
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


def controls(get: Get) -> list[tuple[Model, Model]]:
    """Pairs of a model and its control, which saw no regression."""
    with_law = {(m.name, m.run): m for m in models(get("ladder_small"))}
    return [(with_law[m.name, m.run], m) for m in models(get("ladder_twin"))]


def by_size(every: list[Model]) -> dict[str, list[Model]]:
    """Models by their name, every seed of a size together, smallest first."""
    return {name: [m for m in every if m.name == name] for name in dict.fromkeys(m.name for m in every)}


#: An error reduction below this is a valley (digits).
VALLEY = -0.1
#: Draws of null models for each model of the ladder; parts of the prompts, each of which is left out once.
NULL_DRAWS, BLOCKS = 40, 16


def trained(profile: str, device: str = "auto") -> Get:
    """Getter of the results of the ladder's studies by name."""
    return {study.name: results(study.name, profile, device) for study in ladder_studies(profile)}.__getitem__


def power_values() -> dict[str, object]:
    """Power of the paper's own numbers of models and layers, without any model: ladders of seven and nine models, a percentile of 144 heads, and
    a sequence that falls in one layer of twelve only."""
    seven, nine, none = probe_statistics.power(7, 0.59), probe_statistics.power(9, 0.59), probe_statistics.power(7, 0.0)
    middle, last = (np.where(np.arange(13) < at, 5.0, 5e-3) for at in (6, 12))

    def share(of: float) -> Estimate:  # of the simulated ladders
        return Estimate.share(round(of * probe_statistics.LADDERS), probe_statistics.LADDERS)

    return {
        "forecast/power_7": share(seven.significant),
        "forecast/power_9": share(nine.significant),
        "forecast/false_best_of_4": share(none.best),
        "forecast/width_7": seven.width,
        "forecast/skill_7": seven.skill,
        "ladder/heads/of_144": len(probe_statistics.causal_heads(numpy_rng(0).standard_normal((12, 12)))),
        "ladder/induction/one_jump_r2": probe_statistics.contraction(middle[None]).r2,
        "ladder/induction/last_jump_r2": probe_statistics.contraction(last[None]).r2,
    }


def records(get: Get) -> dict[str, object]:
    """Everything that the rows ``q-ladder-...`` are decided by, at the end of training but for emergence. All models answer the same prompts: an error holds the
    spread over models and, from a jackknife over :data:`BLOCKS` blocks, that of the prompts.

    ``alignment``: slope, signs and error reduction (sections 8 and 8.4, finding 1), and correlation of a prompt's own decay by layer with its Gram sum (caveat
    iii). ``nulls``: what remains of finding 1 under noise with the read-out's own means and deviations, other prompts' answers, a context without a law.
    ``twin``: how much more error models with regression take away than their controls, and what of signs and reduction above noise a control has. ``rates``
    (finding 4): the local slope against the decay by layer, and both against the error that is left. ``emergence`` (finding 2): valley before the peak, that of
    a control of the same size and seed, and the share of models that go through a valley and cross out of it. ``truncation`` (section 8.3): accuracy with
    and without the directions below the rank, and the same number of random directions.
    """
    every, pairs = mixed(get), controls(get)
    found = _of_models(every, pairs)
    without = [
        _of_models([m._replace(block=b) for m in every], [tuple(m._replace(block=b) for m in pair) for pair in pairs])
        for b in range(BLOCKS)
    ]

    def by_prompts(statistic: Callable[[dict[str, Array]], Array]) -> Array:
        left = np.array([statistic(values) for values in without])
        return student(BLOCKS) * np.sqrt((BLOCKS - 1) * left.var(0))

    values: dict[str, object] = {}
    for name, each in found.items():
        if name.startswith("rates/"):
            values[name] = Estimate(each, by_prompts(lambda of, name=name: of[name]))
        elif name.endswith("_share"):
            ratio = by_prompts(lambda of, name=name: np.divide(*of[name].mean(1)))
            values[name] = Estimate.ratio(*each).widened(ratio)
        else:
            values[name] = Estimate.mean(each).widened(by_prompts(lambda of, name=name: of[name].mean()))
    phases = [m.valley() < VALLEY and m.reductions().max() > 0 for m in every]
    values["emergence/three_phases"] = Estimate.share(sum(phases), len(phases))
    return {f"ladder/{name}": value for name, value in values.items()}


def _of_models(every: list[Model], pairs: list[tuple[Model, Model]]) -> dict[str, Array]:
    """Each statistic of :func:`records` for every model or pair; of a ``_share`` what the controls and what the models have, ``(2, pairs)``."""
    found: dict[str, list[float]] = defaultdict(list)
    for m in every:
        true, noise = m.aligned(), m.noise()
        for name in ("slope", "signs", "reduction"):
            found[f"alignment/{name}"].append(getattr(true, name))
        x = m.asked().x.numpy()
        found["alignment/curvature"].append(probe_statistics.curvature_correlation(m.final, m.target, x))
        found["nulls/noise_signs"].append(noise.signs.mean())
        found["nulls/signs_above_noise"].append(true.signs - noise.signs.mean())
        found["nulls/r2_above_noise"].append(true.r2 - noise.r2.mean())
        found["nulls/reduction_by_prompt"].append(m.by_prompt())
        found["nulls/reduction_by_law"].append(m.by_law())
        found["emergence/valley"].append(m.valley())
        last = m.emergence_gap("last")
        found["truncation/gap"].append(last)
        found["truncation/gap_above_random"].append(last - m.emergence_gap("random"))
        found["rates/apart"].append(abs(true.rho_pred / true.rho_obs - 1))
        found["rates/compounded"].append(true.rho_obs ** (m.final.shape[1] - 1) / true.remaining)
    found["emergence/valley_shared"] = [m.valley() - control.reductions().min() for m, control in pairs]
    found["twin/reduction_lost"] = [m.aligned().reduction - control.aligned().reduction for m, control in pairs]
    for name in ("signs", "reduction"):
        above = [[getattr(m.aligned(), name) - getattr(m.noise(), name).mean() for m in p] for p in pairs]
        found[f"twin/{name}_share"] = np.transpose(above)[::-1]
    return {name: np.array(each) for name, each in found.items()}
