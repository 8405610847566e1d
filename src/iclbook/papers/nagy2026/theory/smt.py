"""Nagy 2026: prove or refute a statement over the exact reals with an SMT solver.

The statements are polynomial, and first-order polynomial arithmetic over the reals is decidable, so that the answer is a proof (no real
numbers satisfy the negation) or a counterexample. The solver's package is imported when first used: the library imports without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import Any

from ....errors import UserError
from .formula import Atom, Exists

PROVED, REFUTED, UNDECIDED = "proved", "refuted", "undecided"
#: Counterexamples are looked for among these values first, so that a reader can check them in the head.
_GRIDS = (
    [Fraction(n) for n in (1, 2)],
    [Fraction(n) for n in (0, 1, 2)],
    [Fraction(n) for n in range(4)],
    [Fraction(n, m) for m in (1, 2) for n in range(4)],
    [Fraction(n) for n in range(-1, 3)],
    [Fraction(n) for n in range(-2, 4)],
    sorted({Fraction(n, m) for m in (1, 2, 4, 5) for n in range(-4 * m, 4 * m + 1)}, key=abs),
)
#: Milliseconds for one question to the solver.
LIMIT_MS = 10_000


@dataclass(frozen=True)
class Answer:
    """What the solver found: ``word`` is proved, refuted or undecided; ``model`` the counterexample, exact rationals."""

    word: str
    model: Mapping[str, Fraction] | None = None


def solver_module() -> ModuleType:
    """The solver's package.

    Raises:
        UserError: it is not installed.
    """
    try:
        import z3
    except ImportError:
        raise UserError(
            "the SMT solver z3 is not installed",
            "Run `make setup`, or `pip install -r requirements.txt` (package z3-solver).",
        ) from None
    return z3


def to_solver(node: Any, z3: ModuleType) -> Any:
    """The statement in the solver's terms; ``node`` was built with the solver's variables."""
    if isinstance(node, Atom):
        a, b = node.left, node.right
        made = {"=": a == b, "≠": a != b, "≤": a <= b, "<": a < b}[node.symbol]
        return z3.BoolVal(made) if isinstance(made, bool) else made
    if isinstance(node, Exists):
        bound = [z3.Real(f"{name}'") for name in node.names]
        return z3.Exists(bound, to_solver(node.body(*bound), z3))
    parts = [to_solver(part, z3) for part in node.parts]
    if node.word == "iff":
        return parts[0] == parts[1]
    make = {"and": z3.And, "or": z3.Or, "not": z3.Not, "implies": z3.Implies}[node.word]
    return make(*parts)


def decide(
    variables: Sequence[str],
    hypotheses: Callable[[Any], Sequence[Any]],
    conclusion: Callable[[Any], Any],
    small: bool = True,
    for_all: Sequence[str] = (),
) -> Answer:
    """Whether the hypotheses imply the conclusion for all real values of the variables.

    Args:
        variables: the free variables.
        hypotheses: builder of the list of hypotheses.
        conclusion: builder of the conclusion.
        small: look for a counterexample in small fractions first.
        for_all: variables over which the hypotheses are to be read as "for all": they may not be chosen by a counterexample.

    Raises:
        UserError: the solver is not installed.
    """
    z3 = solver_module()
    v = SimpleNamespace(**{name: z3.Real(name) for name in variables})
    given = z3.And([to_solver(h, z3) for h in hypotheses(v)])
    if for_all:
        given = z3.ForAll([getattr(v, name) for name in for_all], given)
    solver = z3.Solver()
    solver.set("timeout", LIMIT_MS)
    solver.set("random_seed", 0)
    solver.add(given, z3.Not(to_solver(conclusion(v), z3)))
    found = solver.check()
    if found == z3.unsat:
        return Answer(PROVED)
    free = [name for name in variables if name not in for_all]
    if small:
        for grid in _GRIDS:
            solver.push()
            values = [z3.RealVal(str(x)) for x in grid]
            solver.add([z3.Or([getattr(v, name) == x for x in values]) for name in free])
            if solver.check() == z3.sat:
                return Answer(REFUTED, _rational(solver.model(), v, free))
            solver.pop()
        found = solver.check()
    return Answer(REFUTED, _rational(solver.model(), v, free)) if found == z3.sat else Answer(UNDECIDED)


def _rational(model: Any, v: SimpleNamespace, names: Sequence[str]) -> dict[str, Fraction] | None:
    """The model's values as fractions; None if one of them is irrational."""
    values = {}
    for name in names:
        value = model.eval(getattr(v, name), model_completion=True)
        if not hasattr(value, "as_fraction"):
            return None
        values[name] = Fraction(value.numerator_as_long(), value.denominator_as_long())
    return values
