"""Errors and intervals against hand-counted values, scipy and repeated sampling."""

import math

import numpy as np
import pytest
from scipy import stats

from iclbook.statistics import (
    Estimate,
    bootstrap_error,
    interval,
    jackknife,
    median_error,
    over_blocks,
    prediction,
    ratio_error,
    run_sd,
    share_error,
    standard_error,
    student,
    t_of_mean,
)

KNOWN = np.array([1.0, 2.0, 3.0, 6.0])  # mean 3, sum of squares 14, so sd^2 = 14/3


def test_a_prediction_interval_holds_the_mean_of_new_replicates_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(size=(4000, 6)), rng.normal(size=(4000, 5)).mean(1)
    ends = np.array([prediction(row, 5)[1:] for row in ours])
    held = np.mean((ends[:, 0] <= theirs) & (theirs <= ends[:, 1]))
    assert abs(held - 0.95) < 3 * math.sqrt(0.95 * 0.05 / 4000)
    half = stats.t.ppf(0.975, 3) * math.sqrt(14 / 3) * math.sqrt(1 / 4 + 1 / 5)
    assert prediction(KNOWN, 5) == pytest.approx((3.0, 3 - half, 3 + half))
    assert prediction(KNOWN, 10**9)[1:] == pytest.approx(interval(KNOWN)[1:])  # a mean without noise of its own


def test_a_share_is_never_certain() -> None:
    assert share_error(10, 10) == pytest.approx(math.sqrt(12 / 14 * 2 / 14 / 14))
    assert share_error(0, 10) == pytest.approx(share_error(10, 10))
    assert share_error(5000, 10_000) == pytest.approx(0.005, rel=1e-3)


def test_two_errors_of_a_mean_are_its_interval() -> None:
    for n, factor in ((2, 6.35), (3, 2.15), (5, 1.39), (400, 1.0)):
        assert student(n) == pytest.approx(factor, abs=0.01)
    mean, low, _ = interval(KNOWN)
    assert Estimate.mean(KNOWN).error == pytest.approx((mean - low) / 2)


def test_a_typical_replicate_is_not_moved_by_an_outlier_and_its_errors_are_wilcoxons_interval() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 40.0])
    found = Estimate.typical(values)
    pairs = sorted((a + b) / 2 for i, a in enumerate(values) for b in values[i:])
    assert found.value == np.median(pairs)
    # of the 128 signs of seven ranks 3 have a sum of 2 or less, 2.3 %: the third smallest and largest pairs are the ends
    assert 4 * found.error == pairs[-3] - pairs[2]
    shifted = Estimate.typical(np.stack([values, np.where(values == 40, 4e6, values)]))
    assert shifted.value[1] < 6
    few = Estimate.typical(values[:5])
    assert (few.value, few.error) == (3, standard_error(values[:5]))


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


def test_estimates_propagate_errors_as_samples_spread():
    """Against Monte Carlo, each operation."""
    rng = np.random.default_rng(0)
    a, b = Estimate(3.0, 0.02), Estimate(-2.0, 0.03)
    x, y = rng.normal(3.0, 0.02, 400_000), rng.normal(-2.0, 0.03, 400_000)
    for found, drawn in (
        (a + b, x + y),
        (a - b, x - y),
        (a * b, x * y),
        (a / b, x / y),
        (1 - a, 1 - x),
        (2 * a, 2 * x),
        (2 / a, 2 / x),
    ):
        assert found.value == pytest.approx(drawn.mean(), rel=1e-3)
        assert found.error == pytest.approx(drawn.std(), rel=1e-2)


def test_errors_over_runs_prompts_and_medians():
    assert run_sd([1.0, 3.0], [5.0, 5.0]) == pytest.approx(1.0), "two of 2 and 0, one degree each"
    assert run_sd([1.0, 3.0], [9.0]) == pytest.approx(np.sqrt(2)), "a single run says nothing"
    values = np.random.default_rng(0).normal(3, 1, 4000)
    assert over_blocks(lambda v: float(v.mean()), values) == pytest.approx(1 / np.sqrt(4000), rel=0.4)
    assert median_error(values) == pytest.approx(np.sqrt(np.pi / 2 / 4000), rel=0.3)
    some = values[:200]
    plain = student(200) * some.std(ddof=1) / np.sqrt(200)
    assert Estimate.of(np.mean, some, jackknife).error == pytest.approx(plain, rel=1e-9)


def test_estimates_of_runs_on_common_prompts():
    """Runs of deviation 1 on prompts of deviation 2: both are seen, and a single run shows the prompts' alone."""
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(40, 1)) + 2 * rng.normal(size=(1, 1000)) + 5
    found = Estimate.crossed(samples)
    assert found.error == pytest.approx(np.hypot(1 / np.sqrt(40), 2 / np.sqrt(1000)), rel=0.2)
    assert Estimate.crossed(samples[:1]).error == pytest.approx(2 / np.sqrt(1000), rel=0.1)
    both = Estimate.stack([found, found.widened(3 * found.error)])
    assert both[1].error == pytest.approx(np.sqrt(10) * both[0].error)
