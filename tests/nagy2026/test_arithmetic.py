"""Printed numbers against what follows from their neighbours."""

from fractions import Fraction as F

import numpy as np
import pytest
from scipy import stats

from iclbook.papers.nagy2026 import arithmetic, probe_statistics
from iclbook.papers.nagy2026.arithmetic import Item, recompute


@pytest.mark.parametrize(
    ("printed", "ends"),
    [("0.184", (F("0.1835"), F("0.1845"))), ("19", (F("18.5"), F("19.5"))), ("-3.9", (F("-3.95"), F("-3.85")))],
)
def test_a_printed_number_stands_for_all_that_round_to_it(printed, ends):
    assert arithmetic.box(printed) == ends


def test_a_number_follows_if_some_rounding_of_its_neighbours_leads_to_it():
    def item(expects):
        return Item("x/y", "", "", "100*(1 - b/a)", "0.184 0.061", expects)

    assert recompute(item("67.1")).follows
    assert recompute(item("66.9")).follows  # 1 - .0605/.1835 ... .0615/.1835
    assert not recompute(item("69")).follows
    assert not recompute(Item("x/y", "", "", "b - a", "1 1", above="0")).follows
    assert recompute(Item("x/y", "", "", "b - a", "1 1", at_least="0", at_most="0")).follows  # a whole number is exact


def test_the_penalty_does_not_follow_and_the_fall_of_the_error_does():
    found = {r.item.id: r for r in arithmetic.recompute_all()}
    assert not found["9.5.1/penalty"].follows
    assert found["9.5.1/reduction"].follows
    assert found["9.5.1/reduction"].values == pytest.approx([28.5, 20.1, 4.6], abs=0.1)


def test_tests_agree_with_scipy():
    assert arithmetic.p_of_r(0.43, 10) == pytest.approx(2 * stats.t.sf(0.43 * np.sqrt(8 / (1 - 0.43**2)), 8))
    p = arithmetic.welch_p_of_six(*map(F, ("0.604", "0.087", "0.533", "0.091")))
    se = np.sqrt((0.087**2 + 0.091**2) / 6)
    df = se**4 / (((0.087**2 / 6) ** 2 + (0.091**2 / 6) ** 2) / 5)
    assert p == pytest.approx(2 * stats.t.sf(0.071 / se, df))
    x = np.arange(7.0)
    y = np.array([0, 1, 2, 3, 4, 6, 5.0])
    exact = stats.permutation_test(
        (x,), lambda a: stats.spearmanr(a, y).statistic, permutation_type="pairings", n_resamples=np.inf
    ).pvalue
    assert probe_statistics.spearman_exact_p(stats.spearmanr(x, y).statistic, 7) == pytest.approx(exact)


def test_groups_series_and_better_assignments():
    assert recompute(Item("x/y", "", "", "a - b", "5 3 2 1", "2 1")).values == (2, 1)
    assert Item("x/y", "", "", "a - b", "depth full", "0").given[:3] == ("0.604", "0.432", "1.824")
    assert arithmetic.better_assignments((1, 2, 3), (1, 2, 3)) == 0
    assert arithmetic.better_assignments((1, 2, 3), (2, 1, 3)) > 0
