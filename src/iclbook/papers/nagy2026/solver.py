"""The paper's statements in formal terms, decided over the exact reals.

Statements are polynomial, and first-order polynomial arithmetic over the reals is decidable: the solver z3 finds a proof (no real numbers satisfy the
negation) or says that there is a counterexample; sympy verifies a small one in exact fractions. The word for what comes out:

proved            the hypotheses as printed imply the conclusion
needs hypothesis  a counterexample to it as printed, and a proof once the named hypothesis is added
refuted           a counterexample, and no hypothesis is proposed that would make it true
vacuous           no numbers satisfy the hypotheses
undecided         the solver ran out of time, or no counterexample is listed, or one that is none
"""

import ast
import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import sympy
import z3
from pydantic.dataclasses import dataclass

from ...errors import UserError
from .expressions import evaluate, parse

PROVED, REFUTED, UNDECIDED, NEEDS, VACUOUS = "proved", "refuted", "undecided", "needs hypothesis", "vacuous"
#: A statement is the theorem itself, a sentence of its paragraph, a stricter reading of one, or a sentence elsewhere.
STATEMENT, SENTENCE, READING, ELSEWHERE = "statement", "sentence", "reading", "elsewhere"
#: Milliseconds for one question to the solver.
LIMIT_MS = 10_000


class _Connectives(ast.NodeTransformer):
    """``and``, ``or`` and ``not``, which Python lets nothing overload, as calls of ``And``, ``Or`` and ``Not``."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.Call:
        self.generic_visit(node)
        return ast.Call(ast.Name(type(node.op).__name__, ast.Load()), node.values, [])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return ast.Call(ast.Name("Not", ast.Load()), [node.operand], []) if isinstance(node.op, ast.Not) else node


def formula(written: str, logic: ModuleType, values: Mapping[str, Any]) -> Any:
    """A formula such as ``0 < a and a*w^2 <= b``, or a polynomial, on ``values`` by name, in the terms of ``logic``: z3 or sympy.

    ``=`` is equality, ``^`` a power, ``|x|`` an absolute value; ``implies`` and ``iff`` join two formulas.
    """
    for word in ("implies", "iff"):
        if f" {word} " in written:
            a, b = (formula(side, logic, values) for side in written.split(f" {word} "))
            back = True if word == "implies" else logic.Implies(b, a)
            return logic.And(logic.Implies(a, b), back)
    python = re.sub(r"\|([^|]*)\|", r"Abs(\1)", re.sub(r"(?<![<>!])=", "==", written.replace("^", "**")))
    functions = {name: getattr(logic, name) for name in ("And", "Or", "Not", "Abs")}
    return evaluate(parse(python, _Connectives()), functions | dict(values))


@dataclass(frozen=True, eq=False, config={"extra": "forbid"})
class Statement:
    """One sentence of the paper in formal terms: ``given`` implies ``then`` for all real values of the variables.

    A statement about sums of any length or any number of layers has a first case and a step from d to d + 1 instead; the solver proves both, and the principle
    of induction joins them. In the step, sums over the first d channels are variables of which only the induction hypothesis is known.

    Attributes:
        id: ``A7``, or ``A7/equivalence`` for a further sentence of its paragraph.
        words: the paper's words, shortened.
        given, then: hypotheses and conclusion (:func:`formula`).
        where: abbreviations that they use, in order.
        some: the conclusion is that such numbers exist; ``decided`` is the exact answer without a solver.
        counterexample: small fractions at which it fails as printed.
        hypothesis: one that is meant to make it true; ``hypothesis_for_all`` are what the conclusion ranges over where it is tested for being weakest.
        assumes, says, cases: of a statement by induction: hypothesis and conclusion as TeX, first case and step.
    """

    id: str = ""
    words: str = ""
    given: tuple[str, ...] = ()
    then: str = ""
    where: Mapping[str, str] = dataclasses.field(default_factory=dict)
    role: str = STATEMENT
    some: tuple[str, ...] = ()
    decided: str = ""
    counterexample: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    hypothesis: str = ""
    hypothesis_for_all: tuple[str, ...] = ()
    assumes: str = ""
    says: str = ""
    cases: "tuple[Statement, ...]" = ()

    @property
    def key(self) -> str:
        """Under which what comes out is recorded."""
        return f"theory/{self.id}" if "/" in self.id else f"theory/{self.id}/statement"

    @property
    def names(self) -> set[str]:
        """Its free variables."""
        written = " ".join((*self.given, self.then, self.decided, self.hypothesis, *self.where.values()))
        return set(re.findall(r"[^\W\d]\w*", written)) - {*self.where, "and", "or", "not", "implies", "iff"}

    def on(self, logic: ModuleType, values: Mapping[str, Any]) -> Callable[[str], Any]:
        """Evaluates formulas of this statement on values of its free variables, the abbreviations filled in."""
        values = dict(values)
        for name, meaning in self.where.items():
            values[name] = formula(meaning, logic, values)
        return partial(formula, logic=logic, values=values)

    def without(self, hypothesis: str) -> "Statement":
        """This statement without a hypothesis."""
        return dataclasses.replace(self, given=tuple(h for h in self.given if h != hypothesis))

    def formal(self) -> str:
        """Hypotheses, conclusion and definitions for a table, which sets what stands between dollars."""
        if self.cases:
            given = f"${self.assumes}$ ⟹ " if self.assumes else ""
            return f"{given}${self.says}$ (by induction over d: first case and step)"
        there = f"there are {', '.join(self.some)} with " if self.some else ""
        given = "; ".join(map(display_form, self.given))
        line = (f"{given} ⟹ " if given else "") + there + display_form(self.then)
        where = "; ".join(display_form(f"{name} = {meaning}") for name, meaning in self.where.items())
        return f"{line}, where {where}" if where else line


#: Names and signs of formulas, and the TeX for them.
_TEX = {
    "ʹ": "'",
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


def display_form(written: str) -> str:
    """A formula for a table, as TeX."""
    for sign, tex in _TEX.items():
        written = re.sub(sign, tex, written)
    return f"${written.strip()}$"


# -- the solver -----------------------------------------------------------------------------------------------------------------------


def ask(s: Statement, given: Iterable[str] | None = None, then: str | None = None, for_all: Sequence[str] = ()) -> str:
    """Whether the hypotheses imply the conclusion (both the statement's own by default): proved, refuted or undecided.

    Args:
        for_all: variables over which the hypotheses are to be read as "for all".
    """
    real = s.on(z3, {name: z3.Real(name) for name in s.names})
    assumed, follows = z3.And([real(h) for h in given or s.given]), real(then or s.then)
    if s.some and not then:
        follows = z3.Exists([z3.Real(name) for name in s.some], follows)
    if for_all:
        assumed = z3.ForAll([z3.Real(name) for name in for_all], assumed)
    solver = z3.Solver()
    solver.set("timeout", LIMIT_MS)
    solver.add(assumed, z3.Not(follows))
    return {"unsat": PROVED, "sat": REFUTED}.get(str(solver.check()), UNDECIDED)


def is_counterexample(s: Statement, values: Mapping[str, Any]) -> bool:
    """Whether these fractions satisfy every hypothesis and break the conclusion; exact, by sympy and without the solver."""
    if not all(re.fullmatch(r"-?\d{1,9}(/\d{1,9})?", str(value)) for value in values.values()):
        raise UserError(f"{s.id}: a counterexample is no fraction of up to nine digits", "Write it as 3 or 3/2.")
    exactly = s.on(sympy, {name: sympy.Rational(value) for name, value in values.items()})
    return all(map(exactly, s.given)) and not exactly(s.decided or s.then)


def uses(s: Statement, name: str) -> bool:
    """Whether the statement needs what ``name`` is defined as: it is no longer provable if the name may mean anything."""
    freed = dataclasses.replace(s, where={n: meaning for n, meaning in s.where.items() if n != name})
    return ask(freed) != PROVED


class Result(NamedTuple):
    """Result for one statement.

    Attributes:
        word: proved, needs hypothesis, refuted, vacuous or undecided.
        weakest: nothing weaker than the added hypothesis would do: hypotheses and conclusion together imply it.
        unneeded: printed hypotheses each of which can be dropped alone.
    """

    statement: Statement
    word: str
    weakest: bool = False
    unneeded: tuple[str, ...] = ()


def check(s: Statement) -> Result:
    """Decide one statement, verify its counterexample, and test its repair and its hypotheses."""
    if s.cases:
        words = {ask(case) for case in s.cases}
        return Result(s, PROVED if words == {PROVED} else REFUTED if REFUTED in words else UNDECIDED)
    word = ask(s)
    if word == PROVED:
        word = VACUOUS if ask(s, then="0 < 0") == PROVED else word
        return Result(s, word, unneeded=tuple(h for h in s.given if ask(s.without(h)) == PROVED))
    if {*s.counterexample} < s.names - {*s.some} or not is_counterexample(s, s.counterexample):
        return Result(s, UNDECIDED)
    if s.hypothesis and ask(s, (*s.given, s.hypothesis)) == PROVED:
        return Result(s, NEEDS, ask(s, (*s.given, s.decided or s.then), s.hypothesis, s.hypothesis_for_all) == PROVED)
    return Result(s, word)
