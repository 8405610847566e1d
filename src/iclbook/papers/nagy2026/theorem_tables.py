"""What comes out for the thirty theorems and the sentences around them: records and tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from .solver import (
    ELSEWHERE,
    NEEDS,
    PROVED,
    READING,
    SENTENCE,
    STATEMENT,
    VACUOUS,
    Induction,
    Result,
    Statement,
    Values,
    check,
    formula,
    shown,
    uses,
)
from .theorems import STATEMENTS, THIRTY

#: What a statement is to the paper, in words for a table.
KINDS = {SENTENCE: "printed", ELSEWHERE: "printed", READING: "stricter reading"}


@lru_cache(maxsize=1)
def check_all() -> tuple[Result, ...]:
    """Every statement of the chapter, in the paper's order; a few seconds.

    Raises:
        UserError: the solver is not installed.
    """
    return tuple(map(check, STATEMENTS))


def thirty(results: Sequence[Result]) -> list[Result]:
    """The thirty numbered statements themselves, without the sentences around them."""
    return [r for r in results if r.statement.role == STATEMENT and r.statement.id in THIRTY]


def failing(results: Sequence[Result]) -> list[Result]:
    """What the paper says around its theorems, or a stricter reading of it, that is not proved as printed."""
    return [r for r in results if r.statement.role in KINDS and r.word != PROVED]


def is_equation(s: Statement | Induction) -> bool:
    """Whether the conclusion is an equation; the others are inequalities."""
    said = s.step if isinstance(s, Induction) else s
    return formula(said.conclusion).func.__name__ == "Equality"


def named(statement: str) -> Statement:
    """A statement by its id."""
    (found,) = [s for s in STATEMENTS if s.id == statement and isinstance(s, Statement)]
    return found


def records(results: Sequence[Result]) -> dict[str, str | int | bool]:
    """The word of every statement that the ledger asks about, and counts over all."""
    main, flagged = thirty(results), failing(results)
    readings = sum(r.statement.role == READING for r in flagged)
    return {r.statement.key: r.word for r in results if r.statement.key} | {
        "theory/thirty": len(main),
        "theory/thirty_proved": sum(r.word == PROVED for r in main),
        "theory/thirty_vacuous": sum(r.word == VACUOUS for r in main),
        "theory/inequalities": sum(not is_equation(r.statement) for r in main),
        "theory/flagged_readings": readings,
        "theory/flagged_printed": len(flagged) - readings,
        "theory/V1/uses_gains": uses(named("V1"), "kappa"),
        "theory/A7/uses_rate": uses(named("A7"), "rho2"),
    }


#: Columns of the table of the thirty, and of that of the sentences that fail.
COLUMNS = {
    "statement": "theorem",
    "the paper's words": "in words",
    "formal": "formally: hypotheses ⟹ conclusion",
    "result": "result",
    "hypotheses not needed": "not needed",
}
FAILING_COLUMNS = {
    "statement": "belongs to",
    "kind": "kind",
    "the paper's words": "the sentence or how it is read",
    "formal": "formally: hypotheses ⟹ conclusion",
    "result": "result",
    "counterexample": "counterexample",
    "mended by": "mended by",
}


def rows(results: Sequence[Result]) -> list[dict[str, str]]:
    """A table of formal statements: where, words, the statement, what came out, counterexample, what mends it, what is not needed."""
    return [
        {
            "statement": r.statement.id,
            "kind": KINDS.get(r.statement.role, "theorem"),
            "the paper's words": r.statement.words,
            "formal": r.statement.formal(),
            "result": r.word,
            "counterexample": assignment(r.counterexample),
            "mended by": shown(r.statement.mend) + (" (weakest)" if r.weakest else "") if r.word == NEEDS else "",
            "hypotheses not needed": "; ".join(map(shown, r.unneeded)),
        }
        for r in results
    ]


def assignment(values: Values | None) -> str:
    """``a = 1, b = 1/2``; empty where there is no counterexample."""
    return ", ".join(shown(f"{name} = {value}") for name, value in (values or {}).items())
