"""Nagy 2026, sections 9.1 to 9.4: printed numbers of the masks, the training dynamics, the ablation of heads and the sinks."""

from __future__ import annotations

import math

from .arithmetic_probes import against, pairwise
from .printed import POSITIVE, Item, Rounded, Within, differences
from .statistics import p_of_r, pearson

#: Section 9.4: model sizes in millions as named (GPT-2's from its own paper), layers, ICL effect in nats.
SIZES = (70, 160, 345, 410, 762, 1000)
LAYERS = (6, 12, 24, 24, 36, 16)
EFFECT = ("3.9", "15.9", "14.8", "11.1", "12.6", "11.1")
SINKS = ("8.5", "21.7", "11.8", "61.0", "39.9", "65.5", "21.4", "71.6", "31.7", "65.6", "13.4", "58.2")


ITEMS = (
    Item(
        "9.1/changes",
        "9.1",
        "−3.9 %, −1.1 %, −1.6 % against 5.77",
        Rounded(("-3.9", "-1.1", "-1.6")),
        "1 − MSE/baseline",
        ("5.77", "5.99", "5.83", "5.87"),
        against,
    ),
    Item(
        "9.2/falls",
        "9.2",
        "ρ₂ decreases from 0.999 to 0.91",
        Rounded(("0.91",)),
        "column 18K",
        ("0.912",),
        lambda x: x,
    ),
    Item(
        "9.2/extrapolation",
        "9.2",
        "extrapolation suggests more than 100K steps to 0.45",
        Within("100", None, strict=True),
        "thousands of steps at the mean slope of steps 0 to 18K",
        ("0.999", "0.912", "0.450"),
        lambda a, b, c: 18 * (a - c) / (a - b),
    ),
    Item(
        "9.2/since-10k",
        "9.2",
        "ρ₂ still falls, so that it can be extrapolated",
        Within(None, "0", strict=True, words="below 0"),
        "ρ₂ at 18K less at 10K",
        ("0.911", "0.912"),
        lambda a, b: b - a,
        "test",
        True,
    ),
    Item(
        "9.2/climbs",
        "9.2",
        "alignment climbs steadily −0.18, 0.13, 0.26, 0.50",
        POSITIVE,
        "differences",
        ("-0.18", "0.13", "0.26", "0.50"),
        differences,
    ),
    Item(
        "9.3/effect",
        "9.3",
        "ICL effect 10.55 nats",
        Rounded(("10.55",)),
        "10.93 − 0.378",
        ("10.93", "0.378"),
        lambda a, b: a - b,
    ),
    Item(
        "9.3/share",
        "9.3",
        "8/144 causal heads (5.6 %)",
        Rounded(("5.6",)),
        "8/(12·12)",
        (8, 12, 12),
        lambda k, a, b: 100 * k / (a * b),
    ),
    Item(
        "9.3/early",
        "9.3",
        "robust to ablating L0–L4, sensitive to L5–L11: more than half of the causal heads are in L5–L11",
        Within("0.5", None, strict=True, words="more than half"),
        "heads listed in L5–L11 over all eight",
        (4, 8),
        lambda a, b: a / b,
        "test",
        True,
    ),
    Item(
        "9.3/context",
        "9.3",
        "improvement of 0.19 nats",
        Rounded(("0.19",)),
        "0.49 − 0.31",
        ("0.49", "0.31"),
        lambda a, b: a - b,
    ),
    Item(
        "9.4/ratio",
        "9.4",
        "late/early from 1.6 to 5.2",
        Rounded(("1.6", "5.2")),
        "65.5/39.9 and 61.0/11.8",
        ("39.9", "65.5", "11.8", "61.0"),
        lambda a, b, c, d: (b / a, d / c),
    ),
    Item(
        "9.4/all",
        "9.4",
        "6/6 higher in late layers, ratios between those two",
        Within("1.55", "5.25"),
        "late/early of six models",
        SINKS,
        pairwise(lambda a, b: b / a),
    ),
    Item(
        "9.4/size",
        "9.4",
        "log(parameters) and log(ICL effect): r = 0.58",
        Rounded(("0.58",)),
        "Pearson, six models",
        EFFECT,
        lambda *x: pearson(tuple(map(math.log, SIZES)), tuple(math.log(e) for e in x)),
    ),
    Item(
        "9.4/depth",
        "9.4",
        "depth and ICL: r = 0.45",
        Rounded(("0.45",)),
        "Pearson, six models",
        EFFECT,
        lambda *x: pearson(LAYERS, x),
    ),
    Item(
        "9.4/p",
        "9.4",
        "r = 0.58 over six models: beyond chance",
        Within(None, "0.05", words="p below 0.05"),
        "two-sided p of t, 4 degrees",
        ("0.58",),
        lambda r: p_of_r(r, 6),
        "test",
        True,
    ),
    Item(
        "9.4/five",
        "9.4",
        "larger models show better ICL: without Pythia-70M",
        POSITIVE,
        "Pearson of the logarithms, five models",
        EFFECT[1:],
        lambda *x: pearson(tuple(map(math.log, SIZES[1:])), tuple(math.log(e) for e in x)),
        "test",
        True,
    ),
)
