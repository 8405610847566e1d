"""The records of he2025 on runs whose right records are known by hand, and the standard errors beside them: patterns, census, noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from he2025.circuits_kit import heads, pairs, still, synthetic

from iclbook.models import Attention
from iclbook.papers.he2025 import theory
from iclbook.papers.he2025.measures import census, noise, patterns, sampling
from iclbook.papers.he2025.measures.circuits import Heads, read_counts, read_heads, with_both_signs
from iclbook.papers.he2025.runs.descent import PATTERNS
from iclbook.statistics import share_error
from iclbook.store import Results
from iclbook.tasks import LinearRegression
from iclbook.training import Group, Run
from iclbook.training.study import Study

# -- standard errors --------------------------------------------------------------------------------------------------


def test_the_deviation_of_a_run_is_pooled_over_groups_and_entries():
    assert sampling.run_sd([1.0, 3.0]) == pytest.approx(np.sqrt(2))
    assert sampling.run_sd([1.0, 3.0], [5.0, 5.0]) == pytest.approx(1.0), "two of 2 and 0, one degree each"
    assert sampling.run_sd([1.0, 3.0], [9.0]) == pytest.approx(np.sqrt(2)), "a single run says nothing"
    assert sampling.run_sd([[1.0, 0.0], [3.0, 0.0]]) == pytest.approx(1.0), "runs are the first axis"
    assert sampling.run_sd([4.0]) == 0.0


def test_the_error_of_a_ratio_of_means_counts_both_sides():
    above, below = np.array([3.0, 5.0]), np.array([1.0, 3.0])  # 4 +- 1 over 2 +- 1
    assert sampling.ratio_of_means_error(above, below) == pytest.approx(2 * np.hypot(1 / 4, 1 / 2))
    assert sampling.ratio_of_means_error(above, below[:1]) == pytest.approx(1.0), (
        "4 +- 1 over 1, a single run"
    )
    middle = np.array([2.9, 3.1])
    found = sampling.extremes_error([below, middle, above])
    assert found == pytest.approx(2 * np.hypot(1 / 4, 1 / 2)), "the middle one counts for nothing"


def test_errors_from_blocks_medians_and_leaving_out_are_those_of_theory():
    values = np.random.default_rng(0).normal(3, 1, 4000)
    assert sampling.over_blocks(lambda v: float(v.mean()), values) == pytest.approx(
        1 / np.sqrt(4000), rel=0.4
    )
    assert sampling.median_error(values) == pytest.approx(np.sqrt(np.pi / 2 / 4000), rel=0.3)
    some = values[:200]
    plain = some.std(ddof=1) / np.sqrt(200)
    assert sampling.jackknife(lambda v: float(v.mean()), some) == pytest.approx(plain, rel=1e-9)


# -- patterns ---------------------------------------------------------------------------------------------------------


def test_ineffective_entries_change_nothing_and_the_others_do():
    dice = torch.Generator().manual_seed(1)
    example = patterns.example(3, 8, dice, prompts=16)
    found = patterns.effective_entries(example, dice)
    assert found["fig1/ineffective_change"] == 0.0
    assert found["fig1/effective_change"] > 0.01
    assert example.change(slice(0, 1), slice(0, 0), dice) > 0, "one effective column alone"


def test_two_heads_one_value_a_run():
    text = still([[0.2, -0.1], [0.1, 0.1]], [[2.0, -1.0], [1.0, -1.0]])
    found = patterns.two_heads(text, pairs([0.3]))
    np.testing.assert_allclose(found["fig2.2/text/omega_product"], [-0.02, 0.01])
    np.testing.assert_allclose(found["fig2.2/text/omega_mu"], [0.4, 0.1, 0.1, -0.1])
    np.testing.assert_allclose(found["fig2.2/text/omega_spread"], [0.5, 0.0], atol=1e-12)
    np.testing.assert_allclose(found["fig2.2/text/mu_spread"], [0.5, 0.0], atol=1e-12)
    np.testing.assert_allclose(found["fig2.2/code/omega_product"], [-0.09])


def test_asymmetry_is_the_worst_after_the_first_tenth():
    omega = np.array(
        [[[1.0, 0.0]], [[0.3, -0.1]], [[0.2, -0.2]]]
    )  # wholly one-sided at step 0, which is not asked
    h = heads(omega, omega, steps=[0, 10, 100])
    assert patterns.asymmetry(h, h.omega) == [pytest.approx(0.2 / 0.2)]
    h = heads(omega, omega, steps=[0, 9, 100])
    assert patterns.asymmetry(h, h.omega) == [pytest.approx(0.0, abs=1e-12)]


def test_a_pattern_counts_from_when_it_is_kept():
    h = pairs([0.1, 0.2])
    deviation = np.zeros((5, 2, 2))
    deviation[[0, 2], 0, 1] = 0.3  # run 0 loses its pattern once more at the third record
    deviation[-1, 1, 0] = 0.3  # run 1 ends without
    broad = (np.broadcast_to(v[-1], (5, *v.shape[1:])) for v in (h.omega, h.mu))
    h = Heads(np.array([0, 10, 20, 30, 100]), *broad, deviation, np.zeros_like(deviation))
    assert patterns.pattern_share(h) == [0.3, 1.0]
    found = patterns.finding_4({2: h}, pairs([0.1, 0.1, 0.2]))
    assert found["kf4/pattern_share"] == 1.0
    assert found["kf4/gamma_cv"] == pytest.approx(np.std([0.1, 0.1, 0.2]) / np.mean([0.1, 0.1, 0.2]))


def test_finding_4_asks_every_run():
    """gamma 0.1, 0.4, 0.2 and a sum of positive mu of 1, 3, 2; beside it a run that stands still."""
    gamma, mu = np.array([[0.1, 0.1], [0.4, 0.1], [0.2, 0.1]]), np.array([[1.0, 1.0], [3.0, 1.0], [2.0, 1.0]])
    signs = np.array([1.0, -1.0])
    found = patterns.finding_4({2: heads(gamma[..., None] * signs, mu[..., None] * signs)}, pairs([0.1, 0.2]))
    np.testing.assert_allclose(found["kf4/peak_over_final"], [2.0, 1.0])
    np.testing.assert_allclose(found["kf4/mu_fall"], [0.5, 0.0])
    assert found["kf4/mu_fall_sd"] == pytest.approx(0.5 / np.sqrt(2))


def stored_runs(**groups: dict) -> Results:
    """Results whose groups are these."""
    arrays = {f"{name}/{key}": array for name, group in groups.items() for key, array in group.items()}
    return Results(arrays, {"device": "cpu", "seconds": 60.0})


def test_runs_of_one_sign_are_left_out_of_pairs_and_counted():
    """Of three runs of two heads the second has one sign; a lone head and heads that are no pair stay; without any pair all stay."""
    three = synthetic(
        [[[0.1, -0.1], [0.5, 0.4], [0.2, -0.2]]] * 3, [[[1.0, -1.0], [1.0, 1.0], [2.0, -2.0]]] * 3
    )
    three |= {"error": np.array([[1.0, 9.0, 3.0]]), "lengths": np.array([40])}
    none = synthetic([[[0.1, 0.1], [0.2, 0.2]]] * 3, [[[1.0, 1.0], [1.0, 1.0]]] * 3)
    one, affine = synthetic([[[0.3], [0.4]]] * 3, [[[1.0], [1.0]]] * 3), dict(none)
    results = stored_runs(h1=one, h2=three, code_h2=none, affine=affine)
    paired = with_both_signs(results)
    np.testing.assert_allclose(paired["h2/error"], [[1.0, 3.0]])
    np.testing.assert_allclose(read_heads(paired.group("h2")).omega[-1], [[0.1, -0.1], [0.2, -0.2]])
    assert paired["h2/lengths"].tolist() == [40]
    for name in ("h1", "code_h2", "affine"):
        np.testing.assert_array_equal(paired[f"{name}/kq"], results[f"{name}/kq"])
    assert results["h2/error"].shape == (1, 3), "the results themselves stay as they are"
    printed, coded = read_counts(paired, d=5)
    assert (list(printed), list(coded)) == ([1, 2], [2])
    np.testing.assert_allclose(coded[2].omega[-1, 0], np.array([0.1, 0.1]) / np.sqrt(6))
    both = {f"h{h}": three if h == 2 else none for h in (2, 3, 4)}
    both |= {f"code_h{h}": three if h == 3 else none for h in (2, 3, 4)}
    study = Study("he2025", "tiny", LinearRegression(), (Group("h2", Attention, {"d": 5}, (Run(0),)),), 2)
    found = patterns.run_records(stored_runs(**both), study)
    assert (found["runs/both_signs"], found["runs/both_signs_coded"]) == ([2, 0, 0], [0, 2, 0])


def test_a_census_without_two_sided_runs_has_no_spread_of_gamma():
    one_sided = still([[0.1, 0.2]], [[1.0, 1.0]])
    assert "kf4/gamma_cv" not in patterns.finding_4({2: pairs([0.1, 0.2])}, one_sided)


def test_finding_1_takes_the_worst_run_and_every_active_head():
    good = still([[0.1, -0.1]] * 2, [[1.0, -1.0]] * 2, kq_noise=0.03, ov_noise=0.02)
    bad = still([[0.1, -0.1, 1e-4], [0.1, -0.1, 0.1]], [[1.0, -1.0, -1e-4], [1.0, 1.0, 1.0]])
    found = patterns.finding_1({2: good, 3: bad}, {2: good})
    np.testing.assert_allclose(found["kf1/kq_deviation"], [0.03, 0.0], atol=1e-12)
    np.testing.assert_allclose(found["kf1/ov_deviation"], [0.02, 0.0], atol=1e-12)
    assert found["kf1/sign_share"] == 8 / 9, "a dummy does not count; one of the nine others disagrees"
    assert found["kf1/code/sign_share"] == 1
    assert found["kf1/code/kq_deviation"] == [pytest.approx(0.03)]
    apart = np.array([0.02, 0.06])
    worst = Heads(good.steps, good.omega, good.mu, good.kq_deviation * 0 + apart[:, None], good.ov_deviation)
    found = patterns.finding_1({2: worst}, {2: worst, 4: good})
    assert found["kf1/kq_deviation"] == [0.06]
    np.testing.assert_allclose(found["kf1/code/kq_deviation"], [0.06, 0.03])
    assert found["kf1/kq_deviation_sd"] == [pytest.approx(0.04 / np.sqrt(2))]


def test_finding_2_takes_the_worst_run_of_each_head_count():
    coded = {3: still([[0.1, -0.05]], [[1.0, -1.0]])}
    found = patterns.finding_2({2: still([[0.1, -0.1], [0.1, -0.08]], [[1.0, -1.0], [1.0, -0.5]])}, coded)
    assert found["kf2/code/omega_spread"] == [pytest.approx(0.5)]
    assert found["kf2/code/zero_sum"] == [0.0]
    assert found["kf2/omega_spread"] == [pytest.approx(0.2)]
    assert found["kf2/zero_sum"] == [pytest.approx(1 / 3)]
    assert found["kf2/zero_sum_sd"] == [pytest.approx(1 / 3 / np.sqrt(2))]


def test_limits_of_courses_known_by_hand():
    """gamma 0.1, 0.4, 0.2 and a sum of positive mu of 1, 3, 2: peak over final 2, fall 1/2."""
    gamma, mu = np.array([0.1, 0.4, 0.2]), np.array([1.0, 3.0, 2.0])

    def course(*runs: float) -> Heads:
        scale = np.array(runs)[None, :, None] * np.array([1.0, -1.0])
        return heads(gamma[:, None, None] * scale, mu[:, None, None] * scale)

    coded = {2: course(1.0, 1.0), 4: course(1.5, 1.5)}
    found = patterns.limits({2: course(1.0, 1.0), 3: course(1.1, 1.3)}, coded)
    np.testing.assert_allclose(found["fig2.8/text/peak_over_final"], [2.0] * 4)
    np.testing.assert_allclose(found["fig2.8/text/mu_fall"], [0.5] * 4)
    assert found["fig2.8/text/peak_over_final_sd"] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(found["fig2.8/text/gammas"], [0.2, 0.24])
    assert found["fig2.8/text/gamma_spread"] == pytest.approx(0.2)
    assert found["fig2.8/text/gamma_spread_se"] == pytest.approx(0.1), "1.1 and 1.3 over 1: 1.2 +- 0.1"
    assert found["fig2.8/text/mu_spread"] == pytest.approx(0.2)
    assert found["fig2.8/code/gamma_spread"] == pytest.approx(0.5)
    assert found["fig2.8/code/mu_spread"] == pytest.approx(0.5)
    assert found["fig2.8/code/gamma_spread_se"] == pytest.approx(0.0, abs=1e-12)


def test_a_run_without_a_positive_head_has_no_fall():
    h = still([[0.1, -0.1], [-0.1, -0.1]], [[1.0, -1.0], [-1.0, -1.0]])
    assert patterns.fall(h).tolist() == [0.0]


def test_eight_heads_spike():
    omega, mu = [0.1, -0.1, 0.1, -0.1, 0.1, -0.1, 0.1, -2.0], [1.0, -1.0] * 4
    error = np.array([1.0, 1.0])
    found = patterns.eight_heads(still([omega], [mu]), pairs([0.1, 0.3]), error * [0.9, 1.05], error)
    assert found["eight/spike"] == pytest.approx(10.0)
    assert found["eight/omega_spread"] == pytest.approx(0.95)
    assert found["eight/error_gap"] == pytest.approx(0.1)


# -- census and stages ------------------------------------------------------------------------------------------------


def descent(omega, mu, start=None, **times) -> census.Descent:
    """Runs that end at these omega, mu ``(R, H)``."""
    omega, mu = np.asarray(omega, dtype=float), np.asarray(mu, dtype=float)
    return census.Descent(omega + mu if start is None else np.asarray(start), omega, mu, times)


def test_shares_of_endings_and_their_errors(monkeypatch):
    monkeypatch.setattr(census, "RUNS", 4)
    sides = np.array([[1, 1], [1, -1], [1, -1], [1, -1]])  # the first run ends one-sided
    start = np.array([[1, 1], [1, 1], [1, -1], [-1, 1]])  # of two starts of one sign, one ends so
    two = descent(sides, sides, 2 * start)
    three = np.array([[1, -1, 1], [1, -1, 0.01], [1, -1, -0.01], [1, -1, -1]])  # two with a dummy head
    runs = {2: two, 3: descent(three, three), 4: descent(three, three)}
    adam = {h: still(t.omega, t.mu) for h, t in runs.items()}
    found = census.ending_records(adam, runs)
    for key in ("adam", "gd"):
        assert found[f"census/{key}_one_sided"] == [0.25, 0.0, 0.0]
        assert found[f"census/{key}_one_sided_se"] == [share_error(k, 4) for k in (1, 0, 0)]
        assert found[f"census/{key}_dummy"] == [0.5, 0.5]
        assert min(found[f"census/{key}_one_sided_se"]) > 0, "a share of 0 among few runs is not certain"
    assert (found["census/runs"], found["census/steps"]) == (4, 2)
    assert (found["census/same_start"], found["census/mixed_start"]) == (0.5, 0.0)


def test_a_run_that_diverged_is_not_left_out_in_silence():
    lost = descent([[np.nan, 1]], [[1, 1]])
    with pytest.raises(AssertionError):
        census.endings({}, {2: lost})


def test_dummy_heads_and_their_decay():
    omega = np.array([[[0.1, -0.1, 0.1, -0.1]] * 2] * 3)
    mu = np.array([[[1.0, -1.0, 1.0, -1.0]] * 2, [[1.0, -1.0, 0.5, -1.0]] * 2, [[1.0, -1.0, 1.0, -1.0]] * 2])
    omega[-1, 0, 2] = mu[-1, 0, 2] = 0.001  # decays to a thousandth of its largest value
    four, plain = heads(omega, mu), still([[0.1, -0.1, 0.1, -0.1]] * 2, [[1.0, -1.0, 1.0, -1.0]] * 2)
    found = census.dummy_records(four, plain)
    assert found["fig2.7/dummy_share"] == 0.25
    np.testing.assert_allclose(found["fig2.7/decay"], [0.001])
    np.testing.assert_allclose(found["fig2.7/decay_of_others"], [1.0] * 7)
    assert list(census.dummy_records(plain, four)) == ["fig2.7/dummy_share"]


def test_stages_are_those_of_two_sided_runs():
    sides = [[1, 1], [1, -1], [-1, 1]]
    steps = {name: np.array([1.0, 2.0, 3.0]) for name in PATTERNS}
    times = census.stage_times({2: descent(sides, sides, **steps)})
    assert {name: found.tolist() for name, found in times[2].items()} == {
        name: [2.0, 3.0] for name in PATTERNS
    }


def test_descents_are_read_by_their_number_of_heads():
    arrays = {}
    for h in (2, 3, 4):
        arrays |= {f"h{h}/{name}": np.full((5, h), h + i) for i, name in enumerate(("start", "omega", "mu"))}
        arrays |= {f"h{h}/{name}": np.full(5, 10 * h + i) for i, name in enumerate(PATTERNS)}
    found = census.read_descent(Results(arrays, {}))
    for h, own in found.items():
        assert [float(part[0, 0]) for part in (own.start, own.omega, own.mu)] == [h, h + 1, h + 2]
        assert [float(own.times[name][0]) for name in PATTERNS] == [10 * h, 10 * h + 1, 10 * h + 2]


def test_order_of_stages_and_the_median_of_their_times():
    nan = np.nan
    times = {
        2: {
            "sign": np.array([1.0, 2, 0, 1]),
            "zero_sum": np.array([4.0, 40, 3, nan]),
            "homogeneous": np.array([5.0, 30, nan, 1]),
        },
        3: {"sign": np.array([9.0]), "zero_sum": np.array([9.0]), "homogeneous": np.array([8.0])},
    }
    found = census.stage_records(times)
    assert found["stage/sign_first"] == 3 / 5, "the third never becomes homogeneous; equal times count"
    assert found["stage/sign_first_se"] == share_error(3, 5)
    assert found["stage/zero_first"] == 1 / 5
    assert found["stage/homogeneous_share"] == 4 / 5
    assert found["stage/zero_over_sign"] == 3.5, "ratios 4, 20, 3 (from one step at least) and 1"
    assert found["stage/zero_after_equal"] == 1 / 4


def test_flow_of_a_pair_follows_its_closed_form():
    times, gamma, late, closed = census.flow_of_pair(5, 40, 0.1)
    found = census.flow_records(times, gamma, closed)
    assert found["gdlimit/slope"] == pytest.approx(-1 / 6, abs=1e-3)
    assert late[0] >= 1e3
    wrong = census.flow_records(times, gamma, 1.1 * closed)
    assert wrong["gdlimit/closed_form"] == pytest.approx(1 - 1 / 1.1, rel=1e-3)


# -- a minimum or a noise level ---------------------------------------------------------------------------------------


def test_ratios_over_rates_and_batches():
    rates = [1.0, 2.0, 3.0]
    table = {
        64: ([0.1, 0.1], [0.8, 1.2], [0.3, 0.3]),
        256: ([0.1, 0.1], [0.2, 0.2], [0.2, 0.4]),
        1024: ([0.2, 0.2], [0.4, 0.6], [0.2, 0.2]),
    }
    by = {b: {r: pairs(g) for r, g in zip(rates, gammas, strict=True)} for b, gammas in table.items()}
    settings = noise.Settings(rates, by)
    best = theory.Optimum(0.05, 1.0, 2.0)
    found = noise.minimiser_records(pairs([0.1, 0.2]), settings, best, 2.2)
    np.testing.assert_allclose(found["minimiser/gamma_ratio"], [2.0, 4.0])
    assert found["minimiser/gamma_ratio_sd"] == pytest.approx(np.sqrt(2))
    assert found["minimiser/interior"] is True
    assert found["minimiser/cost_of_013"] == pytest.approx(0.1)
    assert found["minimiser/rate_ratio"] == pytest.approx(3.0)
    assert found["minimiser/rate_ratio_se"] == pytest.approx(1.0), "0.3 +- 0.1 over 0.1"
    assert found["minimiser/batch_ratio"] == pytest.approx(2.0)
    assert found["minimiser/batch_ratio_se"] == pytest.approx(2 * np.hypot(0.2, 0.2)), "1 +- .2 over .5 +- .1"
    assert found["minimiser/still_falling"] == 0.0
    robust = noise.robust_records(settings)
    assert robust["robust/pattern_share"] == 1.0
    assert robust["robust/gamma_ratio"] == pytest.approx(10.0)
    assert robust["robust/gamma_ratio_se"] == pytest.approx(2.0), "1 +- 0.2 over 0.1"
    by[64][2.0] = still([[0.1, 0.1]] * 2, [[1.0, 1.0]] * 2)
    assert noise.robust_records(settings)["robust/pattern_share"] == pytest.approx(16 / 18)
    assert noise.robust_records(settings)["robust/changed"] == pytest.approx(2 / 18)


def test_a_run_whose_heads_have_one_sign_counts_in_no_gamma_of_a_pair():
    both = still([[0.2, -0.2], [0.5, 0.6]], [[1.0, -1.0], [1.0, 1.0]])
    assert noise.pairs(both).tolist() == [True, False]
    settings = noise.Settings([1.0], {64: {1.0: both}, 256: {1.0: pairs([0.1, 0.1])}})
    np.testing.assert_allclose(settings.gamma[64][0], [0.2])
    assert noise.robust_records(settings)["robust/gamma_ratio"] == pytest.approx(2.0)
    assert noise.robust_records(settings)["robust/pattern_share"] == pytest.approx(3 / 4)
    assert noise.robust_records(settings)["robust/changed"] == pytest.approx(1 / 4), (
        "of four, the second of 64"
    )
    everywhere = noise.Settings([1.0], {64: {1.0: both}, 256: {1.0: both}})
    assert noise.robust_records(everywhere)["robust/changed"] == 0, "the start decides it, not the setting"
    none = still([[0.5, 0.6]], [[1.0, 1.0]])
    assert noise.pairs(none).tolist() == [True], "a short training may have no pair yet"


def test_reduced_runs_without_a_two_sided_one_say_so():
    two = still([[0.1, -0.1], [0.2, 0.2]], [[1.0, -1.0], [1.0, 1.0]])
    found = noise.reduced_records(two)
    assert (found["reduced/runs"], found["reduced/one_sided"]) == (2, 1)
    np.testing.assert_allclose(found["reduced/gamma"], [0.1])
    assert noise.reduced_records(still([[0.2, 0.2]], [[1.0, 1.0]]))["reduced/gamma"] == "no such run"


def test_variations_by_hand():
    """One-sided runs are counted; of the others signs and sums are read, and where there are none nothing is matched."""
    both = still([[0.2, -0.2], [0.5, 0.6]], [[1.0, -1.0], [1.0, 1.0]])
    crossed = still([[0.2, -0.2], [0.2, -0.2]], [[-1.0, 1.0], [3.0, -1.0]])
    alone = still([[0.5, 0.6], [0.5, 0.6]], [[1.0, 1.0], [1.0, 1.0]])
    found = noise.variation_records({"momentum": both, "adamw": crossed, "d10": alone, "noisy": both})
    assert found["variations/runs"] == [2, 2, 2, 2]
    assert found["variations/one_sided"] == [0.5, 0.0, 1.0, 0.5]
    assert found["variations/matched"] == [1.0, 0.5, 0.0, 1.0]
    assert found["variations/sum"] == pytest.approx([0.0, 0.25, 1.0, 0.0])
    assert all(error > 0 for error in found["variations/one_sided_se"])


def test_each_variation_is_read_from_its_own_group():
    asked = []

    class Stored:
        def __init__(self, study):
            self.study = study

        def group(self, name):
            asked.append((self.study, name))
            return name

    noise_read, noise.read_heads = noise.read_heads, lambda group: group
    try:
        found = noise.read_variations(Stored)
    finally:
        noise.read_heads = noise_read
    assert found == {"momentum": "momentum", "adamw": "adamw", "d10": "adam", "noisy": "adam"}
    assert [study for study, _ in asked] == [
        *["variations_optimisers"] * 2,
        "variations_d10",
        "variations_noisy",
    ]
