"""Which code can change a stored number: a digest over the modules that a study stands on, found by following imports."""

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, NamedTuple

#: Modules (paths in the package) that a study imports and that cannot change a number: messages, files, processes, comparisons.
NEUTRAL = frozenset(
    f"{name}.py" for name in ("errors", "files", "machines", "project", "sources", "workers", "training/replay")
)
PACKAGE = Path(__file__).resolve().parent


def modules_of(part: object) -> list[str]:
    """Modules that define a function, or a class and its bases; none of ``None``."""
    if part is None:
        return []
    made_of = part.__mro__ if isinstance(part, type) else (part,)
    return [p.__module__ for p in made_of]


def source_digest(roots: Iterable[str | Path], package: Path = PACKAGE) -> str:
    """Digest of the code that ``roots`` reach (:func:`reached`), and of the C sources that it names.

    Comments, docstrings, formatting, annotations of functions and words of error messages do not count.
    """
    digest = hashlib.sha256()
    for file in reached(roots, package):
        module = _module(file.read_text(encoding="utf-8"))
        digest.update(f"{file.relative_to(package).as_posix()}\n{module.code}\n".encode())
        for text in (text for name in module.c_names for text in c_sources(package / "native" / name)):
            code = _c_code(text.read_text(encoding="utf-8"))
            digest.update(f"{text.relative_to(package).as_posix()}\n{code}\n".encode())
    return digest.hexdigest()[:16]


def reached(roots: Iterable[str | Path], package: Path = PACKAGE) -> list[Path]:
    """Files of this package that ``roots`` reach by imports, sorted: modules (such as ``"iclbook.models.attention"``), or files outside of it.

    Re-exports are resolved to the defining module: it counts, its neighbours do not.
    One that does more counts itself: it runs before anything in its package does.
    """
    todo: list[Path | None] = []
    for root in roots:
        todo += _imports(root, package) if isinstance(root, Path) else [_file(package, root)]
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


def _imports(file: Path, package: Path) -> list[Path | None]:
    """The files that define what ``file`` imports from this package; ``None`` for what is not of it."""
    return [_definition(package, module, name) for module, name, _ in _imported(file, package)]


def _imported(file: Path, package: Path) -> Iterator[tuple[str, str, str]]:
    """Imports of a file: the module, the imported name (empty for ``import module``), and its name here."""
    here = ".".join(file.relative_to(package.parent).parts[:-1]) if file.is_relative_to(package) else None
    for node in _module(file.read_text(encoding="utf-8")).imports:
        for alias in node.names:
            if isinstance(node, ast.Import):
                yield alias.name, "", ""
            else:
                module = resolve_name("." * node.level + (node.module or ""), here)
                yield module, alias.name, alias.asname or alias.name


def _definition(package: Path, module: str, name: str) -> Path | None:
    """The file that defines ``name`` of ``module``, looking through packages that pass it on."""
    submodule, file = _file(package, f"{module}.{name}"), _file(package, module)
    if submodule is not None or file is None or file.name != "__init__.py":
        return submodule or file
    for source, original, called in _imported(file, package):
        if name and called == name and source.startswith(package.name):
            return _definition(package, source, original)
    return file


def _file(package: Path, module: str) -> Path | None:
    """The file of a module of this package; ``None`` for others."""
    own, _, below = module.partition(".")
    path = package / below.replace(".", "/")
    files = (path.with_suffix(".py"), path / "__init__.py") if own == package.name else ()
    return next((file for file in files if file.is_file()), None)


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
    nodes = list(ast.walk(tree))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in nodes:
        _reduce(node)
    return _Module(imports, re.findall(r'library\("(\w+\.c)"', text), passes_on, _text(tree))


def _reduce(node: ast.AST) -> None:
    """Remove from a node what cannot affect results (docstrings, annotations, messages)."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body and _is_docstring(node.body[0]):
        node.body[0] = ast.Pass()
    if isinstance(node, ast.arg):
        node.annotation = None
    elif isinstance(node, ast.FunctionDef):
        node.returns = None
    elif isinstance(node, ast.JoinedStr):  # Python 3.12.0 to 3.12.3 ends nested ones with an empty text
        node.values = [value for value in node.values if getattr(value, "value", None) != ""]
    elif isinstance(node, ast.Assert):
        node.msg = None
    elif isinstance(node, ast.Raise) and getattr(getattr(node.exc, "func", None), "id", "") == "UserError":
        node.exc.args = []


def _text(node: Any) -> str:
    """Text of a syntax tree, the same under every release of Python: :func:`ast.unparse` quotes as its release does, :func:`ast.dump` lists its fields."""
    if isinstance(node, list):
        return f"[{' '.join(map(_text, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = (
        f"{name}={_text(value)}" for name in node._fields if (value := getattr(node, name, None)) not in (None, [])
    )
    return f"{type(node).__name__}({' '.join(fields)})"


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
