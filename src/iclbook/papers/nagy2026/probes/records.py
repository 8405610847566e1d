"""What the ladder says of sections 8.2 to 8.5, 9.3 and 9.4: one function a claim. ``get(name)`` gives the results of a study of :mod:`.ladder`.

Lists are over models, a size and a seed each, smallest first. Standard errors are over models where a mean is over models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ....statistics import standard_error
from ....store import Results
from ....tasks.mixed_corpus import VOCABULARY, text_entropies
from . import embedding, prompts
from .alignment import Alignment, alignment, errors, noise_around_prior, shuffled_targets
from .contraction import causal_heads, contraction, correlation, late_over_early, uniform_sink
from .forecast import forecast, power
from .lifecycle import Course, course, expected_decay, trend_after

Array = np.ndarray
Get = Callable[[str], Results]
#: The early checkpoint of the forecast is this share of the training (step 4k of 143k: 2.8 %), or the next one.
EARLY = 0.028
#: Draws of null models for each model of the ladder.
NULL_DRAWS = 40


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
        return prompts.lines(prompts.CORPUS, self.arrays["lines_estimate"].shape[1]).target.numpy()

    def aligned(self, at: int = -1, which: str = "lines") -> Alignment:
        """Statistics of section 8.4 at a checkpoint; ``which`` may be ``shuffled``, with the context's y in another order."""
        return alignment(self.arrays[f"{which}_estimate"][at], self.target)

    def reductions(self) -> Array:
        """Error reduction at every checkpoint, ``(T,)``."""
        mae = np.stack([errors(e, self.target) for e in self.arrays["lines_estimate"]])
        return mae[:, 0] - mae[:, -1]


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


def _mean(values: list[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(standard_error(np.array(values)))


def gates(get: Get) -> dict[str, object]:
    """Before any probe is read: has every model learned more than pairs of symbols, and to copy?"""
    every = [*mixed(get), *(twin for _, twin in twins(get))]
    first, _ = text_entropies()
    return {
        "ladder/gates/text_below_order_1": [first - float(m.arrays["text_loss"][-1]) for m in every],
        "ladder/gates/induction": [float((m.arrays["block10_margin"][-1] > 0).mean()) for m in every],
        "ladder/gates/models": len(every),
    }


def alignments(get: Get) -> dict[str, object]:
    """Sections 8 and 8.4, finding 1: slope, signs, r^2 and error reduction at the end of training."""
    every = [m.aligned() for m in mixed(get)]
    slope, slope_se = _mean([a.slope for a in every])
    signs, signs_se = _mean([a.signs for a in every])
    reduction, reduction_se = _mean([a.reduction for a in every])
    return {
        "ladder/alignment/slope": slope,
        "ladder/alignment/slope_se": slope_se,
        "ladder/alignment/signs": signs,
        "ladder/alignment/signs_se": signs_se,
        "ladder/alignment/reduction": reduction,
        "ladder/alignment/reduction_se": reduction_se,
        "ladder/alignment/r2": float(np.mean([a.r2 for a in every])),
        "ladder/alignment/depth_rank": float(np.mean([a.depth_rank for a in every])),
    }


def nulls(get: Get) -> dict[str, object]:
    """What remains of finding 1 under null models: noise with the read-out's own means and deviations, other prompts' answers, a context without a law."""
    signs, r2, other, context = [], [], [], []
    noise_signs = []
    for m in mixed(get):
        estimate, true = m.arrays["lines_estimate"][-1].astype(float), m.aligned()
        noise = noise_around_prior(estimate, m.target, NULL_DRAWS)
        noise_signs.append(float(np.mean([a.signs for a in noise])))
        signs.append(true.signs - noise_signs[-1])
        r2.append(true.r2 - float(np.mean([a.r2 for a in noise])))
        shuffled = shuffled_targets(estimate, m.target, NULL_DRAWS)
        other.append(true.reduction - float(np.mean([a.reduction for a in shuffled])))
        context.append(true.reduction - m.aligned(which="shuffled").reduction)
    found: dict[str, object] = {}
    found["ladder/nulls/noise_signs"], found["ladder/nulls/noise_signs_se"] = _mean(noise_signs)
    found["ladder/nulls/signs_above_noise"], found["ladder/nulls/signs_above_noise_se"] = _mean(signs)
    found["ladder/nulls/r2_above_noise"], found["ladder/nulls/r2_above_noise_se"] = _mean(r2)
    found["ladder/nulls/reduction_by_prompt"], found["ladder/nulls/reduction_by_prompt_se"] = _mean(other)
    found["ladder/nulls/reduction_by_law"], found["ladder/nulls/reduction_by_law_se"] = _mean(context)
    return found


def twin_values(get: Get) -> dict[str, object]:
    """The decisive control: a model that never saw a regression."""
    pairs = twins(get)
    without = [twin.aligned() for _, twin in pairs]
    more = [
        model.aligned().reduction - alone.reduction for (model, _), alone in zip(pairs, without, strict=True)
    ]
    found: dict[str, object] = {}
    found["ladder/twin/slope"], found["ladder/twin/slope_se"] = _mean([a.slope for a in without])
    found["ladder/twin/signs"], found["ladder/twin/signs_se"] = _mean([a.signs for a in without])
    found["ladder/twin/reduction"], found["ladder/twin/reduction_se"] = _mean([a.reduction for a in without])
    found["ladder/twin/reduction_lost"], found["ladder/twin/reduction_lost_se"] = _mean(more)
    return found


def rates(get: Get) -> dict[str, object]:
    """Finding 4: the local slope against the decay by layer, and both against the error that is left."""
    every = mixed(get)
    aligned = [m.aligned() for m in every]
    layers = [m.arrays["lines_estimate"].shape[-1] - 1 for m in every]
    apart = [abs(a.rho_pred / a.rho_obs - 1) for a in aligned]
    apart_mean = [abs(a.rho_pred / a.rho_mean - 1) for a in aligned]
    compounded = [a.rho_obs**L / a.remaining for a, L in zip(aligned, layers, strict=True)]
    return {
        "ladder/rates/apart": apart,
        "ladder/rates/apart_from_mean_error": apart_mean,
        "ladder/rates/compounded": compounded,
        "ladder/rates/contracting": [a.contracting for a in aligned],
    }


def emergence(get: Get) -> dict[str, object]:
    """Finding 2: valley, zero crossing and half maximum of the error reduction, with the twin's valley as a control."""
    courses = [course(m.steps, m.reductions()) for m in mixed(get)]
    alone = [course(twin.steps, twin.reductions()) for _, twin in twins(get)]
    found: dict[str, object] = {}
    found["ladder/emergence/valley"], found["ladder/emergence/valley_se"] = _mean([c.valley for c in courses])
    found["ladder/emergence/twin_valley"], found["ladder/emergence/twin_valley_se"] = _mean(
        [c.valley for c in alone]
    )
    found["ladder/emergence/peak"], found["ladder/emergence/peak_se"] = _mean([c.peak for c in courses])
    found["ladder/emergence/valley_step"] = [c.valley_step for c in courses]
    found["ladder/emergence/crossed"] = float(np.mean([np.isfinite(c.crossing) for c in courses]))
    return found


def sinks(get: Get) -> dict[str, object]:
    """Finding 3 and section 9.4: late over early sinks at the end, with thirds and halves, and whether the ratio grows with the error reduction."""
    every = mixed(get)
    thirds = [late_over_early(m.arrays["sink_all"][-1]) for m in every]
    halves = [late_over_early(m.arrays["sink_all"][-1], 2) for m in every]
    start = [late_over_early(m.arrays["sink_all"][0]) for m in every]
    together = []
    for m in every:
        ratio = np.array([late_over_early(s) for s in m.arrays["sink_all"]])
        together.append(forecast(m.reductions(), ratio).spearman)
    found: dict[str, object] = {
        "ladder/sinks/thirds": thirds,
        "ladder/sinks/halves": halves,
        "ladder/sinks/at_start": start,
        "ladder/sinks/above_uniform": [
            float(m.arrays["sink_all"][-1].mean()) - uniform_sink() for m in every
        ],
    }
    found["ladder/sinks/with_reduction"], found["ladder/sinks/with_reduction_se"] = _mean(together)
    return found


def inductions(get: Get) -> dict[str, object]:
    """Section 8.2: geometric fit of the surprisal by layer, monotone share, and how straight a single jump already is."""
    every = [contraction(m.arrays["block10_surprisal"][-1]) for m in mixed(get)]
    jump = np.where(np.arange(13) < 6, 5.0, 5e-3)
    last = np.where(np.arange(13) < 12, 5.0, 5e-3)
    found: dict[str, object] = {
        "ladder/induction/one_jump_r2": contraction(jump[None]).r2,
        "ladder/induction/last_jump_r2": contraction(last[None]).r2,
    }
    found["ladder/induction/r2"], found["ladder/induction/r2_se"] = _mean([c.r2 for c in every])
    found["ladder/induction/monotone"], found["ladder/induction/monotone_se"] = _mean(
        [c.monotone for c in every]
    )
    return found


def truncation(get: Get) -> dict[str, object]:
    """Section 8.3: accuracy with and without the directions below rank_tau, and the same number of random directions."""
    gaps: dict[str, list[float]] = {"last": [], "first": [], "random": []}
    for m in mixed(get):
        singular = m.arrays["singular"][-1]
        rank = round(embedding.effective_rank(singular))
        for drop, rows in gaps.items():
            accuracy = (m.arrays[f"truncated_{drop}"][-1] > 0).mean(-1)
            rows.append(embedding.emergence_gap(accuracy, len(singular), rank))
    more = [a - b for a, b in zip(gaps["last"], gaps["random"], strict=True)]
    found: dict[str, object] = {}
    found["ladder/truncation/gap"], found["ladder/truncation/gap_se"] = _mean(gaps["last"])
    found["ladder/truncation/gap_random"], found["ladder/truncation/gap_random_se"] = _mean(gaps["random"])
    found["ladder/truncation/gap_first"], found["ladder/truncation/gap_first_se"] = _mean(gaps["first"])
    found["ladder/truncation/gap_above_random"], found["ladder/truncation/gap_above_random_se"] = _mean(more)
    return found


def parameters(name: str) -> int:
    """Parameters of a size, from its name such as ``l2w32``: ``12 w^2 + 13 w`` a layer, the final norm and both tables."""
    layers, w = map(int, name[1:].split("w"))
    return layers * (12 * w * w + 13 * w) + 2 * w + 2 * VOCABULARY * w


def heads(get: Get) -> dict[str, object]:
    """Sections 9.3 and 9.4: the ICL effect, what ablating a layer costs, and how many heads a 95th percentile finds in any model of 144."""
    every = mixed(get)
    effect = [float((m.arrays["alone_loss"][-1] - m.arrays["pattern_loss"][-1]).mean()) for m in every]
    late, first = [], []
    for m in every:
        cost = m.arrays["ablated_layer_loss"][-1] - m.arrays["intact_loss"][-1]
        late.append(float(cost.argmax()) / (len(cost) - 1))
        lost = m.arrays["ablated_loss"][-1] - m.arrays["intact_loss"][-1]
        first.append(float(causal_heads(lost)[0, 0]) / (len(cost) - 1))
    size = np.log([parameters(m.name) for m in every])
    found: dict[str, object] = {
        "ladder/heads/of_144": len(causal_heads(np.random.default_rng(0).standard_normal((12, 12)))),
        "ladder/heads/effects": effect,
        "ladder/heads/depth_of_worst_layer": late,
        "ladder/heads/depth_of_first_causal_head": first,
        "ladder/heads/effect_with_size": correlation(size, np.log(np.maximum(effect, 1e-6))).r,
    }
    found["ladder/heads/effect"], found["ladder/heads/effect_se"] = _mean(effect)
    return found


def life(get: Get) -> dict[str, object]:
    """Section 8.5: decay of the error reduction after its peak against what choosing the largest of noisy values gives, and capabilities meanwhile."""
    decay, signs, accuracy, logp = [], [], [], []
    for m in mixed(get):
        found = course(m.steps, m.reductions())
        if not found.peak > 0:
            continue
        expected = expected_decay(_near_peak(m, found), _prompt_error(m), found.peak)
        decay.append(found.decay - expected)
        at = int(np.flatnonzero(m.steps == found.peak_step)[0])
        signs.append(m.aligned().signs - m.aligned(at).signs)
        accuracy.append(trend_after(m.steps, (m.arrays["block10_margin"] > 0).mean(1), found.peak_step))
        logp.append(trend_after(m.steps, m.arrays["recall_logp"].mean(1), found.peak_step))
    values: dict[str, object] = {"ladder/life/models": len(decay)}
    values["ladder/life/decay"], values["ladder/life/decay_se"] = _mean(decay)
    values["ladder/life/signs"], values["ladder/life/signs_se"] = _mean(signs)
    values["ladder/life/induction"], values["ladder/life/induction_se"] = _mean(accuracy)
    values["ladder/life/recall"], values["ladder/life/recall_se"] = _mean(logp)
    return values


def _near_peak(m: Model, found: Course) -> int:
    """Checkpoints from the half maximum on: those among which noise may choose the peak."""
    return int((m.steps >= found.half).sum())


def _prompt_error(m: Model) -> float:
    """Standard error of the final error reduction over prompts."""
    off = np.abs(m.target[:, None] - m.arrays["lines_estimate"][-1])
    return float(standard_error(off[:, 0] - off[:, -1]))


def forecasts(get: Get) -> dict[str, object]:
    """Section 8.5.4: does the reduction at 2.8 % of training rank the final one, and other capabilities? What can 7 to 9 models show?"""
    every = mixed(get)
    early, final, recall = [], [], []
    for m in every:
        at = int(np.flatnonzero(m.steps >= EARLY * m.steps[-1])[0])
        reductions = m.reductions()
        early.append(reductions[at])
        final.append(reductions[-1])
        recall.append(m.arrays["recall_logp"][-1].mean())
    own, across = (forecast(np.array(early), np.array(target)) for target in (final, recall))
    return {
        "ladder/forecast/spearman": own.spearman,
        "ladder/forecast/skill": own.skill,
        "ladder/forecast/across_spearman": across.spearman,
        "ladder/forecast/across_skill": across.skill,
        "ladder/forecast/models": len(every),
        **forecast_power(),
    }


def forecast_power() -> dict[str, object]:
    """What ladders of seven and nine models can show, simulated."""
    seven, nine, none = power(7, 0.59), power(9, 0.59), power(7, 0.0)
    return {
        "forecast/power_7": seven.significant,
        "forecast/power_9": nine.significant,
        "forecast/false_best_of_4": none.best,
        "forecast/width_7": seven.width,
        "forecast/skill_7": seven.skill,
    }
