"""The statements of nagy2026: proved or refuted as expected, counterexamples verified without the solver, and every check able to fail."""

from __future__ import annotations

import sys
from dataclasses import replace
from fractions import Fraction as F
from types import SimpleNamespace

import numpy as np
import pytest
from ledgers import ledger

from iclbook.claims import Record, verdict
from iclbook.errors import UserError
from iclbook.papers.nagy2026 import theory
from iclbook.papers.nagy2026.theory import checking, formula, smt
from iclbook.papers.nagy2026.theory.formula import (
    Exists,
    both,
    either,
    eq,
    iff,
    implies,
    le,
    lt,
    ne,
    opposite,
    sq,
)
from iclbook.papers.nagy2026.theory.proposition import Proposition

pytest.importorskip("z3", reason="the solver is not installed")

pytestmark = pytest.mark.xdist_group("solver")  # every statement is checked once

LEDGER = ledger("nagy2026")
PROPOSITIONS = {p.id: p for p in theory.propositions()}


def outcomes() -> dict:
    """What came out, by id; the solver is asked once."""
    return {r.id: r for r in theory.check_all()}


def judge(claim: str, values: dict):
    return verdict(
        LEDGER.claim(f"nagy2026/{claim}"), {k: Record.make(k, v) for k, v in values.items()}, "paper"
    )


@pytest.fixture(scope="module")
def mutations():
    return theory.mutations()


# -- what came out ----------------------------------------------------------------------------------------------------


def test_the_thirty_statements_are_all_there_and_proved():
    main = theory.thirty()
    assert [r.id for r in sorted(main, key=lambda r: theory.THIRTY.index(r.id))] == list(theory.THIRTY)
    assert len(main) == 30
    assert {r.word for r in main} == {"proved"}


#: Sentences that are not proved as printed: exact counterexample found by hand, not by the solver.
BY_HAND = {
    "1/gradient": {"a": 0, "b": 1, "c": 0, "w": 0, "h": 1},
    "1/optimum": {"a": 0, "w": 0, "w_star": 1},
    "A5/strict": {"eta": 2, "a": 1, "b": 0, "c": 0, "w": 1},
    "A7/equivalence": {"eta": F(1, 2), "a": 2},
    "5.2/line": {"m": 1, "c": 1, "x_1": 1, "x_2": 2, "p": 1},
    "B3/strict": {"u": F(1, 2), "v": F(1, 2)},
    "B4/strict": {"u": F(3, 2), "v": F(3, 2)},
    "B6/sentence": {"a": -2, "a_p": 1, "e": 1},
    "B6/own-optimum": {"x_1": 1, "y_1": 0, "x_2": 2, "y_2": 2, "p": 0, "w": 1},
    "B7/tuning": {"x_1": 1, "x_2": 2, "eta": F(1, 10)},
    "D2/optimal-any-sign": {"eta": 0, "a_1": -1, "a_2": 2},
    "D2/balanced-is-optimal": {"eta": 0, "a_1": 1, "a_2": 2},
    "D3/spread": {"a_1": 1, "a_2": 1},
    "fig1b": {"eta": 1, "a_1": F(1, 2), "a_2": F(3, 2)},
    "fig1b/any-step": {"eta": 1, "a_1": 1, "a_2": 3},
    "V2/window": {"v_o": 3, "q_k": 1, "a": 1},
    "V3/exists": {"a_p": 0},
    "V3/attainable": {"a_1": 1, "a_2": 2},
    "M3/residual": {"kappa": 1, "lam_1": 1, "lam_2": 3},
    "MN1/homogeneous": {"c": 2, "g": 1},
    "MN1/triangle": {"g": 1, "h": 1},
}


def test_exactly_these_sentences_are_not_proved():
    assert {r.id for r in outcomes().values() if r.word != "proved"} == set(BY_HAND)


@pytest.mark.parametrize("name", BY_HAND)
def test_counterexample_by_hand_and_by_the_solver(name):
    """Hypotheses true and conclusion false, in plain fractions."""
    result, proposition = outcomes()[name], PROPOSITIONS[name]
    assert result.verified
    assert checking.is_counterexample(proposition, {k: F(x) for k, x in BY_HAND[name].items()})
    assert checking.is_counterexample(proposition, result.counterexample)
    if proposition.repair is not None:
        assert result.word == "needs hypothesis"
        broken = proposition.repaired()
        assert not checking.is_counterexample(broken, result.counterexample)
    else:
        assert result.word == "refuted"


WEAKEST = {
    "1/optimum",
    "A5/strict",
    "A7/equivalence",
    "B3/strict",
    "B4/strict",
    "B6/sentence",
    "B7/tuning",
    "D2/optimal-any-sign",
    "D3/spread",
    "fig1b/any-step",
    "V2/window",
    "V3/exists",
    "V3/attainable",
    "M3/residual",
}


def test_weakest_repairs():
    assert {r.id for r in outcomes().values() if r.weakest} == WEAKEST


def test_a_repair_that_is_too_strong_is_not_called_weakest_and_one_too_weak_mends_nothing():
    p = PROPOSITIONS["B6/sentence"]
    assert not checking.is_weakest(replace(p, repair=lambda v: lt(0, v.a)))
    assert checking.ask(replace(p, repair=lambda v: le(-1, v.a)).repaired()).word == "refuted"
    assert theory.check(replace(p, repair=lambda v: le(-1, v.a))).word == "refuted"


def test_floating_point_and_solver_agree_everywhere():
    assert all(r.agrees for r in outcomes().values())
    assert all(r.points > 200 for r in outcomes().values() if r.id != "B7/tuning-sometimes")
    measure_zero = {"D2/balanced-is-optimal"}  # the points drawn balance by eta (a1 + a2) = 2
    failing = {r.id for r in outcomes().values() if r.failing}
    assert failing == set(BY_HAND) - measure_zero


def test_hypotheses_that_are_not_needed():
    assert {r.id: r.unneeded for r in outcomes().values() if r.unneeded and r.role == "statement"} == {
        "A1": ("0 < η",),
        "A2": ("0 < a",),
        "B1": ("0 ≤ p",),
        "B2": ("p ≤ 1",),
        "B3": ("0 < u",),
        "B4": ("u ≤ 2",),
    }


def test_the_proofs_of_v1_and_a7_use_neither_the_construction_nor_the_rate():
    assert not checking.uses("V1", "kappa")
    assert not checking.uses("A7", "rho2")
    assert checking.uses("A1", "g")
    assert checking.uses("V2", "kappa")


def test_only_what_the_document_says_is_flagged():
    """Statements that only this book makes fail without being counted, and a sentence that failed would be."""
    ours = {"B6/sentence", "D2/optimal-any-sign", "D2/balanced-is-optimal", "fig1b/any-step"}
    assert {r.id for r in theory.failing()} == set(BY_HAND) - ours
    values = theory.theory_records()
    assert values["theory/flagged_printed"] + values["theory/flagged_readings"] == len(BY_HAND) - len(ours)
    broken = [replace(r, word="refuted") if r.id == "A2/vanishes" else r for r in outcomes().values()]
    assert theory.theory_records(broken)["theory/flagged_printed"] == values["theory/flagged_printed"] + 1


def test_equations_among_the_thirty():
    assert theory.equations() == ["A1", "A2", "B7", "D2", "V1", "V3", "M1", "MN3"]


# -- the checks can fail ----------------------------------------------------------------------------------------------


def test_every_reversed_conclusion_is_refuted_and_verified(mutations):
    turned = [m for m in mutations if m.kind == "conclusion reversed"]
    assert len(turned) > 60
    assert [m.of for m in turned if not m.verified] == []


def test_mutations_that_do_no_harm_are_the_known_ones(mutations):
    """Everything else that is dropped is needed: the solver finds a counterexample, and fractions confirm it."""
    harmless = {(m.of, m.what) for m in mutations if m.word != "refuted"}
    assert harmless == {
        ("A1", "0 < η"),
        ("A2", "0 < a"),
        ("A4", "g = a·w − b"),
        ("A5/window", "0 < a"),
        ("A7", "ρ² = (1 − η·a)²"),
        ("B1", "0 ≤ p"),
        ("B2", "p ≤ 1"),
        ("B3", "0 < u"),
        ("B4", "u ≤ 2"),
        ("D2/optimal", "0 < s"),
        ("D2/middle", "0 < a₁"),
        ("D2/middle", "0 < a₂"),
        ("V1", "κ = v_o·q_k"),
        ("V3", "κ = v_o·q_k"),
        ("V3/newton", "κ = v_o·q_k"),
        ("M2/guaranteed", "w_next = w − η·g"),
        ("MN1/root-triangle", "0 ≤ m"),
        ("A7/limit step", "0 ≤ P"),
    }
    assert all(m.verified for m in mutations if m.word == "refuted")
    counts = theory.mutation_records(mutations)
    assert counts["mutations/harmless_hypotheses"] + counts["mutations/harmless_definitions"] == len(harmless)
    assert counts["mutations/harmless_definitions"] == sum("=" in what for _, what in harmless)


@pytest.mark.parametrize(
    ("of", "change", "claim"),
    [
        ("A1", {"conclusion": lambda v: eq(v.eta * (v.b - v.a * v.w), v.eta * v.g)}, "A1"),
        ("A3", {"hypotheses": (lambda v: lt(0, v.eta), lambda v: le(v.eta * v.a, 3))}, "A3"),
        ("A6", {"hypotheses": (lambda v: le(v.eta * v.a, 2),)}, "A6"),
        ("B5", {"hypotheses": (lambda v: le(v.a, v.a_p),)}, "B5"),
        ("C2", {"hypotheses": (lambda v: le(0, v.rho2), lambda v: lt(v.rho2, 1))}, "C2"),
        ("D2", {"hypotheses": (lambda v: eq(v.u - v.v, 2),)}, "D2"),
        ("D3", {"conclusion": lambda v: le(sq(v.a_2 + v.a_1), sq(v.a_2 - v.a_1))}, "D3"),
        ("M1", {"conclusion": lambda v: eq(sq(v.u_1 + v.u_2), sq(v.kappa_1 * v.g_1) + sq(v.kappa_2 * v.g_2))}, "M1"),
        ("M3", {"hypotheses": (lambda v: le(v.lam_1, v.lam_2), lambda v: eq(v.kappa * v.lam_1, 1))}, "M3"),
    ],
)  # fmt: skip
def test_a_mutated_theorem_turns_its_claim_red(monkeypatch, of, change, claim):
    """A flipped sign or a weaker hypothesis in the statement, judged by the real ledger."""
    right = theory.theory_records()
    assert judge(claim, right).word == "reproduced"
    mutated = theory.check(replace(PROPOSITIONS[of], **change))
    assert mutated.word != "proved"
    assert mutated.verified
    results = [mutated if r.id == of else r for r in outcomes().values()]
    wrong = theory.theory_records(results)
    assert judge(claim, wrong).word in {"not reproduced", "partly"}
    assert wrong["theory/thirty_proved"] == 29


@pytest.mark.parametrize("item", theory.INDUCTIONS, ids=lambda i: i.id)
def test_inductions_need_their_case_and_their_step(item):
    """Without its induction hypotheses the step is refuted."""
    assert checking.ask(item.base).word == "proved"
    assert checking.ask(item.step).word == "proved"
    assert checking.ask(item.step.reversed()).word == "refuted"
    bare = replace(item.step, hypotheses=())
    assert checking.ask(bare).word == "refuted"
    broken = checking.check_induction(replace(item, step=bare))
    assert broken.word == "refuted"


def test_vacuous_and_undecided_are_words_that_can_come_out(monkeypatch):
    p = PROPOSITIONS["C1"]
    none = replace(p, hypotheses=(lambda v: lt(v.rho2, 0), lambda v: lt(1, v.rho2)))
    assert theory.check(none).word == "vacuous"
    z3 = smt.solver_module()
    monkeypatch.setattr(z3.Solver, "check", lambda self, *a: z3.unknown)
    assert checking.ask(p).word == "undecided"


def test_without_the_solver_the_library_imports_and_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(UserError, match="z3 is not installed") as problem:
        theory.decide(("x",), lambda v: [], lambda v: le(0, sq(v.x)))
    assert "make setup" in problem.value.mend
    assert theory.recompute_all()


def test_irrational_counterexample_is_not_passed_off_as_rational():
    answer = theory.decide(("x",), lambda v: [eq(sq(v.x), 2)], lambda v: eq(v.x, 0))
    assert answer.word == "refuted"
    assert answer.model is None


# -- one text, four uses ----------------------------------------------------------------------------------------------


def test_text_of_statements():
    assert outcomes()["loss-decrease"].conclusion.endswith("= η·(2 − η·a)·g²")
    assert outcomes()["C1"].conclusion == "(ρ²)² ≤ ρ²"
    assert outcomes()["A7"].definitions == ("ρ² = (1 − η·a)²", "E_next = ρ²·e²")
    assert "there are v_o, q_k with v_o·q_k·a_p = 1" in outcomes()["V3/exists"].conclusion
    assert outcomes()["5.2/general"].hypotheses == ("|1 − v| ≤ |1 − u|",)
    assert formula.label("kappa_1") == "κ₁"
    assert formula.label("g_1'") == "g₁'"


RANDOM = [
    lambda v: both(le(v.x, v.y), ne(v.x, 1)),
    lambda v: either(lt(v.y, v.x), eq(v.x, v.y)),
    lambda v: implies(lt(0, v.x), opposite(le(v.y, -v.x))),
    lambda v: iff(eq(sq(v.x), sq(v.y)), either(eq(v.x, v.y), eq(v.x, -v.y))),
    lambda v: formula.abs_le(v.x - 1, v.y),
    lambda v: Exists(("z",), lambda z: eq(z * v.x, v.y), either(ne(v.x, 0), eq(v.y, 0))),
]


@pytest.mark.parametrize("build", RANDOM)
def test_solver_fractions_and_floats_give_one_truth(build):
    """At fixed numbers all three evaluations agree, the existential one by its exact decision."""
    values = [F(-1), F(0), F(1, 2), F(1), F(2)]
    grid = [(x, y) for x in values for y in values]
    arrays = SimpleNamespace(x=np.array([float(x) for x, _ in grid]), y=np.array([float(y) for _, y in grid]))
    floats = formula.holds(build(arrays))
    for (x, y), from_floats in zip(grid, floats, strict=True):
        exact = formula.true_in_fractions(build(SimpleNamespace(x=x, y=y)))

        def fixed(v, x=x, y=y):
            return [eq(v.x, x), eq(v.y, y)]

        solved = smt.decide(("x", "y"), _as_values(fixed), build).word == "proved"
        assert exact == solved == bool(from_floats)


def _as_values(fixed):
    """Fractions as the solver's own numbers."""
    z3 = smt.solver_module()

    def build(v):
        return [replace(atom, right=z3.RealVal(str(atom.right))) for atom in fixed(v)]

    return build


def test_floats_are_refused_where_exactness_is_meant():
    p = PROPOSITIONS["A3"]
    with pytest.raises(TypeError, match="not exact"):
        checking.is_counterexample(p, {"eta": 0.5, "a": F(1)})


def test_numeric_check_finds_a_false_statement():
    p = Proposition("x", "", "", ("x",), lambda v: le(sq(v.x), 8), ())
    kept, failing = theory.evaluate(p)
    assert 0 < failing < kept


def test_tables_for_the_page():
    rows = theory.statement_rows(theory.thirty())
    assert len(rows) == 30
    assert all(row["result"] == "proved" and row["conclusion"] for row in rows)
    others = theory.statement_rows(theory.sentences())
    assert len(others) + 30 == len(outcomes())
    (tuning,) = [row for row in others if row["statement"] == "B7/tuning"]
    assert tuning["mended by"].endswith("(weakest)")
    assert "=" in tuning["counterexample"]


def test_records_are_known_to_the_ledger_and_judge_the_questions():
    values = theory.theory_records() | theory.mutation_records(theory.mutations())
    for key in values:
        LEDGER.require_key(key)
    result = judge("q-theorems", values)
    assert result.word == "inconsistent"
    failing = {p.key for p in result.parts if not p.holds}
    assert {"theory/A7/equivalence", "theory/B7/tuning", "theory/V1/uses_gains"} <= failing
    assert "theory/thirty_proved" not in failing
    assert judge("A7", values).word == "partly"
    assert judge("MN1", values).word == "partly"
    assert judge("B7", values).word == "partly"
    assert judge("M3", values).reading == "as a factor that is not zero"
    mended = values | {k: "proved" for k, v in values.items() if isinstance(v, str)}
    mended |= {"theory/V1/uses_gains": True, "theory/inequalities": 0}
    assert judge("q-theorems", mended).word == "reproduced"
    assert judge("A7", mended).word == "reproduced"
