"""Nagy 2026, sections 9.5 and 9.6: printed numbers of the theory-guided architecture, its ablation and the regularised heads."""

from __future__ import annotations

import math
from typing import Any

from .arithmetic_probes import against, fall, pairwise
from .printed import POSITIVE, Item, Rounded, Within, differences
from .statistics import p_of_means, p_of_t

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
    """Printed means of the variants, d by d."""
    return tuple(ABLATION[name][i][0] for i in range(3) for name in variants)


def _each(width: int, function):
    """Apply a function to each of the three dimensions' numbers."""
    return lambda *x: tuple(function(*x[i : i + width]) for i in range(0, len(x), width))


def share_of_penalty(baseline: Any, depth: Any, full: Any) -> Any:
    """Per cent of the depth penalty that the full model recovers: (depth - full)/(depth - baseline)."""
    return 100 * (depth - full) / (depth - baseline)


def synergy(depth: Any, sink: Any, scale: Any, ortho: Any, full: Any) -> Any:
    """The full model's gain less the sum of its components' gains; positive is super-additive."""
    return (depth - full) - ((depth - sink) + (depth - scale) + (depth - ortho))


def _p_values(worse: str, better: str) -> tuple[tuple[str, ...], Any]:
    inputs = tuple(x for i in range(3) for name in (worse, better) for x in ABLATION[name][i])
    return inputs, _each(4, lambda m1, s1, m2, s2: p_of_means(m1, s1, m2, s2, 6))


_SCALE_INPUTS, _SCALE_P = _p_values("depth", "scale")


def _speed(baseline: Any, first: Any, second: Any) -> float:
    """Ratio of decay rates if both losses fall geometrically from the mean baseline's over the same steps."""
    start = 6.4 * float(baseline)
    return math.log(start / float(second)) / math.log(start / float(first))


ITEMS = (
    Item(
        "9.5/gain",
        "9.5",
        "improvement 67.1 %",
        Rounded(("67.1",)),
        "1 − 0.061/0.184",
        ("0.184", "0.061"),
        fall,
    ),
    Item(
        "9.5/mean",
        "9.5",
        "6.4× and 19.5× below one mean baseline",
        Within("0", "0", words="the same baseline"),
        "6.4·0.184 − 19.5·0.061",
        ("6.4", "0.184", "19.5", "0.061"),
        lambda a, b, c, d: a * b - c * d,
    ),
    Item(
        "9.5/losses",
        "9.5",
        "0.157 against 0.041: 3.8×",
        Rounded(("3.8",)),
        "0.157/0.041",
        ("0.157", "0.041"),
        lambda a, b: a / b,
    ),
    Item(
        "9.5/faster",
        "9.5",
        "3.8× faster, read as a rate of convergence",
        Rounded(("3.8",)),
        "ln(E/0.041)/ln(E/0.157), E = 6.4·0.184",
        ("0.184", "0.157", "0.041"),
        _speed,
        "sentence",
        True,
    ),
    Item(
        "9.5/contexts",
        "9.5",
        "improvement 29.8, 58.6, 79.9 %",
        Rounded(("29.8", "58.6", "79.9")),
        "1 − theory/baseline",
        ("0.512", "0.360", "0.232", "0.096", "0.176", "0.035"),
        pairwise(fall),
    ),
    Item(
        "9.5/sink",
        "9.5",
        "sink fraction increases monotonically 16.5, 25.5, 30.1, 33.5",
        POSITIVE,
        "differences",
        ("16.5", "25.5", "30.1", "33.5"),
        differences,
    ),
    Item(
        "9.5/scales",
        "9.5",
        "layer scales decrease with depth 0.786, 0.790, 0.740, 0.728",
        Within(None, "0", strict=True, words="every difference negative"),
        "differences",
        ("0.786", "0.790", "0.740", "0.728"),
        differences,
        "sentence",
        True,
    ),
    Item(
        "9.5.1/penalty",
        "9.5.1",
        "the full model recovers 28, 20, 5 % of the depth penalty",
        Rounded(("28", "20", "5")),
        "(depth − full)/(depth − baseline)",
        means("baseline", "depth", "full"),
        _each(3, share_of_penalty),
        "number",
        True,
    ),
    Item(
        "9.5.1/reduction",
        "9.5.1",
        "28, 20, 5 % read as the fall of the deep model's error",
        Rounded(("28", "20", "5")),
        "(depth − full)/depth",
        means("depth", "full"),
        _each(2, fall),
    ),
    Item(
        "9.5.1/synergy-4",
        "9.5.1",
        "super-additively at small d: d = 4",
        POSITIVE,
        "gain of full less the sum of the three gains",
        tuple(ABLATION[v][0][0] for v in ("depth", "sink", "scale", "ortho", "full")),
        synergy,
        "sentence",
        True,
    ),
    Item(
        "9.5.1/synergy-8",
        "9.5.1",
        "super-additively at small d: d = 8",
        POSITIVE,
        "gain of full less the sum of the three gains",
        tuple(ABLATION[v][1][0] for v in ("depth", "sink", "scale", "ortho", "full")),
        synergy,
    ),
    Item(
        "9.5.1/gap",
        "9.5.1",
        "shrinking gap to baseline with dimension",
        Within(None, "0", strict=True, words="every difference negative"),
        "full − baseline, d = 8 less d = 4, then 16 less 8",
        means("baseline", "full"),
        lambda a, b, c, d, e, f: ((d - c) - (b - a), (f - e) - (d - c)),
        "sentence",
        True,
    ),
    Item(
        "9.5.1/gap-relative",
        "9.5.1",
        "… read as a share of the baseline",
        Within(None, "0", strict=True, words="every difference negative"),
        "full/baseline, d = 8 less d = 4, then 16 less 8",
        means("baseline", "full"),
        lambda a, b, c, d, e, f: (d / c - b / a, f / e - d / c),
        "test",
        True,
    ),
    Item(
        "9.5.1/worse",
        "9.5.1",
        "the deep model is worse at every d",
        POSITIVE,
        "depth − baseline",
        means("baseline", "depth"),
        _each(2, lambda a, b: b - a),
    ),
    Item(
        "9.5.1/best",
        "9.5.1",
        "full is the best deep variant at every d",
        POSITIVE,
        "best other − full",
        means("depth", "sink", "scale", "ortho", "full"),
        _each(5, lambda *x: min(x[:4]) - x[4]),
    ),
    Item(
        "9.5.1/scale",
        "9.5.1",
        "layer scale helps at all three d",
        POSITIVE,
        "depth − scale",
        means("depth", "scale"),
        _each(2, lambda a, b: a - b),
    ),
    Item(
        "9.5.1/scale-p",
        "9.5.1",
        "layer scale helps most consistently: beyond the seeds' spread",
        Within(None, "0.05", words="p below 0.05 at each d"),
        "Welch's p, six seeds each",
        _SCALE_INPUTS,
        _SCALE_P,
        "test",
        True,
    ),
    Item(
        "9.5.1/sink",
        "9.5.1",
        "sink helps at d = 4 and 8, not at 16",
        POSITIVE,
        "depth − sink, sign turned at 16",
        means("depth", "sink"),
        lambda a, b, c, d, e, f: (a - b, c - d, f - e),
    ),
    Item(
        "9.6/configurations",
        "9.6",
        "7 configurations",
        Rounded(("7",)),
        "rows of the table",
        (6,),
        lambda n: n,
        "number",
        True,
    ),
    Item(
        "9.6/deltas",
        "9.6",
        "−2.8, +1.2, +0.9, +3.3, −0.9, +0.5 %",
        Rounded(("-2.8", "1.2", "0.9", "3.3", "-0.9", "0.5")),
        "1 − spectral/baseline",
        ("3.20", "3.29", "2.70", "2.67", "1.13", "1.12", "0.81", "0.79", "5.36", "5.41", "2.47", "2.46"),
        pairwise(fall),
    ),
    Item(
        "9.6/p",
        "9.6",
        "t = −0.057, five seeds: p > 0.5",
        Within("0.5", None, strict=True),
        "two-sided p of t, 4 degrees",
        ("-0.057",),
        lambda t: p_of_t(t, 4),
    ),
    Item(
        "9.6/balanced",
        "9.6",
        "−0.8 %, −3.2 % against 3.81",
        Rounded(("-0.8", "-3.2")),
        "1 − MSE/baseline",
        ("3.81", "3.84", "3.94"),
        against,
    ),
)
