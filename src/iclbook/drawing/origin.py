"""Where the numbers of a figure come from: the stored trainings that were read for it, and the time that computing took.

A notebook says nothing of this. While it runs, it is noted which results each statement reads, and which names it takes from statements before it: what
it draws comes from its own readings and from those of the statements that made what it uses.
"""

from __future__ import annotations

import ast
import platform
import subprocess
import symtable
import time
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from .. import store

#: Methods that change what a name holds without binding it anew.
FILLING = ("add", "append", "extend", "setdefault", "update")


@dataclass
class Step:
    """One executed statement: the results that it read (by paper and study), its seconds, and the statements that made what it uses."""

    uses: frozenset[str] = frozenset()
    binds: frozenset[str] = frozenset()
    studies: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0
    before: list[Step] = field(default_factory=list)

    def all(self) -> list[Step]:
        """This statement and all that it stands on, each once."""
        found: dict[int, Step] = {}
        todo = [self]
        while todo:
            step = todo.pop()
            if id(step) not in found:
                found[id(step)] = step
                todo += step.before
        return list(found.values())


class Notes:
    """What is known of the statements so far; ``namespace`` holds the notebook's names."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace
        self._makers: dict[str, list[Step]] = {}
        self._figures: dict[int, Step] = {}  # number of an open figure -> what drew it
        self._now = Step()
        self._began = time.perf_counter()

    def begin(self, uses: frozenset[str], binds: frozenset[str]) -> None:
        """A statement starts."""
        before = [step for name in sorted(uses) for step in self._makers.get(name, ())]
        self._now, self._began = Step(uses, binds, before=before), time.perf_counter()

    def read(self, results: store.Results) -> None:
        """The statement that runs reads stored results."""
        config = results.provenance.get("config")
        if isinstance(config, Mapping) and "paper" in config:
            self._now.studies[config["paper"], config["name"]] = results.provenance

    def end(self) -> None:
        """The statement has run: what it bound and what it drew come from it."""
        step, self._now = self._now, Step()
        step.seconds = time.perf_counter() - self._began
        for name in step.binds:
            if _is_data(self._namespace.get(name)):
                kept = self._makers.get(name, []) if name in step.uses else []
                self._makers[name] = [*kept, step]
        open_now = plt.get_fignums()
        drawing = {n: made for n, made in self._figures.items() if n in open_now}
        for number in open_now:
            if number not in drawing:
                drawing[number] = step
            elif self._draws_into(drawing[number], step):
                drawing[number].before.append(step)
        self._figures = drawing

    def _draws_into(self, maker: Step, step: Step) -> bool:
        """Whether a statement may draw into a figure that another made: it uses what that one bound, or pyplot's current figure."""
        return bool(maker.binds & step.uses) or any(self._namespace.get(name) is plt for name in step.uses)

    def origin(self, figure: Figure | None = None) -> dict[str, Any]:
        """Of a figure that is shown now, or of all that the running statement draws: seconds of computing, and the stored trainings, by name."""
        self._now.seconds = time.perf_counter() - self._began
        maker = self._figures.get(getattr(figure, "number", None), self._now)
        steps = Step(before=[maker, *([self._now] if self._draws_into(maker, self._now) else [])]).all()
        studies = {key: about for step in steps for key, about in step.studies.items()}
        return {
            "seconds": round(sum(step.seconds for step in steps), 1),
            "studies": [_summary(*key, about) for key, about in sorted(studies.items())],
            "versions": {
                "Python": platform.python_version(),
                **{name: version(name) for name in ("torch", "numpy", "matplotlib")},
            },
        }


class Stepping(ast.NodeTransformer):
    """Puts a call before each statement of a cell that says which names the statement uses and binds."""

    def __init__(self, call: str) -> None:
        self._call = call

    def visit_Module(self, node: ast.Module) -> ast.Module:
        body: list[ast.stmt] = []
        for statement in node.body:
            told = [ast.Constant(sorted_names) for sorted_names in map(tuple, map(sorted, names(statement)))]
            call = ast.Expr(ast.Call(ast.Name(self._call, ast.Load()), told, []))
            ast.fix_missing_locations(ast.copy_location(call, statement))
            body += [call, statement]
        node.body = body
        return node


def watch_results(notes: Notes) -> None:
    """Note whenever arrays of results are read; the class itself is part of every training's digest and knows nothing of it."""

    def seen(self: store.Results, name: str) -> Any:
        if name == "arrays":
            notes.read(self)
        return object.__getattribute__(self, name)

    store.Results.__getattribute__ = seen


def names(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """Names of the notebook that a statement uses, functions and comprehensions in it included, and those that it binds or fills."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return set(), set()
    whole = symtable.symtable(ast.unparse(statement), "cell", "exec")
    used = {s.get_name() for s in whole.get_symbols() if s.is_referenced()}
    bound = {s.get_name() for s in whole.get_symbols() if s.is_assigned()}
    inner = list(whole.get_children())
    while inner:
        table = inner.pop()
        used |= {s.get_name() for s in table.get_symbols() if s.is_global() and s.is_referenced()}
        inner += table.get_children()
    filled = set(_filled(ast.walk(statement)))
    return used | filled, bound | filled


def _filled(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            base = node.value
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", None) in FILLING:
            base = node.func.value
        else:
            continue
        if isinstance(base, ast.Name):
            yield base.id


def _is_data(value: Any) -> bool:
    """Whether a value carries what was read or computed. Results as a whole do not: reading them is noted when it happens."""
    parts = (
        list(value.values()) if isinstance(value, dict) else value if isinstance(value, list | tuple) else []
    )
    if parts and all(isinstance(part, store.Results) for part in parts):
        return False
    return not isinstance(value, store.Results | type | types.ModuleType | str | bool | None)


def _summary(paper: str, name: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """What a page says of a stored training or computation."""
    config = about["config"]
    runs = _runs(config)
    kept = ("seconds", "device", "python", "torch", "numpy", "commit", "source")
    return {
        "paper": paper,
        "study": name,
        "runs": len(runs),
        "seeds": ranges({seed for seed in runs if seed is not None}),
        "steps": config.get("steps"),
        "date": _date(about.get("commit", "")),
        **{key: about[key] for key in kept if key in about},
    }


def _runs(config: Mapping[str, Any]) -> list[int | None]:
    """The seed of every run of a training, or of every member of every group of a computation."""
    groups = config.get("groups", [])
    if "count" in config:
        return [config["first"] + k for _ in groups for k in range(config["count"])]
    return [run.get("seed") for group in groups for run in group.get("runs", [])]


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers in few words: ``0-4, 7``."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in found)


@cache
def _date(commit: str) -> str:
    """The day of a commit; the empty string where its history is not at hand."""
    if not commit.isalnum():
        return ""
    try:
        return subprocess.run(
            ["git", "show", "-s", "--format=%cs", commit],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
