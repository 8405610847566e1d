"""The claim ledger of a paper, ``papers/<key>/claims.yaml``: what the paper says, and the rules that decide it.

It is read strictly: an unknown field, a missing reason or a malformed rule is an error that names the file and the line, so that a typing slip cannot
turn into a verdict.
"""

import hashlib
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cache, cached_property, lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from reprlib import repr as shortened
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, PlainValidator, StringConstraints, TypeAdapter, ValidationError

from .. import formulas
from ..errors import UserError, nearest
from ..project import display_name, find_root, ledger_paths
from .references import PROBED
from .rules import Rule, Term, parse_rule, with_printed
from .yaml_lines import at_line, line_of, read_yaml

# -- what a field may hold ----------------------------------------------------------------------------------------------


def _formulas(text: str) -> str:
    formulas.pieces(text)
    return text


def _brief(text: str, most: int = 60) -> str:
    if (letters := len(formulas.plain(text))) > most:
        raise ValueError(f"{letters} letters as it is read, {most} at most")
    return text


def _numbers(value: Any) -> float | list[float]:
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return int(value) if str(value).isdigit() else float(str(value))


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
#: What readers see, perhaps with formulas.
Words = Annotated[Text, AfterValidator(_formulas)]
#: What stands beside a verdict: so many letters at most, as it is read.
Brief = Annotated[Words, AfterValidator(_brief)]
#: How prose shows a number, such as ``.0%``.
Format = Annotated[Text, AfterValidator(lambda spec: format(0.5, spec) and spec)]
#: A colon would end the key in ``{glue:text}``.
Key = Annotated[Text, StringConstraints(pattern=r"^[A-Za-z0-9._+/-]+$")]
#: Numbers that a paper prints, one or a list, by name.
Printed = Mapping[str, Annotated[Any, AfterValidator(_numbers)]]

_STRICT = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


@dataclass(frozen=True)
class Part:
    """One recorded key and the rule it must satisfy.

    Attributes:
        error: the key under which the standard error of the value is recorded (of the difference, where the rule compares with another key), a number
            or a list like the value. None: ``KEY_se`` where that is recorded (:meth:`with_error`), and no error otherwise; the empty text (``none`` in the
            file): none at all, because the rule already judges in standard errors.
        negative_control: a value that the rule must fail, or it decides nothing: a number that the paper itself sets apart from this one, or what the same
            measurement gives for a pair that does not belong together.
        late: the rule was written or changed after a first run.
        printed: judged on the paper's own printed values, and so at the paper's scale even where the claim is reduced.
    """

    __pydantic_config__ = _STRICT

    name: Words
    key: Key
    rule: Annotated[Rule, PlainValidator(lambda text, info: parse_rule(with_printed(str(text), info.context)))]
    because: Words
    reading: Words | None = None
    error: Annotated[Key, AfterValidator(lambda key: "" if key == "none" else key)] | None = None
    negative_control: (
        Annotated[Term, PlainValidator(lambda text, info: Term.parse(with_printed(str(text), info.context)))] | None
    ) = None
    format: Format | None = None
    late: bool = False
    printed: bool = False

    @property
    def full_name(self) -> str:
        """The name with its reading."""
        return self.name if self.reading is None else f"{self.name} [{self.reading}]"

    def with_error(self, recorded: Container[str]) -> "Part":
        """This part with its error resolved, given the keys that were recorded: a key, the empty text for none at all, or None where nothing is said."""
        implied = f"{self.key}_se"
        return replace(self, error=implied) if self.error is None and implied in recorded else self

    @property
    def judged(self) -> tuple[Any, ...]:
        """All that decides the part, without sentences: ``error: none`` says only what was so before."""
        control = self.negative_control and astuple(self.negative_control)
        return self.key, self.rule.text, self.error or None, self.reading, self.printed, control

    @property
    def digest(self) -> str:
        """Six digits that change when the rule does."""
        return hashlib.sha256(repr(self.judged).encode()).hexdigest()[:6]

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys that decide the part: its own, its error's, its control's and those that its rule compares with."""
        control = self.negative_control.key if self.negative_control is not None else None
        return (self.key, *(key for key in (self.error, control) if key), *self.rule.references())


@dataclass(frozen=True)
class Claim:
    """One thing that the paper says, or a question of our own (``key/q-...``), with the parts that decide it.

    Attributes:
        conjunction: the sentence says "all", "each of" or "neither ... nor": one part that certainly fails decides.
        inventory: other items of the papers' inventory that it covers.
        requires: its premises, ids of claims of any paper (:mod:`iclbook.book.premises`).
    """

    __pydantic_config__ = _STRICT

    id: Text
    where: Words
    short: Brief
    says: Words
    paper: Words | None = None
    decides: Literal["smoke", "paper"] = "paper"
    reduced: Words | None = None
    fails_as: Literal["not reproduced", "inconsistent"] = "not reproduced"
    conjunction: bool = False
    parts: tuple[Part, ...] = ()
    out_of_reach: Words | None = None
    inventory: Text | None = None
    requires: tuple[Text, ...] = ()

    def is_probed(self, recorded: Container[str]) -> bool:
        """Whether a reader's own probes of published models, whose weights are no part of the book, decide what is out of reach otherwise."""
        keys = [part.key for part in self.parts if part.key.startswith(PROBED)]
        return bool(keys) and all(key in recorded for key in keys)

    @cached_property
    def rules_digest(self) -> str:
        """Digest of all that judges it: rules, keys, errors, controls and readings of its parts, and how they make a verdict; no sentence of it."""
        judged = ([p.judged for p in self.parts], self.decides, self.reduced is None, self.fails_as, self.conjunction)
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
class Measured:
    """A recorded value that decides nothing: what it says, and ``tolerance: none`` where it differs from run to run by its nature, such as minutes."""

    __pydantic_config__ = _STRICT

    says: Text
    tolerance: Literal["none"] | None = None
    format: Format | None = None


@dataclass(frozen=True, eq=False)
class Ledger:
    """Ledger of one paper: its claims.

    Attributes:
        printed: numbers that the paper prints; rules name them ``printed:NAME``, measures and figures take them from here.
        values: what is recorded beside the values that decide claims.
    """

    __pydantic_config__ = _STRICT

    paper: Text
    title: Text
    chapter: Annotated[Text, StringConstraints(pattern=r"^notebooks/\w+\.py$")]
    claims: tuple[Claim, ...]
    printed: Printed = field(default_factory=dict)
    values: Mapping[Key, Measured] = field(default_factory=dict)
    path: Path = Path()

    @property
    def chapter_name(self) -> str:
        """The chapter's name on the command line, e.g. ``linear_regression``."""
        return Path(self.chapter).stem

    @cached_property
    def formats(self) -> dict[str, str]:
        """Formats in which prose shows numbers, key -> format such as ``.0%``."""
        parts = [(part.key, part) for claim in self.claims for part in claim.parts]
        return {key: item.format for key, item in reversed([*self.values.items(), *parts]) if item.format}

    @cached_property
    def uncompared(self) -> frozenset[str]:
        """Keys of which the regression check asks only that they are there."""
        return frozenset(key for key, value in self.values.items() if value.tolerance)

    @cached_property
    def decisive(self) -> frozenset[str]:
        """Keys on which a verdict depends."""
        return frozenset(key for claim in self.claims for part in claim.parts for key in part.keys)

    @cached_property
    def keys(self) -> frozenset[str]:
        """Keys that a notebook of this paper may record: those of parts and values, and their standard errors ``KEY_se``."""
        named = self.decisive | set(self.values)
        return named | {f"{key}_se" for key in named}

    def claim(self, claim_id: str) -> Claim:
        """The claim of that id; another id is refused with the nearest one."""
        by_id = {claim.id: claim for claim in self.claims}
        if claim_id in by_id:
            return by_id[claim_id]
        hint = nearest(claim_id, by_id) or f"`iclbook claims {self.paper}` lists all claims."
        raise UserError(f"{display_name(self.path)} has no claim {claim_id!r}", hint)

    def require_key(self, key: str) -> None:
        """Refuse a key that belongs to no part and is not listed under ``values``."""
        if key not in self.keys:
            near = nearest(key, self.keys)
            hint = (
                f"{near} Then correct the one that is wrong."
                if near
                else "Name it in a part, or list it under values:."
            )
            raise UserError(f"key {key!r} was recorded, but no claim part of {display_name(self.path)} uses it", hint)


# -- reading --------------------------------------------------------------------------------------------------------------


def load_ledger(key: str, root: Path | None = None) -> Ledger:
    """Read ``papers/<key>/claims.yaml``; an unknown key is refused with the known ones."""
    known = {path.parent.name: path for path in ledger_paths(root or find_root())}
    if key not in known:
        raise UserError(f"unknown paper {key!r}", f"Choose one of: {', '.join(known) or '(no ledger found)'}.")
    return read_ledger(known[key])


@cache
def printed(paper: str) -> Printed:
    """The numbers that a paper prints, from its ledger."""
    return load_ledger(paper).printed


def all_ledgers(root: Path | None = None) -> list[Ledger]:
    """Ledgers of all papers, he2025 first, then in the order of the paper keys. Premises that are no claims, and circles of premises, are refused."""
    paths = sorted(ledger_paths(root or find_root()), key=lambda path: (path.parent.name != "he2025", path))
    ledgers = [read_ledger(path) for path in paths]
    _check_premises(ledgers)
    return ledgers


def ledger_of(name: str, root: Path) -> Ledger:
    """A ledger by its paper's key or by its chapter's name; another name is refused with the known ones."""
    if name in {path.parent.name for path in ledger_paths(root)}:
        return load_ledger(name, root)
    ledgers = all_ledgers(root)
    for ledger in ledgers:
        if name == ledger.chapter_name:
            return ledger
    known = ", ".join(f"{ledger.paper} ({ledger.chapter_name})" for ledger in ledgers)
    raise UserError(f"no paper or chapter is called {name[:80]!r}", f"Choose one of: {known or '(no ledger found)'}.")


def read_ledger(path: Path) -> Ledger:
    """Read one ledger file strictly; an unchanged file is parsed once a process."""
    try:
        content = path.read_bytes()
    except OSError:
        content = b""  # the reader says why
    return _read(path, content)


@lru_cache(maxsize=64)
def _read(path: Path, content: bytes) -> Ledger:
    body = read_yaml(path)
    try:
        ledger = replace(_LEDGER.validate_python(body, context=body), path=path)
    except ValidationError as problem:
        where, what, hint = _explained(problem)
        raise at_line(path, line_of(body, where), what, hint) from None
    for where, what, hint in _slips(ledger):
        raise at_line(path, line_of(body, where), what, hint)
    return ledger


_LEDGER = TypeAdapter(Ledger)


def _explained(problem: ValidationError) -> tuple[tuple, str, str]:
    """Where the first mistake in a ledger is, what is wrong and a hint."""
    error = min(problem.errors(), key=lambda each: each["loc"][:1] != ("printed",))  # which rules read
    where = tuple(step for step in error["loc"] if step != "[key]")
    name = next((step for step in reversed(where) if isinstance(step, str)), "the file")
    if error["type"] == "unexpected_keyword_argument":
        holder = {1: Ledger, 5: Part}.get(len(where), Claim if where[0] == "claims" else Measured)
        if name == "readings":
            return where, "readings is no mapping", "Write it as {as printed: text, as coded: code}, without reading:."
        return where, f"unknown field {name!r}", nearest(name, holder.__dataclass_fields__) or "Delete it."
    if error["type"] == "missing":
        return where, f"missing field {name!r}", f"Add {name}: here."
    what = f"an entry of {name}" if where and isinstance(where[-1], int) else name
    says = error["msg"].removeprefix("Value error, ").replace("a valid tuple", "a list, each entry behind a dash")
    return where, f"{what} is {shortened(error['input'])}: {says}", "CONTRIBUTING.md shows how it is written."


def _slips(ledger: Ledger) -> Iterator[tuple[tuple, str, str]]:
    """Mistakes between fields: place, problem and hint."""
    if ledger.paper != (folder := ledger.path.parent.name):
        yield ("paper",), f"paper is {ledger.paper!r}", f"It must be {folder!r}, the name of its folder."
    ids = set()
    for index, claim in enumerate(ledger.claims):
        at = ("claims", index)
        if not re.fullmatch(rf"{re.escape(ledger.paper)}/[A-Za-z0-9._-]+", claim.id):
            hint = f"Write it as {ledger.paper}/ITEM, with letters, digits and . _ - only."
            yield (*at, "id"), f"id {claim.id!r} does not belong here", hint
        if claim.id in ids:
            yield (*at, "id"), f"claim {claim.id!r} is listed twice", "Give each claim its own id."
        ids.add(claim.id)
        for number, part in enumerate(claim.parts):
            if part.full_name in [other.full_name for other in claim.parts[:number]]:
                yield (*at, "parts", number, "name"), f"{claim.id} has two parts named {part.name!r}", "Rename one."
    for key in sorted(ledger.uncompared & ledger.decisive):
        hint = "Delete the tolerance: what decides is always compared."
        yield ("values", key, "tolerance"), f"{key!r} decides a claim and is not compared", hint


def _check_premises(ledgers: Sequence[Ledger]) -> None:
    """Refuse premises that are no claims, and circles."""
    requires = {claim.id: claim.requires for ledger in ledgers for claim in ledger.claims}
    of = {claim.id: display_name(ledger.path) for ledger in ledgers for claim in ledger.claims}
    for claim, premises in requires.items():
        for premise in premises:
            if premise not in requires:
                hint = nearest(premise, requires) or "`iclbook claims` lists all claims."
                raise UserError(f"{of[claim]}: {claim} requires {premise!r}, which is no claim", hint)
    try:
        TopologicalSorter(requires).prepare()
    except CycleError as circle:
        first, *others = reversed(circle.args[1])
        way = f" by way of {', '.join(others[:-1])}" if len(others) > 1 else ""
        hint = "Delete one of these premises: no argument runs in a circle."
        raise UserError(f"{of[first]}: {first} requires itself{way}", hint) from None
