"""Expressions that stand in YAML files: arithmetic on given names, and nothing else that Python can do."""

import ast
from collections.abc import Mapping
from numbers import Rational
from types import CodeType
from typing import Any, NamedTuple

from ...errors import UserError, one_line

#: Kinds of nodes that an expression may have. An attribute, a text or a comprehension is none of them.
NODES = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.keyword, ast.Name, ast.Load, ast.Constant)
NODES += (ast.Tuple, ast.Subscript, ast.Slice, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.UAdd)
NODES += (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
#: Letters of an expression, the size of an exponent, and bits of a fraction that is raised to a power.
LONGEST, LARGEST, BITS = 200, 64, 4096
HINT = "Write it with names, numbers, + - * / ( ), comparisons, powers up to 64 and the functions that are there."
_POWER = "**"  # no expression can name it


class Parsed(NamedTuple):
    """A compiled expression, and the names that it reads."""

    code: CodeType
    names: frozenset[str]


def parse(written: str, change: ast.NodeTransformer | None = None) -> Parsed:
    """Compile an expression, after a change of its tree; any other Python is a UserError."""
    try:
        if len(written) > LONGEST:
            raise ValueError(f"more than {LONGEST} letters")
        tree = ast.parse(written, mode="eval")
        tree = change.visit(tree) if change else tree
        for node in ast.walk(tree):
            if not isinstance(node, NODES) or (
                isinstance(node, ast.Constant) and not isinstance(node.value, int | float)
            ):
                raise ValueError(f"it holds a {type(node).__name__}")
            if isinstance(node, ast.BinOp | ast.Call) and any(isinstance(x, ast.Tuple) for x in ast.walk(node)):
                raise ValueError("a tuple inside of it")
        names = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
        tree = ast.fix_missing_locations(_Powers().visit(tree))
        return Parsed(compile(tree, "<expression>", "eval"), names)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise UserError(f"{one_line(written)[:80]!r} is no expression ({one_line(problem)})", HINT) from None


def evaluate(parsed: Parsed, names: Mapping[str, Any]) -> Any:
    """Its value where names mean these; an unknown name and a power without a bound are a UserError."""
    if unknown := parsed.names - names.keys():
        raise UserError(f"no {min(unknown)!r} is known to an expression", f"Use one of: {', '.join(sorted(names))}.")
    return eval(parsed.code, {**names, "__builtins__": {}, _POWER: _power})


class _Powers(ast.NodeTransformer):
    """Powers as calls of :func:`_power`."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        called = ast.Call(ast.Name(_POWER, ast.Load()), [node.left, node.right], [])
        return called if isinstance(node.op, ast.Pow) else node


def _power(base: Any, exponent: Any) -> Any:
    bits = (
        max(int(base.numerator).bit_length(), int(base.denominator).bit_length()) if isinstance(base, Rational) else 0
    )
    if hasattr(base, "__len__") or bits > BITS or not isinstance(exponent, int | float) or abs(exponent) > LARGEST:
        raise UserError(f"a power of an expression is too large ({one_line(exponent)[:40]})", HINT)
    return base**exponent
