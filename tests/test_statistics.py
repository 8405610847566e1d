"""Errors and intervals against hand-counted values, scipy and repeated sampling."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from iclbook.errors import UserError
from iclbook.statistics import (
    bootstrap_error,
    interval,
    ratio_error,
    share_error,
    standard_error,
    t_of_mean,
)

KNOWN = np.array([1.0, 2.0, 3.0, 6.0])  # mean 3, sum of squares 14, so sd^2 = 14/3


def test_standard_error_of_known_values() -> None:
    assert standard_error(KNOWN) == pytest.approx(math.sqrt(14 / 3 / 4), rel=1e-14)
    assert standard_error(np.stack([KNOWN, 2 * KNOWN])) == pytest.approx(
        [math.sqrt(14 / 12), 2 * math.sqrt(14 / 12)]
    )


def test_a_share_is_never_certain() -> None:
    assert share_error(10, 10) == pytest.approx(math.sqrt(12 / 14 * 2 / 14 / 14))
    assert share_error(0, 10) == pytest.approx(share_error(10, 10))
    assert share_error(5000, 10_000) == pytest.approx(0.005, rel=1e-3)


def test_interval_and_t_are_those_of_scipy() -> None:
    low, high = stats.ttest_1samp(KNOWN, 0).confidence_interval(0.95)
    assert interval(KNOWN) == pytest.approx((3.0, low, high))
    assert t_of_mean(KNOWN) == pytest.approx(stats.ttest_1samp(KNOWN, 0).statistic)
    first, second = KNOWN, np.array([0.5, 2.5, 1.0, 4.0])
    assert t_of_mean(first - second) == pytest.approx(stats.ttest_rel(first, second).statistic)


def test_ratio_error_is_the_spread_of_ratios_over_repetitions() -> None:
    rng = np.random.default_rng(0)
    below = 5 + rng.normal(size=(4000, 30))
    above = 2 * below + rng.normal(size=(4000, 30))
    spread = (above.mean(1) / below.mean(1)).std()
    typical = np.mean([ratio_error(a, b) for a, b in zip(above[:200], below[:200], strict=True)])
    assert typical == pytest.approx(
        spread, rel=0.06
    )  # 4000 repetitions: the spread is known to 1.1 %, with 6 % of room
    unpaired = np.hypot(above.std() / above.mean(), below.std() / below.mean()) * 2 / math.sqrt(30)
    assert typical < 0.6 * unpaired, "pairing must count"


def test_bootstrap_of_a_mean_is_its_standard_error() -> None:
    """The bootstrap's variance has n where the sample's has n - 1; 400 resamples know it to 3.5 %."""
    values = np.random.default_rng(1).normal(size=(50, 3))
    expected = values.mean(1).std() / math.sqrt(50)
    assert bootstrap_error(lambda v: float(v.mean()), values) == pytest.approx(expected, rel=0.12)
    assert bootstrap_error(lambda v: float(v.mean()), values[:1]) == 0


def test_bootstrap_of_a_median_is_its_spread_over_repetitions() -> None:
    rng = np.random.default_rng(2)
    spread = np.median(rng.normal(size=(4000, 101)), axis=1).std()
    found = [bootstrap_error(lambda v: float(np.median(v)), rng.normal(size=101)) for _ in range(40)]
    assert np.mean(found) == pytest.approx(spread, rel=0.15)


def test_interval_of_a_chosen_width_and_precision() -> None:
    mean, low, high = interval(KNOWN, half_width=1.96)
    assert (mean - low, high - mean) == pytest.approx([1.96 * math.sqrt(14 / 12)] * 2)
    single = np.array([0.1, 0.2, 0.4], dtype=np.float32)
    assert interval(single, dtype=np.float32).mean == float(single.mean())


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: standard_error(np.array([1.0])), "1 replicates"),
        (lambda: interval(np.array([])), "0 replicates"),
        (lambda: bootstrap_error(np.median, np.array([])), "0 replicates"),
        (lambda: share_error(3, 2), "3 hits of 2"),
        (lambda: share_error(0, 0), "0 hits of 0"),
        (lambda: ratio_error(np.ones(3), np.zeros(3)), "a mean of 0"),
    ],
)
def test_what_has_no_error_is_refused(call, says: str) -> None:
    with pytest.raises(UserError, match=says):
        call()
