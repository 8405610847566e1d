"""The top-level definitions of a module: their code, as far as it can change a number, and the names that they read."""

import ast
import functools
from collections import defaultdict
from typing import Any

#: In place of a definition's name: the statements of a module that define nothing.
STATEMENTS = "<module>"
#: Of each name that import statements bind: modules, and the name that is taken of each (none of ``import module``).
Imports = dict[str, list[tuple[str, str]]]
_BLOCKS = ("TYPE_CHECKING", "__name__ == '__main__'")  # do not run where a study is trained


class Module:
    """The statements of each top-level name of a module, those that define nothing, and what its imports call ``(module, name)``."""

    def __init__(self, text: str) -> None:
        self.imports: Imports = defaultdict(list)
        self.nodes: dict[str, list[ast.stmt]] = defaultdict(list)
        self._read: dict[str, Definition] = {}
        for node in ast.parse(text).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                _imports(node, self.imports)
            elif not _is_docstring(node) and not (isinstance(node, ast.If) and ast.unparse(node.test) in _BLOCKS):
                for name in self._names(node):
                    self.nodes[name].append(node)

    def _names(self, node: ast.stmt) -> set[str]:
        """What a statement defines; a block, a registration and a function with a decorator of this package are also among the statements that run."""
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            own = any(self._is_own(decorator) for decorator in node.decorator_list)
            return {node.name, STATEMENTS} if own else {node.name}
        stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if isinstance(node, ast.Assign | ast.AnnAssign) and all(isinstance(t, ast.Name | ast.Tuple) for t in targets):
            return stored
        for each in ast.walk(node):
            if isinstance(each, ast.Import | ast.ImportFrom):
                _imports(each, self.imports)
            elif isinstance(each, ast.FunctionDef | ast.ClassDef):
                stored.add(each.name)
        return {*stored, STATEMENTS}

    def _is_own(self, decorator: ast.expr) -> bool:
        first = next(n.id for n in ast.walk(decorator) if isinstance(n, ast.Name))
        ours = any(source.startswith((".", "iclbook")) for source, _ in self.imports.get(first, ()))
        return ours or first in self.nodes

    def read(self, name: str) -> "Definition":
        """The definition of a name; an absent one is an error of the caller."""
        if name not in self._read:
            sources = {source.partition(".")[0] for each in self.imports.values() for source, _ in each}
            reader = Definition("pydantic" in sources)
            reader.code = "\n".join(map(reader.text, self.nodes[name]))
            if "*" in self.imports:
                reader.names.add(("*", ""))
            self._read[name] = reader
        return self._read[name]


module_of = functools.lru_cache(maxsize=1024)(Module)  # the same text is read once


def _imports(node: ast.Import | ast.ImportFrom, found: Imports) -> None:
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            source, name = "." * node.level + (node.module or ""), alias.name
        else:
            source, name = alias.name if alias.asname else alias.name.partition(".")[0], ""
        found[alias.asname or (alias.name if name else source)].append((source, name))


_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Definition:
    """The code of a definition, the same under every release of Python, and the names of its module that it reads.

    :func:`ast.unparse` quotes as its release does, and :func:`ast.dump` lists the fields of its release.

    Args:
        validated: whether fields are made by what their annotations say, as pydantic does; otherwise these reach nothing.
    """

    def __init__(self, validated: bool = False) -> None:
        self.code, self._validated = "", validated
        self.names: set[tuple[str, str]] = set()
        self.imports: Imports = defaultdict(list)
        self._bound: set[str] = set()
        self._globals: set[str] = set()

    def text(self, node: Any) -> str:
        """Code of a node without what changes no number; its names are kept on the way."""
        if isinstance(node, list):
            return f"[{' '.join(map(self.text, node))}]"
        if not isinstance(node, ast.AST):
            return ascii(node)
        if isinstance(node, ast.FunctionDef | ast.Lambda | _COMPREHENSIONS):
            return self._scope(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            _imports(node, self.imports)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self.names.add((node.id, ""))
            else:
                self._bound.add(node.id)
            return node.id
        elif isinstance(node, ast.Attribute) and (dotted := _dotted(node)):
            self.names.add(dotted)
            return ".".join(dotted)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            self._bound.add(node.name)
        elif isinstance(node, ast.Global):
            self._globals |= {*node.names}
        elif isinstance(node, ast.ClassDef):  # methods do not see each other's names
            bound, self._bound = self._bound, set()
            code = self._fields(node)
            self._bound = bound | {node.name}
            return code
        return self._fields(node)

    def _fields(self, node: ast.AST) -> str:
        parts = []
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(node, ast.JoinedStr):  # Python 3.12.0 to 3.12.3 ends nested ones with an empty text
                value = [part for part in value if getattr(part, "value", None) != ""]
            if value is None or value == [] or name == "ctx":
                continue
            if name in ("annotation", "returns"):
                if isinstance(node, ast.AnnAssign):  # a class variable is told from a field by it
                    parts.append(f"annotation={(self if self._validated else Definition()).text(value)}")
                continue
            if name == "body" and isinstance(value, list) and _is_docstring(value[0]):
                value = value[1:] or [ast.Pass()]
            elif name == "msg" and isinstance(node, ast.Assert):
                continue
            elif name == "exc" and getattr(getattr(value, "func", None), "id", "") == "UserError":
                value = value.func
            parts.append(f"{name}={self.text(value)}")
        return f"{type(node).__name__}({' '.join(parts)})"

    def _scope(self, node: Any) -> str:
        """Code of a function or comprehension, whose own variables are no names of the module."""
        names, bound = self.names, self._bound
        self.names, self._bound = set(), set()
        if hasattr(node, "args"):
            self._bound = {n.arg for n in ast.walk(node.args) if isinstance(n, ast.arg)}
        code = self._fields(node)
        if isinstance(node, _COMPREHENSIONS):
            outside = [node.generators[0].iter]
        else:
            outside = [*node.args.defaults, *filter(None, node.args.kw_defaults), *getattr(node, "decorator_list", ())]
        outer = {n.id for each in outside for n in ast.walk(each) if isinstance(n, ast.Name)} | self._globals
        free = {each for each in self.names if each[0] not in self._bound or each[0] in outer}
        self.names, self._bound = names | free, bound
        if isinstance(node, ast.FunctionDef):
            bound.add(node.name)
        return code


def _dotted(node: ast.expr) -> tuple[str, str] | None:
    """``a.b.c`` as ``("a", "b.c")``; ``None`` where it does not begin with a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return (node.id, ".".join(parts)) if isinstance(node, ast.Name) else None


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
