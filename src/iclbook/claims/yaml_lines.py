"""YAML that remembers its lines, so that a mistake in a ledger is reported where it stands."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from ..errors import UserError, one_line
from ..project import shown
from .ledger import nearest

_REQUIRED = object()
#: PyYAML's safe loader, in C where it has that.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Located:
    """A YAML value with its file and line; mappings and lists give their members as ``Located`` too."""

    def __init__(self, value: Any, line: int, path: Path, name: str = "the file", scalar: str = "") -> None:
        self.value, self.line, self.path, self.name, self.scalar = value, line, path, name, scalar
        self.members: dict[str, Located] = {}
        self.entries: list[Located] = []

    @classmethod
    def of(cls, node: yaml.Node, path: Path, name: str = "the file") -> Located:
        """From a composed node; a key that is written twice, or a value that YAML's safe loader refuses, is an error."""
        scalar = node.value if isinstance(node, yaml.ScalarNode) else ""
        found = cls(_construct(node, path), node.start_mark.line + 1, path, name, scalar)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                member = cls.of(value, path, str(key.value))
                member.line = key.start_mark.line + 1  # a block value may begin on the line after its key
                if member.name in found.members:
                    raise member.error(f"{member.name!r} is written twice", "Keep one of the two.")
                found.members[member.name] = member
        elif isinstance(node, yaml.SequenceNode):
            found.entries = [cls.of(item, path, f"an entry of {name}") for item in node.value]
        return found

    def filled(self, piece: str, more: Mapping[str, str], without: str) -> Located:
        """This mapping with ``piece`` for each ``{}`` in its texts, further text fields, and without one field."""
        texts = {name: member.value for name, member in self.members.items() if name != without}
        texts = {name: v.replace("{}", piece) if isinstance(v, str) else v for name, v in texts.items()} | more
        new = Located(texts, self.line, self.path, self.name)
        for name, value in texts.items():
            old = self.members.get(name, self)
            new.members[name] = Located(value, old.line, self.path, name, old.scalar)
        return new

    def error(self, problem: str, hint: str) -> UserError:
        """An error that names file and line."""
        return UserError(f"{shown(self.path)}, line {self.line}: {problem}", hint)

    def __contains__(self, name: str) -> bool:
        return name in self.members

    def __getitem__(self, name: str) -> Located:
        return self.members[name]

    def fields(self, known: Collection[str], required: Collection[str]) -> None:
        """Insist on a mapping with no unknown and no missing field."""
        if not isinstance(self.value, dict):
            fields = ", ".join(sorted(required))
            raise self.error(f"{self.name} is not a mapping", f"Write it as fields: {fields}, ...")
        for name, member in self.members.items():
            if name not in known:
                hint = nearest(name, known) or f"Known fields: {', '.join(sorted(known))}."
                raise member.error(f"unknown field {name!r}", hint)
        for name in sorted(required):
            if name not in self.members:
                label = self.value.get("id") or self.value.get("name") or self.value.get("key")
                problem = f"{f'{label!r} lacks' if label else 'missing'} field {name!r}"
                raise self.error(problem, f"Add {name}: here.")

    def text(self, name: str, default: Any = _REQUIRED, numbers: bool = False) -> Any:
        """A non-empty text field; with ``numbers``, a plain number is taken as its text."""
        if name not in self.members and default is not _REQUIRED:
            return default
        member = self.members[name]
        if numbers and isinstance(member.value, int | float) and not isinstance(member.value, bool):
            return member.scalar
        if not isinstance(member.value, str) or not member.value.strip():
            raise member.error(f"{name} is {member.value!r}", "Write a text; put it in quotes if need be.")
        return member.value.strip()

    def flag(self, name: str) -> bool:
        """Whether a field is there; only ``true`` may be written."""
        if name in self and self[name].value is not True:
            raise self[name].error(f"{name} is {self[name].value!r}", "Write true, or delete the line.")
        return name in self

    def one_of(self, name: str, choices: Collection[str], default: str) -> str:
        """A field that must be one of ``choices``."""
        value = self[name].value if name in self else default
        if value not in choices:
            raise self[name].error(f"{name} is {value!r}", f"Choose one of: {', '.join(choices)}.")
        return value

    def items(self, name: str) -> list[tuple[str, Located]]:
        """Members of a field that is a mapping; none where it is not there."""
        if name not in self or self[name].value is None:
            return []
        if not isinstance(self[name].value, dict):
            raise self[name].error(f"{name} is not a mapping", "Write it as KEY: {says: ...} lines.")
        return list(self[name].members.items())

    def items_of_list(self, name: str) -> list[Located]:
        """Members of a field that is a list; none where it is not there."""
        if name not in self or self[name].value is None:
            return []
        if not isinstance(self[name].value, list):
            raise self[name].error(f"{name} is not a list", "Begin each entry with a dash.")
        return self[name].entries


def read_yaml(path: Path) -> Located:
    """Parse a YAML file with the safe loader's rules.

    Raises:
        UserError: unreadable, not UTF-8, empty or not YAML; names file and line.
    """
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=_LOADER)
        if node is None:
            raise UserError(f"{shown(path)}, line 1: the file is empty", "Restore it.")
        return Located.of(node, path)
    except yaml.MarkedYAMLError as problem:
        raise _syntax(problem, path) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as problem:
        raise UserError(
            f"{shown(path)} is not readable as YAML: {one_line(problem)[:200]}", "Save it as UTF-8 text."
        ) from None
    except OSError as problem:
        hint = "Check that the file is there and readable."
        raise UserError(f"{shown(path)} cannot be read: {problem.strerror}", hint) from None


def _construct(node: yaml.Node, path: Path) -> Any:
    loader = _LOADER("")
    try:
        value = loader.construct_object(node, deep=True)
        if isinstance(value, int):
            float(value)  # overflows where the number is beyond all use
        return value
    except yaml.MarkedYAMLError as problem:
        raise _syntax(problem, path) from None
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as problem:
        # PyYAML's constructors pass on whatever Python says of "!!int x" or a number of a million digits
        line = f"{shown(path)}, line {node.start_mark.line + 1}"
        hint = "Correct it, or put it in quotes if it is a text."
        raise UserError(f"{line}: a value that cannot be read ({one_line(problem)[:200]})", hint) from None
    finally:
        loader.dispose()


def _syntax(problem: yaml.MarkedYAMLError, path: Path) -> UserError:
    mark = problem.problem_mark or problem.context_mark
    what = f"not valid YAML ({one_line(problem.problem or problem)[:200]})"
    hint = 'Check the indentation, and put texts that begin with ">" or contain ": " in quotes.'
    return UserError(f"{shown(path)}, line {mark.line + 1 if mark else 1}: {what}", hint)
