"""YAML whose mappings know their lines, so that a mistake in a ledger is reported where it stands."""

from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from ..errors import UserError, one_line
from ..project import display_name

#: Letters of a text.
LONGEST = 1000


class Lined(dict):
    """A mapping, and the line of each of its keys."""

    lines: dict[str, int]


class _Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):
    """YAML loader that keeps values as texts, in C where PyYAML has that."""

    def construct_document(self, node: yaml.Node) -> Any:
        """Without aliases, of which a few lines make more entries than a memory holds, and without texts that take a pattern minutes to read."""
        seen, todo = set(), [node]
        while todo:
            each = todo.pop()
            is_text = isinstance(each, yaml.ScalarNode)
            if id(each) in seen or (is_text and len(each.value) > LONGEST):
                what = f"a text of more than {LONGEST:,} letters" if is_text else "an entry"
                what = f"{what} that an alias (*) repeats" if id(each) in seen else what
                raise yaml.constructor.ConstructorError(None, None, what, each.start_mark)
            seen.add(id(each))
            todo += () if is_text else chain.from_iterable(e if isinstance(e, tuple) else [e] for e in each.value)
        return super().construct_document(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Lined:
        """With lines; a key that is written twice, of which YAML would take the second, is refused."""
        mapping, lines = Lined(super().construct_mapping(node, deep)), {}
        for key, _ in node.value:
            if key.value in lines:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is written twice", key.start_mark)
            lines[key.value] = key.start_mark.line + 1
        mapping.lines = lines
        return mapping

    def construct_sequence(self, node: yaml.SequenceNode, deep: bool = False) -> list:
        """With one entry a reading where an entry has several."""
        return [one for entry in super().construct_sequence(node, deep) for one in _by_reading(entry)]


def _by_reading(entry: Any) -> list:
    """A mapping with ``readings: {READING: PIECE, ...}`` as one mapping a reading, with ``reading: READING`` and PIECE for each ``{}`` in its texts."""
    readings = entry.get("readings") if isinstance(entry, Lined) else None
    if not isinstance(readings, Lined) or not readings or "reading" in entry:  # a part refuses what is left of it
        return [entry]
    entries = []
    for reading, piece in readings.items():
        texts = {name: text for name, text in entry.items() if name != "readings"}
        filled = {name: t.replace("{}", str(piece)) if isinstance(t, str) else t for name, t in texts.items()}
        entries.append(Lined(filled, reading=reading))
        entries[-1].lines = entry.lines
    return entries


def read_yaml(path: Path) -> Any:
    """Content of a YAML file, values as texts."""
    try:
        body = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        what = f"not valid YAML ({one_line(problem.problem or problem)[:200]})"
        hint = (
            'Check the indentation, put texts that begin with ">" or contain ": " in quotes, write each key once, '
            "and repeat what is the same."
        )
        raise at_line(path, mark.line + 1 if mark else 1, what, hint) from None
    except OSError as problem:
        hint = "Check that the file is there and readable."
        raise UserError(f"{display_name(path)} cannot be read: {problem.strerror}", hint) from None
    except (yaml.YAMLError, ValueError, RecursionError) as bad:
        what = f"{display_name(path)} is not readable as YAML: {one_line(bad)[:200]}"
        raise UserError(what, "Save it as UTF-8 text.") from None
    if body is None:
        raise at_line(path, 1, "the file is empty", "Restore it.")
    return body


def line_of(node: Any, where: tuple[str | int, ...]) -> int:
    """The line of a value by its place, such as ``("claims", 0, "id")``: where its key stands; as near as the place is there."""
    line = 1
    for step in where:
        try:
            line, node = node.lines.get(step, line) if isinstance(node, Lined) else line, node[step]
        except (LookupError, TypeError):
            break
        if isinstance(step, int) and isinstance(node, Lined):
            line = next(iter(node.lines.values()), line)
    return line


def at_line(path: Path, line: int, problem: str, hint: str) -> UserError:
    """An error that names file and line."""
    return UserError(f"{display_name(path)}, line {line}: {problem}", hint)
