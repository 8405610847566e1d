"""The thirty theorems and the sentences around them (``theorems.yaml``), and what comes out for them: records and tables."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from ...claims import load_ledger
from ...claims.yaml_lines import read_yaml
from ...drawing.figure_data import Table
from . import solver
from .solver import NEEDS, PROVED, READING, STATEMENT, Result, Statement, display_form

STATEMENTS = tuple(
    Statement(id=name, **fields) for name, fields in read_yaml(Path(__file__).with_name("theorems.yaml")).items()
)
#: What a statement is to the paper, in words for a table.
KINDS = {solver.SENTENCE: "printed", solver.ELSEWHERE: "printed", READING: "stricter reading"}


@lru_cache(maxsize=1)
def check_all() -> tuple[Result, ...]:
    """Check all statements of the chapter, in the paper's order; a few seconds."""
    return tuple(map(solver.check, STATEMENTS))


def thirty() -> list[Result]:
    """The thirty numbered statements themselves, without the sentences around them."""
    return [r for r in check_all() if r.statement.role == STATEMENT]


def failing() -> list[Result]:
    """Sentences around the theorems, or stricter readings of them, that are not proved as printed."""
    return [r for r in check_all() if r.statement.role in KINDS and r.word != PROVED]


def records() -> dict[str, str | int | bool]:
    """The word of every statement that the ledger asks about, and counts over all."""
    main, flagged = thirty(), failing()
    readings = sum(r.statement.role == READING for r in flagged)
    named = {s.id: s for s in STATEMENTS}
    asked = {part.key for claim in load_ledger("nagy2026").claims for part in claim.parts}
    said = [(r.statement.cases or (r.statement,))[-1] for r in main]
    return {r.statement.key: r.word for r in check_all() if r.statement.key in asked} | {
        "theory/thirty": len(main),
        "theory/thirty_proved": sum(r.word == PROVED for r in main),
        "theory/thirty_vacuous": sum(r.word == solver.VACUOUS for r in main),
        "theory/inequalities": sum("<" in s.then for s in said),
        "theory/flagged_readings": readings,
        "theory/flagged_printed": len(flagged) - readings,
        "theory/V1/uses_gains": solver.uses(named["V1"], "kappa"),
        "theory/A7/uses_rate": solver.uses(named["A7"], "rho2"),
    }


def _table(results: Sequence[Result], caption: str, **columns: str) -> Table:
    """Formal statements: where, words, the statement, what came out, counterexample, the added hypothesis, what is not needed."""
    rows = []
    for s, word, weakest, unneeded in results:
        example = (display_form(f"{name} = {x}") for name, x in s.counterexample.items())
        added = display_form(s.hypothesis) + " (weakest)" * weakest if word == NEEDS else ""
        row = {"statement": s.id, "kind": KINDS.get(s.role, "theorem"), "words": s.words, "formal": s.formal()}
        row |= {"result": word, "counterexample": ", ".join(example), "added": added}
        rows.append(row | {"unneeded": "; ".join(map(display_form, unneeded))})
    return Table(rows, columns | {"formal": "formally: hypotheses ⟹ conclusion"}, caption)


def thirty_table() -> Table:
    """The thirty statements."""
    columns = {"statement": "theorem", "words": "in words", "formal": "", "result": "result", "unneeded": "not needed"}
    return _table(thirty(), "The thirty statements", **columns)


def failing_table() -> Table:
    """The sentences that fail."""
    return _table(
        failing(),
        "Sentences that fail as printed, or in a stricter reading",
        statement="belongs to",
        kind="kind",
        words="the sentence or how it is read",
        formal="",
        result="result",
        counterexample="counterexample",
        added="added hypothesis",
    )
