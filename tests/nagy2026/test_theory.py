"""The thirty theorems as the solver decides them, and that the checks can fail."""

from dataclasses import replace

import pytest
import sympy

from iclbook.errors import UserError
from iclbook.papers.nagy2026.arithmetic import Item, recompute
from iclbook.papers.nagy2026.solver import (
    NEEDS,
    PROVED,
    REFUTED,
    UNDECIDED,
    ask,
    check,
    formula,
    is_counterexample,
    uses,
)
from iclbook.papers.nagy2026.theorems import STATEMENTS, check_all, failing, failing_table, records, thirty

#: The paper's groups of theorems.
GROUPS = {"A": 7, "B": 7, "C": 4, "D": 3, "V": 3, "M": 3, "MN": 3}
OF_NUMBERS = [s for s in STATEMENTS if not s.cases]


def test_the_thirty_are_proved_in_the_papers_order():
    main = thirty()
    assert [r.statement.id for r in main] == [f"{group}{i + 1}" for group, n in GROUPS.items() for i in range(n)]
    assert {r.word for r in main} == {PROVED}


def test_what_fails_has_a_counterexample_that_fractions_confirm_and_no_statement_is_left_open():
    assert all(r.statement.counterexample for r in failing())
    (example,) = (s for s in STATEMENTS if s.id == "V2/window")
    assert check(replace(example, counterexample={"a": 1, "q_k": 1, "v_o": 1})).word == UNDECIDED  # it is none
    assert {r.word for r in check_all()} <= {PROVED, NEEDS, REFUTED}
    assert all(r.word == NEEDS for r in check_all() if r.statement.hypothesis)


def test_the_solver_and_fractions_agree_on_random_points():
    """What is proved holds at random fractions that satisfy the hypotheses, by sympy alone."""
    import random

    rng = random.Random(0)
    tried = 0
    for s in OF_NUMBERS:
        if ask(s) != PROVED or s.some:
            continue
        for _ in range(20):
            point = {name: sympy.Rational(rng.randint(-6, 6), 2) for name in s.names}
            assert not is_counterexample(s, point), (s.id, point)
            tried += 1
    assert tried > 500


@pytest.mark.parametrize(
    "s",
    [s for s in OF_NUMBERS if s.id in ("A3", "A6", "B1", "B3", "B5", "C1", "C2", "D3", "V2", "M3")],
    ids=lambda s: s.id,
)
def test_a_reversed_or_weakened_statement_is_refuted(s):
    assert ask(replace(s, then=f"not ({s.then})")) == REFUTED
    needed = [h for h in s.given if h not in check(s).unneeded]
    assert all(ask(s.without(h)) == REFUTED for h in needed)
    assert needed


def test_v1_and_a7_do_not_use_what_they_define():
    found = records()
    assert (found["theory/V1/uses_gains"], found["theory/A7/uses_rate"]) == (False, False)
    (a2,) = [s for s in OF_NUMBERS if s.id == "A2"]
    assert uses(a2, "b")


def test_tables_name_counterexample_and_repair():
    (row,) = [r for r in failing_table().rows if r["statement"] == "V2/window"]
    assert row["result"] == NEEDS
    assert "weakest" in row["added"]
    assert "v_o" in row["counterexample"]


HOSTILE = ["__import__('os')", "().__class__", "open", "[a for a in a]", "9**9**9**9", "(" * 100 + "a" + ")" * 100]
HOSTILE += ["(1,)*9", "(lambda: a)()", "a" * 201, "'a'*9", f"{'(' * 9}9{'**64)' * 9}"]


@pytest.mark.parametrize("written", HOSTILE, ids=range(len(HOSTILE)))
def test_a_formula_that_is_more_than_arithmetic_is_refused(written):
    with pytest.raises(UserError, match=r"expression"):
        formula(written, sympy, {"a": 1})
    with pytest.raises(UserError, match=r"expression"):
        recompute(Item("x/y", "", "", written, "1", "1"))


def test_numbers_that_would_fill_the_memory_are_refused():
    with pytest.raises(UserError, match="no fraction"):
        is_counterexample(STATEMENTS[0], {"a": "1e999999999"})
    with pytest.raises(ValueError, match="no printed number"):
        Item("x/y", "", "", "a", "1e999999999", "1")
