"""Sections 8, 9.3 and 9.4 on published models: values and errors that the ledger's rules ask for, from results of ``iclbook probe``.

Errors are over prompts: models and checkpoints are those that the paper names. A function takes what was found, (model, revision, probe) -> results.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from ...statistics import Estimate, jackknife, share_error
from .probe_statistics import alignment, causal_heads, contraction, late_over_early
from .readout import DROPS, THRESHOLDS, emergence_gap

#: Models of sections 8.2 and 8.4 (finding 4), of figure 2's panel, and of section 9.4.
ALIGNED, RATED = ("gpt2", "pythia-410m", "pythia-1b"), ("gpt2", "pythia-160m", "pythia-410m")
PANEL = ("qwen2.5-0.5b", "distilgpt2", "gpt-neo-125m", "gpt2", "gpt2-medium", "gpt2-large")
PANEL += ("pythia-70m", "pythia-160m", "pythia-410m", "pythia-1b", "tinyllama-1.1b")
SIZED = ("pythia-70m", "pythia-160m", "gpt2-medium", "pythia-410m", "gpt2-large", "pythia-1b")
#: Checkpoints of Pythia-160M, 410M and 1B in section 8.4; on Pythia-160M, sinks at three of them.
GROWING, STEPS = (("pythia-160m", "pythia-410m", "pythia-1b"), (1, 8, 64, 256, 1000, 4000, 16000, 64000, 143000))
SINK_STEPS = (64, 1000, 16000)
#: Section 8.5: the model of figure 6 and how many checkpoints show its peak; Pythia's in the table beside it; the seven sizes of figure 7 and the features
#: of step 4,000 among which it reports the best.
AGEING, CHECKPOINTS, YOUNG = "olmo-2-0425-1b", 10, ("pythia-1.4b", "pythia-1b", "pythia-160m")
FORECAST = tuple(f"pythia-{size}" for size in ("14m", "31m", "70m", "160m", "410m", "1b", "1.4b"))
FEATURES = ("reduction", "slope", "signs", "depth_rank")

#: What a checkpoint of OLMo 2 is called.
ANY_AGE = "stage1-stepN-tokensNB"
#: Section 9.3: causal heads, and of five of them (layer, head): attention to the sink and to the pattern.
CAUSAL = {(0, 0), (0, 2), (0, 4), (0, 10), (5, 3), (5, 10), (5, 11), (6, 1)}
HEADS = {
    (0, 4): (0.08, 0.52),
    (0, 10): (0.23, 0.76),
    (5, 10): (0.77, 0.87),
    (5, 11): (0.69, 0.80),
    (6, 1): (0.56, 0.62),
}


class Probed(NamedTuple):
    """One file: the values that the probe printed, and its raw arrays."""

    values: Mapping[str, float]
    arrays: Mapping[str, np.ndarray]


Found = Mapping[tuple[str, str, str], Probed]


def aligned(probed: Probed, statistic: Callable[[Any], float] | str) -> Estimate:
    """A statistic of the alignment by name, or computed from all of them."""
    both = np.column_stack([probed.arrays["estimate_true"], probed.arrays["target"]]).astype(float)
    read = (lambda of: getattr(of, statistic)) if isinstance(statistic, str) else statistic
    return Estimate.of(lambda b: read(alignment(b[:, :-1], b[:, -1])), both)


def _course(found: Found, model: str, steps: Sequence[int] = STEPS) -> list[Estimate]:
    """The error reduction at checkpoints of a Pythia model."""
    return [aligned(found[model, f"step{step}", "alignment"], "reduction") for step in steps]


def alignment_values(found: Found) -> dict[str, Any]:
    every = [found[model, "", "alignment"] for model in ALIGNED]
    named = {name: name for name in ("slope", "signs", "r2")} | {"falls": lambda of: 1 - of.remaining}
    values = {f"probes/alignment/{key}": Estimate.stack([aligned(p, of) for p in every]) for key, of in named.items()}
    return values | {"probes/alignment/noise": [p.values["p_signs_noise"] for p in every]}


def rates(found: Found) -> dict[str, Any]:
    every = [found[model, "", "alignment"] for model in RATED]
    return {
        "probes/rates/apart": Estimate.stack([aligned(p, lambda of: abs(of.rho_pred / of.rho_obs - 1)) for p in every]),
        "probes/rates/no_contraction": [abs(1 / p.values["rho_obs"] - 1) for p in every],
        "probes/rates/contracting": Estimate.stack([aligned(p, "contracting") for p in every]),
    }


def induction(found: Found) -> dict[str, Any]:
    every = [found[model, "", "induction"] for model in PANEL]
    r2 = Estimate.stack([Estimate.of(lambda e: contraction(e).r2, p.arrays["surprisal10"]) for p in every])
    rho = np.array([p.values["rho10"] for p in every])
    size = [len(found[model, "", "truncation"].arrays["singular"]) for model in PANEL]
    rank = [found[model, "", "truncation"].values["rank_tau0.1"] for model in PANEL]
    fits = np.stack([np.divide(rank, size), rho**2], 1)[r2.value >= 0.5]

    def correlation(of: np.ndarray) -> float:
        return float(np.corrcoef(of.T)[0, 1]) if len(of) > 2 and np.ptp(of, axis=0).all() else 0.0

    return {
        "probes/induction/r2": Estimate(float(r2.value.mean()), float(np.sqrt((r2.error**2).sum())) / len(PANEL)),
        "probes/induction/density": Estimate.of(correlation, fits, jackknife),
    }


def truncation(found: Found) -> dict[str, Any]:
    accuracy = {model: found[model, "", "induction"].values["accuracy10"] for model in PANEL}
    gaps, above = [], []
    for model in sorted(PANEL, key=accuracy.get, reverse=True)[:2]:
        values, arrays = found[model, "", "truncation"]
        tau = min((t for t in THRESHOLDS if f"gap_last_tau{t:g}" in values), default=THRESHOLDS[0])
        width, rank = len(arrays["singular"]), int(values[f"rank_tau{tau:g}"])
        right = np.stack([arrays[f"margin_{drop}"] > 0 for drop in DROPS]).transpose(2, 0, 1)  # (n, drops, K)

        def gap(of: np.ndarray, drop: int = 0, width: int = width, rank: int = rank) -> float:
            return emergence_gap(of[:, drop].mean(0), width, rank)

        gaps.append(Estimate.of(gap, right))
        above.append(Estimate.of(lambda of, gap=gap: gap(of) - gap(of, 1), right))
    return {"probes/truncation/gap": Estimate.stack(gaps), "probes/truncation/above_random": Estimate.stack(above)}


def emergence(found: Found) -> dict[str, Any]:
    every, at = [_course(found, model) for model in GROWING], STEPS.index
    return {
        "probes/emergence/plateau": Estimate.stack([max(map(abs, one[: at(8) + 1]), key=_value) for one in every]),
        "probes/emergence/valley": Estimate.stack([min(one[: at(256) + 1], key=_value) for one in every]),
        "probes/emergence/at_4k": Estimate.stack([one[at(4000)] for one in every]),
        "probes/emergence/peak": Estimate.stack([max(one[at(1000) :], key=_value) for one in every]),
    }


def _value(of: Estimate) -> float:
    return float(of.value)


def _late_over_early(probed: Probed, parts: int) -> Estimate:
    groups = probed.arrays["sink_all"]  # (G, L, H)
    return Estimate.of(lambda of: late_over_early(of.mean(0), parts), groups, jackknife)


def sinks(found: Found) -> dict[str, Any]:
    steps = zip(("early", "middle", "late"), SINK_STEPS, strict=True)
    every = {name: found["pythia-160m", f"step{step}", "sinks"] for name, step in steps}
    return {f"probes/sinks/{name}": _late_over_early(probed, 3) for name, probed in every.items()}


def sizes(found: Found) -> dict[str, Any]:
    every = [_late_over_early(found[model, "", "sinks"], 2) for model in SIZED]
    return {"probes/sizes/late_over_early": Estimate.stack(every)}


def ages(found: Found) -> list[str]:
    """Revisions of :data:`AGEING` whose alignment was measured, by their tokens."""
    tokens = {r: re.search(r"tokens(\d+)B", r) for model, r, probe in found if (model, probe) == (AGEING, "alignment")}
    return sorted((r for r, named in tokens.items() if named), key=lambda r: int(tokens[r][1]))


def peak_and_end(found: Found, course: Sequence[str]) -> tuple[str, str]:
    """The revisions of the largest error reduction and of the end."""
    return max(course, key=lambda r: found[AGEING, r, "alignment"].values["reduction"]), course[-1]


def life(found: Found) -> dict[str, Any]:
    peak, end = peak_and_end(found, ages(found))
    lost = {}
    for key, name in (("decay", "reduction"), ("signs", "signs")):
        before, after = (aligned(found[AGEING, r, "alignment"], name) for r in (peak, end))
        lost[f"probes/life/{key}"] = 1 - after / before
    changes = []
    for probe, of in (("induction", "margin10"), ("recall", "margin"), ("recall", "logp")):
        before, after = (np.asarray(found[AGEING, r, probe].arrays[of]) for r in (peak, end))
        parts = (after, before) if of == "logp" else (after > 0, before > 0)  # the same prompts: a paired difference
        changes.append(Estimate.mean(np.subtract(*(part.astype(float) for part in parts))))
    young = [_course(found, model) for model in YOUNG]
    left = [1 - course[-1] / max(course, key=_value) for course in young]
    return lost | {"probes/life/held_out": Estimate.stack(changes), "probes/life/pythia": Estimate.stack(left)}


def forecast(found: Found) -> dict[str, Any]:
    """Statistics of seven models, whose scatter the rules hold: no errors."""
    start, end = ([found[m, f"step{step}", "alignment"].values for m in FORECAST] for step in (4000, STEPS[-1]))
    features = [[of[name] for of in start] for name in FEATURES]
    held_out = [
        [found[model, f"step{STEPS[-1]}", probe].values[name] for model in FORECAST]
        for probe, name in (("induction", "accuracy10"), ("recall", "logp"))
    ]
    least = [min(_p_of_pearson(feature, target) for feature in features) for target in held_out]
    within = stats.spearmanr(features[0], [of["reduction"] for of in end]).statistic
    return {"probes/forecast/within": float(within), "probes/forecast/p": least}


def _p_of_pearson(x: Sequence[float], y: Sequence[float]) -> float:
    """Two-sided p of Pearson's correlation, 1 where one of both never varies."""
    return float(stats.pearsonr(x, y).pvalue) if np.ptp(x) and np.ptp(y) else 1.0


def circuit(found: Found) -> dict[str, Any]:
    arrays = found["gpt2", "", "patterns"].arrays
    lost = np.asarray(arrays["ablated_layer"]) - np.asarray(arrays["intact"])[:, None]  # (G, L)
    effect = np.asarray(arrays["ablated"]) - np.asarray(arrays["intact"])[:, None, None]  # (G, L, H)
    sink, match = (np.asarray(arrays[name], float) for name in ("sink", "match"))
    by_head = np.stack([[sink[:, *head], match[:, *head]] for head in HEADS], 2)  # (2, G, heads)
    apart = np.abs(by_head.mean(1) - np.transpose([*HEADS.values()]))
    error = [[jackknife(np.mean, of) for of in kind.T] for kind in by_head]
    losses, short = np.asarray(arrays["loss"], float), np.asarray(arrays["read"]) <= 8

    def recovered(groups: np.ndarray) -> int:
        return len(CAUSAL & {*map(tuple, causal_heads(groups.mean(0)).tolist())})

    return {
        "probes/circuit/effect": Estimate.mean(np.asarray(arrays["alone"], float) - losses),
        "probes/circuit/late_less_early": Estimate.of(
            lambda g: g.mean(0)[-2:].min() - g.mean(0)[:5].max(), lost, jackknife
        ),
        "probes/circuit/sinks": Estimate.of(
            lambda g: g[:, g.shape[1] // 2 :].mean() - g[:, :2].mean(), sink, jackknife
        ),
        "probes/circuit/heads": Estimate(recovered(effect) / len(CAUSAL), share_error(recovered(effect), len(CAUSAL))),
        "probes/circuit/sink_apart": Estimate(apart[0], np.array(error[0])),
        "probes/circuit/match_apart": Estimate(apart[1], np.array(error[1])),
        "probes/circuit/short": Estimate.mean(losses[short]),
        "probes/circuit/long": Estimate.mean(losses[~short]),
    }
