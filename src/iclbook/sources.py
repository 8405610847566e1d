"""Which code can change a stored number: the top-level definitions that a study reaches by name, each with a digest of its own.

A definition is a function, a class with its methods, or a constant. It reaches what it names: in its module, in modules that this imports, through packages
that pass a name on, its base classes, decorators and defaults. Where a module is used as a whole (``getattr(module, name)``, ``globals()``), all of it is
reached. Statements that define nothing count as soon as anything in their module does. Comments, docstrings, formatting, annotations and words of
error messages do not count.
"""

import dataclasses
import functools
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from .definitions import STATEMENTS, Definition, Module, module_of

#: Modules, and definitions, that a study reaches and that cannot change a number: messages, files, processes, comparisons; descriptions and stored results.
NEUTRAL = {"definitions", "errors", "files", "machines", "project", "sources", "workers", "training.replay"}
NEUTRAL |= {f"store.{name}" for name in ("Results", "load", "load_states", "others", "plain", "provenance")}
NEUTRAL |= {"store.read_provenance"}
PACKAGE = Path(__file__).resolve().parent

#: A definition: its module, such as ``training.groups``, and its name. A C source is a definition of ``native``.
Key = tuple[str, str]


def source_of(*values: Any) -> dict[str, str]:
    """Digests of the definitions that plain data reach, by module: ``{"training.groups": "Adam 0f1e2d3c, Group 4b5a6978"}``.

    The code is that of the package's files when the process first asks: the code that it runs.
    """
    return _own_code().digests(roots(*values))


@functools.cache
def _own_code() -> "Code":
    return Code()


def short(source: Mapping[str, str]) -> str:
    """One digest of 16 hexadecimal digits for all definitions."""
    return hashlib.sha256(repr(sorted(source.items())).encode()).hexdigest()[:16]


def changed(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Definitions whose digests differ; where none does, those that are reached now and were not then, or the other way round."""
    before, after = ({f"{m}.{d}" for m, text in each.items() for d in text.split(", ")} for each in (then, now))
    old, new = ({each.rpartition(" ")[0] for each in one} for one in (before - after, after - before))
    return sorted(old & new or old | new)


def roots(*values: Any) -> set[Key]:
    """The functions and classes that stand in plain data: dataclasses, tuples, mappings, partial functions."""
    found, todo = set(), [*values]
    while todo:
        value = todo.pop()
        if isinstance(value, (int, float, str)):
            continue
        if isinstance(value, tuple | list):
            todo += value
        elif isinstance(value, Mapping):
            todo += value.values()
        elif isinstance(value, functools.partial):
            todo += [value.func, value.args, value.keywords]
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            todo += [type(value), *(getattr(value, f.name) for f in dataclasses.fields(value))]
        else:
            package, _, module = getattr(value, "__module__", "").partition(".")
            name = getattr(value, "__qualname__", type(value).__qualname__)
            found |= {(module, name.partition(".")[0])} if package == PACKAGE.name else set()
    return found


def c_sources(file: Path) -> list[Path]:
    """A C source and the headers beside it that it includes; none where there is no such file."""
    if not file.is_file():
        return []
    names = re.findall(r'^#include "(.*)"', file.read_text(encoding="utf-8"), re.MULTILINE)
    return [file, *(file.with_name(name) for name in names)]


class Code:
    """The definitions of a package as its files are now.

    Args:
        edited: texts that stand in place of files, by their paths in the package.
    """

    def __init__(self, package: Path = PACKAGE, edited: Mapping[str, str] | None = None) -> None:
        self.package, self.edited = package, edited or {}
        self._modules: dict[str, Module | None] = {}
        self._edges: dict[Key, tuple[str, frozenset[Key]]] = {}

    def digests(self, roots: Iterable[Key]) -> dict[str, str]:
        """Digests of all definitions that these reach, by module."""
        found: dict[str, list[str]] = defaultdict(list)
        for module, name in sorted(self.reached(roots)):
            found[module].append(f"{name} {self._edge((module, name))[0]}")
        return {module: ", ".join(names) for module, names in found.items()}

    def reached(self, roots: Iterable[Key]) -> set[Key]:
        """All definitions that these reach, themselves among them."""
        found, todo = set(), [key for root in roots for key in self._named(root[0], [root[1]])]
        while todo:
            key = todo.pop()
            if key not in found and not NEUTRAL & {key[0], ".".join(key)}:
                found.add(key)
                todo += self._edge(key)[1]
        return found

    def reached_by(self, file: Path) -> set[Key]:
        """All definitions of the package that a file outside of it reaches."""
        here = "<file>"
        self._modules[here] = module_of(file.read_text(encoding="utf-8"))
        return {key for key in self.reached((here, name) for name in self._modules[here].nodes) if key[0] != here}

    def _edge(self, key: Key) -> tuple[str, frozenset[Key]]:
        """A definition's digest, and the definitions that it reaches at once."""
        if key not in self._edges:
            name, own = key[1], self._module(key[0])
            if name.endswith((".c", ".h")):
                code, after = _c_code(self._text(f"native/{name}")), frozenset()
            else:
                definition = own.read(name)
                above = [key[0].rsplit(".", i)[0] for i in range(key[0].count(".") + 1)]
                runs = {(each, STATEMENTS) for each in ("", *above) if STATEMENTS in self._module(each).nodes}
                after = frozenset({*self._next(own, definition, key[0]), *self._c(definition.code), *runs})
                code = definition.code
            self._edges[key] = hashlib.sha256(code.encode()).hexdigest()[:8], after
        return self._edges[key]

    def _next(self, own: Module, definition: Definition, module: str) -> Iterator[Key]:
        """The definitions that one in a module names."""
        for first, rest in definition.names:
            names = [first, *rest.split(".")] if rest else [first]
            for source, name in definition.imports.get(first, ()):
                yield from self._named(self._absolute(source, module), [*filter(None, (name, *names[1:]))])
            if first in own.nodes or first in own.imports:
                yield from self._named(module, names)
            elif first in ("globals", "eval", "exec"):
                yield from self._whole(module)

    def _named(self, module: str | None, names: list[str]) -> Iterator[Key]:
        """The definitions that ``module.name`` is, looking through packages that pass a name on; without a name, or with one that is not found, the
        whole module. None of a module of others."""
        own = None if module is None else self._module(module)
        if own is None:
            return
        first, *rest = names or [""]
        imports = [(self._absolute(source, module), name) for source, name in own.imports.get(first, ())]
        imports = [each for each in imports if each != (module, first)]  # ``from . import part``
        if first in own.nodes:
            yield module, first
        for source, name in imports:
            yield from self._named(source, [*filter(None, (name, *rest))])
        if first in own.nodes or imports:
            return
        if first and self._module(below := f"{module}.{first}".lstrip(".")) is not None:
            yield from self._named(below, rest)
        else:
            yield from self._whole(module)

    def _whole(self, module: str) -> Iterator[Key]:
        own = self._module(module)
        yield from ((module, name) for name in own.nodes)
        if self._path(module).endswith("__init__.py"):
            for name in own.imports:
                yield from self._named(module, [name])

    def _c(self, code: str) -> Iterator[Key]:
        for name in re.findall(r"Constant\(value='(\w+\.c)'\)", code):
            yield from (("native", text.name) for text in c_sources(self.package / "native" / name))

    def _absolute(self, source: str, module: str) -> str | None:
        """A module that one of the package imports, by its path in the package; ``None`` for those of others."""
        is_package = self._path(module).endswith("__init__.py")
        here = f"{self.package.name}.{module}".rstrip(".")
        full = resolve_name(source, here if is_package else here.rpartition(".")[0])
        package, _, own = full.partition(".")
        return own if package == self.package.name else None

    def _path(self, module: str) -> str:
        """A module's file in the package; ``__init__.py`` where there is none."""
        file = f"{module.replace('.', '/')}.py"
        there = module and (file in self.edited or (self.package / file).is_file())
        return file if there else f"{module.replace('.', '/')}/__init__.py".lstrip("/")

    def _text(self, path: str) -> str:
        return self.edited.get(path) or (self.package / path).read_text(encoding="utf-8")

    def _module(self, module: str) -> Module | None:
        if module not in self._modules:
            path = self._path(module)
            there = path in self.edited or (self.package / path).is_file()
            self._modules[module] = module_of(self._text(path)) if there else None
        return self._modules[module]


def without_gpu(text: str) -> str:
    """C code as processors and pages compile it: without what only a GPU does, and the lines that hide the rest from a GPU."""
    gpu = r"^#if defined GPU\n.*?^#endif /\* GPU \*/\n|^#if !defined GPU\b[^\n]*\n|^#endif /\* not GPU \*/\n"
    return re.sub(gpu, "", text, flags=re.DOTALL | re.MULTILINE)


def _c_code(text: str) -> str:
    """C code without comments, indentation and what only a page or a GPU compiles, which cannot change a stored number."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", " ", without_gpu(text), flags=re.DOTALL)
    lines = re.sub(r"^#if defined __wasm__.*?^#endif\n", "", code, flags=re.DOTALL | re.MULTILINE).splitlines()
    return "\n".join(" ".join(line.split()) for line in lines if line.strip())
