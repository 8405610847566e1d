"""Nagy 2026: does a printed number follow from the numbers printed beside it, given that all of them are rounded?

A number printed as 0.184 stands for some value in [0.1835, 0.1845]. What is computed from such numbers is an interval too, and the printed
result follows if the two intervals meet. So a number is refused only if no rounding of its neighbours could have led to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .quantities import Each

Number = Fraction | int | float

#: A printed number; a sentence that printed numbers must bear out; or a further test of such a sentence, by this book, which is not counted.
NUMBER, SENTENCE, TEST = "number", "sentence", "test"


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
    """The paper prints these numbers; each stands for all values that round to it."""

    printed: tuple[str, ...]
    strict = False

    def limits(self, index: int) -> tuple[Number, Number]:
        """Of the number at this index."""
        return box(self.printed[min(index, len(self.printed) - 1)])


@dataclass(frozen=True)
class Within:
    """The paper says that every number lies in [low, high]; None is no bound, and ``strict`` excludes the ends."""

    low: str | None
    high: str | None
    strict: bool = False

    def limits(self, index: int) -> tuple[Number | None, Number | None]:
        """Of the number at this index: the same for all."""
        low, high = (None if end is None else Fraction(end) for end in (self.low, self.high))
        return low, high


@dataclass(frozen=True)
class Item:
    """One printed number or sentence and what it should follow from.

    Attributes:
        id: its section and a name, such as ``8.4/range``; after ``arithmetic/`` where its numbers are recorded, under that key.
        words: what is printed.
        expects: what the recomputed numbers must agree with; printed numbers as text are :class:`Rounded`.
        formula: how they are recomputed, as text.
        quantity: the recomputation; monotone in every argument over its rounding interval. One number or a tuple.
        inputs: the printed numbers it is recomputed from, in the order of ``quantity``'s arguments; ints are exact.
        kind: :data:`NUMBER`, :data:`SENTENCE` or :data:`TEST`.
    """

    id: str
    words: str
    expects: Rounded | Within
    formula: str
    quantity: Callable[..., Any]
    inputs: tuple[str | int, ...]
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


def _numbers(quantity: Callable[..., Any], arguments: Sequence[Fraction]) -> tuple:
    """A quantity's numbers, be they one or several."""
    found = quantity(*arguments)
    return found if isinstance(found, tuple) else (found,)


def _at_corners(quantity: Callable[..., Any], inputs: Sequence[str | int]) -> list[tuple]:
    """Each of its numbers where all printed inputs stand for the least or the largest value that they can."""
    ends = [sorted(set(box(x))) for x in inputs]
    return list(zip(*(_numbers(quantity, corner) for corner in itertools.product(*ends)), strict=True))


def recompute(item: Item) -> Recomputed:
    """Recompute one item."""

    centre = _numbers(item.quantity, [value(x) for x in item.inputs])
    # the numbers of one group of inputs do not change with the others
    groups = item.quantity.groups(item.inputs) if isinstance(item.quantity, Each) else [item.inputs]
    columns = [column for group in groups for column in _at_corners(item.quantity, group)]
    low, high = (tuple(map(end, columns)) for end in (min, max))
    follows = True
    for i in range(len(centre)):
        lower, upper = item.expects.limits(i)
        gaps = [lower - high[i]] if lower is not None else []
        gaps += [low[i] - upper] if upper is not None else []
        follows &= bool(max(gaps) < 0 or (max(gaps) == 0 and not item.expects.strict))
    return Recomputed(item, *(tuple(map(float, ends)) for ends in (centre, low, high)), follows)
