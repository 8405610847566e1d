"""recall2025: plateaus, settings of Figures 1 and 4, stochastic training, the census, later jumps, lifted simplifications."""

from __future__ import annotations

import numpy as np
import pytest

from iclbook.models import RecallTransformer
from iclbook.papers.recall2025.figures import in_page
from iclbook.papers.recall2025.measures import census, exact, first_jump, later, relaxed, sampling, stages
from iclbook.papers.recall2025.runs import trainings
from iclbook.papers.recall2025.theory import Population
from iclbook.statistics import share_error
from iclbook.tasks import AssociativeRecall
from iclbook.training import Flow


def test_one_run_alone_is_the_same_run_in_an_ensemble():
    pop = stages.experiment()
    rng = np.random.default_rng(0)
    starts = pop.join(rng.normal(size=(5, 3, 4)) * 0.01, np.full((5, 3), [0.3, 0.2, 0.1]))
    together = stages.activations(pop, starts, 2000.0)
    alone = stages.activations(pop, starts[2:3], 2000.0)
    np.testing.assert_allclose(together[2], alone[0], rtol=1e-9)
    assert np.isfinite(alone).all()


@pytest.mark.parametrize("loss", ["dp", "ce"])
def test_activation_follows_every_order_of_beta(loss):
    assert stages.orders_follow(stages.experiment(loss)) == 6


def test_follow_goes_beyond_the_last_jump_and_recorded_times_agree():
    pop = stages.experiment()
    flow, times = stages.follow(pop, (0.1, 0.03, 0.01))
    assert flow.times[-1] == pytest.approx(2 * times[-1], rel=1e-6)
    assert (np.diff(flow.times) > 0).all()
    np.testing.assert_allclose(stages.activation_times(pop, flow), times, rtol=1e-2)


def test_plateau_errors_see_a_flow_that_is_not_on_its_plateau():
    pop = stages.experiment()
    flow, times = stages.follow(pop, (0.02, 0.005, 0.00125), beyond=1.0)
    right = stages.plateau_errors(pop, flow.states[0], times)
    assert max(right.values()) < 1e-3
    moved = stages.plateau_errors(pop, flow.states[0], times * [2.2, 1.0, 1.0])  # reads in the second plateau
    assert moved["attention"] > 0.1


def test_plateau_values_want_every_step_to_fall():
    scan = {"loss": [0.1, 0.01], "attention": [0.2, 0.3], "length": [1.0, 2.0]}
    values = stages.plateau_values(scan | {"attention": [0.3, 0.2]}, scan)
    assert values["plateaus/order/attention_falling"] is True
    assert values["plateaus/k/attention_falling"] is False
    assert values["plateaus/k/loss_last"] == 0.01


def test_both_losses_activate_heads_in_one_order_from_random_starts():
    assert stages.losses_agree(4)["losses/random_pairs"] >= 0.9


# -- Figures 1 and 4 ----------------------------------------------------------------------------------------------------


def test_settings_put_the_snapshots_on_the_plateaus():
    pop = stages.experiment()
    found = trainings.matching_settings(pop, (0.1,), (1.5, 6.0))
    assert [s.fits for s in found] == [False, True]
    t = np.array(found[1].times)
    for rate in (found[1].low * 1.001, found[1].effective, found[1].high * 0.999):
        counts = [(t < step * rate).sum() for step in stages.SNAPSHOTS]
        assert counts == [1, 2, 3]
    for rate in (found[1].low * 0.999, found[1].high * 1.001):
        assert [(t < step * rate).sum() for step in stages.SNAPSHOTS] != [1, 2, 3]


def test_the_short_window_needs_a_wide_ratio():
    pop = stages.experiment(window=3)
    found = trainings.matching_settings(pop, (1.0,), (3.0, 100.0))
    assert [s.fits for s in found] == [False, True]


def test_choose_takes_the_widest_that_fits_and_nothing_that_does_not():
    def setting(low, high):
        return trainings.Setting(1.0, 2.0, low, high, (1.0, 2.0, 3.0))

    narrow, wide, none = setting(1.0, 1.5), setting(2.0, 4.0), setting(3.0, 1.0)
    assert trainings.choose([none, narrow, wide]) is wide
    assert wide.effective == pytest.approx(8**0.5)
    assert trainings.choose([none]) is None
    assert trainings.choose([]) is None


def test_sgd_with_a_small_rate_follows_the_flow():
    """Large batches: steps of size r reach at step n what the flow reaches at t = n r."""
    pop = stages.experiment()
    betas, rate = (0.3, 0.1, 0.03), 0.5
    times = stages.follow(pop, betas, beyond=1.0)[1]
    steps = int(1.2 * times[0] / rate)
    run = trainings.sgd(pop, betas, rate, 0.0, steps, 20_000, 2, every=1)
    first = stages.activation_times(pop, Flow(run.steps * rate, run.states))[:, 0]
    np.testing.assert_allclose(first, times[0], rtol=0.03)


def test_momentum_divides_the_rate():
    """At the same rate / (1 - momentum) a jump comes at the same step, but for a lag that vanishes with the rate."""
    pop, lags = stages.experiment(), []
    for effective in (0.5, 0.25):
        times = []
        for momentum in (0.0, 0.9):
            rate, steps = effective * (1 - momentum), int(550 / effective)
            run = trainings.sgd(pop, (0.3, 0.1, 0.03), rate, momentum, steps, 20_000, 1)
            times.append(stages.activation_times(pop, Flow(run.steps.astype(float), run.states))[0, 0])
        lags.append(times[1] / times[0] - 1)
    assert 0 < lags[1] < 0.6 * lags[0] < 0.06


def test_staged_share_counts_seeds():
    """One seed as printed, two whose heads come in order but late, one in another order."""
    pop = stages.experiment()

    def seed(activation):
        steps = np.arange(0, 5001, 10)
        w = np.zeros((len(steps), 3, 4))
        w[:, range(3), range(3)] = 4.0
        beta = np.where(steps[:, None] >= activation, 3.0, 0.1)
        return steps, pop.join(w, beta)

    seeds = [seed(a) for a in ([500, 1200, 3000], [900, 1200, 3000], [1200, 500, 3000], [900, 1200, 3000])]
    states = np.stack([s for _, s in seeds], 1)
    run = trainings.Training(seeds[0][0], np.zeros((501, 4)), states)
    share = trainings.staged_share(pop, run, (0.3, 0.2, 0.1))
    assert share == pytest.approx({"staged": 2 / 4, "ordered": 3 / 4})


def test_counts_of_a_batch_stand_for_its_sequences():
    """The dot-product loss is linear in the indicators: same mean and variance from counts as from single sequences."""
    pop = Population(stages.experiment().task, 3, 4)
    theta = np.random.default_rng(7).normal(size=pop.size)
    s = pop.weights(theta)
    rng = np.random.default_rng(8)
    same = rng.random((4000, 8, 24)) < 0.25
    same[..., 0] = True
    single = 1 - (same * s).sum(-1).mean(-1)
    counted = pop.counted_gradient(np.tile(theta, (4000, 1)), rng.binomial(8, 0.25, (4000, 24)) / 8)[1]
    assert counted.mean() == pytest.approx(single.mean(), abs=5 * single.std() / 4000**0.5 * 2**0.5)
    assert counted.std() == pytest.approx(single.std(), rel=0.08)


def test_trainings_meet_the_batches_that_would_be_drawn_step_by_step():
    rng = np.random.default_rng(0)
    counts = trainings.matching_responses(5, 2, 300, 24, 0.25)
    for step in range(5):
        np.testing.assert_array_equal(counts[step], rng.binomial(300, 0.25, (2, 24)))
    pop, starts = stages.experiment(), ((0.3, 0.1, 0.03), (0.03, 0.1, 0.3))
    both = trainings.sgd(pop, np.array(starts), 0.1, 0.9, 30, 8, 2, every=10).each()
    for start, run in zip(starts, both, strict=True):
        alone = trainings.sgd(pop, start, 0.1, 0.9, 30, 8, 2, every=10)
        np.testing.assert_allclose(run.states, alone.states, rtol=1e-10, atol=1e-15)
        np.testing.assert_allclose(run.loss, alone.loss, rtol=1e-12)
    share = np.random.default_rng(1).random((7, 24))
    theta = np.random.default_rng(2).normal(size=(7, pop.size))
    gradient, loss = pop.counted_gradient(theta, share)
    a, s = pop.attention(theta), pop.weights(theta)
    for i in range(7):
        right = np.append(1.0, share[i, 1:])  # the right response equals itself in every sequence
        assert loss[i] == pytest.approx(1 - s[i] @ right, rel=1e-12)
        by_score = s[i] * (s[i] @ right - right)
        by_w = pop.split(gradient[i])[0]
        for h in range(3):
            sums, beta = by_score @ pop.match[:, h], theta[i, 12 + h]
            np.testing.assert_allclose(
                by_w[h], beta**2 * a[i, h] * (sums - a[i, h] @ sums), rtol=1e-10, atol=1e-15
            )


# -- census and later jumps ---------------------------------------------------------------------------------------------


def test_census_with_w_at_zero_follows_beta_and_large_w_does_not():
    ratios = (0.0, 0.03, 0.1, 1.0, 10.0)
    grid = census.Grid((0.1,), ratios, 12)
    shares = census.census(grid, census.cell_times(grid, range(5)))
    values = census.census_values(shares, (0.1,), ratios)
    assert values["census/w0"] == [1.0]
    assert values["census/ratio_10"][0] < 0.85
    assert (shares["finished"] <= 1).all()


def test_errors_of_the_census_count_runs_and_pair_cells():
    """Half of the runs have all pairs in order and half none, at every scale: nothing falls, nothing spreads."""
    ratios, runs = (0.0, 0.03, 0.1, 1.0, 10.0), 40
    larger = np.tile(np.where(np.arange(runs) < 20, 3.0, 0.0), (5, 2, 1))
    larger[0] = 3.0
    shares = {"larger": larger, "decided": np.full((5, 2, runs), 3.0)}
    errors = census.census_errors(shares, (0.01, 1.0), ratios)
    assert errors["census/w0_se"] == [share_error(120, 120)] * 2
    assert errors["census/ratio_01_se"] == pytest.approx([np.sqrt(0.25 / 39)] * 2)
    assert errors["census/joint_small_se"] == pytest.approx(np.sqrt(0.25 / 39))
    assert errors["census/spread_se"] == [0, 0, 0]
    larger[3, 1] = np.where(np.arange(runs) % 4 == 0, 3.0, 0.0)  # 10 runs, five of them among the 20
    errors = census.census_errors(shares, (1.0, 0.01), ratios)  # the smallest scale stands last
    assert errors["census/joint_small_se"] == pytest.approx(np.sqrt(0.25 * 0.75 / 39))
    fall = (larger[3, 1] - larger[3, 0]) / 3
    assert errors["census/spread_se"][2] == pytest.approx(fall.std(ddof=1) / np.sqrt(runs), rel=0.15)


def test_errors_of_both_losses_and_of_training_over_seeds():
    values = stages.losses_agree(4)
    pairs = 4 * 3  # of four runs with three heads, decided or not
    assert values["losses/random_pairs_se"] >= share_error(
        round(values["losses/random_pairs"] * pairs), pairs
    )
    assert sampling.share_values("fig4", "k", {"staged": 0.96, "ordered": 1.0}, 50) == {
        "fig4/k/staged": 0.96,
        "fig4/k/staged_se": share_error(48, 50),
        "fig4/k/ordered": 1.0,
        "fig4/k/ordered_se": share_error(50, 50),
    }


def test_tight_tolerance_gives_the_same_orders():
    """The census integrates coarsely; of 20 runs the activation times agree with fine integration."""
    pop, rng = stages.experiment(), np.random.default_rng(1)
    starts = pop.join(0.01 * rng.normal(size=(20, 3, 4)), 0.1 * np.abs(rng.normal(size=(20, 3))))
    coarse = stages.activations(pop, starts, 5000.0, 1e-4, 1e-7)
    fine = stages.activations(pop, starts, 5000.0, 1e-8, 1e-12)
    assert (np.isfinite(coarse) == np.isfinite(fine)).all()
    done = np.isfinite(fine)
    np.testing.assert_allclose(coarse[done], fine[done], rtol=5e-3)
    assert (np.argsort(coarse, -1) == np.argsort(fine, -1)).all()


def test_order_k_has_k_minus_1_jumps():
    values = later.jump_counts((2, 3))
    assert values["jumps/count"] == values["jumps/k_minus_1"] == [1, 2]


def test_learned_heads_are_stationary_to_sqrt_c_e_minus_c():
    values = later.stationarity_values(later.stationarity())
    assert values["propA2/slope"] == pytest.approx(-1, abs=1e-3)
    assert values["propA2/growth_score"] == pytest.approx(0.5, abs=0.01)
    assert values["propA2/growth_beta"] < 0


# -- simplifications ----------------------------------------------------------------------------------------------------


def test_construction_falls_at_the_rate_of_its_runner_up():
    values = exact.construction_values(exact.construction())
    assert values["full/rate"] == pytest.approx(values["full/rate_predicted"], abs=1e-3)


def test_passing_is_linear_between_records():
    times, values = np.array([0.0, 1.0, 3.0]), np.array([0.0, 1.0, 2.0])
    assert relaxed.passing(times, values, 1.5) == 2.0
    assert relaxed.passing(times, values, 0.0) == 0.0
    assert relaxed.passing(times, values, 9.0) == np.inf


def test_the_kept_model_on_tokens_is_the_population():
    """A0, A2 and A3 kept: flow of the transformer against the flow of the population, the same activation times."""
    from iclbook.models import RecallTransformer

    betas = (0.3, 0.1, 0.03)
    model = RecallTransformer(3, first_jump.R, 3)
    run = relaxed.watched(model, relaxed.flow_of(model, betas, 250.0))
    np.testing.assert_allclose(run["mass"], 1.0, rtol=1e-12)
    np.testing.assert_allclose(run["loss"], run["normalised"], rtol=1e-9)
    pop = stages.experiment(order=3, n_heads=3)
    times = stages.activations(pop, stages.small(pop, betas)[None], 250.0)[0]
    active = [relaxed.passing(run["times"], a, stages.ACTIVE) for a in run["advantage"].T]
    np.testing.assert_allclose(active[:2], times[:2], rtol=0.02)
    assert np.isinf(active[2])
    assert np.isinf(times[2])


def test_what_is_watched_is_that_of_the_model_at_each_state():
    model = RecallTransformer(3, 4, 3, 0.5, a0=False, a2=False, a3=False)
    states = np.random.default_rng(0).normal(size=(3, 3 * model.length + 3))
    run = relaxed.watched(model, Flow(np.arange(3.0), states))
    for i, state in enumerate(states):
        relaxed.load(model, state)
        s = model.response_weights(relaxed.every_query(model))
        assert run["mass"][i] == pytest.approx(s.sum(1).mean().item(), rel=1e-12)
        assert run["accuracy"][i] == pytest.approx((s.diagonal() / s.sum(1)).mean().item(), rel=1e-12)
        np.testing.assert_allclose(run["advantage"][i], model.advantage().detach(), rtol=1e-12)
        np.testing.assert_array_equal(run["beta"][i], state[-3:])


def test_verdict_values_of_made_up_runs():
    """Two heads apart in one measure only must not count as apart in the other."""

    def run(jumps, active):
        times = np.linspace(0, 10, 11)
        return {
            "times": times,
            "mass": np.linspace(0.2, 1, 11),
            "accuracy": np.minimum(0.2 + times / 5, 1.0),
            "jumps": np.array(jumps),
            "active": np.array(active),
        }

    inf = np.inf
    found = {
        name: run([1.0, 2.0], [1.0, 2.0, inf]) for name in ("none", "A0", "A2", "A0 A2", "A0 A3", "A2 A3")
    }
    found["A3"] = run([1.0, 1.1], [1.0, 1.3, 1.4])
    found["A0 A2 A3"] = run([inf, inf], [inf, inf, inf])
    counts = relaxed.kept_apart(found, relaxed.FIRST_READING)
    assert counts == {"full/single": [2, 3], "full/joint": [3, 3]}
    values = relaxed.verdict_values(found)
    assert values["full/lost"] == 1
    assert values["full/A0/jumps"] == 2
    assert values["a3/matching_first"] == pytest.approx(0.4)
    assert values["a3/in_order"]
    assert (values["a3/active"], values["idle/kept"]) == (3, 2)


def test_normalised_loss_is_not_the_raw_one_without_a3():
    """One state by hand: w = 0, beta = 0 spreads attention over all 27 tokens: a response of six is right, one of 27 tokens."""
    model = RecallTransformer(3, 4, 3, a3=False)
    run = relaxed.watched(model, Flow(np.zeros(1), np.zeros((1, 12))))
    assert run["normalised"][0] == pytest.approx(0.75 * (1 - 1 / 6))
    assert run["loss"][0] == pytest.approx(1 - (1 + 5 / 4) / 27)
    assert run["mass"][0] == pytest.approx(6 / 27)
    assert run["accuracy"][0] == pytest.approx(1 / 6)


def test_jumps_of_lifted_models_are_read_from_the_normalised_loss(monkeypatch):
    """A raw loss that would say something else must not be read."""
    task = AssociativeRecall(3, first_jump.R)
    middles = [(task.plateau_dp(m) + task.plateau_dp(m + 1)) / 2 for m in (0, 1)]
    course = np.interp(np.arange(5.0), [0, 1, 3, 4], [0.6, middles[0], middles[1], 0.0])
    made_up = {
        "times": np.arange(5.0),
        "normalised": course,
        "loss": course[::-1],
        "advantage": np.ones((5, 3)),
    }
    monkeypatch.setattr(relaxed, "flow_of", lambda *_: None)
    monkeypatch.setattr(relaxed, "watched", lambda *_: dict(made_up))
    for run in relaxed.lifted().values():
        np.testing.assert_allclose(run["jumps"], [1.0, 3.0])


# -- the census by hand -------------------------------------------------------------------------------------------------


def census_of(monkeypatch, times, beta_scales=(0.1,), ratios=(0.0,), runs=1):
    """The census where activation times ``(cells * runs, K)`` are given, and the starts that it asked for."""
    asked = {}

    def activations(_, starts, until, **__):
        asked["starts"], asked["until"] = starts, until
        return np.broadcast_to(np.asarray(times, dtype=float), (len(starts), 3)).copy()

    monkeypatch.setattr(census, "activations", activations)
    grid = census.Grid(beta_scales, ratios, runs)
    return census.census(grid, census.cell_times(grid, range(len(grid.cells)))), asked


def test_silent_heads_decide_no_pair(monkeypatch):
    inf = np.inf
    for times, decided in (
        ([inf, inf, inf], 0),
        ([1.0, inf, inf], 2),
        ([1.0, 2.0, inf], 3),
        ([0.0, 0.0, 5.0], 2),
    ):
        shares, _ = census_of(monkeypatch, times)
        assert shares["decided"].sum() == decided
        assert shares["larger"].sum() <= decided
    shares, _ = census_of(monkeypatch, [inf, inf, inf])
    assert shares["larger"].sum() == 0
    assert shares["finished"][0, 0] == 0


def test_the_census_scales_w_with_beta(monkeypatch):
    """w over beta is the ratio of the cell, whatever the scale of beta; every cell uses the same normals."""
    scales, ratios = (0.1, 0.2), (0.5, 2.0)
    _, asked = census_of(monkeypatch, [1.0, 2.0, 3.0], scales, ratios, runs=4)
    w, beta = stages.experiment().split(asked["starts"])
    w, beta = w.reshape(2, 2, 4, 3, 4), beta.reshape(2, 2, 4, 3)
    for i, ratio in enumerate(ratios):
        for j, scale in enumerate(scales):
            np.testing.assert_allclose(w[i, j] / (ratio * scale), w[0, 0] / (0.5 * 0.1), rtol=1e-12)
            np.testing.assert_allclose(beta[i, j] / scale, beta[0, 0] / 0.1, rtol=1e-12)
    expected = [20 * first_jump.theory.jump_limit(4, first_jump.R) / s for s in scales]
    np.testing.assert_allclose(asked["until"].reshape(2, 2, 4)[0, :, 0], expected)


def test_a_construction_that_rests_does_not_fall():
    """Losses of a half, a quarter and an eighth fall at the rate ln 2 a unit of c; where two are equal they do not fall."""
    built = {
        "c": np.array([1.0, 2.0, 4.0]),
        "super": np.array([0.5, 0.25, 0.125]),
        "sub": np.array([0.9, 0.8, 0.7]),
    }
    found = exact.construction_values(built)
    assert found["full/falling"]
    assert (found["full/loss_last"], found["full/loss_sub"]) == (0.125, 0.7)
    assert found["full/rate"] == pytest.approx(-np.log(2) / 2)
    assert not exact.construction_values(built | {"super": np.array([0.5, 0.5, 0.125])})["full/falling"]


def test_a_relative_error_is_that_of_the_largest_entry():
    assert exact.relative(np.array([1.0, 5.0]), np.array([2.0, 4.0])) == 0.25
    assert exact.relative(np.array([-1.0, 4.0]), np.array([1.0, -8.0])) == 1.5


def test_shares_stand_under_the_names_of_their_figures():
    named = {
        (f, w): tuple(f"{f}/{w}/{x}" for x in ("staged", "staged_se", "ordered", "ordered_se"))
        for f, w in sampling.SHARE_KEYS
    }
    assert named == sampling.SHARE_KEYS
    assert set(named) == {(f, w) for f in ("fig1", "fig4") for w in ("order", "k")}


def test_the_page_races_the_heads_that_there_are():
    page = in_page.race(Population(AssociativeRecall(3, 4), n_heads=2, window=3))
    assert (page.data["heads"], page.data["window"]) == (2, 3)
    assert len(page.data["plateaus"]) == 3, "one for each number of heads that have found their token"
    assert page.data["chance"] == 1 / 4
