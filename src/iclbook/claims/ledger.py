"""The claim ledger: what a paper says, and the rule that decides each part of a claim, written beside it before the run.

Grammar of rules (no expressions, nothing is evaluated):

    true | false                 a truth value
    > A   >= A   < A   <= A      an ordering
    == A                         equality; A may also be a text in quotes
    within T of A                abs(value - A) <= T; T may be a percentage of abs(A), as in ``within 5% of 0.13``
    in [A, B]                    A <= value <= B

``A``, ``B`` and ``T`` are numbers, or ``key:NAME`` for the value recorded under another key; the ledger's reader has put the number in the place of
``printed:NAME``. A recorded list satisfies a rule only if every one of its elements does; against another recorded list of the same length the comparison is
element by element.
"""

from __future__ import annotations

import difflib
import hashlib
import math
import operator
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ..errors import UserError
from ..numbers import number
from ..project import shown
from ..reference_values import ROUNDING, Value

GRAMMAR = (
    'Write one of: "> A", ">= A", "< A", "<= A", "== A", "within T of A", "in [A, B]", "true", "false", '
    "where A, B and T are numbers, key:NAME or printed:NAME."
)
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
    def make(cls, holds: bool, gap: float, values: Sequence[float], doubts: Sequence[float]) -> Distance:
        """From the gap between the ``values`` of the sides, whose uncertainties are ``doubts``. A value at its bound decides if all sides are the same on
        every machine, as a count is."""
        steady = all(off <= ROUNDING * abs(value) for value, off in zip(values, doubts, strict=True))
        doubt = sum(doubts)
        return cls(holds, math.inf if doubt == 0 or (gap == 0 and steady) else abs(gap) / doubt)


@dataclass(frozen=True)
class Rule:
    """One parsed rule.

    Attributes:
        text: the rule as written in the ledger.
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
        """Whether ``value``, or every element of a list, satisfies the rule.

        Args:
            records: key to value, for rules that compare with another key.

        Raises:
            KeyError: the rule names a key that is not in ``records``.
            TypeError: an ordering of a text or truth value, lists of different length, an empty list.
        """
        return all(item.holds for item in self.distances(value, records, None, {}))

    def distances(
        self, value: Value, records: Mapping[str, Value], doubt: Value | None, doubts: Mapping[str, Value]
    ) -> list[Distance]:
        """How far each condition that the rule makes is from coming out the other way; the rule holds if all conditions hold.

        An interval makes two conditions of each element of a list, the other rules one.

        Args:
            doubt: how far the value may be off, a number or a list like the value; for texts and truth values 0 if it cannot change.
            doubts: the same for the records that the rule names.

        Raises:
            KeyError, TypeError: as ``check``.
        """
        if self.kind in ("truth", "text"):
            items = _items(value)
            if self.kind == "truth" and not all(isinstance(item, bool) for item in items):
                raise TypeError(f"a truth value is needed, not {value!r}")
            wanted = self.word == "true" if self.kind == "truth" else self.word
            off = _items(0.0 if doubt is None else doubt)
            off = off * len(items) if len(off) == 1 else off
            return [Distance(i == wanted, 0.0 if o else math.inf) for i, o in zip(items, off, strict=True)]
        rows = _rows(value, [term.value(records) for term in self.terms])
        terms = [0.0 if term.key is None else doubts.get(term.key, 0.0) for term in self.terms]
        off = _rows(0.0 if doubt is None else doubt, terms, len(rows))
        return [distance for pair in zip(rows, off, strict=True) for distance in self._distances(*pair)]

    def _distances(self, row: tuple[float, ...], off: tuple[float, ...]) -> list[Distance]:
        value, *terms = row
        if self.kind == "order":
            return [Distance.make(_ORDERS[self.word][0](value, terms[0]), value - terms[0], row, off)]
        if self.kind == "in":
            low, high = terms
            return [
                Distance.make(low <= value, value - low, (value, low), off[:2]),
                Distance.make(value <= high, high - value, (value, high), (off[0], off[2])),
            ]
        width, centre = terms
        widths = off[1]
        if self.percent:
            width, widths = width * abs(centre) / 100, (off[1] * abs(centre) + abs(width) * off[2]) / 100
        holds = abs(value - centre) <= width
        return [Distance.make(holds, width - abs(value - centre), row, (off[0], widths, off[2]))]


def parse_rule(text: str | bool) -> Rule:
    """Read a rule; YAML's unquoted ``true`` and ``false`` arrive as truth values and are accepted.

    Raises:
        ValueError: not in the grammar.
    """
    text = str(text).lower() if isinstance(text, bool) else text
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is not a rule")
    text = text.strip()
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
            if kind == "in" and None not in (first, last) and first > last:
                raise ValueError(f"{text!r} is an empty interval")
            return Rule(text, kind, re.match("[<>=]*", text)[0], terms, "%" in text)
    raise ValueError(f"{text!r} is not a rule")


def _items(value: Value) -> list:
    items = list(value) if isinstance(value, list | tuple) else [value]
    if not items:
        raise TypeError("an empty list satisfies nothing")
    return items


def _rows(value: Value, operands: list[Value], least: int = 1) -> list[tuple[float, ...]]:
    """Line up the value with the operands, element by element, ``least`` rows or more; single numbers meet every element."""
    columns = [_items(column) for column in (value, *operands)]
    length = max(least, *(len(column) for column in columns))
    for column in columns:
        if len(column) not in (1, length):
            raise TypeError(f"lists of {len(column)} and {length} numbers cannot be compared")
        for item in column:
            if isinstance(item, bool) or not isinstance(item, int | float):
                raise TypeError(f"a number is needed, not {item!r}")
    return [tuple(column[i if len(column) > 1 else 0] for column in columns) for i in range(length)]


# -- claims and their parts -------------------------------------------------------------------------------------------

#: Keys of values that only a reader can measure, with weights that are not part of the book.
PROBES = "probes/"


@dataclass(frozen=True)
class Part:
    """One recorded key and the rule it must satisfy.

    Attributes:
        because: where the bound comes from.
        error: the key under which the standard error of the value is recorded (of the difference, where the rule compares with another key), a number
            or a list like the value. None: ``KEY_se`` where that is recorded (:meth:`with_error`), and no error otherwise; the empty text: none at all,
            because the rule already judges in standard errors.
        refuses: what the rule must not pass either, or it decides nothing: a number that the paper itself sets apart from this one, or what the same
            measurement gives for a pair that does not belong together.
        late: the rule was written or changed after a first run.
        printed: judged on the paper's own printed values, and so at the paper's scale even where the claim is reduced.
    """

    name: str
    key: str
    rule: Rule
    because: str
    reading: str | None = None
    error: str | None = None
    refuses: Term | None = None
    late: bool = False
    printed: bool = False

    def with_error(self, recorded: Container[str]) -> Part:
        """This part with its error resolved, given the keys that were recorded: a key, or None."""
        implied = f"{self.key}_se"
        if self.error is None and implied in recorded:
            return replace(self, error=implied)
        return replace(self, error=None) if self.error == "" else self

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that decides the part: its own, its error's, its control's and those that its rule compares with."""
        control = self.refuses.key if self.refuses is not None else None
        return (self.key, *(key for key in (self.error, control) if key), *self.rule.references())


@dataclass(frozen=True)
class Claim:
    """One thing that the paper says, or a question of our own (``key/q-...``), with the parts that decide it.

    Attributes:
        conjunction: the sentence says "all", "each of" or "neither ... nor": one part that certainly fails decides.
        requires: ids of the claims, of any paper, that it rests on (:mod:`iclbook.book.ties`).
    """

    id: str
    where: str
    says: str
    paper: str | None = None
    decides: str = "paper"
    reduced: str | None = None
    fails_as: str = "not reproduced"
    conjunction: bool = False
    parts: tuple[Part, ...] = ()
    out_of_reach: str | None = None
    inventory: str | None = None
    requires: tuple[str, ...] = ()

    def is_probed(self, recorded: Container[str]) -> bool:
        """Whether a reader's own probes of published models, under keys ``probes/...``, decide what is out of reach otherwise."""
        keys = [part.key for part in self.parts if part.key.startswith(PROBES)]
        return bool(keys) and all(key in recorded for key in keys)

    @cached_property
    def rules_digest(self) -> str:
        """Digest of all that judges it: rules, keys, errors, controls and readings of its parts, and how they make a verdict; no sentence of it."""
        parts = [
            (p.key, p.rule.text, p.error, p.reading, p.printed, p.refuses and astuple(p.refuses)) for p in self.parts
        ]
        judged = (parts, self.decides, self.reduced is None, self.fails_as, self.conjunction)
        return hashlib.sha256(repr(judged).encode()).hexdigest()[:16]

    @property
    def is_question(self) -> bool:
        """Whether this is our own question, which is answered, and no sentence of the paper."""
        return self.id.partition("/")[2].startswith("q-")

    @property
    def anchor(self) -> str:
        """The name of the claim's place in an HTML page."""
        return "claim-" + "".join(c if c.isalnum() else "-" for c in self.id)


@dataclass(frozen=True)
class Ledger:
    """All claims of one paper.

    Attributes:
        printed: numbers that the paper prints, by name, one or a list; rules name them ``printed:NAME``, measures and figures take them from here.
        formats: how prose shows the numbers of some keys, such as ``.0%``; three significant digits otherwise.
        uncompared: keys whose values differ from run to run by their nature, such as minutes; the regression check asks only that they are there.
    """

    paper: str
    title: str
    chapter: str
    claims: tuple[Claim, ...]
    printed: Mapping[str, float | list[float]]
    values: Mapping[str, str]
    formats: Mapping[str, str]
    uncompared: frozenset[str]
    path: Path

    @property
    def chapter_name(self) -> str:
        """The chapter's name on the command line, e.g. ``linear_regression``."""
        return Path(self.chapter).stem

    @cached_property
    def decisive(self) -> frozenset[str]:
        """Every key on which a verdict depends."""
        return frozenset(key for claim in self.claims for part in claim.parts for key in part.keys)

    @cached_property
    def keys(self) -> frozenset[str]:
        """Every key that a notebook of this paper may record: those of parts and values, and their standard errors ``KEY_se``."""
        named = self.decisive | set(self.values)
        return named | {f"{key}_se" for key in named}

    def claim(self, claim_id: str) -> Claim:
        """The claim of that id.

        Raises:
            UserError: no such claim.
        """
        found = {claim.id: claim for claim in self.claims}
        if claim_id in found:
            return found[claim_id]
        hint = nearest(claim_id, found) or f"`iclbook claims {self.paper}` lists all claims."
        raise UserError(f"{shown(self.path)} has no claim {claim_id!r}", hint)

    def require_key(self, key: str) -> None:
        """Refuse a key that the ledger does not know.

        Raises:
            UserError: the key belongs to no part and is not listed under ``values``.
        """
        if key not in self.keys:
            raise UserError(
                f"key {key!r} was recorded, but no claim part of {shown(self.path)} uses it",
                f"{nearest(key, self.keys)} Name it in a part, or list it under values:.".strip(),
            )


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names the known one that is most like ``name``; empty where none is."""
    close = difflib.get_close_matches(name, known, 1)
    return f"Did you mean {close[0]!r}?" if close else ""
