"""The rule that decides a part of a claim, written beside the claim before the run.

Grammar (no expressions, nothing is evaluated):

    true | false                 a truth value
    > A   >= A   < A   <= A      an ordering
    == A                         equality; A may also be a text in quotes
    within T of A                abs(value - A) <= T; T may be a percentage of abs(A), as in ``within 5% of 0.13``
    in [A, B]                    A <= value <= B

``A``, ``B`` and ``T`` are numbers, or ``key:NAME`` for the value recorded under another key; the ledger has put the number in the place of
``printed:NAME`` (:mod:`.ledger`). A recorded list satisfies a rule
only if every one of its elements does; against another recorded list of the same length the comparison is element by element.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..numbers import number
from ..references import ROUNDING, Value

GRAMMAR = (
    'Write one of: "> A", ">= A", "< A", "<= A", "== A", "within T of A", "in [A, B]", "true", "false", '
    "where A, B and T are numbers, key:NAME or printed:NAME."
)

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_TERM = rf"(?:{_NUMBER}|key:[^\s,\[\]]+)"
_ORDER = re.compile(rf"(>=|<=|==|>|<)\s*({_TERM})")
_TEXT = re.compile(r"==\s*(?:\"([^\"]*)\"|'([^']*)')")
_WITHIN = re.compile(rf"within\s+({_TERM})(\s*%)?\s+of\s+({_TERM})")
_IN = re.compile(rf"in\s*\[\s*({_TERM})\s*,\s*({_TERM})\s*\]")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
}
_WORDS = {">": "above", ">=": "at least", "<": "below", "<=": "at most", "==": "equal to"}


class MissingRecord(LookupError):
    """A rule compares with a key that was not recorded; ``key`` names it."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(key)


class RuleMismatch(TypeError):
    """A rule cannot be applied to this kind of value, such as an ordering to a text."""


@dataclass(frozen=True)
class Term:
    """A number, or the key of another record."""

    number: float | None = None
    key: str | None = None

    @classmethod
    def parse(cls, text: str) -> Term:
        """Read a number or ``key:NAME``.

        Raises:
            ValueError: neither.
        """
        if text.startswith("key:"):
            return cls(key=text[4:])
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(f"{text} is not a finite number")
        return cls(number=number)

    def value(self, records: Mapping[str, Value]) -> Value:
        if self.key is None:
            return self.number
        if self.key not in records:
            raise MissingRecord(self.key)
        return records[self.key]

    def named(self, records: Mapping[str, Value]) -> str:
        """The number, or the recorded value with its key."""
        if self.key is None or self.key not in records:
            return str(self)
        value = records[self.key]
        shown = number(value, 4) if not isinstance(value, list | str) else str(value)
        return f"{shown} ({self.key})" if not isinstance(value, list) else self.key

    def __str__(self) -> str:
        return self.key if self.key is not None else number(self.number, 12)


@dataclass(frozen=True)
class Distance:
    """One condition of a rule: whether it holds, and how far the value is from where that changes.

    Attributes:
        size: in the value's unit; infinite where nothing that may be off can change it.
        doubt: how far the two sides may be off together, in the same unit.
    """

    holds: bool
    size: float
    doubt: float

    @property
    def margin(self) -> float:
        """The distance in units of the doubt; below 1 the condition may as well come out the other way."""
        if math.isinf(self.size):
            return math.inf
        return self.size / self.doubt if self.doubt > 0 else math.inf

    @classmethod
    def make(
        cls, holds: bool, gap: float, doubt: float, values: Sequence[float], doubts: Sequence[float]
    ) -> Distance:
        """From a gap between two sides. At its bound exactly, a value decides if all sides are the same on every machine, such as a count."""
        steady = all(off <= ROUNDING * abs(value) for value, off in zip(values, doubts, strict=True))
        return cls(holds, math.inf if gap == 0 and steady else abs(gap), doubt)


@dataclass(frozen=True)
class Rule:
    """One parsed rule.

    Attributes:
        text: the rule as written in the ledger.
        kind: ``order``, ``text``, ``within``, ``in`` or ``truth``.
    """

    text: str
    kind: str
    symbol: str = ""
    terms: tuple[Term, ...] = ()
    percent: bool = False
    word: str = ""

    def references(self) -> tuple[str, ...]:
        """The other records that the rule compares with."""
        return tuple(term.key for term in self.terms if term.key is not None)

    def describe(self, records: Mapping[str, Value] | None = None) -> str:
        """The rule in words; with ``records``, references are shown with their measured value."""
        names = [term.named(records or {}) for term in self.terms]
        if self.kind == "truth":
            return "yes" if self.word == "true" else "no"
        if self.kind == "text":
            return f"equal to '{self.word}'"
        if self.kind == "within":
            return f"within {names[0]}{'%' if self.percent else ''} of {names[1]}"
        if self.kind == "in":
            return f"from {names[0]} to {names[1]}"
        return f"{_WORDS[self.symbol]} {names[0]}"

    def check(self, value: Value, records: Mapping[str, Value]) -> bool:
        """Whether ``value`` satisfies the rule.

        Args:
            value: the measured value; a list must satisfy the rule in every element.
            records: key to value, for rules that compare with another key.

        Raises:
            MissingRecord: the rule names a key that is not in ``records``.
            RuleMismatch: an ordering of a text or truth value, lists of different length, an empty list.
        """
        if self.kind == "truth":
            return all(_truth(item) == (self.word == "true") for item in _items(value))
        if self.kind == "text":
            return all(item == self.word for item in _items(value))
        operands = [term.value(records) for term in self.terms]
        return all(self._holds(*row) for row in _rows(value, operands))

    def _holds(self, value: float, *terms: float) -> bool:
        if self.kind == "order":
            return _COMPARE[self.symbol](value, terms[0])
        if self.kind == "in":
            return terms[0] <= value <= terms[1]
        width = terms[0] * abs(terms[1]) / 100 if self.percent else terms[0]
        return abs(value - terms[1]) <= width

    def distances(
        self, value: Value, records: Mapping[str, Value], doubt: Value, doubts: Mapping[str, Value]
    ) -> list[Distance]:
        """How far each condition that the rule makes is from coming out the other way; the rule holds if all conditions hold.

        An interval makes two conditions of each element of a list, the other rules one.

        Args:
            value: the measured value.
            records: key to value, for rules that compare with another key.
            doubt: how far the value may be off, a number or a list like the value; for texts and truth values 0 if it cannot change.
            doubts: the same for the records that the rule names.

        Raises:
            MissingRecord, RuleMismatch: as ``check``.
        """
        if self.kind in ("truth", "text"):
            wanted = self.word == "true" if self.kind == "truth" else self.word
            items = zip(_items(value), _items(doubt), strict=True)
            return [Distance(item == wanted, math.inf if off == 0 else 0.0, off) for item, off in items]
        rows = _rows(value, [term.value(records) for term in self.terms])
        off = _rows(doubt, [0.0 if term.key is None else doubts[term.key] for term in self.terms], len(rows))
        return [distance for pair in zip(rows, off, strict=True) for distance in self._distances(*pair)]

    def _distances(self, row: tuple[float, ...], off: tuple[float, ...]) -> list[Distance]:
        value, *terms = row
        if self.kind == "order":
            return [
                Distance.make(_COMPARE[self.symbol](value, terms[0]), value - terms[0], sum(off), row, off)
            ]
        if self.kind == "in":
            low, high = terms
            return [
                Distance.make(low <= value, value - low, off[0] + off[1], (value, low), off[:2]),
                Distance.make(value <= high, high - value, off[0] + off[2], (value, high), (off[0], off[2])),
            ]
        width, centre = terms
        widths = off[1]
        if self.percent:
            width, widths = width * abs(centre) / 100, (off[1] * abs(centre) + abs(width) * off[2]) / 100
        gap = width - abs(value - centre)
        return [Distance.make(self._holds(*row), gap, off[0] + off[2] + widths, row, off)]


def parse_rule(text: str | bool) -> Rule:
    """Read a rule.

    Args:
        text: the rule; YAML's unquoted ``true`` and ``false`` arrive as truth values and are accepted.

    Raises:
        ValueError: not in the grammar.
    """
    if isinstance(text, bool):
        text = str(text).lower()
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is not a rule")
    text = text.strip()
    if text in ("true", "false"):
        return Rule(text, "truth", word=text)
    if match := _TEXT.fullmatch(text):
        return Rule(text, "text", word=match[1] if match[1] is not None else match[2])
    if match := _ORDER.fullmatch(text):
        return Rule(text, "order", symbol=match[1], terms=(Term.parse(match[2]),))
    if match := _WITHIN.fullmatch(text):
        width = Term.parse(match[1])
        if width.number is not None and width.number < 0:
            raise ValueError(f"{text!r} has a negative width")
        return Rule(text, "within", terms=(width, Term.parse(match[3])), percent=bool(match[2]))
    if match := _IN.fullmatch(text):
        low, high = Term.parse(match[1]), Term.parse(match[2])
        if low.number is not None and high.number is not None and low.number > high.number:
            raise ValueError(f"{text!r} is an empty interval")
        return Rule(text, "in", terms=(low, high))
    raise ValueError(f"{text!r} is not a rule")


def _items(value: Value) -> list:
    items = list(value) if isinstance(value, list | tuple) else [value]
    if not items:
        raise RuleMismatch("an empty list satisfies nothing")
    return items


def _truth(item: Value) -> bool:
    if not isinstance(item, bool):
        raise RuleMismatch(f"a truth value is needed, not {item!r}")
    return item


def _rows(value: Value, operands: list[Value], least: int = 1) -> list[tuple[float, ...]]:
    """Line up the value with the operands, element by element, ``least`` rows or more; single numbers meet every element."""
    columns = [_items(column) for column in (value, *operands)]
    length = max(least, *(len(column) for column in columns))
    for column in columns:
        if len(column) not in (1, length):
            raise RuleMismatch(f"lists of {len(column)} and {length} numbers cannot be compared")
        for item in column:
            if isinstance(item, bool) or not isinstance(item, int | float):
                raise RuleMismatch(f"a number is needed, not {item!r}")
    return [tuple(column[i if len(column) > 1 else 0] for column in columns) for i in range(length)]
