"""Which code can change a stored number: a digest over the modules that a study stands on, found by following imports."""

from __future__ import annotations

import ast
import hashlib
import re
from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

#: Modules (paths in the package) that a study imports and that cannot change a number: what they say, where files lie, how results are compared.
NEUTRAL = frozenset(
    {
        "errors.py",
        "files.py",
        "machines.py",
        "profiles.py",
        "project.py",
        "sources.py",
        "training/progress.py",
        "training/replay.py",
    }
)


def modules_of(part: object) -> list[str]:
    """Modules that define a function, or a class and its bases; none of ``None``."""
    if part is None:
        return []
    made_of = part.__mro__ if isinstance(part, type) else (part,)
    return [p.__module__ for p in made_of]


def reached(roots: Iterable[str], package: Path | None = None) -> list[Path]:
    """Files of this package that the modules ``roots`` (such as ``"iclbook.models.attention"``) reach by imports, sorted.

    A package's ``__init__`` that only passes a name on is looked through: the file that defines the name counts, its neighbours do not.
    One that does more counts itself: it runs before anything in its package does.
    Modules outside this package are ignored.
    """
    package = Path(__file__).parent if package is None else package
    own = Path(__file__).parent.name
    todo = [_file(package, root.split(".")[1:]) for root in roots if root.split(".")[0] == own]
    found: set[Path] = set()
    while todo:
        file = todo.pop()
        if file is None or file in found or file.relative_to(package).as_posix() in NEUTRAL:
            continue
        found.add(file)
        todo += _imports(file, package)
    return sorted(found.union(*(_packages(file, package) for file in found)))


def source_digest(roots: Iterable[str], package: Path | None = None) -> str:
    """Digest of the code that ``roots`` reach, with the C source beside a module of its name and what that includes; comments, docstrings and formatting do
    not count."""
    package = Path(__file__).parent if package is None else package
    digest = hashlib.sha256()
    for file in reached(roots, package):
        digest.update(f"{file.relative_to(package).as_posix()}\n{_module(_read(file)).meaning}\n".encode())
        for text in c_sources(file.with_suffix(".c")):
            digest.update(f"{text.relative_to(package).as_posix()}\n{_c_meaning(_read(text))}\n".encode())
    return digest.hexdigest()[:16]


def c_sources(file: Path) -> list[Path]:
    """A C source and the headers beside it that it includes; none where there is no such file."""
    if not file.is_file():
        return []
    names = re.findall(r'^#include "(.*)"', _read(file), re.MULTILINE)
    return [file, *(file.with_name(name) for name in names)]


def _c_meaning(text: str) -> str:
    """C code without comments, indentation and what only a page compiles, which cannot change a stored number."""
    code = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    lines = re.sub(
        r"^#if defined __wasm__.*?^#endif\n", "", code, flags=re.DOTALL | re.MULTILINE
    ).splitlines()
    return "\n".join(" ".join(line.split()) for line in lines if line.strip())


def _packages(file: Path, package: Path) -> Iterator[Path]:
    """The ``__init__`` files that run before ``file`` is imported and that do more than pass names on."""
    for folder in file.relative_to(package).parents:
        init = package / folder / "__init__.py"
        if init.is_file() and not _module(_read(init)).passes_on:
            yield init


def _imports(file: Path, package: Path) -> Iterator[Path | None]:
    """The files that define what ``file`` imports from this package."""
    here = list(file.relative_to(package).parent.parts)
    for node in _module(_read(file)).imports:
        if isinstance(node, ast.ImportFrom):
            base = _base(node, here, package.name)
            if base is not None:
                yield from (_definition(package, base, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == package.name:
                    yield _file(package, parts[1:])


def _base(node: ast.ImportFrom, here: list[str], own: str) -> list[str] | None:
    """The module an import names, as parts below the package; None for other packages."""
    parts = node.module.split(".") if node.module else []
    if node.level:
        return here[: len(here) - (node.level - 1)] + parts
    return parts[1:] if parts[:1] == [own] else None


def _definition(package: Path, module: list[str], name: str) -> Path | None:
    """The file that defines ``name`` of ``module``, looking through packages that pass it on."""
    submodule = _file(package, [*module, name])
    if submodule is not None:
        return submodule
    file = _file(package, module)
    if file is None or file.name != "__init__.py":
        return file
    for node in _module(_read(file)).imports:
        if isinstance(node, ast.ImportFrom) and node.level:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _definition(package, _base(node, module, package.name) or [], alias.name)
    return file


def _file(package: Path, parts: list[str]) -> Path | None:
    path = package.joinpath(*parts)
    return next((f for f in (path.with_suffix(".py"), path / "__init__.py") if f.is_file()), None)


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


# A process asks for the same files once for every study: what follows from a text is kept with the text.


class _Module(NamedTuple):
    """What is asked of a module: its import statements, whether it only says what it is, imports, and lists its names, and its code without comments,
    docstrings and formatting."""

    imports: list[ast.Import | ast.ImportFrom]
    passes_on: bool
    meaning: str


@lru_cache(maxsize=1024)
def _module(text: str) -> _Module:
    tree = ast.parse(text)
    passes_on = all(
        isinstance(node, ast.Import | ast.ImportFrom)
        or _is_docstring(node)
        or (isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == ["__all__"])
        for node in tree.body
    )
    imports = []
    for node in _statements(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(node)
        body = getattr(node, "body", None)
        if body and _is_docstring(body[0]):
            body[0] = ast.Pass()
    return _Module(imports, passes_on, ast.unparse(tree))


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """A module and all statements in it, in the order of :func:`ast.walk`, which looks into expressions too: they are most of a module."""
    todo = deque([tree])
    while todo:
        node = todo.popleft()
        yield node
        for field in ("body", "handlers", "orelse", "finalbody", "cases"):
            todo.extend(getattr(node, field, ()))


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
