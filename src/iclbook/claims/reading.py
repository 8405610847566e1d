"""Reads ledgers.

``papers/<key>/claims.yaml`` is read strictly: an unknown field, a missing reason or a malformed rule is an error that names the file,
the line and the mend, so that a typing slip cannot turn into a verdict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path

from .. import formulas
from ..errors import UserError
from ..profiles import PROFILES
from ..project import find_root, ledger_path, ledger_paths
from . import premises
from .ledger import Claim, Ledger, Part
from .rules import GRAMMAR, Term, parse_rule
from .yaml_lines import Located, read_yaml

FAILS_AS = ("not reproduced", "inconsistent")
_TOP = {"paper", "title", "chapter", "printed", "values", "claims"}
_CLAIM = {
    "id",
    "where",
    "says",
    "paper",
    "decides",
    "reduced",
    "fails_as",
    "parts",
    "out_of_reach",
    "inventory",
    "requires",
}
_PART = {"name", "key", "rule", "because", "reading", "readings", "error", "refuses", "format", "late"}
_VALUE = {"says", "tolerance", "format"}
_KEY = re.compile(r"[A-Za-z0-9._+/-]+")


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
        raise UserError(
            f"unknown paper {key!r}", f"Choose one of: {', '.join(known) or '(no ledger found)'}."
        )
    return read_ledger(ledger_path(key, root))


@cache
def printed(paper: str) -> Mapping[str, float | list[float]]:
    """The numbers that a paper prints, from its ledger.

    Raises:
        UserError: as ``load_ledger``.
    """
    return load_ledger(paper).printed


def all_ledgers(root: Path | None = None) -> list[Ledger]:
    """Every ledger, in the order of the paper keys, the one that the book began with first.

    Raises:
        UserError: as ``load_ledger``; a premise that no claim is, a circle.
    """
    keys = ledger_keys(root)
    ledgers = [load_ledger(key, root) for key in sorted(keys, key=lambda k: (k != "he2025", k))]
    premises.check(ledgers)
    return ledgers


def read_ledger(path: Path) -> Ledger:
    """Read one ledger file strictly; what a process has read and nobody has changed is not read again.

    Raises:
        UserError: names file, line, what is wrong and the mend.
    """
    try:
        content = sha256(path.read_bytes()).digest()
    except OSError:
        content = b""  # the reader says why
    return _read(path, content)


@lru_cache(maxsize=64)
def _read(path: Path, content: bytes) -> Ledger:
    """The ledger of this file, which has this content."""
    top = read_yaml(path)
    top.fields(_TOP, required={"paper", "title", "chapter", "claims"})
    paper = top.text("paper")
    if paper != path.parent.name:
        raise top["paper"].error(
            f"paper is {paper!r}", f"It must be {path.parent.name!r}, the name of its folder."
        )
    values, uncompared = _values(top)
    claims: list[Claim] = []
    formats, printed = _formats(top), _printed(top)
    for entry in top["claims"].items_of_list():
        claim = _claim(entry, paper, printed)
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
        raise top["values"][key]["tolerance"].error(
            f"{key!r} decides a claim and is not compared",
            "Delete the tolerance: what decides is always compared.",
        )
    premises.check([ledger], whole=False)
    return ledger


def _values(top: Located) -> tuple[dict[str, str], set[str]]:
    """What each value of the ledger says, and which are not compared."""
    values: dict[str, str] = {}
    uncompared: set[str] = set()
    if "values" in top and top["values"].value is not None:
        for key, entry in top["values"].items():
            _require_key_form(entry, key)
            entry.fields(_VALUE, required={"says"})
            values[key] = entry.text("says")
            if "tolerance" in entry:
                _require_none(entry["tolerance"])
                uncompared.add(key)
    return values, uncompared


def _parts(entry: Located) -> list[Located]:
    """The parts of a claim; one with ``readings: {READING: PIECE, ...}`` stands for a part a reading, with PIECE for each ``{}`` in its fields."""
    listed = entry["parts"].items_of_list() if "parts" in entry and entry["parts"].value is not None else []
    return [part for item in listed for part in (_by_reading(item) if "readings" in item else [item])]


def _by_reading(entry: Located) -> list[Located]:
    if "reading" in entry:
        raise entry["reading"].error("a part has reading and readings", "Keep one of the two.")
    return [
        entry.filled({"reading": name}, entry["readings"].text_of(piece), without="readings")
        for name, piece in entry["readings"].items()
    ]


def _claim(entry: Located, paper: str, printed: Mapping[str, float | list[float]]) -> Claim:
    entry.fields(_CLAIM, required={"id", "where", "says"})
    claim_id = entry.text("id")
    prefix, _, item = claim_id.partition("/")
    if prefix != paper or not item or any(c.isspace() for c in claim_id):
        raise entry["id"].error(
            f"id {claim_id!r} does not belong here", f"Write it as {paper}/ITEM, without spaces."
        )
    parts = []
    for located in _parts(entry):
        part = _part(located, printed)
        if any((part.name, part.reading) == (other.name, other.reading) for other in parts):
            raise located["name"].error(
                f"{claim_id} has two parts named {part.name!r}", "Give each part its own name."
            )
        parts.append(part)
    if item.startswith("q-") and not entry.text("says").endswith("?"):
        raise entry["says"].error(
            f"{claim_id} asks nothing", "Write a question that is answered yes where its parts hold."
        )
    return Claim(
        id=claim_id,
        where=_words(entry, "where"),
        says=_words(entry, "says"),
        paper=_words(entry, "paper"),
        decides=entry.one_of("decides", PROFILES, "paper"),
        reduced=_words(entry, "reduced"),
        fails_as=entry.one_of("fails_as", FAILS_AS, "not reproduced"),
        parts=tuple(parts),
        out_of_reach=_words(entry, "out_of_reach"),
        inventory=entry.text("inventory", None),
        requires=premises.requires(entry),
    )


def _words(entry: Located, field: str) -> str | None:
    """A field that readers see, which may hold formulas; None where it is not there."""
    text = entry.text(field, None, numbers=field == "paper")
    try:
        formulas.pieces(text or "")
    except ValueError as problem:
        raise entry[field].error(str(problem), "Write such as $omega = 1/sqrt(d)$, or no dollar.") from None
    return text


def _part(entry: Located, printed: Mapping[str, float | list[float]]) -> Part:
    if "tolerance" in entry:
        raise entry["tolerance"].error(
            "a part has no tolerance",
            "Delete it: tolerances are measured (references/), and what decides is always compared.",
        )
    entry.fields(_PART, required={"name", "key", "rule", "because"})
    try:
        rule = parse_rule(_with_printed(entry["rule"].value, printed))
    except ValueError as problem:
        raise entry["rule"].error(f"bad rule: {problem}", GRAMMAR) from None
    error = entry.text("error", None)
    for field in ("key", "error"):
        if field in entry and entry.text(field) != "none":
            _require_key_form(entry[field], entry.text(field))
    refuses = None
    if "refuses" in entry:
        try:
            refuses = Term.parse(str(_with_printed(entry.text("refuses", numbers=True), printed)))
        except ValueError as problem:
            raise entry["refuses"].error(
                f"{problem}", "Write a number, printed:NAME or key:NAME of what the rule must not pass."
            ) from None
    return Part(
        name=_words(entry, "name"),
        key=entry.text("key"),
        rule=rule,
        because=_words(entry, "because"),
        reading=_words(entry, "reading"),
        error="" if error == "none" else error,
        refuses=refuses,
        late=entry.flag("late"),
    )


def _require_key_form(entry: Located, key: str) -> None:
    if not _KEY.fullmatch(key):
        mend = "Use letters, digits and . _ + - / only; a colon would end the key in {glue:text}."
        raise entry.error(f"key {key!r} has other characters", mend)


def _formats(top: Located) -> dict[str, str]:
    """The formats of all values and parts that name one."""
    listed = list(top["values"].items()) if "values" in top and top["values"].value is not None else []
    listed += [
        (part.text("key"), part)
        for claim in top["claims"].items_of_list()
        for part in _parts(claim)
        if "key" in part
    ]
    found: dict[str, str] = {}
    for key, entry in listed:
        if "format" not in entry:
            continue
        wanted = entry.text("format")
        try:
            format(0.5, wanted)
        except ValueError as problem:
            raise entry["format"].error(
                f"bad format {wanted!r} ({problem})", "Use one such as '.2f'."
            ) from None
        if found.setdefault(key, wanted) != wanted:
            raise entry["format"].error(f"{key!r} has two formats", "Give it one, at one of its parts.")
    return found


def _printed(top: Located) -> dict[str, float | list[float]]:
    """The numbers that the paper prints."""
    found = {}
    for name, entry in top["printed"].items() if "printed" in top else ():
        numbers = entry.value if isinstance(entry.value, list) else [entry.value]
        if not numbers or any(isinstance(n, bool) or not isinstance(n, int | float) for n in numbers):
            raise entry.error(f"{name} is {entry.value!r}", "Write a number or a list of numbers.")
        found[name] = entry.value
    return found


def _with_printed(rule: object, printed: Mapping[str, float | list[float]]) -> object:
    """A rule with the numbers that it names as ``printed:NAME``.

    Raises:
        ValueError: no such number, or a list.
    """

    def number(match: re.Match) -> str:
        value = printed.get(match[1])
        if value is None or isinstance(value, list):
            raise ValueError(f"printed: has no single number {match[1]!r}")
        return repr(value)

    return re.sub(r"printed:([^\s,\[\]]+)", number, rule) if isinstance(rule, str) else rule


def _require_none(entry: Located) -> None:
    if entry.value != "none":
        raise entry.error(
            f"tolerance {entry.value!r} is typed",
            "Delete it: tolerances are measured (references/). Only `none` may be written, for a value that is not compared.",
        )
