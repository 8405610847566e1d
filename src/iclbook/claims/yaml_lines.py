"""YAML whose values know their lines, so that a mistake in a ledger is reported where it stands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from ..errors import UserError, one_line
from ..project import shown

#: Every value is a text: what it stands for, its reader knows. In C where PyYAML has that.
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def read_yaml(path: Path) -> Any:
    """What a YAML file says, every value a text."""
    return construct(compose(path), path)


def compose(path: Path) -> yaml.Node:
    """The nodes of a YAML file, which know their lines."""
    with _readable(path):
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=_LOADER)
        if node is None:
            raise at_line(path, 1, "the file is empty", "Restore it.")
        _refuse_doubles(node, path)
    return node


def construct(node: yaml.Node, path: Path) -> Any:
    """The value of a node."""
    with _readable(path):
        return _LOADER("").construct_document(node)


def members(node: yaml.Node) -> list[tuple[yaml.Node, yaml.Node]]:
    """Keys and values of a mapping; none of anything else."""
    return node.value if isinstance(node, yaml.MappingNode) else []


def entries(node: yaml.Node) -> list[yaml.Node]:
    """Entries of a list; none of anything else."""
    return node.value if isinstance(node, yaml.SequenceNode) else []


def line_of(node: yaml.Node, where: tuple[str | int, ...]) -> int:
    """The line of a value by its place, such as ``("claims", 0, "id")``: where its key stands; as near as the place is there."""
    line = node.start_mark.line
    for step in where:
        found = {key.value: (key, value) for key, value in members(node) if isinstance(key, yaml.ScalarNode)}
        found |= {index: (item, item) for index, item in enumerate(entries(node))}
        if step not in found:
            break
        key, node = found[step]
        line = key.start_mark.line
    return line + 1


def at_line(path: Path, line: int, problem: str, hint: str) -> UserError:
    """An error that names file and line."""
    return UserError(f"{shown(path)}, line {line}: {problem}", hint)


def by_reading(part: yaml.Node) -> list[yaml.Node]:
    """A mapping with ``readings: {READING: PIECE, ...}`` as one mapping a reading, with ``reading: READING`` and PIECE for each ``{}`` in its texts."""
    readings = [pair for name, value in members(part) if name.value == "readings" for pair in members(value)]
    found = []
    for reading, piece in readings:
        fields = [(name, _filled(value, piece)) for name, value in part.value if name.value != "readings"]
        named = yaml.ScalarNode("", "reading", reading.start_mark), reading
        found.append(yaml.MappingNode(part.tag, [*fields, named], part.start_mark))
    return found or [part]


def _filled(value: yaml.Node, piece: yaml.Node) -> yaml.Node:
    if not isinstance(value, yaml.ScalarNode):
        return value
    return yaml.ScalarNode(value.tag, value.value.replace("{}", str(piece.value)), value.start_mark)


def _refuse_doubles(node: yaml.Node, path: Path) -> None:
    """Refuse a key that is written twice, of which YAML would take the second."""
    seen = set()
    for key, value in members(node):
        if isinstance(key, yaml.ScalarNode) and key.value in seen:
            raise at_line(path, key.start_mark.line + 1, f"{key.value!r} is written twice", "Keep one of the two.")
        seen.add(str(key.value))
        _refuse_doubles(value, path)
    for item in entries(node):
        _refuse_doubles(item, path)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what PyYAML says against a file into one line that names it."""
    try:
        yield
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        what = f"not valid YAML ({one_line(problem.problem or problem)[:200]})"
        hint = 'Check the indentation, and put texts that begin with ">" or contain ": " in quotes.'
        raise at_line(path, mark.line + 1 if mark else 1, what, hint) from None
    except OSError as problem:
        hint = "Check that the file is there and readable."
        raise UserError(f"{shown(path)} cannot be read: {problem.strerror}", hint) from None
    except (yaml.YAMLError, ValueError, RecursionError) as bad:
        what = f"{shown(path)} is not readable as YAML: {one_line(bad)[:200]}"
        raise UserError(what, "Save it as UTF-8 text.") from None
