"""What the ladder says of sections 8.2 to 8.5, 9.3 and 9.4: one function a claim. ``get`` as in :mod:`..probes.models`.

Lists are over models, a size and a seed each, smallest first. Standard errors are over models where a mean is over models.
"""

from __future__ import annotations

import numpy as np

from ....statistics import standard_error
from ....tasks.mixed_corpus import text_entropies
from .. import results
from ..probes import embedding, prompts
from ..probes.alignment import alignment, noise_around_prior, shuffled_targets
from ..probes.contraction import causal_heads, contraction, late_over_early
from ..probes.forecast import forecast, power
from ..probes.ladder import ladder_studies
from ..probes.lifecycle import course, expected_decay, trend_after
from ..probes.models import Get, Model, mixed, twins

#: The early checkpoint of the forecast is the first at this share of the training or later (step 4k of 143k is 2.8 %; here 3.1 %).
EARLY = 0.028
#: An error reduction below this is a valley (digits).
VALLEY = -0.1
#: Draws of null models for each model of the ladder.
NULL_DRAWS = 40


def trained(profile: str, device: str = "auto") -> Get:
    """What gives the results of the ladder's studies by name."""
    return {study.name: results(study.name, profile, device) for study in ladder_studies(profile)}.__getitem__


def _mean(values: list[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(standard_error(np.array(values)))


def gates(get: Get) -> dict[str, object]:
    """Before any probe is read: has every model learned more than pairs of symbols, and to copy?"""
    every = [*mixed(get), *(twin for _, twin in twins(get))]
    first, _ = text_entropies()
    return {
        "ladder/gates/text_below_order_1": [first - float(m.arrays["text_loss"][-1]) for m in every],
        "ladder/gates/induction": [float((m.arrays["block10_margin"][-1] > 0).mean()) for m in every],
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
        context.append(_by_law(m))
    found: dict[str, object] = {}
    found["ladder/nulls/noise_signs"], found["ladder/nulls/noise_signs_se"] = _mean(noise_signs)
    found["ladder/nulls/signs_above_noise"], found["ladder/nulls/signs_above_noise_se"] = _mean(signs)
    found["ladder/nulls/r2_above_noise"], found["ladder/nulls/r2_above_noise_se"] = _mean(r2)
    found["ladder/nulls/reduction_by_prompt"], found["ladder/nulls/reduction_by_prompt_se"] = _mean(other)
    found["ladder/nulls/reduction_by_law"], found["ladder/nulls/reduction_by_law_se"] = _mean(context)
    return found


def _by_law(m: Model) -> float:
    """Error reduction less that with the context's y in another order, over the prompts that another order changes."""
    kinds = (
        prompts.lines(prompts.CORPUS, len(m.target), order=order).tokens for order in ("true", "shuffled")
    )
    changed = np.not_equal(*(tokens.numpy() for tokens in kinds)).any(1)
    true, other = (
        alignment(m.arrays[f"{which}_estimate"][-1][changed], m.target[changed])
        for which in ("lines", "shuffled")
    )
    return true.reduction - other.reduction


def twin_values(get: Get) -> dict[str, object]:
    """The decisive control: a model that never saw a regression."""
    pairs = twins(get)
    without = [twin.aligned() for _, twin in pairs]
    more = [
        model.aligned().reduction - alone.reduction for (model, _), alone in zip(pairs, without, strict=True)
    ]
    found: dict[str, object] = {}
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
    compounded = [a.rho_obs**L / a.remaining for a, L in zip(aligned, layers, strict=True)]
    return {
        "ladder/rates/apart": apart,
        "ladder/rates/compounded": compounded,
    }


def emergence(get: Get) -> dict[str, object]:
    """Finding 2: valley before the peak and crossing out of it; of twins, whose peak is noise, the smallest value of the whole course."""
    courses = [course(m.steps, m.reductions()) for m in mixed(get)]
    found: dict[str, object] = {}
    found["ladder/emergence/valley"], found["ladder/emergence/valley_se"] = _mean([c.valley for c in courses])
    found["ladder/emergence/twin_valley"], found["ladder/emergence/twin_valley_se"] = _mean(
        [float(twin.reductions().min()) for _, twin in twins(get)]
    )
    found["ladder/emergence/crossed"] = float(
        np.mean([c.valley < VALLEY and np.isfinite(c.crossing) for c in courses])
    )
    return found


def sinks(get: Get) -> dict[str, object]:
    """Finding 3 and section 9.4: late over early sinks at the end, and whether the ratio grows with the error reduction."""
    every = mixed(get)
    thirds = [late_over_early(m.arrays["sink_all"][-1]) for m in every]
    together = []
    for m in every:
        ratio = np.array([late_over_early(s) for s in m.arrays["sink_all"]])
        together.append(forecast(m.reductions(), ratio).spearman)
    found: dict[str, object] = {"ladder/sinks/thirds": thirds}
    found["ladder/sinks/with_reduction"], found["ladder/sinks/with_reduction_se"] = _mean(together)
    return found


def inductions(get: Get) -> dict[str, object]:
    """Section 8.2: geometric fit of the surprisal by layer, and share of layers that lower it."""
    every = [contraction(m.arrays["block10_surprisal"][-1]) for m in mixed(get)]
    found: dict[str, object] = {}
    found["ladder/induction/r2"], found["ladder/induction/r2_se"] = _mean([c.r2 for c in every])
    found["ladder/induction/monotone"], found["ladder/induction/monotone_se"] = _mean(
        [c.monotone for c in every]
    )
    return found


def truncation(get: Get) -> dict[str, object]:
    """Section 8.3: accuracy with and without the directions below rank_tau, and the same number of random directions."""
    last, other = ([emergence_gap(m, drop) for m in mixed(get)] for drop in ("last", "random"))
    more = [a - b for a, b in zip(last, other, strict=True)]
    found: dict[str, object] = {}
    found["ladder/truncation/gap"], found["ladder/truncation/gap_se"] = _mean(last)
    found["ladder/truncation/gap_above_random"], found["ladder/truncation/gap_above_random_se"] = _mean(more)
    return found


def emergence_gap(m: Model, drop: str) -> float:
    """Emergence gap at the end of training with the ``last``, ``first`` or ``random`` directions dropped."""
    singular = m.arrays["singular"][-1]
    accuracy = (m.arrays[f"truncated_{drop}"][-1] > 0).mean(-1)
    return embedding.emergence_gap(accuracy, m.width, round(embedding.effective_rank(singular)))


def heads(get: Get) -> dict[str, object]:
    """Sections 9.3 and 9.4: the ICL effect, and which layer costs most when ablated."""
    every = mixed(get)
    late = []
    for m in every:
        cost = m.arrays["ablated_layer_loss"][-1] - m.arrays["intact_loss"][-1]
        late.append(float(cost.argmax()) / (len(cost) - 1))
    found: dict[str, object] = {"ladder/heads/depth_of_worst_layer": late}
    found["ladder/heads/effect"], found["ladder/heads/effect_se"] = _mean([effect(m) for m in every])
    return found


def effect(m: Model) -> float:
    """What the pattern before it lowers the loss of the last token by, in nats, at the end of training."""
    return float((m.arrays["alone_loss"][-1] - m.arrays["pattern_loss"][-1]).mean())


def life(get: Get) -> dict[str, object]:
    """Section 8.5: decay of the error reduction after its peak against what choosing the largest of noisy values gives, and capabilities meanwhile.

    Of models whose peak is not their last checkpoint: after a last one nothing can change.
    """
    decay, signs, accuracy, logp = [], [], [], []
    for m in mixed(get):
        found = course(m.steps, m.reductions())
        if not found.peak > 0 or found.peak_step == m.steps[-1]:
            continue
        near = np.flatnonzero(m.steps >= found.half)  # among these checkpoints noise may choose the peak
        decay.append(found.decay - expected_decay(len(near), _prompt_error(m, near), found.peak))
        at = int(np.flatnonzero(m.steps == found.peak_step)[0])
        signs.append(m.aligned().signs / m.aligned(at).signs - 1)
        accuracy.append(trend_after(m.steps, (m.arrays["block10_margin"] > 0).mean(1), found.peak_step))
        logp.append(trend_after(m.steps, m.arrays["recall_logp"].mean(1), found.peak_step))
    values: dict[str, object] = {}
    if len(decay) < 2:  # no two peaks: there is no spread, and nothing to decide
        return values
    values["ladder/life/decay"], values["ladder/life/decay_se"] = _mean(decay)
    values["ladder/life/signs"], values["ladder/life/signs_se"] = _mean(signs)
    values["ladder/life/induction"], values["ladder/life/induction_se"] = _mean(accuracy)
    values["ladder/life/recall"], values["ladder/life/recall_se"] = _mean(logp)
    return values


def _prompt_error(m: Model, near: np.ndarray) -> float:
    """Standard error of the error reduction at a checkpoint due to the draw of prompts, as it differs between checkpoints: all read the same prompts, so
    from changes between neighbours among ``near``, each of which has the error of two."""
    off = np.abs(m.target[:, None] - m.arrays["lines_estimate"][near].astype(float))  # (C, n, L + 1)
    changes = np.diff(off[..., 0] - off[..., -1], axis=0)  # (C - 1, n)
    return float(np.sqrt(np.mean(standard_error(changes) ** 2) / 2))


def forecasts(get: Get) -> dict[str, object]:
    """Section 8.5.4: does the reduction at 2.8 % of training forecast the final one, and other capabilities, of models left out?"""
    early, final, recall = [], [], []
    for m in mixed(get):
        at = int(np.flatnonzero(m.steps >= EARLY * m.steps[-1])[0])
        reductions = m.reductions()
        early.append(reductions[at])
        final.append(reductions[-1])
        recall.append(m.arrays["recall_logp"][-1].mean())
    own, across = (forecast(np.array(early), np.array(target)) for target in (final, recall))
    return {
        "ladder/forecast/skill": own.skill,
        "ladder/forecast/across_skill": across.skill,
    }


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
        "ladder/heads/of_144": len(causal_heads(np.random.default_rng(0).standard_normal((12, 12)))),
        "ladder/induction/one_jump_r2": contraction(middle[None]).r2,
        "ladder/induction/last_jump_r2": contraction(last[None]).r2,
    }


CLAIMS = (
    gates,
    alignments,
    nulls,
    twin_values,
    rates,
    emergence,
    sinks,
    inductions,
    truncation,
    heads,
    life,
    forecasts,
)


def ladder_records(get: Get) -> dict[str, object]:
    """Everything that the rows ``q-ladder-...`` are decided by."""
    found: dict[str, object] = {}
    for values in CLAIMS:
        found |= values(get)
    return found
