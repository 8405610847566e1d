"""Every printed percentage, ratio, t and p value beside what follows from the numbers printed next to it."""

from __future__ import annotations

import math
from functools import lru_cache

from ...drawing.figure_data import Table
from ...numbers import numbers
from . import rounding as q
from .probe_statistics import spearman_exact_p
from .rounding import SENTENCE, TEST, Each, Item, Recomputed, Within, recompute

#: Section 9.4: model sizes in millions as named (GPT-2's from its own paper), and layers.
SIZES = (70, 160, 345, 410, 762, 1000)
LAYERS = (6, 12, 24, 24, 36, 16)
#: Section 8, mean error of the read-out at the first layer and the last: gpt2, Pythia-410M, Pythia-1B.
ERRORS = ("3.62", "2.43", "2.33", "1.19", "2.30", "1.10")
#: Section 8.4, rho predicted and observed: gpt2, Pythia-160M, Pythia-410M.
RHO = ("0.874", "0.834", "0.891", "0.807", "0.911", "0.892")
#: Section 8.5.2, error reduction, peak and final: OLMo-2-1B, OLMo-2-7B, Pythia-1.4B, Pythia-1B, Pythia-160M.
REDUCTION = ("1.47", "0.74", "1.68", "1.02", "1.69", "1.38", "1.19", "1.10", "2.39", "2.39")
#: Section 9.4: ICL effect in nats, and sink fractions, early and late layers, of the models of :data:`SIZES`.
EFFECT = ("3.9", "15.9", "14.8", "11.1", "12.6", "11.1")
SINKS = ("8.5", "21.7", "11.8", "61.0", "39.9", "65.5", "21.4", "71.6", "31.7", "65.6", "13.4", "58.2")
#: Section 9.5.1, means at d = 4, 8, 16, and their standard deviations over six seeds.
ABLATION = {
    "baseline": (("0.324", "0.038"), ("0.982", "0.106"), ("2.187", "0.216")),
    "depth": (("0.604", "0.087"), ("1.824", "0.249"), ("2.684", "0.300")),
    "sink": (("0.490", "0.057"), ("1.730", "0.230"), ("2.753", "0.193")),
    "scale": (("0.533", "0.091"), ("1.601", "0.288"), ("2.602", "0.270")),
    "ortho": (("0.595", "0.085"), ("1.810", "0.261"), ("2.671", "0.276")),
    "full": (("0.432", "0.077"), ("1.457", "0.169"), ("2.561", "0.281")),
}


def means(*variants: str) -> tuple[str, ...]:
    """Printed means of the variants of section 9.5.1, d by d."""
    return tuple(ABLATION[name][i][0] for i in range(3) for name in variants)


def _means_and_deviations(*variants: str) -> tuple[str, ...]:
    return tuple(number for i in range(3) for name in variants for number in ABLATION[name][i])


def size_correlation(*effects: object) -> float:
    """Pearson's correlation of the logarithms of size and ICL effect, over the largest models of section 9.4."""
    return q.pearson(tuple(map(math.log, SIZES[len(SIZES) - len(effects) :])), tuple(math.log(e) for e in effects))


POSITIVE, NEGATIVE = Within("0", None, strict=True), Within(None, "0", strict=True)
RECOVERED = "28 20 5"  # per cent, at d = 4, 8, 16


def synergy(depth, sink, scale, ortho, full):
    """The full model's gain less the sum of its components' gains; positive is super-additive (section 9.5.1)."""
    return (depth - full) - ((depth - sink) + (depth - scale) + (depth - ortho))


# what is printed; the numbers it should be, or where they should lie; the recomputation in words, as a function, and from which printed numbers
# fmt: off
ITEMS = (
    Item("6/depth", "ρ² = 0.9: two layers 0.81, five 0.59, ten 0.35",
          "0.81 0.59 0.35", "0.9^k", lambda: (0.9**2, 0.9**5, 0.9**10)),
    Item("10/thirty", "thirty theorem statements in seven groups",
          "30", "7+7+4+3+3+3+3", lambda *x: sum(x), (7, 7, 4, 3, 3, 3, 3)),
    Item("8/mae", "error drops gpt2 33 %, 410M 49 %, 1B 52 %",
          "33 49 52", "1 − last/first", q.falls, ERRORS),
    Item("8/r", "r² = 0.05–0.09 is r = 0.2–0.3", "0.2 0.3", "√r²", Each(1, lambda square: float(square) ** 0.5), ("0.05", "0.09")),
    # section 8.2 lists Qwen2.5-0.5B, distilgpt2, gpt-neo-125m, gpt2, gpt2-medium, gpt2-large, pythia-70m, -160m, -410m, -1b, tinyllama-1.1b
    Item("8.2/panel", "11-model retained panel", "11", "models listed", q.same, (11,)),
    Item("8.2/t", "r = 0.43, n = 10: t ≈ 1.35", "1.35", "r√((n−2)/(1−r²))", q.t_of_r, ("0.43", 10)),
    Item("8.2/p", "p ≈ 0.21", "0.21", "two-sided p of t, 8 degrees", q.p_of_r, ("0.43", 10)),
    Item("8.2/interval", "95 % CI includes 0",
          Within(None, "0"), "Fisher's z: lower end", q.lower_end, ("0.43", 10)),
    Item("8.2/monotone", "the error should decrease monotonically with depth",
          Within("1", None), "fraction of depth-monotone steps", q.same, ("0.67",), SENTENCE),
    Item("8.2/span", "widens the axis of about 0.05 by a factor of roughly 20 to 0.996",
          "20", "0.996/(1.0 − 0.95)", lambda span: span / (1 - 0.95), ("0.996",)),
    Item("8.3/sink", "late/early sink ratio flat to 5.2 in the 1k–16k window",
          "5.2", "ratio at step 16k, section 8.4", q.same, ("4.5",)),
    Item("8.3/attenuates", "magnitude attenuates 19–50 % post-peak (OLMo and Pythia)",
          Within("18.5", "50.5"), "decay of the five models, section 8.5.2", q.falls, REDUCTION, SENTENCE),
    Item("8.3/panels", "cross-task forecasts, n = 7–10", "10", "the largest panel of section 8.5.4", q.same, (9,)),
    Item("8.3/best", "best cross-task r = −0.47", "-0.47", "the larger of section 8.5.4's two", lambda *x: max(x, key=abs), ("0.59", "-0.47")),
    Item("8.4/compounds", "each layer's residual contracts by ρ_obs: gpt2 0.834, 12 layers; Pythia-410M 0.892, 24 layers",
          Within("0.5", "2"), "ρ^L over the printed fall of the error, 3.62 to 2.43 and 2.33 to 1.19", q.compounded_falls,
          (RHO[1], 12, *ERRORS[:2], RHO[5], 24, *ERRORS[2:4]), SENTENCE),
    Item("8.4/alpha", "slope α ≈ 0.08–0.12 on all models (gpt2, Pythia-410M)",
          Within("0.075", "0.125"), "1 − ρ_pred", lambda *rates: tuple(1 - float(rate) for rate in rates), RHO[::4]),
    Item("8.4/rho-error", "relative error of ρ: 4.8 %, 10.4 %, 2.1 %",
          "4.8 10.4 2.1", "|ρ_pred − ρ_obs|/ρ_obs", q.excesses, RHO),
    Item("8.4/range", "agree within 2–11 %", Within("1.5", "11.5"), "|ρ_pred − ρ_obs|/ρ_obs", q.excesses, RHO),
    Item("8.4/fig5", "Figure 5: rates agree to within 2 % (Pythia-410M)",
          Within(None, "2"), "|ρ_pred − ρ_obs|/ρ_obs", q.excesses, RHO[4:], SENTENCE),
    Item("8.4/families", "across three model families",
          "3", "gpt2 and Pythia (two sizes)", q.same, (2,)),
    Item("8.5/highest", "OLMo-2-7B reaches the highest peak of the combined panel, +1.68",
          Within(None, "1.685"), "peaks of section 8.5.2", q.same, REDUCTION[::2], SENTENCE),
    Item("8.5/decay", "decay −50, −40, −19, −8, 0 %", "50 40 19 8 0", "1 − final/peak", q.falls, REDUCTION),
    Item("8.5/signs", "sign-agreement decay −19 %, −14 %, −18 %",
          "19 14 18", "1 − final/peak", q.falls, ("0.700", "0.564", "0.642", "0.553", "0.609", "0.497")),
    Item("8.5/olmo-sign", "OLMo-2-1B: sign-agreement decay −8 %",
          "8", "1 − 0.569/0.596, section 8.5.3", q.falls, ("0.596", "0.569")),
    Item("8.5/smallest", "the three smallest models are pythia-70m, 410m, 14m",
          Within("410", None), "the nine sizes include 160M", q.same, (160,), SENTENCE),
    Item("8.5/induction", "induction accuracy +1.7 pp",
          "1.7", "100(0.964 − 0.947)", lambda a, b: 100 * (b - a), ("0.947", "0.964")),
    Item("8.5/recall", "associative recall +7.0 pp",
          "7.0", "100(0.414 − 0.344)", lambda a, b: 100 * (b - a), ("0.344", "0.414")),
    Item("8.5/logp", "log-probability +0.55", "0.55", "−4.266 + 4.815", q.rises, ("-4.815", "-4.266")),
    Item("8.5/trillion", "OLMo trains more than 4 trillion tokens past its peak",
          Within("4", None, strict=True), "Figure 6: the remaining about 3.9 T", q.same, ("3.9",), SENTENCE),
    Item("8.5/early", "step 4k is 2.8 % of training", "2.8", "4/143", lambda part, *whole: 100 * part / math.prod(whole), (4, 143)),
    Item("8.5/pearson", "n = 7: r = 0.59, p = 0.16; r = −0.47, p = 0.29",
          "0.16 0.29", "two-sided p of t, 5 degrees", lambda *r: tuple(q.p_of_r(x, 7) for x in r), ("0.59", "-0.47")),
    Item("8.5/spearman", "Spearman 0.89, n = 7, p ≈ 0.007",
          "0.007", "t approximation, 5 degrees", lambda *r: tuple(q.p_of_r(x, 7) for x in r), ("0.89",)),
    Item("9.1/changes", "−3.9 %, −1.1 %, −1.6 % against 5.77",
          "-3.9 -1.1 -1.6", "1 − MSE/baseline", q.against, ("5.77", "5.99", "5.83", "5.87")),
    Item("9.2/falls", "ρ₂ decreases from 0.999 to 0.91", "0.91", "column 18K", q.same, ("0.912",)),
    Item("9.2/extrapolation", "extrapolation suggests more than 100K steps to 0.45",
          Within("100", None, strict=True), "thousands of steps at the mean slope of steps 0 to 18K", lambda start, late, end: 18 * (start - end) / (start - late), ("0.999", "0.912", "0.450")),
    Item("arithmetic/9.2/since-10k", "ρ₂ still falls, so that it can be extrapolated",
          NEGATIVE, "ρ₂ at 18K less at 10K", q.rises, ("0.911", "0.912"), TEST),
    Item("9.2/climbs", "alignment climbs steadily −0.18, 0.13, 0.26, 0.50",
          POSITIVE, "differences", q.differences, ("-0.18", "0.13", "0.26", "0.50")),
    Item("arithmetic/9.2/alignment-p", "alignment of r = 0.50 over eight covariates: beyond chance",
          Within(None, "0.05"), "two-sided p of t, 6 degrees", lambda r: q.p_of_r(r, 8), ("0.50",), TEST),
    Item("arithmetic/9.2/seconds", "110 s for four models of 3,000 steps, 157 s for one of 20,000 that is also measured: no cheaper a step",
          Within("1", None), "157/20,000 over 110/12,000", lambda one, four: (one / 20_000) / (four / 12_000), ("157", "110"), TEST),
    Item("9.3/effect", "ICL effect 10.55 nats", "10.55", "10.93 − 0.378", q.drops, ("10.93", "0.378")),
    Item("9.3/share", "8/144 causal heads (5.6 %)", "5.6", "8/(12·12)", lambda part, *whole: 100 * part / math.prod(whole), (8, 12, 12)),
    Item("arithmetic/9.3/early", "robust to ablating L0–L4, sensitive to L5–L11: more than half of the causal heads are in L5–L11",
          Within("0.5", None, strict=True), "heads listed in L5–L11 over all eight", Each(2, lambda a, b: a / b), (4, 8), TEST),
    Item("9.3/context", "improvement of 0.19 nats", "0.19", "0.49 − 0.31", q.drops, ("0.49", "0.31")),
    Item("9.4/ratio", "late/early from 1.6 to 5.2",
          "1.6 5.2", "65.5/39.9 and 61.0/11.8", q.ratios, (*SINKS[4:6], *SINKS[2:4])),
    Item("9.4/all", "6/6 higher in late layers, ratios between those two",
          Within("1.55", "5.25"), "late/early of six models", q.ratios, SINKS),
    Item("9.4/size", "log(parameters) and log(ICL effect): r = 0.58",
          "0.58", "Pearson, six models", size_correlation, EFFECT),
    Item("9.4/depth", "depth and ICL: r = 0.45", "0.45", "Pearson, six models", lambda *effects: q.pearson(LAYERS, effects), EFFECT),
    Item("arithmetic/9.4/p", "r = 0.58 over six models: beyond chance",
          Within(None, "0.05"), "two-sided p of t, 4 degrees", lambda r: q.p_of_r(r, 6), ("0.58",), TEST),
    Item("arithmetic/9.4/five", "larger models show better ICL: without Pythia-70M",
          POSITIVE, "Pearson of the logarithms, five models", size_correlation, EFFECT[1:], TEST),
    Item("9.5/gain", "improvement 67.1 %", "67.1", "1 − 0.061/0.184", q.falls, ("0.184", "0.061")),
    Item("9.5/headline", "sequences of 12: mean squared errors 0.184 and 0.061",
          "0.184 0.061", "printed for n = 12", q.same, ("0.176", "0.035"), SENTENCE),
    Item("9.5/mean", "6.4× and 19.5× below one mean baseline",
          Within("0", "0"), "6.4·0.184 − 19.5·0.061", lambda a, b, c, d: a * b - c * d, ("6.4", "0.184", "19.5", "0.061")),
    Item("9.5/losses", "0.157 against 0.041: 3.8×",
          "3.8", "0.157/0.041", Each(2, lambda a, b: a / b), ("0.157", "0.041")),
    Item("9.5/contexts", "improvement 29.8, 58.6, 79.9 %",
          "29.8 58.6 79.9", "1 − theory/baseline", q.falls, ("0.512", "0.360", "0.232", "0.096", "0.176", "0.035")),
    Item("9.5/sink", "sink fraction increases monotonically 16.5, 25.5, 30.1, 33.5",
          POSITIVE, "differences", q.differences, ("16.5", "25.5", "30.1", "33.5")),
    Item("9.5/scales", "layer scales decrease with depth 0.786, 0.790, 0.740, 0.728",
          NEGATIVE, "differences", q.differences, ("0.786", "0.790", "0.740", "0.728"), SENTENCE),
    Item("arithmetic/9.5.1/penalty", "the full model recovers 28, 20, 5 % of the depth penalty",
          RECOVERED, "(depth − full)/(depth − baseline)", Each(3, lambda baseline, depth, full: 100 * (depth - full) / (depth - baseline)), means("baseline", "depth", "full")),
    Item("9.5.1/reduction", "28, 20, 5 % read as the fall of the deep model's error",
          RECOVERED, "(depth − full)/depth", q.falls, means("depth", "full")),
    Item("9.5.1/synergy-4", "super-additively at small d: d = 4",
          POSITIVE, "gain of full less the sum of the three gains", synergy, means("depth", "sink", "scale", "ortho", "full")[:5], SENTENCE),
    Item("9.5.1/synergy-8", "super-additively at small d: d = 8",
          POSITIVE, "gain of full less the sum of the three gains", synergy, means("depth", "sink", "scale", "ortho", "full")[5:10]),
    Item("9.5.1/gap", "shrinking gap to baseline with dimension",
          NEGATIVE, "full − baseline, d = 8 less d = 4, then 16 less 8", lambda a, b, c, d, e, f: ((d - c) - (b - a), (f - e) - (d - c)), means("baseline", "full"), SENTENCE),
    Item("9.5.1/worse", "the deep model is worse at every d",
          POSITIVE, "depth − baseline", q.rises, means("baseline", "depth")),
    Item("9.5.1/best", "full is the best deep variant at every d",
          POSITIVE, "best other − full", Each(5, lambda *x: min(x[:-1]) - x[-1]), means("depth", "sink", "scale", "ortho", "full")),
    Item("9.5.1/scale", "layer scale helps at all three d",
          POSITIVE, "depth − scale", q.drops, means("depth", "scale")),
    Item("arithmetic/9.5.1/scale-p", "layer scale helps most consistently: beyond the seeds' spread",
          Within(None, "0.05"), "Welch's p, six seeds each", q.p_of_six_seeds, _means_and_deviations("depth", "scale"), TEST),
    Item("9.5.1/sink", "sink helps at d = 4 and 8, not at 16",
          POSITIVE, "depth − sink, sign turned at 16", lambda a, b, c, d, e, f: (a - b, c - d, f - e), means("depth", "sink")),
    Item("9.6/configurations", "7 configurations", "7", "rows of the table", q.same, (6,)),
    Item("9.6/weights", "λ_div ∈ {0.1, 0.5, 1.0}", "3", "values in the table's rows", q.same, (2,)),
    Item("9.6/deltas", "−2.8, +1.2, +0.9, +3.3, −0.9, +0.5 %",
          "-2.8 1.2 0.9 3.3 -0.9 0.5", "1 − spectral/baseline", q.falls, ("3.20", "3.29", "2.70", "2.67", "1.13", "1.12", "0.81", "0.79", "5.36", "5.41", "2.47", "2.46")),
    Item("9.6/p", "t = −0.057, five seeds: p > 0.5",
          Within("0.5", None, strict=True), "two-sided p of t, 4 degrees", lambda t: q.p_of_t(t, 4), ("-0.057",)),
    Item("arithmetic/9.6/seed-effect", "+3.3 % of one seed was seed-specific, the mean of five −0.06 % with t = −0.057: beyond two deviations of a seed",
          Within("2", None), "3.3 over (0.06/0.057)√5", lambda one, mean, t: one / (mean / t * 5**0.5), ("3.3", "0.06", "0.057"), TEST),
    Item("9.6/balanced", "−0.8 %, −3.2 % against 3.81",
          "-0.8 -3.2", "1 − MSE/baseline", q.against, ("3.81", "3.84", "3.94")),
)
# fmt: on


#: Items by section and name.
BY_NAME = {item.id.removeprefix("arithmetic/"): item for item in ITEMS}


def printed_numbers(name: str) -> tuple[float, ...]:
    """The printed numbers that an item is recomputed from."""
    return tuple(map(float, BY_NAME[name].inputs))


@lru_cache(maxsize=1)
def recompute_all() -> tuple[Recomputed, ...]:
    """Recompute every item."""
    return tuple(recompute(item) for item in ITEMS)


def counted() -> list[Recomputed]:
    """What the paper prints or says, without this book's own tests."""
    return [r for r in recompute_all() if r.item.kind != TEST]


def tables() -> tuple[Table, Table]:
    """What is printed, what it is recomputed from, the numbers and the intervals that rounding allows: of what does not follow, and of all."""
    rows = [
        {
            "section": r.item.section,
            "printed": r.item.words,
            "recomputed as": r.item.formula,
            "from": ", ".join(map(str, r.item.inputs)),
            "gives": numbers(r.values, 4),
            "at least": numbers(r.low, 4),
            "at most": numbers(r.high, 4),
            "result": "follows" if r.follows else "does not follow",
        }
        for r in counted()
    ]
    every = {name: name for name in rows[0]} | {"from": "from the printed"}
    wrong = [row for row in rows if row["result"] != "follows"]
    columns = {name: heading for name, heading in every.items() if name != "result"}
    return (
        Table(wrong, columns, "Printed numbers that do not follow"),
        Table(rows, every, "All recomputed numbers", folded=True),
    )


def _number(r: Recomputed) -> float | int | list:
    """An item's numbers for the ledger: whole where they follow from exact counts, one or a list."""
    exact = all(isinstance(x, int) for x in r.item.inputs)
    numbers = [int(x) if exact and x == int(x) else x for x in r.values]
    return numbers if len(numbers) > 1 else numbers[0]


def records() -> dict[str, object]:
    """How many printed numbers of each section do not follow, items that the text names, and the questions on rho and on Spearman's p."""
    wrong = [r.item.section for r in counted() if not r.follows]
    rates = tuple(map(float, RHO))
    return {
        **{r.item.id: _number(r) for r in recompute_all() if r.item.id.startswith("arithmetic/")},
        **{
            f"arithmetic/{section}/failing": wrong.count(section)
            for section in dict.fromkeys(r.item.section for r in counted())
        },
        "arithmetic/items": len(counted()),
        "arithmetic/failing": len(wrong),
        "rho/error_of_alpha": [float(x) for x in q.excesses_of_alpha(*rates)],
        "rho/error_of_no_contraction": [100 * (1 - x) / x for x in rates[1::2]],
        "rho/better_assignments": q.better_assignments(*rates),
        "spearman/exact_p": spearman_exact_p(0.89, 7),
    }
