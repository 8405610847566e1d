"""Reads ledgers.

``papers/<key>/claims.yaml`` is read strictly: an unknown field, a missing reason or a malformed rule is an error that names the file, the line and a
hint, so that a typing slip cannot turn into a verdict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from graphlib import CycleError, TopologicalSorter
from hashlib import sha256
from pathlib import Path

from .. import formulas
from ..errors import UserError
from ..project import PROFILES, find_root, ledger_path, ledger_paths
from .ledger import GRAMMAR, Claim, Ledger, Part, Term, nearest, parse_rule
from .yaml_lines import Located, read_yaml

FAILS_AS = ("not reproduced", "inconsistent")
_TOP = {"paper", "title", "chapter", "printed", "values", "claims"}
_CLAIM = {"id", "where", "says", "paper", "decides", "reduced", "fails_as", "conjunction", "parts", "out_of_reach"}
_CLAIM |= {"inventory", "requires"}
_PART = {"name", "key", "rule", "because", "reading", "readings", "error", "refuses", "format", "late", "printed"}
Printed = Mapping[str, float | list[float]]
_ID, _KEY = re.compile(r"[A-Za-z0-9._-]+"), re.compile(r"[A-Za-z0-9._+/-]+")


def ledger_keys(root: Path | None = None) -> list[str]:
    """The paper keys for which there is a ledger, sorted."""
    return sorted(path.parent.name for path in ledger_paths(root or find_root()))


def load_ledger(key: str, root: Path | None = None) -> Ledger:
    """Read ``papers/<key>/claims.yaml``.

    Raises:
        UserError: no such ledger, or a malformed one.
    """
    root = root or find_root()
    known = ledger_keys(root)
    if key not in known:
        raise UserError(f"unknown paper {key!r}", f"Choose one of: {', '.join(known) or '(no ledger found)'}.")
    return read_ledger(ledger_path(key, root))


@cache
def printed(paper: str) -> Printed:
    """The numbers that a paper prints, from its ledger."""
    return load_ledger(paper).printed


def all_ledgers(root: Path | None = None) -> list[Ledger]:
    """Every ledger, he2025 first, then in the order of the paper keys.

    Raises:
        UserError: as ``load_ledger``; a premise that is no claim; premises that form a circle.
    """
    keys = ledger_keys(root)
    ledgers = [load_ledger(key, root) for key in sorted(keys, key=lambda k: (k != "he2025", k))]
    _check_premises(ledgers)
    return ledgers


def read_ledger(path: Path) -> Ledger:
    """Read one ledger file strictly; an unchanged file is parsed once a process.

    Raises:
        UserError: names file, line, what is wrong and a hint.
    """
    try:
        content = sha256(path.read_bytes()).digest()
    except OSError:
        content = b""  # the reader says why
    return _read(path, content)


@lru_cache(maxsize=64)
def _read(path: Path, content: bytes) -> Ledger:
    top = read_yaml(path)
    top.fields(_TOP, required={"paper", "title", "chapter", "claims"})
    paper = top.text("paper")
    if paper != path.parent.name:
        hint = f"It must be {path.parent.name!r}, the name of its folder."
        raise top["paper"].error(f"paper is {paper!r}", hint)
    if not re.fullmatch(r"notebooks/\w+\.py", top.text("chapter")):
        raise top["chapter"].error(f"chapter is {top.text('chapter')!r}", "Write it as notebooks/NAME.py.")
    printed, formats = _printed(top), {}
    values, uncompared = _values(top, formats)
    claims: list[Claim] = []
    for entry in top.items_of_list("claims"):
        claim = _claim(entry, paper, printed, formats)
        if any(claim.id == other.id for other in claims):
            raise entry["id"].error(f"claim {claim.id!r} is listed twice", "Give each claim its own id.")
        claims.append(claim)
    ledger = Ledger(
        paper,
        top.text("title"),
        top.text("chapter"),
        tuple(claims),
        printed,
        values,
        formats,
        frozenset(uncompared),
        path,
    )
    for key in sorted(uncompared & ledger.decisive):
        hint = "Delete the tolerance: what decides is always compared."
        raise top["values"][key]["tolerance"].error(f"{key!r} decides a claim and is not compared", hint)
    _check_premises([ledger], whole=False)
    return ledger


def _values(top: Located, formats: dict[str, str]) -> tuple[dict[str, str], set[str]]:
    """What each value of the ledger says, and which are not compared."""
    values: dict[str, str] = {}
    uncompared: set[str] = set()
    for key, entry in top.items("values"):
        _require_key(entry, key)
        entry.fields({"says", "tolerance", "format"}, required={"says"})
        values[key] = entry.text("says")
        _note_format(entry, key, formats)
        if "tolerance" in entry:
            if entry["tolerance"].value != "none":
                hint = "Delete it: tolerances are measured (references/). Only `none` may be written, for a value that is not compared."
                raise entry["tolerance"].error(f"tolerance {entry['tolerance'].value!r} is typed", hint)
            uncompared.add(key)
    return values, uncompared


def _parts(entry: Located) -> list[Located]:
    """The parts of a claim; one with ``readings: {READING: PIECE, ...}`` stands for a part a reading, with PIECE for each ``{}`` in its fields."""
    found = []
    for part in entry.items_of_list("parts"):
        if "readings" not in part:
            found.append(part)
        elif "reading" in part:
            raise part["reading"].error("a part has reading and readings", "Keep one of the two.")
        else:
            for name, piece in part.items("readings"):
                found.append(part.filled(str(piece.value), {"reading": name}, without="readings"))
    return found


def _claim(entry: Located, paper: str, printed: Printed, formats: dict[str, str]) -> Claim:
    entry.fields(_CLAIM, required={"id", "where", "says"})
    claim_id = entry.text("id")
    prefix, _, item = claim_id.partition("/")
    if prefix != paper or not _ID.fullmatch(item):
        hint = f"Write it as {paper}/ITEM, with letters, digits and . _ - only."
        raise entry["id"].error(f"id {claim_id!r} does not belong here", hint)
    parts: list[Part] = []
    for located in _parts(entry):
        part = _part(located, printed)
        _note_format(located, part.key, formats)
        if any((part.name, part.reading) == (other.name, other.reading) for other in parts):
            raise located["name"].error(f"{claim_id} has two parts named {part.name!r}", "Give each its own name.")
        parts.append(part)
    if item.startswith("q-") and not entry.text("says").endswith("?"):
        hint = "Write a question that is answered yes where its parts hold."
        raise entry["says"].error(f"{claim_id} asks nothing", hint)
    return Claim(
        id=claim_id,
        where=_words(entry, "where"),
        says=_words(entry, "says"),
        paper=_words(entry, "paper"),
        decides=entry.one_of("decides", PROFILES, "paper"),
        reduced=_words(entry, "reduced"),
        fails_as=entry.one_of("fails_as", FAILS_AS, "not reproduced"),
        conjunction=entry.flag("conjunction"),
        parts=tuple(parts),
        out_of_reach=_words(entry, "out_of_reach"),
        inventory=entry.text("inventory", None),
        requires=_requires(entry),
    )


def _words(entry: Located, field: str) -> str | None:
    """A field that readers see, which may hold formulas; None where it is not there."""
    text = entry.text(field, None, numbers=field == "paper")
    try:
        formulas.pieces(text or "")
    except ValueError as problem:
        raise entry[field].error(str(problem), "Correct the formula, or write no dollar.") from None
    return text


def _requires(entry: Located) -> tuple[str, ...]:
    named = entry.items_of_list("requires")
    ids = [item.value for item in named]
    for item in named:
        if not isinstance(item.value, str) or "/" not in item.value or ids.count(item.value) > 1:
            hint = "Write ids of claims, each once, such as [he2025/kf1]."
            raise item.error(f"requires {item.value!r}", hint)
    return tuple(ids)


def _part(entry: Located, printed: Printed) -> Part:
    entry.fields(_PART, required={"name", "key", "rule", "because"})
    try:
        rule = parse_rule(_with_printed(entry["rule"].value, printed))
    except ValueError as problem:
        raise entry["rule"].error(f"bad rule: {problem}", GRAMMAR) from None
    error = entry.text("error", None)
    for field in ("key", "error"):
        if field in entry:
            _require_key(entry[field], entry.text(field))
    refuses = None
    if "refuses" in entry:
        try:
            refuses = Term.parse(str(_with_printed(entry.text("refuses", numbers=True), printed)))
        except ValueError as problem:
            hint = "Write a number, printed:NAME or key:NAME of what the rule must not pass."
            raise entry["refuses"].error(str(problem), hint) from None
    return Part(
        name=_words(entry, "name"),
        key=entry.text("key"),
        rule=rule,
        because=_words(entry, "because"),
        reading=_words(entry, "reading"),
        error="" if error == "none" else error,
        refuses=refuses,
        late=entry.flag("late"),
        printed=entry.flag("printed"),
    )


def _require_key(entry: Located, key: str) -> None:
    if not _KEY.fullmatch(key):
        hint = "Use letters, digits and . _ + - / only; a colon would end the key in {glue:text}."
        raise entry.error(f"key {key!r} has other characters", hint)


def _note_format(entry: Located, key: str, formats: dict[str, str]) -> None:
    """Enter the format that a value or part names for its key."""
    if "format" in entry:
        wanted = entry.text("format")
        try:
            format(0.5, wanted)
        except ValueError as problem:
            raise entry["format"].error(f"bad format {wanted!r} ({problem})", "Use one such as '.2f'.") from None
        if formats.setdefault(key, wanted) != wanted:
            raise entry["format"].error(f"{key!r} has two formats", "Give it one, at one of its parts.")


def _printed(top: Located) -> Printed:
    """The numbers that the paper prints."""
    found = {}
    for name, entry in top.items("printed"):
        numbers = entry.value if isinstance(entry.value, list) else [entry.value]
        if not numbers or any(isinstance(n, bool) or not isinstance(n, int | float) for n in numbers):
            raise entry.error(f"{name} is {entry.value!r}", "Write a number or a list of numbers.")
        found[name] = entry.value
    return found


def _with_printed(rule: object, printed: Printed) -> object:
    """A rule with the number for each ``printed:NAME``.

    Raises:
        ValueError: no such number, or a list.
    """

    def number(match: re.Match) -> str:
        value = printed.get(match[1])
        if value is None or isinstance(value, list):
            raise ValueError(f"printed: has no single number {match[1]!r}")
        return repr(value)

    return re.sub(r"printed:([^\s,\[\]]+)", number, rule) if isinstance(rule, str) else rule


def _check_premises(ledgers: Sequence[Ledger], whole: bool = True) -> None:
    """Refuse premises that are no claims, and circles.

    Args:
        whole: whether these are all ledgers of the book; otherwise premises in other papers are left alone.

    Raises:
        UserError: names file, line and a hint.
    """
    papers = {ledger.paper for ledger in ledgers}
    claims = {claim.id: claim for ledger in ledgers for claim in ledger.claims}
    for claim in claims.values():
        for premise in claim.requires:
            if premise not in claims and (whole or premise.partition("/")[0] in papers):
                hint = nearest(premise, claims) or "`iclbook claims` lists all claims."
                raise _at_requires(ledgers, claim.id, f"{claim.id} requires {premise!r}, which is no claim", hint)
    try:
        TopologicalSorter({claim.id: claim.requires for claim in claims.values()}).prepare()
    except CycleError as circle:
        first, *others = reversed(circle.args[1])
        way = f" by way of {', '.join(others[:-1])}" if len(others) > 1 else ""
        hint = "Delete one of these premises: no argument runs in a circle."
        raise _at_requires(ledgers, first, f"{first} requires itself{way}", hint) from None


def _at_requires(ledgers: Sequence[Ledger], claim_id: str, problem: str, hint: str) -> UserError:
    """An error at the claim's ``requires:``; the ledger is read again for its line."""
    path = next(ledger.path for ledger in ledgers if ledger.paper == claim_id.partition("/")[0])
    entry = next(e for e in read_yaml(path).items_of_list("claims") if e.text("id") == claim_id)
    return entry["requires"].error(problem, hint)
