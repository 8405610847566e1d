"""Faults that a program can plant: one expression of a module exchanged for one like it."""

import ast
import copy
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

#: Functions that are mistaken for one another.
COUNTERPARTS = {
    "min": "max", "minimum": "maximum", "argmin": "argmax", "nanmin": "nanmax", "mean": "sum", "median": "mean", "any": "all",
}  # fmt: skip
COUNTERPARTS |= {new: old for old, new in COUNTERPARTS.items() if old != "median"}
REDUCTIONS = {*COUNTERPARTS, "std", "var", "prod", "argsort", "diff", "cumsum"}
#: The other side of a comparison, and the same side with or without its boundary.
OTHER_SIDE = {
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
BOUNDARY = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}


@dataclass(frozen=True)
class Fault:
    """A text of a file, exchanged.

    Attributes:
        path: of the file below the root.
        kind: what is exchanged.
        where: file, line and function, for people.
        old, new: the texts.
        at: where ``old`` begins, in bytes.
    """

    paper: str
    path: str
    kind: str
    where: str
    old: str
    new: str
    at: int

    @property
    def change(self) -> str:
        """In one line."""
        return " -> ".join(" ".join(text.split()) for text in (self.old, self.new))

    def planted(self, text: str) -> str:
        """The file's text with the fault."""
        code = text.encode()
        return (code[: self.at] + self.new.encode() + code[self.at + len(self.old.encode()) :]).decode()


def draw(faults: list[Fault], count: int) -> list[Fault]:
    """``count`` of them: every kind in turn, within a kind in an order that depends on each fault alone, so that an edit elsewhere changes little."""

    def order(fault: Fault) -> str:
        place = fault.where.split(" in ")[-1]
        return hashlib.sha256(f"{fault.path} {place} {fault.change}".encode()).hexdigest()

    by_kind: dict[str, list[Fault]] = {}
    for fault in sorted(faults, key=order):
        by_kind.setdefault(fault.kind, []).append(fault)
    drawn: list[Fault] = []
    while len(drawn) < min(count, len(faults)):
        for kind in sorted(by_kind):
            if by_kind[kind] and len(drawn) < count:
                drawn.append(by_kind[kind].pop(0))
    return drawn


def faults_in(text: str, path: str) -> list[Fault]:
    """Every fault of a file's functions that return something and neither take nor return a figure."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    parts = path.split("/")
    paper = parts[parts.index("papers") + 1] if "papers" in parts else ""
    found = []
    tree = ast.parse(text)
    even = _under_even(tree)
    for node, kind, new, function in _visit(tree, ""):
        if kind == "order" and node in even:
            continue  # the same number
        at = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        place = f"{paper}/{path.split(paper + '/')[-1]}:{node.lineno} in {function or 'the module'}"
        replacement = new if isinstance(node, ast.keyword) else f"({new})"
        found.append(Fault(paper, path, kind, place, text.encode()[at:end].decode(), replacement, at))
    return found


def _under_even(tree: ast.Module) -> set[ast.AST]:
    """What is squared, or whose absolute value is taken, at once."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and _number(node.right) == 2:
            found.add(node.left)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "abs":
            found |= {*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])}
    return found


def _draws(function: ast.FunctionDef) -> bool:
    """Whether a function takes or returns a figure, or returns nothing, so that it can only show one."""
    if isinstance(function.returns, ast.Constant) and function.returns.value is None:
        return True
    notes = [function.returns, *(a.annotation for a in [*function.args.args, *function.args.kwonlyargs])]
    return any(name in ast.unparse(note) for note in notes if note for name in ("Figure", "Axes"))


def _visit(node: ast.AST, function: str) -> Iterator[tuple[ast.expr, str, str, str]]:
    """Expressions that compute, with what may stand in their places: not annotations, texts, errors or checks."""
    if isinstance(node, ast.FunctionDef):
        if _draws(node):
            return
        function = node.name
        children: list[ast.AST] = [*node.body, *node.args.defaults, *(d for d in node.args.kw_defaults if d)]
    elif isinstance(node, ast.AnnAssign):
        children = [node.value] if node.value else []
    elif isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
        return
    else:
        children = list(ast.iter_child_nodes(node))
    # twice the tolerance of an integrator is the same number to that tolerance
    children = [c for c in children if not (isinstance(c, ast.keyword) and c.arg in ("rtol", "atol"))]
    if isinstance(node, ast.expr):
        for kind, new in _exchanged(node):
            yield node, kind, ast.unparse(new), function
    if isinstance(node, ast.Dict):
        for key, value, other in zip(node.keys, node.values, [*node.values[1:], *node.values[:1]], strict=True):
            if key is not None and ast.unparse(value) != ast.unparse(other):
                yield value, "neighbour", ast.unparse(other), function
    if isinstance(node, ast.Subscript):
        yield from ((child, kind, new, function) for child, kind, new in _indices(node.slice))
        children = [node.value]
    for child in children:
        yield from _visit(child, function)


def _number(node: ast.AST | None) -> int | None:
    """The integer that is written out."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _number(node.operand)
        return None if number is None else -number
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return node.value
    return None


def _indices(node: ast.expr) -> Iterator[tuple[ast.expr, str, str]]:
    """Indices off by one."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call | ast.Subscript | ast.BinOp):
            return
        number = _number(inner)
        if number is not None and not (isinstance(inner, ast.Constant) and _negated(inner, node)):
            yield inner, "index", str(number + 1 if number >= 0 else number - 1)


def _negated(constant: ast.Constant, within: ast.expr) -> bool:
    return any(isinstance(n, ast.UnaryOp) and n.operand is constant for n in ast.walk(within))


def _exchanged(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Kind and replacement."""
    new = copy.deepcopy(node)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        op = type(node.ops[0])
        for kind, table in (("comparison", OTHER_SIDE), ("boundary", BOUNDARY)):
            if op in table:
                yield kind, ast.Compare(node.left, [table[op]()], node.comparators)
    elif isinstance(node, ast.BinOp):
        yield from _arithmetic(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and _number(node) is None:
        yield "sign", node.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value:
        yield "factor", ast.Constant(2 * node.value)
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in COUNTERPARTS:
            if isinstance(new.func, ast.Attribute):
                new.func.attr = COUNTERPARTS[name]
            else:
                new.func.id = COUNTERPARTS[name]
            yield "counterpart", new
        yield from _keywords(node, name)


def _arithmetic(node: ast.BinOp) -> Iterator[tuple[str, ast.expr]]:
    texts = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)
    if any(isinstance(s, texts) or isinstance(getattr(s, "value", 0), str) for s in (node.left, node.right)):
        return
    if isinstance(node.op, ast.Add | ast.Sub):
        yield ("sign", ast.BinOp(node.left, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.right))
    if isinstance(node.op, ast.Sub):
        yield "order", ast.BinOp(node.right, ast.Sub(), node.left)
    if isinstance(node.op, ast.Div):
        yield "quotient", ast.BinOp(node.right, ast.Div(), node.left)


def _keywords(node: ast.Call, name: str) -> Iterator[tuple[str, ast.expr]]:
    """Another axis, another count of degrees of freedom, the same seed for all."""
    if name in REDUCTIONS and isinstance(node.func, ast.Attribute):
        of_numpy = isinstance(node.func.value, ast.Name) and node.func.value.id in ("np", "torch")
        for i, argument in enumerate(node.args):
            number = _number(argument)
            if number is not None and i == of_numpy:
                other = copy.deepcopy(node)
                other.args[i] = ast.Constant(1 if number == 0 else 0)
                yield "axis", other
    for i, keyword in enumerate(node.keywords):
        values = {"axis": 1 if _number(keyword.value) == 0 else 0, "ddof": 0}
        values["seed"] = 1 if _number(keyword.value) == 0 else 0
        if keyword.arg in values and not (keyword.arg == "axis" and _number(keyword.value) is None):
            other = copy.deepcopy(node)
            other.keywords[i].value = ast.Constant(values[keyword.arg])
            if ast.unparse(other) != ast.unparse(node):
                yield {"axis": "axis", "ddof": "ddof", "seed": "seed"}[keyword.arg], other
