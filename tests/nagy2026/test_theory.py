"""The thirty theorems as the solver decides them, and that the checks can fail."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy

from iclbook.papers.nagy2026.solver import (
    NEEDS,
    PROVED,
    REFUTED,
    VACUOUS,
    Induction,
    Statement,
    ask,
    check,
    formula,
    is_counterexample,
    read,
    uses,
)
from iclbook.papers.nagy2026.theorem_tables import check_all, failing, records, rows, thirty
from iclbook.papers.nagy2026.theorems import STATEMENTS, THIRTY

OF_NUMBERS = [s for s in STATEMENTS if isinstance(s, Statement)]


def test_the_thirty_are_proved_in_the_papers_order():
    main = thirty(check_all())
    assert tuple(r.statement.id for r in main) == THIRTY
    assert {r.word for r in main} == {PROVED}


def test_what_fails_has_a_counterexample_that_fractions_confirm_and_no_statement_is_left_open():
    assert all(r.verified for r in failing(check_all()))
    assert {r.word for r in check_all()} <= {PROVED, NEEDS, REFUTED}
    assert all(r.word == NEEDS for r in check_all() if r.statement.mend)


def test_the_solver_and_fractions_agree_on_random_points():
    """What is proved holds at random fractions that satisfy the hypotheses, by sympy alone."""
    import random

    rng = random.Random(0)
    tried = 0
    for s in OF_NUMBERS:
        if ask(s)[0] != PROVED or s.some:
            continue
        free = {str(x) for h in (*s.hypotheses, s.conclusion) for x in s.built(h).free_symbols}
        for _ in range(20):
            point = {name: sympy.Rational(rng.randint(-6, 6), 2) for name in free}
            assert not is_counterexample(s, point), (s.id, point)
            tried += 1
    assert tried > 500


@pytest.mark.parametrize(
    "s",
    [s for s in OF_NUMBERS if s.id in ("A3", "A6", "B1", "B3", "B5", "C1", "C2", "D3", "V2", "M3")],
    ids=lambda s: s.id,
)
def test_a_reversed_or_weakened_statement_is_refuted(s):
    assert ask(replace(s, conclusion=f"not ({s.conclusion})"))[0] == REFUTED
    needed = [h for h in s.hypotheses if h not in check(s).unneeded]
    assert all(ask(s.without(h))[0] == REFUTED for h in needed)
    assert needed


def test_formulas_are_read_exactly():
    a, b = sympy.symbols("a b", real=True)
    assert formula("a^2 - b*a/2").subs({a: 3, b: 1}) == sympy.Rational(15, 2)
    assert formula("0 < a and (a = b or not a != 2) implies b <= 1").subs({a: 2, b: 3}) == sympy.false
    assert formula("|a| <= |b|").subs({a: -2, b: 2}) == sympy.true
    with pytest.raises((ValueError, SyntaxError)):
        formula("__import__('os')")


def test_words_for_what_is_vacuous_needs_a_hypothesis_or_is_false():
    vacuous, needs, false, induction = read("""
T1
    nothing satisfies it
    a < 0; 0 < a => a = 1

T2
    a square is positive
    => 0 < a^2
    mend a != 0

T3
    a number is its square
    => a = a^2

T4
    a sum of squares is negative
    says S < 0
    base S = 0 => S < 0
    step S < 0 => S + g^2 < 0
""")
    assert [check(s).word for s in (vacuous, needs, false, induction)] == [VACUOUS, NEEDS, REFUTED, REFUTED]
    assert check(needs).weakest
    assert isinstance(induction, Induction)


def test_v1_and_a7_do_not_use_what_they_define():
    found = records(check_all())
    assert (found["theory/V1/uses_gains"], found["theory/A7/uses_rate"]) == (False, False)
    (b6,) = [s for s in OF_NUMBERS if s.id == "A2"]
    assert uses(b6, "b")


def test_tables_name_counterexample_and_repair():
    (row,) = [r for r in rows(failing(check_all())) if r["statement"] == "V2/window"]
    assert row["result"] == NEEDS
    assert "weakest" in row["mended by"]
    assert "v_o" in row["counterexample"]
