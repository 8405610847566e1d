"""Nagy 2026, sections 6 to 8: printed numbers of the theory and of the probes of language models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .printed import Item, Rounded, Within
from .statistics import fisher_interval, p_of_r, t_of_r


def fall(before: Any, after: Any) -> Any:
    """By how many per cent a number fell."""
    return 100 * (1 - after / before)


def excess(predicted: Any, observed: Any) -> Any:
    """Relative difference in per cent."""
    return 100 * abs(predicted - observed) / observed


def _alpha(predicted: Any, observed: Any) -> Any:
    """The same of alpha = 1 - rho."""
    return 100 * abs(predicted - observed) / (1 - observed)


def against(base: Any, *others: Any) -> tuple:
    """By how many per cent each of the others lies below the base."""
    return tuple(fall(base, x) for x in others)


def pairwise(function: Callable[[Any, Any], Any]) -> Callable[..., tuple]:
    """Apply a function of two numbers to consecutive pairs."""
    return lambda *x: tuple(function(x[i], x[i + 1]) for i in range(0, len(x), 2))


#: rho predicted and observed: gpt2, Pythia-160M, Pythia-410M.
RHO = ("0.874", "0.834", "0.891", "0.807", "0.911", "0.892")
#: Error reduction, peak and final: OLMo-2-1B, OLMo-2-7B, Pythia-1.4B, Pythia-1B, Pythia-160M.
REDUCTION = ("1.47", "0.74", "1.68", "1.02", "1.69", "1.38", "1.19", "1.10", "2.39", "2.39")
#: The panel as listed in section 8.2.
PANEL = (
    "Qwen2.5-0.5B", "distilgpt2", "gpt-neo-125m", "gpt2", "gpt2-medium", "gpt2-large",
    "pythia-70m", "pythia-160m", "pythia-410m", "pythia-1b", "tinyllama-1.1b",
)  # fmt: skip

ITEMS = (
    Item(
        "6/depth",
        "6",
        "ρ² = 0.9: two layers 0.81, five 0.59, ten 0.35",
        Rounded(("0.81", "0.59", "0.35")),
        "0.9^k",
        (),
        lambda: (0.9**2, 0.9**5, 0.9**10),
    ),
    Item(
        "10/thirty",
        "10",
        "thirty theorem statements in seven groups",
        Rounded(("30",)),
        "7+7+4+3+3+3+3",
        (7, 7, 4, 3, 3, 3, 3),
        lambda *x: sum(x),
    ),
    Item(
        "8/mae",
        "8",
        "error drops gpt2 33 %, 410M 49 %, 1B 52 %",
        Rounded(("33", "49", "52")),
        "1 − last/first",
        ("3.62", "2.43", "2.33", "1.19", "2.30", "1.10"),
        pairwise(fall),
    ),
    Item(
        "8/r",
        "8",
        "r² = 0.05–0.09 is r = 0.2–0.3",
        Rounded(("0.2", "0.3")),
        "√r²",
        ("0.05", "0.09"),
        lambda a, b: (float(a) ** 0.5, float(b) ** 0.5),
    ),
    Item(
        "8.2/panel",
        "8.2",
        "11-model retained panel",
        Rounded(("11",)),
        "models listed",
        (len(PANEL),),
        lambda n: n,
    ),
    Item(
        "8.2/t",
        "8.2",
        "r = 0.43, n = 10: t ≈ 1.35",
        Rounded(("1.35",)),
        "r√((n−2)/(1−r²))",
        ("0.43", 10),
        lambda r, n: t_of_r(r, int(n)),
    ),
    Item(
        "8.2/p",
        "8.2",
        "p ≈ 0.21",
        Rounded(("0.21",)),
        "two-sided p of t, 8 degrees",
        ("0.43", 10),
        lambda r, n: p_of_r(r, int(n)),
    ),
    Item(
        "8.2/interval",
        "8.2",
        "95 % CI includes 0",
        Within(None, "0"),
        "Fisher's z: lower end",
        ("0.43", 10),
        lambda r, n: fisher_interval(r, int(n))[0],
    ),
    Item(
        "8.2/span",
        "8.2",
        "widens the axis of about 0.05 by a factor of roughly 20 to 0.996",
        Rounded(("20",)),
        "0.996/(1.0 − 0.95)",
        ("0.996",),
        lambda x: x / (1 - 0.95),
    ),
    Item(
        "8.3/best-r",
        "8.3",
        "best cross-task r = −0.47, read as best over both tasks (Figure 7: best for each)",
        Within(None, "0.475", words="no larger than 0.47 in size"),
        "|r| of induction, section 8.5.4",
        ("0.59",),
        lambda r: r,
        "test",
        True,
    ),
    Item(
        "8.3/sink",
        "8.3",
        "late/early sink ratio flat to 5.2 in the 1k–16k window",
        Rounded(("5.2",)),
        "ratio at step 16k, section 8.4",
        ("4.5",),
        lambda x: x,
        "number",
        True,
    ),
    Item(
        "8.3/attenuates",
        "8.3",
        "magnitude attenuates 19–50 % post-peak (OLMo-2-1B, 7B, Pythia-1.4B)",
        Within("18.5", "50.5"),
        "decay of those that train well past their peak, section 8.5.2",
        REDUCTION[:6],
        pairwise(fall),
        "sentence",
    ),
    Item(
        "8.4/slopes",
        "8.4",
        "slope α = 0.08–0.12 (section 8.2), read as that of section 8.4's probe too",
        Within("0.075", "0.125"),
        "1 − ρ_pred",
        ("0.874", "0.911"),
        lambda a, b: (1 - a, 1 - b),
        "test",
        True,
    ),
    Item(
        "8.4/rho-error",
        "8.4",
        "relative error of ρ: 4.8 %, 10.4 %, 2.1 %",
        Rounded(("4.8", "10.4", "2.1")),
        "|ρ_pred − ρ_obs|/ρ_obs",
        RHO,
        pairwise(excess),
    ),
    Item(
        "8.4/range",
        "8.4",
        "agree within 2–11 %",
        Within("1.5", "11.5"),
        "|ρ_pred − ρ_obs|/ρ_obs",
        RHO,
        pairwise(excess),
    ),
    Item(
        "8.4/fig5",
        "8.4",
        "Figure 5: rates agree to within 2 % (Pythia-410M)",
        Within(None, "2"),
        "|ρ_pred − ρ_obs|/ρ_obs",
        RHO[4:],
        excess,
        "sentence",
        True,
    ),
    Item(
        "8.4/families",
        "8.4",
        "across three model families",
        Rounded(("3",)),
        "gpt2 and Pythia (two sizes)",
        (2,),
        lambda n: n,
        "number",
        True,
    ),
    Item(
        "8.5/highest",
        "8.5",
        "OLMo-2-7B reaches the highest peak of the combined panel, +1.68",
        Within(None, "1.685", words="no peak above 1.68"),
        "peaks of section 8.5.2",
        REDUCTION[::2],
        lambda *x: x,
        "sentence",
        True,
    ),
    Item(
        "8.5/decay",
        "8.5",
        "decay −50, −40, −19, −8, 0 %",
        Rounded(("50", "40", "19", "8", "0")),
        "1 − final/peak",
        REDUCTION,
        pairwise(fall),
    ),
    Item(
        "8.5/signs",
        "8.5",
        "sign-agreement decay −19 %, −14 %, −18 %",
        Rounded(("19", "14", "18")),
        "1 − final/peak",
        ("0.700", "0.564", "0.642", "0.553", "0.609", "0.497"),
        pairwise(fall),
    ),
    Item(
        "8.5/olmo-sign",
        "8.5",
        "OLMo-2-1B: sign-agreement decay −8 %",
        Rounded(("8",)),
        "1 − 0.569/0.596, section 8.5.3",
        ("0.596", "0.569"),
        fall,
        "number",
        True,
    ),
    Item(
        "8.5/smallest",
        "8.5",
        "the three smallest models are pythia-70m, 410m, 14m",
        Within("410", None, words="no model below 410M besides 14M and 70M"),
        "the nine sizes include 160M",
        (160,),
        lambda n: n,
        "sentence",
        True,
    ),
    Item(
        "8.5/induction",
        "8.5",
        "induction accuracy +1.7 pp",
        Rounded(("1.7",)),
        "100(0.964 − 0.947)",
        ("0.947", "0.964"),
        lambda a, b: 100 * (b - a),
    ),
    Item(
        "8.5/recall",
        "8.5",
        "associative recall +7.0 pp",
        Rounded(("7.0",)),
        "100(0.414 − 0.344)",
        ("0.344", "0.414"),
        lambda a, b: 100 * (b - a),
    ),
    Item(
        "8.5/logp",
        "8.5",
        "log-probability +0.55",
        Rounded(("0.55",)),
        "−4.266 + 4.815",
        ("-4.815", "-4.266"),
        lambda a, b: b - a,
    ),
    Item(
        "8.5/trillion",
        "8.5",
        "OLMo trains more than 4 trillion tokens past its peak",
        Within("4", None, strict=True),
        "Figure 6: the remaining about 3.9 T",
        ("3.9",),
        lambda x: x,
        "sentence",
        True,
    ),
    Item(
        "8.5/early",
        "8.5",
        "step 4k is 2.8 % of training",
        Rounded(("2.8",)),
        "4/143",
        (4, 143),
        lambda a, b: 100 * a / b,
    ),
    Item(
        "8.5/pearson",
        "8.5",
        "n = 7: r = 0.59, p = 0.16; r = −0.47, p = 0.29",
        Rounded(("0.16", "0.29")),
        "two-sided p of t, 5 degrees",
        ("0.59", "-0.47"),
        lambda a, b: (p_of_r(a, 7), p_of_r(b, 7)),
    ),
    Item(
        "8.5/spearman",
        "8.5",
        "Spearman 0.89, n = 7, p ≈ 0.007",
        Rounded(("0.007",)),
        "t approximation, 5 degrees",
        ("0.89",),
        lambda r: p_of_r(r, 7),
    ),
)

#: The relative error of alpha = 1 - rho for the same three pairs, which section 8.4 does not print.
ALPHA_ERROR = Item(
    "8.4/alpha-error",
    "8.4",
    "agree within 2–11 %, read on α",
    Within("1.5", "11.5"),
    "|α_pred − α_obs|/α_obs",
    RHO,
    pairwise(_alpha),
)
#: What "no contraction at all", rho = 1, would score by the document's measure.
NULL_ERROR = Item(
    "8.4/null-error",
    "8.4",
    "ρ_pred = 1 scored the same way",
    Within("1.5", "11.5"),
    "(1 − ρ_obs)/ρ_obs",
    RHO[1::2],
    lambda *x: tuple(100 * (1 - r) / r for r in x),
)
