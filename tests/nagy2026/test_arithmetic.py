"""Printed numbers against what follows from their neighbours."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from scipy import stats

from iclbook.papers.nagy2026 import arithmetic, probe_statistics, rounding
from iclbook.papers.nagy2026.rounding import Each, Item, Within, recompute


@pytest.mark.parametrize(
    ("printed", "ends"),
    [
        ("0.184", (F("0.1835"), F("0.1845"))),
        ("19", (F("18.5"), F("19.5"))),
        (19, (19, 19)),
        ("-3.9", (F("-3.95"), F("-3.85"))),
    ],
)
def test_a_printed_number_stands_for_all_that_round_to_it(printed, ends):
    assert rounding.box(printed) == ends


def test_a_number_follows_if_some_rounding_of_its_neighbours_leads_to_it():
    def item(expects):
        return Item("x/y", "", expects, "", rounding.falls, ("0.184", "0.061"))

    assert recompute(item("67.1")).follows
    assert recompute(item("66.9")).follows  # 1 - .0605/.1835 ... .0615/.1835
    assert not recompute(item("69")).follows
    assert not recompute(Item("x/y", "", Within("0", None, strict=True), "", rounding.rises, (1, 1))).follows


def test_one_changed_number_is_found():
    (gain,) = [i for i in arithmetic.ITEMS if i.id == "9.5/gain"]
    assert recompute(gain).follows
    from dataclasses import replace

    assert not recompute(replace(gain, inputs=("0.184", "0.071"))).follows


def test_the_penalty_does_not_follow_and_the_fall_of_the_error_does():
    found = {r.item.id: r for r in arithmetic.recompute_all()}
    assert not found["arithmetic/9.5.1/penalty"].follows
    assert found["9.5.1/reduction"].follows
    assert found["9.5.1/reduction"].values == pytest.approx([28.5, 20.1, 4.6], abs=0.1)


def test_tests_agree_with_scipy():
    assert rounding.p_of_r(0.43, 10) == pytest.approx(2 * stats.t.sf(0.43 * np.sqrt(8 / (1 - 0.43**2)), 8))
    (p,) = rounding.p_of_six_seeds(*map(F, ("0.604", "0.087", "0.533", "0.091")))
    se = np.sqrt((0.087**2 + 0.091**2) / 6)
    df = se**4 / (((0.087**2 / 6) ** 2 + (0.091**2 / 6) ** 2) / 5)
    assert p == pytest.approx(2 * stats.t.sf(0.071 / se, df))
    x = np.arange(7.0)
    y = np.array([0, 1, 2, 3, 4, 6, 5.0])
    exact = stats.permutation_test(
        (x,), lambda a: stats.spearmanr(a, y).statistic, permutation_type="pairings", n_resamples=np.inf
    ).pvalue
    assert probe_statistics.spearman_exact_p(stats.spearmanr(x, y).statistic, 7) == pytest.approx(exact)


def test_groups_and_better_assignments():
    assert Each(2, lambda a, b: a - b)(5, 3, 2, 1) == (2, 1)
    assert rounding.better_assignments(1, 1, 2, 2, 3, 3) == 0
    assert rounding.better_assignments(1, 2, 2, 1, 3, 3) > 0
