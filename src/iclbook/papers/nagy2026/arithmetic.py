"""Printed percentages, ratios, t and p values (``arithmetic.yaml``) beside what follows from the numbers printed next to it, all of them rounded.

A number printed as 0.184 stands for some value in [0.1835, 0.1845]. What is computed from such numbers is an interval too, and the printed
result follows if the two intervals meet. So a number is refused only if no rounding of its neighbours could have led to it.
"""

import itertools
import math
import re
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic.dataclasses import dataclass
from scipy import stats

from ...claims.yaml_lines import read_yaml
from ...drawing.figure_data import Table
from ...numbers import numbers
from .expressions import evaluate, parse
from .probe_statistics import spearman_exact_p

_DATA = read_yaml(Path(__file__).with_name("arithmetic.yaml"))
#: Printed numbers of several models or dimensions, as they are printed.
SERIES = {name: tuple(row.split()) for name, row in _DATA["series"].items()}


# -- what is recomputed from printed numbers ------------------------------------------------------------------------------------------------


def t_of_r(r: Any, n: Any) -> float:
    """t of a correlation r over n points: ``r sqrt((n - 2) / (1 - r^2))``."""
    return float(r) * math.sqrt((n - 2) / (1 - float(r) ** 2))


def p_of_t(t: Any, df: Any) -> float:
    """Two-sided p of t with ``df`` degrees of freedom."""
    return float(2 * stats.t.sf(abs(float(t)), float(df)))


def p_of_r(r: Any, n: Any) -> float:
    """Two-sided p of a correlation by the t approximation."""
    return p_of_t(t_of_r(r, n), n - 2)


def lower_end(r: Any, n: Any) -> float:
    """Lower end of Fisher's 95 % interval of a correlation."""
    return math.tanh(math.atanh(float(r)) - stats.norm.ppf(0.975) / math.sqrt(n - 3))


def log(x: Sequence[Any]) -> np.ndarray:
    """Natural logarithms."""
    return np.log(np.array(x, dtype=float))


def pearson(x: Sequence[Any], y: Sequence[Any]) -> float:
    """Pearson's correlation of two short lists."""
    return float(np.corrcoef(np.array(x, dtype=float), np.array(y, dtype=float))[0, 1])


def welch_p_of_six(m1: Any, s1: Any, m2: Any, s2: Any) -> float:
    """Welch's p of two means of six runs, from means and standard deviations."""
    one, two = (float(m1), float(s1), 6), (float(m2), float(s2), 6)
    return stats.ttest_ind_from_stats(*one, *two, equal_var=False).pvalue


FUNCTIONS = {f.__name__: f for f in (abs, int, len, max, min, t_of_r, p_of_t, p_of_r, lower_end, log, pearson)}
FUNCTIONS |= {"welch_p_of_six": welch_p_of_six}
#: A printed number; a power of ten has one digit.
NUMBER = re.compile(r"[+-]?\d{0,12}\.?\d{0,12}(e\d)?")


# -- intervals ------------------------------------------------------------------------------------------------------------------------------


def box(printed: str) -> tuple[Fraction, Fraction]:
    """The values that are printed so: half a unit of the last digit to both sides."""
    half = Fraction(1, 2 * 10 ** len(printed.partition(".")[2]))
    return Fraction(printed) - half, Fraction(printed) + half


@dataclass(frozen=True, config={"extra": "forbid"})
class Item:
    """One printed number or sentence and what it should follow from.

    Attributes:
        id: its section and a name, such as ``8.4/range``.
        printed: its words.
        formula: how its numbers are recomputed, in words.
        value: the same as a function of its inputs a, b, c, ... and of :data:`SERIES`, monotone in every argument over its rounding interval. One number or a
            tuple, for each group of as many inputs as it names.
        inputs: printed numbers; a whole number is exact. Or names of series, whose numbers are taken in turn.
        expects: what the numbers must agree with; each stands for all values that round to it. Else all of them lie between the bounds.
        test: a further test of a sentence, by this book, which is not counted.
    """

    id: str
    printed: str
    formula: str
    value: str
    inputs: str = ""
    expects: str = ""
    at_least: str = "-1e9"
    at_most: str = "1e9"
    above: str = "-1e9"
    below: str = "1e9"
    test: bool = False

    def __post_init__(self) -> None:
        bounds = {self.at_least, self.at_most, self.above, self.below}
        words = " ".join((self.expects, *bounds, *self.given)).split()
        assert all(map(NUMBER.fullmatch, words)), f"{self.id} holds what is no printed number"
        assert self.expects or bounds != {"-1e9", "1e9"}, f"{self.id} says neither expects nor a bound"

    @property
    def section(self) -> str:
        """Section of the paper, such as ``8.4``."""
        return self.id.partition("/")[0]

    @property
    def given(self) -> tuple[str, ...]:
        """The printed numbers that it is recomputed from."""
        names = self.inputs.split()
        rows = zip(*(SERIES[name] for name in names), strict=True) if {*names} <= {*SERIES} else [names]
        return tuple(itertools.chain(*rows))


ITEMS = {name: Item(id=name, **fields) for name, fields in _DATA["items"].items()}


class Recomputed(NamedTuple):
    """An item with the numbers that follow: at the printed values, and the least and the largest that rounding allows."""

    item: Item
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    follows: bool


def recompute(item: Item) -> Recomputed:
    """The item's numbers at the printed values and at every corner of the rounding intervals."""
    parsed = parse(item.value)
    letters = sorted(name for name in parsed.names if len(name) == 1)
    boxes = [(Fraction(x), Fraction(x)) if x.isdigit() else box(x) for x in item.given]
    width = len(letters) or len(boxes) or 1
    assert width <= 12, f"{item.id} has {2**width} corners"

    def value(inputs: Sequence[Fraction]) -> tuple:
        rows = {name: np.array(row) for name, row in {**SERIES, "inputs": inputs}.items()}
        found = evaluate(parsed, FUNCTIONS | rows | dict(zip(letters, inputs, strict=False)))
        return found if isinstance(found, tuple) else (found,)

    centre, low, high = [], [], []
    for group in [boxes[i : i + width] for i in range(0, len(boxes), width)] or [[]]:
        corners = [value(corner) for corner in itertools.product(*map(set, group))]
        centre += value([sum(ends) / 2 for ends in group])
        low += map(min, zip(*corners, strict=True))
        high += map(max, zip(*corners, strict=True))
    bounds = [*map(box, item.expects.split())] or [(Fraction(item.at_least), Fraction(item.at_most))] * len(centre)
    follows = all(
        lower <= most and least <= upper and Fraction(item.above) < most and least < Fraction(item.below)
        for (lower, upper), least, most in zip(bounds, low, high, strict=True)
    )
    return Recomputed(item, *(tuple(map(float, ends)) for ends in (centre, low, high)), follows)


def printed_numbers(name: str) -> tuple[float, ...]:
    """The printed numbers that an item is recomputed from."""
    return tuple(map(float, ITEMS[name].given))


@lru_cache(maxsize=1)
def recompute_all() -> tuple[Recomputed, ...]:
    """Recompute every item."""
    return tuple(map(recompute, ITEMS.values()))


def counted() -> list[Recomputed]:
    """Statements that the paper prints, without this book's own tests."""
    return [r for r in recompute_all() if not r.item.test]


def tables() -> tuple[Table, Table]:
    """Tables of printed numbers, their sources and the intervals that rounding allows: of those that do not follow, and of all."""
    rows = [
        {
            "section": r.item.section,
            "printed": r.item.printed,
            "recomputed as": r.item.formula,
            "from": ", ".join(r.item.given),
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


def better_assignments(predicted: Sequence[float], observed: Sequence[float]) -> int:
    """Number of ways to give the observed rates to other predictions that fit as well or better, by the mean relative difference, than the printed pairs."""

    def off(order: Sequence[float]) -> float:
        return sum(abs(p / o - 1) for p, o in zip(predicted, order, strict=True))

    return sum(off(order) <= off(observed) for order in itertools.permutations(observed) if order != observed)


def records() -> dict[str, object]:
    """Counts of printed numbers of each section that do not follow, items that the text names, and the questions on rho and on Spearman's p."""
    every = [r.item.section for r in counted()]
    wrong = [r.item.section for r in counted() if not r.follows]
    named = [r for r in recompute_all() if r.item.test or r.item.id == "9.5.1/penalty"]
    predicted, observed = (tuple(map(float, SERIES[name])) for name in ("rho_predicted", "rho_observed"))
    return {
        **{f"arithmetic/{r.item.id}": list(r.values) if len(r.values) > 1 else r.values[0] for r in named},
        **{f"arithmetic/{section}/failing": wrong.count(section) for section in every},
        "arithmetic/items": len(every),
        "arithmetic/failing": len(wrong),
        "rho/error_of_alpha": [100 * abs(p - o) / (1 - o) for p, o in zip(predicted, observed, strict=True)],
        "rho/error_of_no_contraction": [100 * (1 - rho) / rho for rho in observed],
        "rho/better_assignments": better_assignments(predicted, observed),
        "spearman/exact_p": spearman_exact_p(0.89, 7),
    }
