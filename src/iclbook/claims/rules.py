"""Rules, which decide each part of a claim. Their grammar has no expressions, and nothing is evaluated:

    true | false                 a truth value
    > A   >= A   < A   <= A      an ordering
    == A                         equality; A may also be a text in quotes
    within T of A                abs(value - A) <= T; T may be a percentage of abs(A), as in ``within 5% of 0.13``
    in [A, B]                    A <= value <= B

``A``, ``B`` and ``T`` are numbers, or ``key:NAME`` for the value recorded under another key; the ledger's reader has put the number in the place of
``printed:NAME``. A recorded list satisfies a rule only if every one of its elements does; against another recorded list of the same length the comparison is
element by element.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from ..numbers import number
from .references import ROUNDING, Value

GRAMMAR = (
    'Write one of "> A", ">= A", "< A", "<= A", "== A", "within T of A", "in [A, B]", "true", "false", '
    "where A, B and T are numbers, key:NAME or printed:NAME."
)
#: Letters of a rule: the pattern of numbers takes the square of their digits.
LONGEST = 300
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_TERM = rf"({_NUMBER}|key:[^\s,\[\]]+)"
_TEXT = re.compile(r"==\s*(?:\"([^\"]*)\"|'([^']*)')")
#: Pattern of each kind of rule, with one group for each term.
_FORMS = {
    "order": re.compile(rf"(?:>=|<=|==|>|<)\s*{_TERM}"),
    "within": re.compile(rf"within\s+{_TERM}(?:\s*%)?\s+of\s+{_TERM}"),
    "in": re.compile(rf"in\s*\[\s*{_TERM}\s*,\s*{_TERM}\s*\]"),
}
_ORDERS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    ">": (operator.gt, "above"),
    ">=": (operator.ge, "at least"),
    "<": (operator.lt, "below"),
    "<=": (operator.le, "at most"),
    "==": (operator.eq, "equal to"),
}


@dataclass(frozen=True)
class Term:
    """A number, or the key of another record."""

    number: float | None = None
    key: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Term":
        """Read a number or ``key:NAME``; anything else is a ValueError."""
        if text.startswith("key:"):
            return cls(key=text[4:])
        try:
            number = float(text)
        except ValueError:
            raise ValueError(f"no number; the value of another record is key:{text}") from None
        if not math.isfinite(number):
            raise ValueError(f"{text} is not a finite number")
        return cls(number=number)

    def value(self, records: Mapping[str, Value]) -> Value:
        return self.number if self.key is None else records[self.key]

    def named(self, records: Mapping[str, Value]) -> str:
        """The number, or the recorded value with its key."""
        if self.key is None:
            return number(self.number, 12)
        value = records.get(self.key)
        if value is None or isinstance(value, list):
            return self.key
        return f"{value if isinstance(value, str) else number(value, 4)} ({self.key})"


class Distance(NamedTuple):
    """One condition of a rule: whether it holds, and its margin, the distance to the bound over the uncertainties of both sides together. Below 1 the
    condition could come out the other way; the margin is infinite where no uncertainty can change it."""

    holds: bool
    margin: float

    @classmethod
    def make(cls, holds: bool, gap: float, values: Sequence[float], uncertainties: Sequence[float]) -> "Distance":
        """From the gap between the ``values`` of the sides, with their ``uncertainties``. A value at its bound decides if all sides are the same on
        every machine, as a count is."""
        steady = all(
            uncertainty <= ROUNDING * abs(value) for value, uncertainty in zip(values, uncertainties, strict=True)
        )
        uncertainty = sum(uncertainties)
        return cls(holds, math.inf if uncertainty == 0 or (gap == 0 and steady) else abs(gap) / uncertainty)


@dataclass(frozen=True)
class Rule:
    """One parsed rule.

    Attributes:
        kind: ``order``, ``text``, ``within``, ``in`` or ``truth``.
        word: the text or truth value that is wanted, or the ordering's symbol.
    """

    text: str
    kind: str
    word: str = ""
    terms: tuple[Term, ...] = ()
    percent: bool = False

    def references(self) -> tuple[str, ...]:
        """The other records that the rule compares with."""
        return tuple(term.key for term in self.terms if term.key is not None)

    def describe(self, records: Mapping[str, Value] | None = None) -> str:
        """The rule in words; with ``records``, references are shown with their measured value."""
        names = [term.named(records or {}) for term in self.terms]
        match self.kind:
            case "truth":
                return "yes" if self.word == "true" else "no"
            case "text":
                return f"equal to '{self.word}'"
            case "within":
                return f"within {names[0]}{'%' if self.percent else ''} of {names[1]}"
            case "in":
                return f"from {names[0]} to {names[1]}"
        return f"{_ORDERS[self.word][1]} {names[0]}"

    def check(self, value: Value, records: Mapping[str, Value]) -> bool:
        """Whether ``value``, or every element of a list, satisfies the rule, beside the ``records`` that it names; what cannot be compared is a TypeError."""
        return all(item.holds for item in self.distances(value, records, None, {}))

    def distances(
        self, value: Value, records: Mapping[str, Value], uncertainty: Value | None, uncertainties: Mapping[str, Value]
    ) -> list[Distance]:
        """Distance of each condition of the rule from its other outcome; the rule holds if all conditions hold. An interval makes two conditions
        of each element of a list, the other rules one.

        Args:
            uncertainty: how far the value may be off, a number or a list like the value; for texts and truth values 0 if it cannot change.
            uncertainties: the same for the records that the rule names.
        """
        if self.kind in ("truth", "text"):
            items = _items(value)
            if self.kind == "truth" and not all(isinstance(item, bool) for item in items):
                raise TypeError(f"a truth value is needed, not {value!r}")
            wanted = self.word == "true" if self.kind == "truth" else self.word
            own = _items(0.0 if uncertainty is None else uncertainty)
            own = own * len(items) if len(own) == 1 else own
            return [Distance(i == wanted, 0.0 if u else math.inf) for i, u in zip(items, own, strict=True)]
        rows = _rows(value, [term.value(records) for term in self.terms])
        terms = [0.0 if term.key is None else uncertainties.get(term.key, 0.0) for term in self.terms]
        own = _rows(0.0 if uncertainty is None else uncertainty, terms, len(rows))
        return [distance for pair in zip(rows, own, strict=True) for distance in self._distances(*pair)]

    def _distances(self, row: tuple[float, ...], uncertainties: tuple[float, ...]) -> list[Distance]:
        value, *terms = row
        if self.kind == "order":
            return [Distance.make(_ORDERS[self.word][0](value, terms[0]), value - terms[0], row, uncertainties)]
        if self.kind == "in":
            low, high = terms
            return [
                Distance.make(low <= value, value - low, (value, low), uncertainties[:2]),
                Distance.make(value <= high, high - value, (value, high), (uncertainties[0], uncertainties[2])),
            ]
        width, centre = terms
        widths = uncertainties[1]
        if self.percent:
            width, widths = (
                width * abs(centre) / 100,
                (uncertainties[1] * abs(centre) + abs(width) * uncertainties[2]) / 100,
            )
        holds = abs(value - centre) <= width
        return [Distance.make(holds, width - abs(value - centre), row, (uncertainties[0], widths, uncertainties[2]))]


def parse_rule(text: str) -> Rule:
    """Read a rule; what is not in the grammar is a ValueError."""
    text = text.strip()
    if len(text) > LONGEST:
        raise ValueError(f"not a rule, but more than {LONGEST} letters")
    if text in ("true", "false"):
        return Rule(text, "truth", text)
    if match := _TEXT.fullmatch(text):
        return Rule(text, "text", match[1] if match[1] is not None else match[2])
    for kind, form in _FORMS.items():
        if match := form.fullmatch(text):
            terms = tuple(map(Term.parse, match.groups()))
            first, last = terms[0].number, terms[-1].number
            if kind == "within" and first is not None and first < 0:
                raise ValueError(f"{text!r} has a negative width")
            if kind == "within" and "%" in text and last == 0:
                raise ValueError(f"{text!r} allows nothing: no percentage of 0 is more than 0")
            if kind == "in" and None not in (first, last) and first > last:
                raise ValueError(f"{text!r} is an empty interval")
            return Rule(text, kind, re.match("[<>=]*", text)[0], terms, "%" in text)
    raise ValueError(f"not a rule: {GRAMMAR}")


def with_printed(text: str, ledger: Mapping[str, Any]) -> str:
    """A rule with the number for each ``printed:NAME`` of the ledger as it stands in its file."""

    def number(match: re.Match) -> str:
        named = ledger.get("printed")
        value = named.get(match[1]) if isinstance(named, dict) else None
        if not isinstance(value, str):
            raise ValueError(f"printed: has no single number {match[1]!r}")
        return f"{float(value):.12g}"

    return re.sub(r"printed:([^\s,\[\]]+)", number, text)


def _items(value: Value) -> list:
    items = list(value) if isinstance(value, list | tuple) else [value]
    if not items:
        raise TypeError("an empty list satisfies nothing")
    return items


def _rows(value: Value, operands: list[Value], least: int = 1) -> list[tuple[float, ...]]:
    """Line up the value with the operands, element by element, ``least`` rows or more; single numbers meet every element. Lists of other lengths are a
    ValueError."""
    columns = [_items(column) for column in (value, *operands)]
    for item in chain.from_iterable(columns):
        if isinstance(item, bool) or not isinstance(item, int | float):
            raise TypeError(f"a number is needed, not {item!r}")
    length = max(least, *map(len, columns))
    if others := [len(column) for column in columns if len(column) not in (1, length)]:
        raise ValueError(f"a list of {length} against a list of {others[0]}")
    return list(zip(*(column * length if len(column) == 1 else column for column in columns), strict=True))
