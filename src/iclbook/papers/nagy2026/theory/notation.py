"""Nagy 2026: reads the formal statements from tables of text.

A block is one statement; lines that begin with # are comments::

    "theory/T1/strict" reading       its id, in quotes and after theory/ if what comes out is recorded; its role, if it is not the theorem itself
        the loss falls where g ≠ 0   the paper's words, shortened
        with g = a*w - b             abbreviations, in order
        0 < a; g != 0 => L < K       hypotheses, then the conclusion
        some p exactly when a <= 1   the conclusion is that such numbers exist; the exact answer without a solver
        mend b < 2 for all w         a hypothesis that is meant to mend it; what the conclusion ranges over where that is tested for being weakest
        draw a = 1/b                 values that make equations among the hypotheses hold where points are drawn

A statement about sums of any length has in place of the formula ``assumes`` and ``says`` (its hypotheses and itself, in words) and two formulas:
``base``, the first case, and ``step``. Nothing in a table is executed: its formulas are taken apart into sums, products, powers and comparisons.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterable, Mapping
from typing import Any

from .formula import Atom, Exists, Junction, abs_le, sq
from .proposition import OURS, STATEMENT, Builder, Induction, Proposition

_SYMBOLS = {ast.Eq: "=", ast.NotEq: "≠", ast.LtE: "≤", ast.Lt: "<"}
_OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_PRIME = "ʹ"  # a letter that stands for ' in names


def read(table: str) -> tuple[Proposition | Induction, ...]:
    """The statements of a table, in its order.

    Raises:
        ValueError: a formula that is none.
    """
    blocks = (
        [line.strip() for line in block.splitlines() if not line.startswith("#")]
        for block in table.strip().split("\n\n")
    )
    return tuple(_statement(*lines) for lines in blocks)


def formula(written: str) -> Builder:
    """Builder of one formula such as ``0 < a and a*w^2 <= b``, or of a polynomial.

    Raises:
        ValueError: it is none.
    """
    for word in ("implies", "iff"):
        if f" {word} " in written:
            sides = [formula(side) for side in written.split(f" {word} ")]
            return lambda v: Junction(word, tuple(side(v) for side in sides))
    tree = _tree(written)
    _build(tree, dict.fromkeys(_names([written]), 1.0))  # refused here, not where it is used
    return lambda v: _build(tree, vars(v))


def formulas(written: str) -> tuple[Builder, ...]:
    """Builders of formulas that are separated by semicolons."""
    return tuple(formula(part) for part in written.split(";") if part.strip())


def _statement(header: str, words: str, *lines: str) -> Proposition | Induction:
    first, _, role = header.partition(" ")
    of = first.strip('"').removeprefix("theory/").removesuffix("/statement")
    common = {"words": words, "role": role or STATEMENT, "key": first.strip('"') if first[0] == '"' else None}
    fields = dict(
        line.split(" ", 1) for line in lines if "=>" not in line or line.startswith(("base ", "step "))
    )
    if "says" in fields:
        base, step = (
            _proposition(
                f"{of} {case}", fields[case], fields if case == "step" else {}, {"words": "", "role": OURS}
            )
            for case in ("base", "step")
        )
        assumes = tuple(fields["assumes"].split("; ")) if "assumes" in fields else ()
        return Induction(of, assumes=assumes, formal=fields["says"], base=base, step=step, **common)
    (implication,) = [line for line in lines if "=>" in line]
    return _proposition(of, implication, fields, common)


def _proposition(
    of: str, implication: str, fields: Mapping[str, str], common: Mapping[str, Any]
) -> Proposition:
    hypotheses, conclusion = implication.split("=>")
    definitions, given = (_assignments(fields.get(name, "")) for name in ("with", "draw"))
    mend, _, for_all = fields.get("mend", "").partition(" for all ")
    bound, _, decided = fields.get("some", "").partition(" exactly when ")
    free = _names([*definitions.values(), *hypotheses.split(";"), conclusion])
    return Proposition(
        of,
        variables=tuple(name for name in free if name not in {*definitions, *_list(bound)}),
        conclusion=_exists(_list(bound), conclusion, decided) if bound else formula(conclusion),
        hypotheses=formulas(hypotheses),
        definitions={name: formula(right) for name, right in definitions.items()},
        repair=formula(mend) if mend else None,
        repair_for_all=_list(for_all),
        given={name: formula(right) for name, right in given.items()},
        **common,
    )


def _exists(names: tuple[str, ...], body: str, decided: str) -> Builder:
    tree, decide = _tree(body), formula(decided)
    return lambda v: Exists(
        names, lambda *values: _build(tree, vars(v) | dict(zip(names, values, strict=True))), decide(v)
    )


def _list(written: str) -> tuple[str, ...]:
    return tuple(written.split(", ")) if written else ()


def _assignments(written: str) -> dict[str, str]:
    return dict(part.strip().split(" = ", 1) for part in written.split(";") if part.strip())


def _tree(written: str) -> ast.expr:
    """Its syntax; = is equality, ^ a power, |x| an absolute value, and names may end in '."""
    python = re.sub(r"(?<![<>!])=", "==", written.strip().replace("^", "**").replace("'", _PRIME))
    return ast.parse(re.sub(r"\|([^|]*)\|", r"abs(\1)", python), mode="eval").body


def _names(written: Iterable[str]) -> list[str]:
    """The names in formulas, in the order in which they first occur."""
    parts = [side for w in written if w.strip() for side in re.split(" implies | iff ", w)]
    found: list[str] = []
    for part in parts:
        nodes = [n for n in ast.walk(_tree(part)) if isinstance(n, ast.Name) and n.id != "abs"]
        found += [n.id.replace(_PRIME, "'") for n in sorted(nodes, key=lambda n: n.col_offset)]
    return list(dict.fromkeys(found))


def _build(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """The formula at these values of its names."""

    def build(*parts: ast.expr) -> list:
        return [_build(part, values) for part in parts]

    match node:
        case ast.BoolOp(op=op, values=parts):
            return Junction("and" if isinstance(op, ast.And) else "or", tuple(build(*parts)))
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return Junction("not", tuple(build(part)))
        case ast.UnaryOp(op=ast.USub(), operand=part):
            return -_build(part, values)
        case ast.Compare(left=ast.Call(args=[x]), ops=[ast.LtE()], comparators=[ast.Call(args=[y])]):
            return abs_le(*build(x, y))
        case ast.Compare(left=left, ops=[order], comparators=[right]) if type(order) in _SYMBOLS:
            return Atom(_SYMBOLS[type(order)], *build(left, right))
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=power)):
            (base,) = build(left)
            return sq(base) if power == 2 else base**power
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](*build(left, right))
        case ast.Call(func=ast.Name(id="abs"), args=[part]):
            return abs(_build(part, values))
        case ast.Name(id=name):
            return values[name.replace(_PRIME, "'")]
        case ast.Constant(value=int(value)):
            return value
    raise ValueError(f"no formula: {ast.unparse(node)}")
