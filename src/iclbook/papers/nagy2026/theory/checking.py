"""Nagy 2026: check every statement and say in one word what came out.

proved            the hypotheses as printed imply the conclusion
needs hypothesis  a counterexample to it as printed, and a proof once the named hypothesis is added
refuted           a counterexample, and no hypothesis is proposed that would mend it
vacuous           no numbers satisfy the hypotheses
undecided         the solver ran out of time
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from . import construction, depth, descent, softmax
from .formula import Atom, holds, true_in_fractions
from .numeric import evaluate
from .proposition import ELSEWHERE, READING, SENTENCE, STATEMENT, Induction, Proposition
from .smt import PROVED, REFUTED, UNDECIDED, Answer, decide

NEEDS, VACUOUS = "needs hypothesis", "vacuous"
#: What a statement is to the paper, in words for a table; what only this book says (``ours``) has none.
KINDS = {SENTENCE: "printed", ELSEWHERE: "printed", READING: "stricter reading"}
#: The paper's thirty numbered statements, in its order.
THIRTY = tuple(
    f"{group}{i}"
    for group, count in (("A", 7), ("B", 7), ("C", 4), ("D", 3), ("V", 3), ("M", 3), ("MN", 3))
    for i in range(1, count + 1)
)
#: Every statement, in the paper's order; those about any number of channels are decided by induction.
STATEMENTS = (*descent.STATEMENTS, *softmax.STATEMENTS, *depth.STATEMENTS, *construction.STATEMENTS)
PROPOSITIONS = tuple(s for s in STATEMENTS if isinstance(s, Proposition))


@dataclass(frozen=True)
class Result:
    """What came out for one statement.

    Attributes:
        statement: the statement.
        word: proved, needs hypothesis, refuted, vacuous or undecided.
        counterexample: exact values; None where it is proved.
        verified: the counterexample was recomputed in fractions, without the solver: hypotheses true, conclusion false.
        weakest: nothing weaker than the repair would do: hypotheses and conclusion together imply it.
        unneeded: printed hypotheses each of which can be dropped alone.
        points: floating-point points that satisfied the hypotheses.
        failing: those of them at which the conclusion failed.
    """

    statement: Proposition | Induction
    word: str
    counterexample: Mapping[str, Fraction] | None
    verified: bool
    weakest: bool
    unneeded: tuple[str, ...]
    points: int
    failing: int

    @property
    def id(self) -> str:
        """The statement's."""
        return self.statement.id

    @property
    def role(self) -> str:
        """What the statement is to the paper."""
        return self.statement.role

    @property
    def agrees(self) -> bool:
        """Proof and floating point agree, and a counterexample was verified in fractions."""
        if self.word == PROVED:
            return self.points > 0 and self.failing == 0
        return self.verified


def ask(p: Proposition) -> Answer:
    """The solver's answer for a statement as it stands."""
    return decide(p.variables, p.assumed(), p.build(p.conclusion))


def is_counterexample(p: Proposition, values: Mapping[str, Fraction]) -> bool:
    """Whether these fractions satisfy every hypothesis and break the conclusion; exact and without the solver."""
    v = p.defined(dict(values))
    return all(true_in_fractions(h(v)) for h in p.hypotheses) and not true_in_fractions(p.conclusion(v))


def is_vacuous(p: Proposition) -> bool:
    """Whether no real numbers satisfy the hypotheses."""
    return decide(p.variables, p.assumed(), lambda v: Atom("<", 0, 0), small=False).word == PROVED


def is_weakest(p: Proposition) -> bool:
    """Whether hypotheses and conclusion together imply the repair, so that nothing weaker mends the statement."""
    assumed = p.assumed(p.conclusion)
    return (
        decide(p.variables, assumed, p.build(p.repair), small=False, for_all=p.repair_for_all).word == PROVED
    )


def unneeded(p: Proposition) -> tuple[str, ...]:
    """The printed hypotheses each of which can be dropped alone without harm."""
    texts = p.hypothesis_texts()
    return tuple(texts[i] for i in range(len(texts)) if ask(p.without(i)).word == PROVED)


def check(p: Proposition) -> Result:
    """Decide one statement, verify the counterexample, test its repair and its hypotheses, and evaluate it.

    Raises:
        UserError: the solver is not installed.
    """
    answer = ask(p)
    verified = answer.model is not None and is_counterexample(p, answer.model)
    word, weakest = answer.word, False
    if word == PROVED and is_vacuous(p):
        word = VACUOUS
    if word == REFUTED and p.repair is not None and ask(p.repaired()).word == PROVED:
        word, weakest = NEEDS, is_weakest(p)
    if p.variables:
        points, failing = evaluate(p, lenient=word == PROVED)
    else:
        points, failing = 1, int(not holds(p.conclusion(p.defined({}))))
    return Result(
        p, word, answer.model, verified, weakest, unneeded(p) if word == PROVED else (), points, failing
    )


def check_induction(item: Induction) -> Result:
    """Decide a statement about any number of channels: first case and step."""
    answers = [ask(item.base), ask(item.step)]
    words = {a.word for a in answers}
    word = PROVED if words == {PROVED} else REFUTED if REFUTED in words else UNDECIDED
    model = next((a.model for a in answers if a.model), None)
    return Result(item, word, model, False, False, (), *evaluate(item))


@lru_cache(maxsize=1)
def check_all() -> tuple[Result, ...]:
    """Every statement of the chapter, in the paper's order; a few seconds.

    Raises:
        UserError: the solver is not installed.
    """
    return tuple(check_induction(s) if isinstance(s, Induction) else check(s) for s in STATEMENTS)


def thirty(results: Sequence[Result] | None = None) -> list[Result]:
    """The thirty numbered statements themselves, without the sentences around them."""
    results = check_all() if results is None else results
    return [r for r in results if r.role == STATEMENT and r.id in THIRTY]


def failing(results: Sequence[Result] | None = None) -> list[Result]:
    """What the paper says around its theorems, or a stricter reading of it, that is not proved as printed; nothing that only this book says."""
    results = check_all() if results is None else results
    return [r for r in results if r.role in KINDS and r.word not in (PROVED, UNDECIDED)]


def uses(statement: str, name: str) -> bool:
    """Whether the statement needs what ``name`` is defined as: it is no longer provable if the name may mean anything."""
    (p,) = [p for p in PROPOSITIONS if p.id == statement]
    return ask(p.freed(name)).word != PROVED


def equations() -> list[str]:
    """Those of the thirty whose conclusion is an equation; the others are inequalities."""
    found = []
    for s in STATEMENTS:
        p = s.step if isinstance(s, Induction) else s
        node = p.conclusion(p.names())
        if s.id in THIRTY and s.role == STATEMENT and isinstance(node, Atom) and node.symbol == "=":
            found.append(s.id)
    return found


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
            "statement": r.id,
            "kind": KINDS.get(r.role, "theorem" if r.role == STATEMENT else "ours"),
            "the paper's words": r.statement.words,
            "formal": _formal(r.statement),
            "result": r.word,
            "counterexample": _set(assignment(r.counterexample)),
            "mended by": _mend(r),
            "hypotheses not needed": "; ".join(map(_set, r.unneeded)),
        }
        for r in results
    ]


def assignment(values: Mapping[str, Fraction] | None) -> str:
    """``a = 1, b = 1/2``; empty where there is no counterexample."""
    return ", ".join(f"{name} = {value}" for name, value in (values or {}).items())


def _formal(s: Proposition | Induction) -> str:
    """Hypotheses, conclusion and definitions as one line."""
    line = " ⟹ ".join(filter(None, ["; ".join(map(_set, s.hypothesis_texts())), _set(s.conclusion_text())]))
    definitions = "; ".join(
        s.definition_texts() if isinstance(s, Induction) else map(_set, s.definition_texts())
    )
    if isinstance(s, Induction):
        return f"{line} ({definitions})"
    return f"{line}, where {definitions}" if definitions else line


def _mend(r: Result) -> str:
    if r.word != NEEDS:
        return ""
    return _set(r.statement.repair_text()) + (" (weakest)" if r.weakest else "")


def _set(formula: str) -> str:
    """A formula for a table, which sets what stands between dollars."""
    return f"${formula}$" if formula else ""


def records(results: Sequence[Result] | None = None) -> dict[str, str | int | bool]:
    """Key to value for the ledger: the word of every statement that it asks about, under the key in the statement's table, and counts over all."""
    results = check_all() if results is None else results
    main, flagged = thirty(results), failing(results)
    readings = sum(r.role == READING for r in flagged)
    mendable = {p.id for p in PROPOSITIONS if p.repair is not None}
    return {r.statement.key: r.word for r in results if r.statement.key is not None} | {
        "theory/thirty": len(main),
        "theory/thirty_proved": sum(r.word == PROVED for r in main),
        "theory/thirty_vacuous": sum(r.word == VACUOUS for r in main),
        "theory/inequalities": len(main) - len(equations()),
        "theory/mended": all(r.word in (NEEDS, PROVED) for r in results if r.id in mendable),
        "theory/flagged_readings": readings,
        "theory/flagged_printed": len(flagged) - readings,
        "theory/undecided": sum(r.word == UNDECIDED for r in results),
        "theory/disagreements": sum(not r.agrees for r in results),
        "theory/V1/uses_gains": uses("V1", "kappa"),
        "theory/A7/uses_rate": uses("A7", "rho2"),
    }
