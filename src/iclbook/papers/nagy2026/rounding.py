"""Does a printed number follow from the numbers printed beside it, given that all of them are rounded?

A number printed as 0.184 stands for some value in [0.1835, 0.1845]. What is computed from such numbers is an interval too, and the printed
result follows if the two intervals meet. So a number is refused only if no rounding of its neighbours could have led to it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import stats

#: A printed number; a sentence that printed numbers must bear out; or a further test of such a sentence, by this book, which is not counted.
NUMBER, SENTENCE, TEST = "number", "sentence", "test"


def box(printed: str | int) -> tuple[Fraction, Fraction]:
    """The values that are printed so: half a unit of the last digit to both sides; an int is exact."""
    if isinstance(printed, int):
        return Fraction(printed), Fraction(printed)
    digits = printed.replace(",", "").lstrip("+").replace("−", "-")
    half = Fraction(1, 2 * 10 ** len(digits.partition(".")[2]))
    return Fraction(digits) - half, Fraction(digits) + half


@dataclass(frozen=True)
class Within:
    """The paper says that every number lies in [low, high]; None is no bound, and ``strict`` excludes the ends."""

    low: str | None
    high: str | None
    strict: bool = False


@dataclass(frozen=True)
class Each:
    """A function of ``width`` numbers as one of any number of them, ``width`` at a time."""

    width: int
    function: Callable[..., Any]

    def __call__(self, *x: Any) -> tuple:
        """One number for each group."""
        return tuple(self.function(*group) for group in self.groups(x))

    def groups(self, x: Sequence[Any]) -> list[Sequence[Any]]:
        """The arguments, ``width`` at a time."""
        return [x[i : i + self.width] for i in range(0, len(x), self.width)]


@dataclass(frozen=True)
class Item:
    """One printed number or sentence and what it should follow from.

    Attributes:
        id: its section and a name, such as ``8.4/range``; after ``arithmetic/`` where its numbers are recorded, under that key.
        words: what is printed.
        expects: what the recomputed numbers must agree with; of printed numbers, one text, each stands for all values that round to it.
        formula: how they are recomputed, as text.
        quantity: the recomputation; monotone in every argument over its rounding interval. One number or a tuple.
        inputs: the printed numbers it is recomputed from, in the order of ``quantity``'s arguments; ints are exact.
        kind: :data:`NUMBER`, :data:`SENTENCE` or :data:`TEST`.
    """

    id: str
    words: str
    expects: str | Within
    formula: str
    quantity: Callable[..., Any]
    inputs: tuple[str | int, ...] = ()
    kind: str = NUMBER

    @property
    def section(self) -> str:
        """Of the paper, such as ``8.4``."""
        return self.id.removeprefix("arithmetic/").partition("/")[0]


@dataclass(frozen=True)
class Recomputed:
    """An item with the numbers that follow: at the printed values, and the least and the largest that rounding allows."""

    item: Item
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    follows: bool


def recompute(item: Item) -> Recomputed:
    """The item's numbers at the printed values and at every corner of the rounding intervals."""

    def numbers(arguments: Sequence[Fraction]) -> tuple:
        found = item.quantity(*arguments)
        return found if isinstance(found, tuple) else (found,)

    def corners(inputs: Sequence[str | int]) -> list[tuple]:
        ends = [sorted(set(box(x))) for x in inputs]
        return list(zip(*(numbers(corner) for corner in itertools.product(*ends)), strict=True))

    centre = numbers([sum(box(x)) / 2 for x in item.inputs])
    # the numbers of one group of inputs do not change with the others
    groups = item.quantity.groups(item.inputs) if isinstance(item.quantity, Each) else [item.inputs]
    columns = [column for group in groups for column in corners(group)]
    low, high = (tuple(map(end, columns)) for end in (min, max))
    expects = item.expects
    if isinstance(expects, str):
        limits, strict = [box(printed) for printed in expects.split()], False
    else:
        lowest = -math.inf if expects.low is None else Fraction(expects.low)
        highest = math.inf if expects.high is None else Fraction(expects.high)
        limits, strict = [(lowest, highest)] * len(centre), expects.strict
    gaps = [max(lower - most, least - upper) for (lower, upper), least, most in zip(limits, low, high, strict=True)]
    follows = all(gap < 0 or (gap == 0 and not strict) for gap in gaps)
    return Recomputed(item, *(tuple(map(float, ends)) for ends in (centre, low, high)), follows)


# -- what percentages, correlations and tests are recomputed by; every function takes printed numbers in the order of its arguments ---------

#: By how many per cent a number fell; the second less the first; the first less the second; the second over the first.
falls = Each(2, lambda before, after: 100 * (1 - after / before))
rises = Each(2, lambda a, b: b - a)
drops = Each(2, lambda a, b: a - b)
ratios = Each(2, lambda a, b: b / a)
#: Relative difference in per cent of a predicted and an observed rate, and of ``alpha = 1 - rho``.
excesses = Each(2, lambda predicted, observed: 100 * abs(predicted - observed) / observed)
excesses_of_alpha = Each(2, lambda predicted, observed: 100 * abs(predicted - observed) / (1 - observed))
#: What a rate of each layer compounds to over the printed fall of the error: rate, layers, first and last error.
compounded_falls = Each(4, lambda rho, layers, first, last: rho ** int(layers) * first / last)
#: Welch's p of two means of six runs, from means and standard deviations.
p_of_six_seeds = Each(
    4,
    lambda m1, s1, m2, s2: (
        stats.ttest_ind_from_stats(*map(float, (m1, s1)), 6, *map(float, (m2, s2)), 6, equal_var=False).pvalue
    ),
)


def same(*x: Any) -> tuple:
    """The numbers themselves."""
    return x


def differences(*x: Any) -> tuple:
    """Each number less the one before it."""
    return tuple(b - a for a, b in itertools.pairwise(x))


def against(base: Any, *others: Any) -> tuple:
    """By how many per cent each of the others lies below the base."""
    return tuple(100 * (1 - x / base) for x in others)


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


def pearson(x: Sequence[Any], y: Sequence[Any]) -> float:
    """Pearson's correlation of two short lists."""
    return float(np.corrcoef(np.array(x, dtype=float), np.array(y, dtype=float))[0, 1])


def better_assignments(*x: float) -> int:
    """How many ways to give the observed rates to other predictions fit as well or better, by the mean relative difference, than the printed pairs."""
    predicted, observed = x[::2], x[1::2]

    def off(order: tuple[float, ...]) -> float:
        return sum(abs(p / o - 1) for p, o in zip(predicted, order, strict=True))

    return sum(off(order) <= off(observed) for order in itertools.permutations(observed) if order != observed)
