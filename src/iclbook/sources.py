"""Which code can change a stored number: a digest over the modules that a study stands on, found by following imports."""

from __future__ import annotations

import ast
import hashlib
import re
from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

#: Modules (paths in the package) that a study imports and that cannot change a number: messages, files, processes, comparisons.
NEUTRAL = frozenset(
    f"{name}.py" for name in ("errors", "files", "machines", "project", "sources", "workers", "training/replay")
)


def modules_of(part: object) -> list[str]:
    """Modules that define a function, or a class and its bases; none of ``None``."""
    if part is None:
        return []
    made_of = part.__mro__ if isinstance(part, type) else (part,)
    return [p.__module__ for p in made_of]


def source_digest(roots: Iterable[str], package: Path | None = None) -> str:
    """Digest of the code that the modules ``roots`` reach, and of the C sources that these name.

    Comments, docstrings, formatting, annotations of functions and words of error messages do not count.
    """
    package = Path(__file__).parent if package is None else package
    digest = hashlib.sha256()
    for file in reached(roots, package):
        module = _module(file.read_text(encoding="utf-8"))
        digest.update(f"{file.relative_to(package).as_posix()}\n{module.code}\n".encode())
        for text in (text for name in module.c_names for text in c_sources(package / "native" / name)):
            code = _c_code(text.read_text(encoding="utf-8"))
            digest.update(f"{text.relative_to(package).as_posix()}\n{code}\n".encode())
    return digest.hexdigest()[:16]


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


def c_sources(file: Path) -> list[Path]:
    """A C source and the headers beside it that it includes; none where there is no such file."""
    if not file.is_file():
        return []
    names = re.findall(r'^#include "(.*)"', file.read_text(encoding="utf-8"), re.MULTILINE)
    return [file, *(file.with_name(name) for name in names)]


def _c_code(text: str) -> str:
    """C code without comments, indentation and what only a page compiles, which cannot change a stored number."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    lines = re.sub(r"^#if defined __wasm__.*?^#endif\n", "", code, flags=re.DOTALL | re.MULTILINE).splitlines()
    return "\n".join(" ".join(line.split()) for line in lines if line.strip())


def _packages(file: Path, package: Path) -> Iterator[Path]:
    """The ``__init__`` files that run before ``file`` is imported and that do more than pass names on."""
    for folder in file.relative_to(package).parents:
        init = package / folder / "__init__.py"
        if init.is_file() and not _module(init.read_text(encoding="utf-8")).passes_on:
            yield init


def _imports(file: Path, package: Path) -> Iterator[Path | None]:
    """The files that define what ``file`` imports from this package."""
    here = list(file.relative_to(package).parent.parts)
    for node in _module(file.read_text(encoding="utf-8")).imports:
        if isinstance(node, ast.ImportFrom):
            base = _base(node, here, package.name)
            if base is not None:
                yield from (_definition(package, base, alias.name) for alias in node.names)
        else:
            parts = (alias.name.split(".") for alias in node.names)
            yield from (_file(package, below) for own, *below in parts if own == package.name)


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
    for node in _module(file.read_text(encoding="utf-8")).imports:
        if isinstance(node, ast.ImportFrom) and node.level:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _definition(package, _base(node, module, package.name) or [], alias.name)
    return file


def _file(package: Path, parts: list[str]) -> Path | None:
    path = package.joinpath(*parts)
    return next((f for f in (path.with_suffix(".py"), path / "__init__.py") if f.is_file()), None)


class _Module(NamedTuple):
    """A module's import statements, the C sources it names, whether it only says what it is, imports and lists its names, and its code as it counts."""

    imports: list[ast.Import | ast.ImportFrom]
    c_names: list[str]
    passes_on: bool
    code: str


@lru_cache(maxsize=1024)  # a process asks for the same files once for every study
def _module(text: str) -> _Module:
    tree = ast.parse(text)
    passes_on = all(
        isinstance(node, ast.Import | ast.ImportFrom)
        or _is_docstring(node)
        or (isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == ["__all__"])
        for node in tree.body
    )
    statements = list(_statements(tree))
    imports = [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in statements:
        _reduce(node)
    return _Module(imports, re.findall(r'library\("(\w+\.c)"', text), passes_on, _text(tree))


def _reduce(node: ast.AST) -> None:
    """Take from a statement what changes no number."""
    body = getattr(node, "body", None)
    if body and _is_docstring(body[0]):
        body[0] = ast.Pass()
    if isinstance(node, ast.FunctionDef):
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        for argument in filter(None, every):
            argument.annotation = None
        node.returns = None
    elif isinstance(node, ast.Assert):
        node.msg = None
    elif isinstance(node, ast.Raise) and getattr(getattr(node.exc, "func", None), "id", "") == "UserError":
        node.exc.args = []


def _text(node: Any) -> str:
    """What a syntax tree says, the same under every release of Python: :func:`ast.unparse` quotes as its release does, :func:`ast.dump` lists its fields."""
    if isinstance(node, list):
        return f"[{' '.join(map(_text, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = (
        f"{name}={_text(value)}" for name in node._fields if (value := getattr(node, name, None)) not in (None, [])
    )
    return f"{type(node).__name__}({' '.join(fields)})"


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """A module and all statements in it, in the order of :func:`ast.walk`, which looks into expressions too: they are most of a module."""
    todo = deque([tree])
    while todo:
        node = todo.popleft()
        yield node
        for field in ("body", "handlers", "orelse", "finalbody", "cases"):
            todo.extend(getattr(node, field, ()))


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
