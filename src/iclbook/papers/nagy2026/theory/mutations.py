"""Nagy 2026: break every proved statement, one hypothesis, definition or sign at a time; the checks must be able to fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from .checking import STATEMENTS, ask, assignment, is_counterexample
from .proposition import Induction, Proposition
from .smt import PROVED, REFUTED

DROPPED, FREED, REVERSED = "hypothesis dropped", "definition dropped", "conclusion reversed"


@dataclass(frozen=True)
class Mutation:
    """A proved statement with one thing broken.

    Attributes:
        of: the statement.
        kind: hypothesis dropped, definition dropped (the name means anything), or conclusion reversed (order turned round or sign flipped).
        what: what was broken, as text.
        word: what the solver says of it: refuted if the broken thing was needed.
        counterexample: exact values, verified in fractions.
    """

    of: str
    kind: str
    what: str
    word: str
    counterexample: Mapping[str, Fraction] | None
    verified: bool


def broken(p: Proposition) -> list[tuple[str, str, Proposition]]:
    """Every mutation of one statement: (kind, what, mutated statement)."""
    texts, definitions = p.hypothesis_texts(), p.definition_texts()
    found = [(DROPPED, texts[i], p.without(i)) for i in range(len(texts))]
    found += [(FREED, definitions[i], p.freed(name)) for i, name in enumerate(p.definitions)]
    return [*found, (REVERSED, p.reversed().conclusion_text(), p.reversed())]


def mutations() -> list[Mutation]:
    """Every mutation of every proved statement, and of the steps of the inductions; a few seconds.

    Raises:
        UserError: the solver is not installed.
    """
    found = []
    for p in (s.step if isinstance(s, Induction) else s for s in STATEMENTS):
        if ask(p).word != PROVED or not p.variables:
            continue
        for kind, what, mutated in broken(p):
            answer = ask(mutated)
            verified = answer.model is not None and is_counterexample(mutated, answer.model)
            found.append(Mutation(p.id, kind, what, answer.word, answer.model, verified))
    return found


#: Heads of the columns of :func:`rows`.
COLUMNS = {
    "statement": "statement",
    "mutation": "mutation",
    "broken": "what was broken",
    "result": "result",
    "counterexample": "counterexample",
}


def rows(found: list[Mutation]) -> list[dict[str, str]]:
    """A table of the mutations."""
    return [
        {
            "statement": m.of,
            "mutation": m.kind,
            "broken": m.what,
            "result": m.word,
            "counterexample": assignment(m.counterexample),
        }
        for m in found
    ]


def records(found: list[Mutation]) -> dict[str, int]:
    """Counts for the ledger: mutations, those that the solver refutes, and those whose counterexample fractions confirm."""
    return {
        "mutations/all": len(found),
        "mutations/refuted": sum(m.word == REFUTED for m in found),
        "mutations/verified": sum(m.verified for m in found),
        "mutations/harmless_hypotheses": sum(m.kind == DROPPED and m.word == PROVED for m in found),
        "mutations/harmless_definitions": sum(m.kind == FREED and m.word == PROVED for m in found),
        "mutations/reversed": sum(m.kind == REVERSED for m in found),
        "mutations/reversed_refuted": sum(m.kind == REVERSED and m.verified for m in found),
    }
