"""The statements of nagy2026: proved or refuted as expected, counterexamples verified without the solver, and every check able to fail."""

from __future__ import annotations

import sys
from dataclasses import replace
from fractions import Fraction as F
from types import SimpleNamespace

import numpy as np
import pytest
from ledgers import ledger
from nagy2026.kit import judge

from iclbook.errors import UserError
from iclbook.papers.nagy2026.theory import alike, arithmetic, checking, notation, numeric, smt
from iclbook.papers.nagy2026.theory import mutations as breaking
from iclbook.papers.nagy2026.theory.formula import Atom, holds, label, true_in_fractions
from iclbook.papers.nagy2026.theory.notation import formula, formulas
from iclbook.papers.nagy2026.theory.proposition import Induction, Proposition

pytest.importorskip("z3", reason="the solver is not installed")

pytestmark = pytest.mark.xdist_group("solver")  # every statement is checked once

LEDGER = ledger("nagy2026")
PROPOSITIONS = {p.id: p for p in checking.PROPOSITIONS}
INDUCTIONS = [s for s in checking.STATEMENTS if isinstance(s, Induction)]


def outcomes() -> dict:
    """What came out, by id; the solver is asked once."""
    return {r.id: r for r in checking.check_all()}


@pytest.fixture(scope="module")
def mutations():
    return breaking.mutations()


# -- what came out ----------------------------------------------------------------------------------------------------


def test_the_thirty_statements_are_all_there_and_proved():
    main = checking.thirty()
    assert [r.id for r in sorted(main, key=lambda r: checking.THIRTY.index(r.id))] == list(checking.THIRTY)
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
    "D3/rate": {"a_1": 0, "a_2": 0, "r": 2},
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
    assert not checking.is_weakest(replace(p, repair=formula("0 < a")))
    assert checking.ask(replace(p, repair=formula("-1 <= a")).repaired()).word == "refuted"
    assert checking.check(replace(p, repair=formula("-1 <= a"))).word == "refuted"


def test_floating_point_and_solver_agree_everywhere():
    assert all(r.agrees for r in outcomes().values())
    assert all(r.points > 200 for r in outcomes().values() if r.id != "B7/tuning-sometimes")
    # the points drawn balance by eta (a1 + a2) = 2, and have no curvature of exactly 0
    measure_zero = {"D2/balanced-is-optimal", "D3/rate"}
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
    assert {r.id for r in checking.failing()} == set(BY_HAND) - ours
    values = checking.records()
    assert values["theory/flagged_printed"] + values["theory/flagged_readings"] == len(BY_HAND) - len(ours)
    broken = [replace(r, word="refuted") if r.id == "A2/vanishes" else r for r in outcomes().values()]
    assert checking.records(broken)["theory/flagged_printed"] == values["theory/flagged_printed"] + 1


def test_equations_among_the_thirty():
    assert checking.equations() == ["A1", "A2", "B7", "D2", "V1", "V3", "M1", "MN3"]


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
    counts = breaking.records(mutations)
    assert counts["mutations/harmless_hypotheses"] + counts["mutations/harmless_definitions"] == len(harmless)
    assert counts["mutations/harmless_definitions"] == sum("=" in what for _, what in harmless)


@pytest.mark.parametrize(
    ("of", "change", "claim"),
    [
        ("A1", {"conclusion": formula("eta*(b - a*w) = eta*g")}, "A1"),
        ("A3", {"hypotheses": formulas("0 < eta; eta*a <= 3")}, "A3"),
        ("A6", {"hypotheses": formulas("eta*a <= 2")}, "A6"),
        ("B5", {"hypotheses": formulas("a <= a_p")}, "B5"),
        ("C2", {"hypotheses": formulas("0 <= rho2; rho2 < 1")}, "C2"),
        ("D2", {"hypotheses": formulas("u - v = 2")}, "D2"),
        ("D3", {"conclusion": formula("(a_2 + a_1)^2 <= (a_2 - a_1)^2")}, "D3"),
        ("M1", {"conclusion": formula("(u_1 + u_2)^2 = (kappa_1*g_1)^2 + (kappa_2*g_2)^2")}, "M1"),
        ("M3", {"hypotheses": formulas("lam_1 <= lam_2; kappa*lam_1 = 1")}, "M3"),
    ],
)  # fmt: skip
def test_a_mutated_theorem_turns_its_claim_red(monkeypatch, of, change, claim):
    """A flipped sign or a weaker hypothesis in the statement, judged by the real ledger."""
    right = checking.records()
    before = {p.key for p in judge(claim, right).parts if p.holds}
    assert f"theory/{of}/statement" in before
    mutated = checking.check(replace(PROPOSITIONS[of], **change))
    assert mutated.word != "proved"
    assert mutated.verified
    results = [mutated if r.id == of else r for r in outcomes().values()]
    wrong = checking.records(results)
    assert judge(claim, wrong).word in {"not reproduced", "partly"}
    assert {p.key for p in judge(claim, wrong).parts if p.holds} == before - {f"theory/{of}/statement"}
    assert wrong["theory/thirty_proved"] == 29


@pytest.mark.parametrize("item", INDUCTIONS, ids=lambda i: i.id)
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
    none = replace(p, hypotheses=formulas("rho2 < 0; 1 < rho2"))
    assert checking.check(none).word == "vacuous"
    z3 = smt.solver_module()
    monkeypatch.setattr(z3.Solver, "check", lambda self, *a: z3.unknown)
    assert checking.ask(p).word == "undecided"


def test_without_the_solver_the_library_imports_and_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(UserError, match="z3 is not installed") as problem:
        smt.decide(("x",), lambda v: [], formula("0 <= x^2"))
    assert "make setup" in problem.value.mend
    assert arithmetic.recompute_all()


def test_irrational_counterexample_is_not_passed_off_as_rational():
    answer = smt.decide(("x",), lambda v: [formula("x^2 = 2")(v)], formula("x = 0"))
    assert answer.word == "refuted"
    assert answer.model is None


# -- one text, four uses ----------------------------------------------------------------------------------------------


def _text(name: str) -> str:
    return PROPOSITIONS[name].conclusion_text()


def test_text_of_statements():
    assert _text("loss-decrease").endswith("= η·(2 − η·a)·g²")
    assert _text("C1") == "(ρ²)² ≤ ρ²"
    assert PROPOSITIONS["A7"].definition_texts() == ["ρ² = (1 − η·a)²", "E_next = ρ²·e²"]
    assert "there are v_o, q_k with v_o·q_k·a_p = 1" in _text("V3/exists")
    assert PROPOSITIONS["5.2/general"].hypothesis_texts() == ["|1 − v| ≤ |1 − u|"]
    assert label("kappa_1") == "κ₁"
    assert label("g_1'") == "g₁'"


def test_formulas_are_read_as_they_are_written():
    """Against Python's own arithmetic, at random numbers; precedence, primes, powers and absolute values included."""
    numbers = np.random.default_rng(5).uniform(-2, 2, (200, 3))
    pairs = [
        ("a - b*w^2", lambda a, b, w: a - b * w**2),
        ("-(a*b) + 2*w", lambda a, b, w: -(a * b) + 2 * w),
        ("(a - (b - w))/4", lambda a, b, w: (a - (b - w)) / 4),
    ]
    for written, right in pairs:
        for a, b, w in numbers:
            assert formula(written)(SimpleNamespace(a=a, b=b, w=w)) == pytest.approx(
                right(a, b, w), abs=1e-12
            )
    relations = [
        ("a <= b and not (b < w) or a != a", lambda a, b, w: a <= b and not b < w),
        ("a < b implies |w - a| <= |b|", lambda a, b, w: not a < b or abs(w - a) <= abs(b)),
        ("a < 0 iff b < 0", lambda a, b, w: (a < 0) == (b < 0)),
    ]
    for written, right in relations:
        truths = [bool(holds(formula(written)(SimpleNamespace(a=a, b=b, w=w)))) for a, b, w in numbers]
        assert truths == [right(a, b, w) for a, b, w in numbers]
        assert 0 < sum(truths) < len(truths)
    assert formula("g_1' = 2")(SimpleNamespace(**{"g_1'": 7})) == Atom("=", 7, 2)


@pytest.mark.parametrize(
    "wrong", ["open('x')", "a.b < 1", "a if b else a", "a >= b", "[a]", "a < b < 1", '"a"']
)
def test_only_polynomials_and_comparisons_are_formulas(wrong):
    """Nothing in a table is executed."""
    with pytest.raises((ValueError, SyntaxError)):
        formula(wrong)


def test_a_statement_has_all_that_its_block_says():
    (p,) = notation.read(
        """
# a comment
"theory/X/part" reading
    the words
    with s = a_1 + a_2
    0 < eta; s != 0 => z*s = eta
    some z exactly when s != 0
    mend a_2 < 1 for all eta
    draw eta = 1/a_1
"""
    )
    assert (p.id, p.key, p.role, p.words) == ("X/part", "theory/X/part", "reading", "the words")
    assert p.variables == ("a_1", "a_2", "eta")
    assert p.hypothesis_texts() == ["0 < η", "s ≠ 0"]
    assert p.conclusion_text() == "there are z with z·s = η"
    assert p.definition_texts() == ["s = a₁ + a₂"]
    assert (p.repair_text(), p.repair_for_all) == ("a₂ < 1", ("eta",))
    assert p.given["eta"](SimpleNamespace(a_1=4)) == 0.25


RANDOM = [
    formula("x <= y and x != 1"),
    formula("y < x or x = y"),
    formula("0 < x implies not (y <= -x)"),
    formula("x^2 = y^2 iff x = y or x = -y"),
    formula("|x - 1| <= |y|"),
    notation.read("it\n    words\n    => z*x = y\n    some z exactly when x != 0 or y = 0")[0].conclusion,
]


@pytest.mark.parametrize("build", RANDOM)
def test_solver_fractions_and_floats_give_one_truth(build):
    """At fixed numbers all three evaluations agree, the existential one by its exact decision."""
    values = [F(-1), F(0), F(1, 2), F(1), F(2)]
    grid = [(x, y) for x in values for y in values]
    arrays = SimpleNamespace(x=np.array([float(x) for x, _ in grid]), y=np.array([float(y) for _, y in grid]))
    floats = holds(build(arrays))
    for (x, y), from_floats in zip(grid, floats, strict=True):
        exact = true_in_fractions(build(SimpleNamespace(x=x, y=y)))

        def fixed(v, x=x, y=y):
            return [Atom("=", v.x, x), Atom("=", v.y, y)]

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
    p = Proposition("x", "", ("x",), formula("x^2 <= 8"))
    kept, failing = numeric.evaluate(p)
    assert 0 < failing < kept


def test_tables_for_the_page():
    rows = checking.rows(checking.thirty())
    assert len(rows) == 30
    assert all(row["result"] == "proved" and row["formal"] for row in rows)
    every = checking.rows(checking.check_all())
    assert len(every) == len(outcomes())
    (tuning,) = [row for row in every if row["statement"] == "B7/tuning"]
    assert tuning["mended by"].endswith("(weakest)")
    assert "=" in tuning["counterexample"]


#: What is printed around these theorems is its own only reading: no looser one rescues it.
PRINTED_ONLY = {
    "B3": ["theory/B3/strict"],
    "B4": ["theory/B4/strict"],
    "D3": ["theory/D3/rate", "theory/D3/spread"],
    "M3": ["theory/M3/residual"],
    "V2": ["theory/V2/window"],
}


def test_a_ratio_at_zero_curvature_is_no_number():
    """With a_1 + a_2 > 0 the rate is at most 1; at 0/0 nothing is said, and any number passes for it."""
    p = PROPOSITIONS["D3/rate"]
    assert checking.ask(replace(p, repair=formula("0 <= s")).repaired()).word == "refuted"
    assert checking.ask(p.repaired()).word == "proved"


def toy(of: str, hypotheses: str, conclusion: str):
    names = sorted(set("abcxyzuv") & set(hypotheses + conclusion))
    return Proposition(of, "", tuple(names), formula(conclusion), formulas(hypotheses))


def test_statements_that_are_alike_are_found_by_machine():
    statements = [
        toy("one", "0 <= a; a <= b", "a^2 <= b^2"),
        toy("renamed", "x <= y; 0 <= x", "x^2 <= y^2"),
        toy("other", "0 <= x; y <= x", "x^2 <= y^2"),
        toy("linear", "a <= b; b <= c", "a <= c"),
        toy("squares", "x^2 <= y^2; y^2 <= z^2", "x^2 <= z^2"),
        toy("identity", "", "a*(b - c) = -(a*(c - b))"),
        toy("another identity", "", "a*(b + c) = a*b + a*c"),
    ]
    assert alike.equal_pairs(statements) == [("one", "renamed")]
    assert alike.cases(statements) == [("squares", "linear")]
    found = alike.alike_records(statements)
    assert (found["theory/distinct"], found["theory/bare"]) == (28, 2)
    assert alike.core(toy("x", "0 <= a; 0 <= b; a <= b", "a <= b")).hypothesis_texts() == ["a ≤ b"]
    assert alike.core(toy("x", "a = b; 0 <= u", "a^2 = b^2")).hypothesis_texts() == ["a = b"]


def test_which_of_the_thirty_are_alike_or_assume_nothing():
    found = alike.alike_records()
    assert found["theory/equal"] == "A1 = V1; A7 = C3"
    assert found["theory/cases"] == "M2 of D1"
    assert found["theory/distinct"] == 27
    assert found["theory/bare_list"] == "A1, A2, A4, V1, M1"
    for key in found:
        LEDGER.require_key(key)


def test_records_are_known_to_the_ledger_and_judge_the_questions():
    values = checking.records() | breaking.records(breaking.mutations())
    for key in values:
        LEDGER.require_key(key)
    result = judge("q-theorems", values)
    assert result.word == "no"
    failing = {p.key for p in result.parts if not p.holds}
    assert {"theory/A7/equivalence", "theory/B7/tuning", "theory/V1/uses_gains"} <= failing
    assert "theory/thirty_proved" not in failing
    assert judge("A7", values).word == "partly"
    assert judge("MN1", values).word == "partly"
    assert judge("B7", values).word == "partly"
    fails = {claim: [p.key for p in judge(claim, values).parts if not p.holds] for claim in PRINTED_ONLY}
    assert fails == PRINTED_ONLY
    assert {judge(claim, values).word for claim in PRINTED_ONLY} == {"partly"}
    mended = values | {k: "proved" for k, v in values.items() if isinstance(v, str)}
    mended |= {"theory/V1/uses_gains": True, "theory/inequalities": 0}
    assert judge("q-theorems", mended).word == "yes"
    assert judge("A7", mended).word == "reproduced"
