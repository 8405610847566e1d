"""Nagy 2026: does a printed number follow from the numbers printed beside it, given that all of them are rounded?

A number printed as 0.184 stands for some value in [0.1835, 0.1845]. What is computed from such numbers is an interval too, and the printed
result follows if the two intervals meet. So a number is refused only if no rounding of its neighbours could have led to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Number = Fraction | int | float


def box(printed: str | int) -> tuple[Fraction, Fraction]:
    """The values that are printed so: half a unit of the last digit to both sides; an int is exact."""
    if isinstance(printed, int):
        return Fraction(printed), Fraction(printed)
    digits = printed.replace(",", "").lstrip("+").replace("−", "-")
    half = Fraction(1, 2 * 10 ** (len(digits.partition(".")[2])))
    value = Fraction(digits)
    return value - half, value + half


def value(printed: str | int) -> Fraction:
    """The number as printed."""
    low, high = box(printed)
    return (low + high) / 2


@dataclass(frozen=True)
class Rounded:
    """The document prints these numbers; each stands for all values that round to it."""

    printed: tuple[str, ...]

    def limits(self, index: int) -> tuple[Number, Number]:
        return box(self.printed[min(index, len(self.printed) - 1)])

    def __str__(self) -> str:
        return ", ".join(self.printed)


@dataclass(frozen=True)
class Within:
    """The document says that a number lies in [low, high]; None is no bound, and ``strict`` excludes the ends."""

    low: str | None
    high: str | None
    strict: bool = False
    words: str = ""

    def limits(self, index: int) -> tuple[Number | None, Number | None]:
        return tuple(None if end is None else Fraction(end) for end in (self.low, self.high))  # type: ignore[return-value]

    def __str__(self) -> str:
        if self.words:
            return self.words
        less, more = ("below", "above") if self.strict else ("at most", "at least")
        if self.low is None:
            return f"{less} {self.high}"
        return f"{more} {self.low}" if self.high is None else f"{self.low} to {self.high}"


POSITIVE = Within("0", None, strict=True)


def differences(*x: Any) -> tuple:
    """Each number less the one before it."""
    return tuple(b - a for a, b in itertools.pairwise(x))


@dataclass(frozen=True)
class Item:
    """One printed number or sentence and what it should follow from.

    Attributes:
        id: unique name.
        section: section of the document, such as ``8.4``.
        words: what is printed.
        expects: what the recomputed number must agree with.
        formula: how it is recomputed, as text.
        inputs: the printed numbers it is recomputed from, in the order of ``quantity``'s arguments; ints are exact.
        quantity: the recomputation; monotone in every argument over its rounding interval. One number or a tuple.
        kind: ``number`` (a printed number), ``sentence`` (a sentence that printed numbers must bear out) or ``test`` (a further test of
            a printed sentence, by this book; not counted among what does not follow).
        asked: the ledger asks about it by name, so that its numbers are recorded.
    """

    id: str
    section: str
    words: str
    expects: Rounded | Within
    formula: str
    inputs: tuple[str | int, ...]
    quantity: Callable[..., Any]
    kind: str = "number"
    asked: bool = False


@dataclass(frozen=True)
class Recomputed:
    """An item with the numbers that follow: at the printed values, and the least and the largest that rounding allows."""

    item: Item
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    follows: bool
    #: how far the recomputed interval is from what is printed; 0 if they meet
    gap: float


def recompute(item: Item) -> Recomputed:
    """Recompute one item."""

    def numbers(*arguments: Fraction) -> tuple:
        found = item.quantity(*arguments)
        return found if isinstance(found, tuple) else (found,)

    centre = numbers(*(value(x) for x in item.inputs))
    ends = [sorted(set(box(x))) for x in item.inputs]
    corners = [numbers(*corner) for corner in itertools.product(*ends)]
    low = tuple(min(c[i] for c in corners) for i in range(len(centre)))
    high = tuple(max(c[i] for c in corners) for i in range(len(centre)))
    gaps, follows = [], True
    for i in range(len(centre)):
        lower, upper = item.expects.limits(i)
        strict = isinstance(item.expects, Within) and item.expects.strict
        under = lower - high[i] if lower is not None else -1
        over = low[i] - upper if upper is not None else -1
        worst = max(under, over)
        follows &= bool(worst < 0 or (worst == 0 and not strict))
        gaps.append(max(0.0, float(worst)))
    return Recomputed(
        item, tuple(map(float, centre)), tuple(map(float, low)), tuple(map(float, high)), follows, max(gaps)
    )
