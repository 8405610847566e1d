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

from . import construction, depth, descent, softmax, sums
from .formula import Atom, holds, lt, true_in_fractions
from .numeric import evaluate
from .proposition import ELSEWHERE, READING, SENTENCE, STATEMENT, Proposition
from .smt import PROVED, REFUTED, UNDECIDED, Answer, decide
from .sums import INDUCTIONS, Induction

BY_INDUCTION = "by induction over d: first case and step"
NEEDS, VACUOUS = "needs hypothesis", "vacuous"
#: What a statement is to the document, in words for a table; what only this book says (``ours``) has none.
KINDS = {SENTENCE: "printed", ELSEWHERE: "printed", READING: "stricter reading"}
#: The document's thirty numbered statements, in its order.
THIRTY = tuple(
    f"{group}{i}"
    for group, count in (("A", 7), ("B", 7), ("C", 4), ("D", 3), ("V", 3), ("M", 3), ("MN", 3))
    for i in range(1, count + 1)
)


@dataclass(frozen=True)
class Result:
    """What came out for one statement; the texts are made from what was checked.

    Attributes:
        word: proved, needs hypothesis, refuted, vacuous or undecided.
        counterexample: exact values; None where it is proved.
        verified: the counterexample was recomputed in fractions, without the solver: hypotheses true, conclusion false.
        repair: the hypothesis that mends it; empty where none is needed or proposed.
        weakest: nothing weaker than the repair would do: hypotheses and conclusion together imply it.
        unneeded: printed hypotheses each of which can be dropped alone.
        points: floating-point points that satisfied the hypotheses.
        failing: those of them at which the conclusion failed.
    """

    id: str
    where: str
    words: str
    role: str
    definitions: tuple[str, ...]
    hypotheses: tuple[str, ...]
    conclusion: str
    word: str
    counterexample: Mapping[str, Fraction] | None
    verified: bool
    repair: str
    weakest: bool
    unneeded: tuple[str, ...]
    points: int
    failing: int

    @property
    def of(self) -> str:
        """The theorem it belongs to."""
        return self.id.partition("/")[0]

    @property
    def example(self) -> str:
        """The counterexample as text."""
        return ", ".join(f"{k} = {v}" for k, v in (self.counterexample or {}).items())

    @property
    def agrees(self) -> bool:
        """Proof and floating point agree, and a counterexample was verified in fractions."""
        if self.word == PROVED:
            return self.points > 0 and self.failing == 0
        return self.verified


def propositions() -> tuple[Proposition, ...]:
    """Every statement that is decided as it stands, in the document's order."""
    modules = (descent, softmax, depth, construction, sums)
    return tuple(p for module in modules for p in module.PROPOSITIONS)


def ask(p: Proposition) -> Answer:
    """The solver's answer for a statement as it stands."""
    return decide(p.variables, p.assumed(), p.build(p.conclusion))


def is_counterexample(p: Proposition, values: Mapping[str, Fraction]) -> bool:
    """Whether these fractions satisfy every hypothesis and break the conclusion; exact and without the solver."""
    v = p.defined(dict(values))
    return all(true_in_fractions(h(v)) for h in p.hypotheses) and not true_in_fractions(p.conclusion(v))


def is_vacuous(p: Proposition) -> bool:
    """Whether no real numbers satisfy the hypotheses."""
    return decide(p.variables, p.assumed(), lambda v: lt(0, 0), small=False).word == PROVED


def is_weakest(p: Proposition) -> bool:
    """Whether hypotheses and conclusion together imply the repair, so that nothing weaker mends the statement."""
    hypotheses, conclusion = p.assumed(), p.build(p.conclusion)

    def both(v):
        return [*hypotheses(v), conclusion(v)]

    return decide(p.variables, both, p.build(p.repair), small=False, for_all=p.repair_for_all).word == PROVED


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
    points, failing = (
        evaluate(p, lenient=word == PROVED)
        if p.variables
        else (1, int(not holds(p.conclusion(p.defined({})))))
    )
    return Result(
        p.id,
        p.where,
        p.words,
        p.role,
        tuple(p.definition_texts()),
        tuple(p.hypothesis_texts()),
        p.conclusion_text(),
        word,
        answer.model,
        verified,
        p.repair_text() if word == NEEDS else "",
        weakest,
        unneeded(p) if word == PROVED else (),
        points,
        failing,
    )


def check_induction(item: Induction) -> Result:
    """Decide a statement about any number of channels: first case and step."""
    answers = [ask(item.base), ask(item.step)]
    words = {a.word for a in answers}
    word = PROVED if words == {PROVED} else REFUTED if REFUTED in words else UNDECIDED
    points, failing = evaluate(item)
    return Result(
        item.id,
        item.where,
        item.words,
        item.role,
        (BY_INDUCTION,),
        item.assumes,
        item.formal,
        word,
        next((a.model for a in answers if a.model), None),
        False,
        "",
        False,
        (),
        points,
        failing,
    )


@lru_cache(maxsize=1)
def check_all() -> tuple[Result, ...]:
    """Every statement of the chapter, in the document's order; a few seconds.

    Raises:
        UserError: the solver is not installed.
    """
    results = [check(p) for p in propositions()] + [check_induction(i) for i in INDUCTIONS]
    order = ("1", "A1", "A2", "loss-decrease", *THIRTY[2:5], "error-recursion", "A6", "A7")
    order += ("B1", "B2", "5.2", "B3", "B4", "B5", "B6", "B7", "C")
    order += (*THIRTY[14:21], "fig1b", *THIRTY[21:])
    return tuple(sorted(results, key=lambda r: order.index(r.of)))


def thirty(results: Sequence[Result] | None = None) -> list[Result]:
    """The thirty numbered statements themselves, without the sentences around them."""
    results = check_all() if results is None else results
    return [r for r in results if r.role == STATEMENT and r.of in THIRTY]


def sentences(results: Sequence[Result] | None = None) -> list[Result]:
    """Everything else: sentences of the theorems' paragraphs, readings of them, and statements of the running text."""
    chosen = thirty(results)
    return [r for r in (check_all() if results is None else results) if r not in chosen]


def failing(results: Sequence[Result] | None = None) -> list[Result]:
    """What the document says around its theorems, or a stricter reading of it, that is not proved as printed; nothing that only this book says."""
    return [r for r in sentences(results) if r.role in KINDS and r.word not in (PROVED, UNDECIDED)]


def uses(statement: str, name: str) -> bool:
    """Whether the statement needs what ``name`` is defined as: it is no longer provable if the name may mean anything."""
    (p,) = [p for p in propositions() if p.id == statement]
    return ask(p.freed(name)).word != PROVED


def equations() -> list[str]:
    """Those of the thirty whose conclusion is an equation; the others are inequalities."""
    found = []
    for p in (*propositions(), *INDUCTIONS):
        if p.role == STATEMENT and p.id in THIRTY:
            q = p.step if isinstance(p, Induction) else p
            node = q.conclusion(q.names())
            if isinstance(node, Atom) and node.symbol == "=":
                found.append(p.id)
    return found


def rows(results: Sequence[Result]) -> list[dict[str, str]]:
    """A table of formal statements: where, words, hypotheses, conclusion, what came out, counterexample, what mends it."""
    return [
        {
            "statement": r.id,
            "kind": KINDS.get(r.role, "theorem" if r.role == STATEMENT else "ours"),
            "the paper's words": r.words,
            "with": "; ".join(r.definitions),
            "hypotheses": "; ".join(r.hypotheses) or "none",
            "conclusion": r.conclusion,
            "formal": " ⟹ ".join(filter(None, ["; ".join(r.hypotheses), r.conclusion]))
            + (f" ({r.definitions[0]})" if r.definitions == (BY_INDUCTION,) else "")
            + (f", where {'; '.join(r.definitions)}" if r.definitions not in ((), (BY_INDUCTION,)) else ""),
            "result": r.word,
            "counterexample": r.example,
            "mended by": r.repair + (" (weakest)" if r.weakest else ""),
            "hypotheses not needed": "; ".join(r.unneeded),
            "floating point": f"{r.failing} of {r.points} fail",
        }
        for r in results
    ]


def records(results: Sequence[Result] | None = None) -> dict[str, str | int | bool]:
    """Key to value for the ledger: the word of every statement, and counts over all of them."""
    results = check_all() if results is None else results
    main = thirty(results)
    values: dict[str, str | int | bool] = {
        f"theory/{r.id}" if "/" in r.id else f"theory/{r.id}/statement": r.word for r in results
    }
    values["theory/thirty"] = len(main)
    values["theory/thirty_proved"] = sum(r.word == PROVED for r in main)
    values["theory/thirty_vacuous"] = sum(r.word == VACUOUS for r in main)
    values["theory/inequalities"] = len(main) - len(equations())
    mendable = {p.id for p in propositions() if p.repair is not None}
    values["theory/mended"] = all(r.word in (NEEDS, PROVED) for r in results if r.id in mendable)
    flagged = failing(results)
    values["theory/flagged_readings"] = sum(r.role == READING for r in flagged)
    values["theory/flagged_printed"] = len(flagged) - values["theory/flagged_readings"]
    values["theory/undecided"] = sum(r.word == UNDECIDED for r in results)
    values["theory/disagreements"] = sum(not r.agrees for r in results)
    values["theory/V1/uses_gains"] = uses("V1", "kappa")
    values["theory/A7/uses_rate"] = uses("A7", "rho2")
    return values
