"""YAML that remembers its lines, so that a mistake in a ledger is reported where it stands."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from ..errors import UserError, one_line
from ..project import shown

_REQUIRED = object()
#: Levels of nesting; a ledger needs six.
DEEPEST = 40


#: The safe loader, in C where PyYAML has that.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _require_bounded(text: str, loader: type) -> None:
    """Refuse what no file here needs and what can grow without bound: aliases and deep nesting.

    Raises:
        yaml.YAMLError: one of them, or text that is not YAML.
    """
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.MarkedYAMLError(
                problem="an alias, which is not used here", problem_mark=event.start_mark
            )
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise yaml.MarkedYAMLError(
                problem=f"nested more than {DEEPEST} deep", problem_mark=event.start_mark
            )


def _compose(text: str) -> yaml.Node | None:
    """The text's node; what is wrong with it is said by PyYAML's own loader, which is on every machine and knows better where.

    Raises:
        yaml.YAMLError: as :func:`_require_bounded`.
    """
    try:
        _require_bounded(text, _Loader)
    except yaml.YAMLError:
        _require_bounded(text, yaml.SafeLoader)
        raise
    return yaml.compose(text, Loader=_Loader)


class Located:
    """A YAML value with its file and line; mappings and lists give their members as ``Located`` too."""

    def __init__(self, node: yaml.Node, path: Path, name: str = "the file") -> None:
        self.node, self.path, self.name = node, path, name
        self.line = node.start_mark.line + 1
        self.members: dict[str, Located] = {}
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                label = str(key.value)
                member = Located(value, path, label)
                member.line = key.start_mark.line + 1  # a block value may begin on the line after its key
                if label in self.members:
                    raise member.error(f"{label!r} is written twice", "Keep one of the two.")
                self.members[label] = member
        self.value = _construct(node, path)

    def filled(self, more: Mapping[str, str], piece: str, without: str) -> Located:
        """This mapping with further text fields, without one, and with ``piece`` for each ``{}`` in its texts."""
        new = copy.copy(self)
        new.members = {k: m._with_piece(piece) for k, m in self.members.items() if k != without}
        for name, text in more.items():
            new.members[name] = member = copy.copy(self)
            member.name, member.value, member.members = name, text, {}
        new.value = {name: member.value for name, member in new.members.items()}
        return new

    def _with_piece(self, piece: str) -> Located:
        new = copy.copy(self)
        if isinstance(self.value, str):
            new.value = self.value.replace("{}", piece)
        return new

    def text_of(self, member: Located) -> str:
        """A member's text, which may be a number.

        Raises:
            UserError: another kind of value.
        """
        if isinstance(member.value, bool | list | dict | None):
            raise member.error(f"{member.name} is {member.value!r}", "Write a text.")
        return str(member.value)

    def error(self, problem: str, mend: str) -> UserError:
        """An error that names file and line."""
        return UserError(f"{shown(self.path)}, line {self.line}: {problem}", mend)

    def __contains__(self, name: str) -> bool:
        return name in self.members

    def __getitem__(self, name: str) -> Located:
        return self.members[name]

    def fields(self, known: Collection[str], required: Collection[str]) -> None:
        """Insist on a mapping with no unknown and no missing field.

        Raises:
            UserError: names the field.
        """
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(
                f"{self.name} is not a mapping", f"Write it as fields: {', '.join(sorted(required))}, ..."
            )
        for name, member in self.members.items():
            if name not in known:
                close = difflib.get_close_matches(name, known, 1)
                raise member.error(
                    f"unknown field {name!r}",
                    f"Did you mean {close[0]!r}?" if close else f"Known fields: {', '.join(sorted(known))}.",
                )
        for name in sorted(required):
            if name not in self.members:
                shown = self.value.get("id") or self.value.get("name") or self.value.get("key")
                raise self.error(
                    f"{f'{shown!r} lacks' if shown else 'missing'} field {name!r}", f"Add {name}: here."
                )

    def text(self, name: str, default: Any = _REQUIRED, numbers: bool = False) -> Any:
        """A non-empty text field; with ``numbers``, a plain number is taken as its text."""
        if name not in self.members and default is not _REQUIRED:
            return default
        value = self.members[name].value
        if numbers and isinstance(value, int | float) and not isinstance(value, bool):
            return self.members[name].node.value
        if not isinstance(value, str) or not value.strip():
            raise self.members[name].error(
                f"{name} is {value!r}", "Write a text; put it in quotes if need be."
            )
        return value.strip()

    def flag(self, name: str) -> bool:
        """Whether a field is there; only ``true`` may be written.

        Raises:
            UserError: another value.
        """
        if name in self and self[name].value is not True:
            raise self[name].error(f"{name} is {self[name].value!r}", "Write true, or delete the line.")
        return name in self

    def one_of(self, name: str, choices: Collection[str], default: str) -> str:
        """A field that must be one of ``choices``."""
        if name not in self.members:
            return default
        value = self.members[name].value
        if value not in choices:
            raise self.members[name].error(f"{name} is {value!r}", f"Choose one of: {', '.join(choices)}.")
        return value

    def items(self) -> list[tuple[str, Located]]:
        """Members of a mapping."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(f"{self.name} is not a mapping", "Write it as KEY: {says: ...} lines.")
        return list(self.members.items())

    def items_of_list(self) -> list[Located]:
        """Members of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.error(f"{self.name} is not a list", "Begin each entry with a dash.")
        return [Located(node, self.path, f"an entry of {self.name}") for node in self.node.value]


def _construct(node: yaml.Node, path: Path) -> Any:
    loader = _Loader("")
    try:
        value = loader.construct_object(node, deep=True)
        if isinstance(value, int):
            float(value)  # overflows where the number is beyond all use
        return value
    except yaml.MarkedYAMLError as problem:
        raise _syntax(problem, path) from None
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as problem:
        # PyYAML's constructors pass on whatever Python says of "!!int x", a 13th month or a number of a million digits
        raise UserError(
            f"{shown(path)}, line {node.start_mark.line + 1}: a value that cannot be read ({_flat(problem)})",
            "Correct it, or put it in quotes if it is a text.",
        ) from None
    finally:
        loader.dispose()


def read_yaml(path: Path) -> Located:
    """Parse a YAML file with the safe loader's rules.

    Raises:
        UserError: unreadable, not UTF-8, empty or not YAML; names file and line.
    """
    try:
        node = _compose(path.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as problem:
        raise _syntax(problem, path) from None
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise UserError(
            f"{shown(path)} is not readable as YAML: {_flat(problem)}", "Save it as UTF-8 text."
        ) from None
    except OSError as problem:
        raise UserError(
            f"{shown(path)} cannot be read: {problem.strerror}", "Check that the file is there and readable."
        ) from None
    if node is None:
        raise UserError(f"{shown(path)}, line 1: the file is empty", "Restore it.")
    return Located(node, path)


def _syntax(problem: yaml.MarkedYAMLError, path: Path) -> UserError:
    mark = problem.problem_mark or problem.context_mark
    line = mark.line + 1 if mark else 1
    return UserError(
        f"{shown(path)}, line {line}: not valid YAML ({_flat(problem.problem or problem)})",
        'Check the indentation, and put texts that begin with ">" or contain ": " in quotes.',
    )


def _flat(problem: object) -> str:
    return one_line(problem)[:200]
