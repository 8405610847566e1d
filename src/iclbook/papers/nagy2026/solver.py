"""The paper's statements in formal terms, decided over the exact reals.

Statements are polynomial, and first-order polynomial arithmetic over the reals is decidable: the solver z3 finds a proof (no real numbers satisfy the
negation) or a counterexample, which sympy verifies in exact fractions. The word for what comes out:

proved            the hypotheses as printed imply the conclusion
needs hypothesis  a counterexample to it as printed, and a proof once the named hypothesis is added
refuted           a counterexample, and no hypothesis is proposed that would mend it
vacuous           no numbers satisfy the hypotheses
undecided         the solver ran out of time
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
import z3

PROVED, REFUTED, UNDECIDED, NEEDS, VACUOUS = "proved", "refuted", "undecided", "needs hypothesis", "vacuous"
#: A statement is the theorem itself, a sentence of its paragraph, a stricter reading of one, or a sentence elsewhere.
STATEMENT, SENTENCE, READING, ELSEWHERE = "statement", "sentence", "reading", "elsewhere"
#: Counterexamples are looked for among these values first, so that a reader can check them in the head.
_GRIDS = (
    "1 2",
    "0 1 2",
    "0 1 2 3",
    "0 1/2 1 3/2 2 3",
    "-1 0 1 2",
    "-2 -1 0 1 2 3",
    "0 1/5 1/4 1/2 3/4 1 3/2 2 5/2 3 4 -1/2 -1 -2 -4",
)
#: Milliseconds for one question to the solver.
LIMIT_MS = 10_000
_PRIME = "ʹ"  # a letter that stands for ' in names


def formula(written: str, names: Mapping[str, sympy.Expr] | None = None) -> Any:
    """A formula such as ``0 < a and a*w^2 <= b``, or a polynomial, in sympy, nothing simplified; ``names`` are abbreviations.

    ``=`` is equality, ``^`` a power, ``|x|`` an absolute value; names may end in '. Nothing is executed: its syntax is taken apart.
    """
    for word in ("implies", "iff"):
        if f" {word} " in written:
            a, b = (formula(side, names) for side in written.split(f" {word} "))
            back = () if word == "implies" else (sympy.Implies(b, a, evaluate=False),)
            return sympy.And(sympy.Implies(a, b, evaluate=False), *back, evaluate=False)
    python = re.sub(r"(?<![<>!])=", "==", written.strip().replace("^", "**").replace("'", _PRIME))
    tree = ast.parse(re.sub(r"\|([^|]*)\|", r"abs(\1)", python), mode="eval").body
    return _build(tree, names or {})


_RELATIONS = {ast.Eq: sympy.Eq, ast.NotEq: sympy.Ne, ast.LtE: sympy.Le, ast.Lt: sympy.Lt}
_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: sympy.Add(a, b, evaluate=False),
    ast.Sub: lambda a, b: sympy.Add(a, sympy.Mul(-1, b, evaluate=False), evaluate=False),
    ast.Mult: lambda a, b: sympy.Mul(a, b, evaluate=False),
    ast.Div: lambda a, b: sympy.Mul(a, sympy.Pow(b, -1, evaluate=False), evaluate=False),
    ast.Pow: lambda a, b: sympy.Pow(a, b, evaluate=False),
}


def _build(node: ast.expr, names: Mapping[str, sympy.Expr]) -> Any:
    match node:
        case ast.BoolOp(op=op, values=parts):
            join = sympy.And if isinstance(op, ast.And) else sympy.Or
            return join(*(_build(part, names) for part in parts), evaluate=False)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return sympy.Not(_build(part, names), evaluate=False)
        case ast.UnaryOp(op=ast.USub(), operand=part):
            return sympy.Mul(-1, _build(part, names), evaluate=False)
        case ast.Compare(left=left, ops=[order], comparators=[right]) if type(order) in _RELATIONS:
            return _RELATIONS[type(order)](_build(left, names), _build(right, names), evaluate=False)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_build(left, names), _build(right, names))
        case ast.Call(func=ast.Name(id="abs"), args=[part]):
            return sympy.Abs(_build(part, names), evaluate=False)
        case ast.Name(id=name):
            name = name.replace(_PRIME, "'")
            return names.get(name, sympy.Symbol(name, real=True))
        case ast.Constant(value=int(value)):
            return sympy.Integer(value)
    raise ValueError(f"no formula: {ast.unparse(node)}")


@dataclass(frozen=True, eq=False)
class Statement:
    """One sentence of the paper in formal terms: ``hypotheses`` imply ``conclusion`` for all real values of the variables.

    A statement about sums of any length or any number of layers has a first case and a step from d to d + 1 instead; the solver proves both, and the principle
    of induction joins them. In the step, sums over the first d channels are variables of which only the induction hypothesis is known.

    Attributes:
        id: ``A7``, or ``A7/equivalence`` for a further sentence of its paragraph.
        words: the paper's words, shortened.
        hypotheses, conclusion: formulas (:func:`formula`).
        definitions: abbreviations that they use, in order.
        some: the conclusion is that such numbers exist; ``decided`` is the exact answer without a solver.
        mend: a hypothesis that is meant to mend it; ``mend_for_all`` are what the conclusion ranges over where it is tested for being weakest.
        key: under which what comes out is recorded.
        assumes, says, cases: of a statement by induction: hypothesis and conclusion as TeX, first case and step.
    """

    id: str
    words: str
    hypotheses: tuple[str, ...] = ()
    conclusion: str = ""
    definitions: Mapping[str, str] = field(default_factory=dict)
    role: str = STATEMENT
    key: str | None = None
    some: tuple[str, ...] = ()
    decided: str = ""
    mend: str = ""
    mend_for_all: tuple[str, ...] = ()
    assumes: str = ""
    says: str = ""
    cases: tuple[Statement, ...] = ()

    def built(self, written: str) -> Any:
        """A formula of this statement in its free variables, the abbreviations filled in."""
        names: dict[str, Any] = {}
        for name, meaning in self.definitions.items():
            names[name] = formula(meaning, names)
        return formula(written, names)

    def without(self, hypothesis: str) -> Statement:
        """The same without a hypothesis."""
        return replace(self, hypotheses=tuple(h for h in self.hypotheses if h != hypothesis))

    def formal(self) -> str:
        """Hypotheses, conclusion and definitions for a table, which sets what stands between dollars."""
        if self.cases:
            given = f"${self.assumes}$ ⟹ " if self.assumes else ""
            return f"{given}${self.says}$ (by induction over d: first case and step)"
        there = f"there are {', '.join(self.some)} with " if self.some else ""
        given = "; ".join(map(shown, self.hypotheses))
        line = (f"{given} ⟹ " if given else "") + there + shown(self.conclusion)
        where = "; ".join(shown(f"{name} = {meaning}") for name, meaning in self.definitions.items())
        return f"{line}, where {where}" if where else line


#: Names and signs of formulas, and the TeX for them.
_TEX = {
    r"\*": "·",
    "w_star": "w^*",
    "rho2_two": r"\\rho_2^2",
    r"rho2\^2": r"(\\rho^2)^2",
    "rho2": r"\\rho^2",
    r"\b(eta|kappa)(?![a-z])": r"\\\1",
    r"\blam": r"\\lambda",
    r"(?<=_)next|etafac|gsq": r"{\\mathrm{\g<0>}}",
    r"\b(and|or|not|iff|implies)\b": r"\\text{ \1 }",
    r"'\^2": r"^{\\prime2}",
    "<=": r"\\le",
    "!=": "≠",
}


def shown(written: str) -> str:
    """A formula for a table, as TeX."""
    for sign, tex in _TEX.items():
        written = re.sub(sign, tex, written)
    return f"${written.strip()}$"


# -- tables of statements -------------------------------------------------------------------------------------------------------------


def read(table: str) -> tuple[Statement, ...]:
    """The statements of a table of text, in its order. A block is one statement; lines that begin with # are comments::

        "theory/T1/strict" reading       its id, in quotes and after theory/ if what comes out is recorded; its role, if it is not the theorem itself
            the loss falls where g ≠ 0   the paper's words, shortened
            with g = a*w - b             abbreviations, in order
            0 < a; g != 0 => L < K       hypotheses, then the conclusion
            some p exactly when a <= 1   the conclusion is that such numbers exist; the exact answer without a solver
            mend b < 2 for all w         a hypothesis that is meant to mend it; what the conclusion ranges over

    A statement about sums of any length has ``assumes`` and ``says`` (as TeX) and two formulas, ``base`` and ``step``.
    """
    return tuple(_statement(block) for block in table.strip().split("\n\n"))


def _statement(block: str) -> Statement:
    header, words, *lines = (line.strip() for line in block.splitlines() if not line.startswith("#"))
    first, _, role = header.partition(" ")
    key = first.strip('"')
    of = key.removeprefix("theory/").removesuffix("/statement")
    fields = dict(line.split(" ", 1) for line in lines if "=>" not in line or line.startswith(("base ", "step ")))
    if "says" in fields:
        cases = _implication(f"{of} base", fields["base"], {}), _implication(f"{of} step", fields["step"], fields)
        found = Statement(of, words, assumes=fields.get("assumes", ""), says=fields["says"], cases=cases)
    else:
        (implication,) = [line for line in lines if "=>" in line]
        found = _implication(of, implication, fields)
    return replace(found, words=words, role=role or STATEMENT, key=key if first[0] == '"' else None)


def _implication(of: str, written: str, fields: Mapping[str, str]) -> Statement:
    hypotheses, conclusion = written.split("=>")
    mend, _, for_all = fields.get("mend", "").partition(" for all ")
    some, _, decided = fields.get("some", "").partition(" exactly when ")
    return Statement(
        of,
        "",
        tuple(h.strip() for h in hypotheses.split(";") if h.strip()),
        conclusion.strip(),
        dict(part.strip().split(" = ", 1) for part in fields.get("with", "").split(";") if part.strip()),
        some=tuple(some.split(", ")) if some else (),
        decided=decided,
        mend=mend,
        mend_for_all=tuple(for_all.split(", ")) if for_all else (),
    )


# -- the solver -----------------------------------------------------------------------------------------------------------------------


_TO_Z3: dict[type, Callable[..., Any]] = {
    sympy.Add: lambda *x: sum(x[1:], x[0]),
    sympy.Mul: lambda *x: math.prod(x[1:], start=x[0]),
    sympy.Abs: lambda x: z3.If(x >= 0, x, -x),
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
    sympy.Le: operator.le,
    sympy.Lt: operator.lt,
    sympy.And: z3.And,
    sympy.Or: z3.Or,
    sympy.Not: z3.Not,
    sympy.Implies: z3.Implies,
}


def to_z3(node: Any) -> Any:
    """A sympy formula in the solver's terms."""
    if node.is_Symbol:
        return z3.Real(node.name)
    if node.is_Rational:
        return z3.RealVal(str(node))
    if node in (sympy.true, sympy.false):
        return z3.BoolVal(bool(node))
    if node.is_Pow:
        base = to_z3(node.base)
        return math.prod([base] * int(node.exp)) if node.exp > 0 else 1 / base
    return _TO_Z3[type(node)](*map(to_z3, node.args))


Values = dict[str, sympy.Rational]


def ask(
    s: Statement, hypotheses: Iterable[str] | None = None, conclusion: str | None = None, for_all: Sequence[str] = ()
) -> tuple[str, Values | None]:
    """Whether the hypotheses imply the conclusion (both the statement's own by default): proved, refuted or undecided, and a counterexample.

    Args:
        for_all: variables over which the hypotheses are to be read as "for all": they may not be chosen by a counterexample.
    """
    assumed = [s.built(h) for h in (s.hypotheses if hypotheses is None else hypotheses)]
    said = s.built(s.conclusion if conclusion is None else conclusion)
    bound = s.some if conclusion is None else ()
    free = sorted({x.name for part in (*assumed, said) for x in part.free_symbols} - {*bound, *for_all})
    given, follows = z3.And([to_z3(part) for part in assumed]), to_z3(said)
    if bound:
        follows = z3.Exists([z3.Real(name) for name in bound], follows)
    if for_all:
        given = z3.ForAll([z3.Real(name) for name in for_all], given)
    solver = z3.Solver()
    solver.set("timeout", LIMIT_MS)
    solver.set("random_seed", 0)
    solver.add(given, z3.Not(follows))
    if solver.check() == z3.unsat:
        return PROVED, None
    for grid in _GRIDS:
        solver.push()
        solver.add([z3.Or([z3.Real(name) == z3.RealVal(x) for x in grid.split()]) for name in free])
        if solver.check() == z3.sat:
            return REFUTED, _rational(solver.model(), free)
        solver.pop()
    return (REFUTED, _rational(solver.model(), free)) if solver.check() == z3.sat else (UNDECIDED, None)


def _rational(model: Any, names: Sequence[str]) -> Values | None:
    """The model's values; None if one of them is irrational."""
    found = {name: model.eval(z3.Real(name), model_completion=True) for name in names}
    if not all(hasattr(value, "as_fraction") for value in found.values()):
        return None
    return {name: sympy.Rational(str(value.as_fraction())) for name, value in found.items()}


def is_counterexample(s: Statement, values: Values) -> bool:
    """Whether these fractions satisfy every hypothesis and break the conclusion; exact, by sympy and without the solver."""
    at = {sympy.Symbol(name, real=True): value for name, value in values.items()}
    *given, follows = (bool(s.built(written).subs(at)) for written in (*s.hypotheses, s.decided or s.conclusion))
    return all(given) and not follows


def uses(s: Statement, name: str) -> bool:
    """Whether the statement needs what ``name`` is defined as: it is no longer provable if the name may mean anything."""
    freed = replace(s, definitions={n: meaning for n, meaning in s.definitions.items() if n != name})
    return ask(freed)[0] != PROVED


@dataclass(frozen=True)
class Result:
    """What came out for one statement.

    Attributes:
        word: proved, needs hypothesis, refuted, vacuous or undecided.
        counterexample: exact values; ``verified``: it was recomputed in fractions, without the solver.
        weakest: nothing weaker than the mending hypothesis would do: hypotheses and conclusion together imply it.
        unneeded: printed hypotheses each of which can be dropped alone.
    """

    statement: Statement
    word: str
    counterexample: Values | None = None
    verified: bool = False
    weakest: bool = False
    unneeded: tuple[str, ...] = ()


def check(s: Statement) -> Result:
    """Decide one statement, verify the counterexample, and test its repair and its hypotheses."""
    if s.cases:
        words = {ask(case)[0] for case in s.cases}
        return Result(s, PROVED if words == {PROVED} else REFUTED if REFUTED in words else UNDECIDED)
    word, values = ask(s)
    if word == PROVED:
        word = VACUOUS if ask(s, conclusion="0 < 0")[0] == PROVED else word
        return Result(s, word, unneeded=tuple(h for h in s.hypotheses if ask(s.without(h))[0] == PROVED))
    verified = values is not None and is_counterexample(s, values)
    if word == REFUTED and s.mend and ask(s, (*s.hypotheses, s.mend))[0] == PROVED:
        weakest = ask(s, (*s.hypotheses, s.decided or s.conclusion), s.mend, s.mend_for_all)[0] == PROVED
        return Result(s, NEEDS, values, verified, weakest)
    return Result(s, word, values, verified)
