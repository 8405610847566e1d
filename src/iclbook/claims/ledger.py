"""The claim ledger: what a paper says, and the rule that decides each of its claims."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Container, Mapping
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from pathlib import Path

from ..errors import UserError
from ..project import shown
from .rules import Rule, Term

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
        for claim in self.claims:
            if claim.id == claim_id:
                return claim
        raise UserError(
            f"{shown(self.path)} has no claim {claim_id!r}", _nearest(claim_id, [c.id for c in self.claims], "claims")
        )

    def require_key(self, key: str) -> None:
        """Refuse a key that the ledger does not know.

        Raises:
            UserError: the key belongs to no part and is not listed under ``values``.
        """
        if key not in self.keys:
            hint = difflib.get_close_matches(key, self.keys, 1)
            raise UserError(
                f"key {key!r} was recorded, but no claim part of {shown(self.path)} uses it",
                (f"Did you mean {hint[0]!r}? " if hint else "") + "Name it in a part, or list it under values:.",
            )

    def compares(self, key: str) -> bool:
        """Whether the regression check compares this value; seconds, say, are only recorded."""
        return key not in self.uncompared


def _nearest(name: str, known: list[str], what: str) -> str:
    close = difflib.get_close_matches(name, known, 1)
    if close:
        return f"Did you mean {close[0]!r}?"
    if len(known) > 12:
        return f"`iclbook claims` lists all {len(known)} {what}."
    return f"Known {what}: {', '.join(known) or 'none'}."
