"""recall2025: plateaus, settings of Figures 1 and 4, stochastic training, the order of learning, lifted simplifications."""

import numpy as np
import pytest

from iclbook.models import RecallTransformer
from iclbook.papers.recall2025 import figures_1_and_4, simplifications, stages
from iclbook.papers.recall2025.theory import Population
from iclbook.tasks import AssociativeRecall
from iclbook.training import Flow


def test_plateau_errors_see_a_flow_that_is_not_on_its_plateau():
    pop = stages.experiment()
    flow, times = stages.follow(pop, (0.02, 0.005, 0.00125))
    right = stages.plateau_errors(pop, flow.states[0], times)
    assert max(right.values()) < 1e-3
    moved = stages.plateau_errors(pop, flow.states[0], times * [2.2, 1.0, 1.0])  # reads in the second plateau
    assert moved["attention"] > 0.1


# -- Figures 1 and 4 ----------------------------------------------------------------------------------------------------


def test_sgd_with_a_small_rate_follows_the_flow():
    """Large batches: steps of size r reach at step n what the flow reaches at t = n r."""
    pop = stages.experiment()
    betas, rate = (0.3, 0.1, 0.03), 0.5
    times = stages.follow(pop, betas)[1]
    steps = int(1.2 * times[0] / rate)
    run = figures_1_and_4.sgd(pop, betas, rate, 0.0, steps, 20_000, 2, every=1)
    first = stages.first_passage(run.steps * rate, pop.advantage(run.states), stages.ACTIVE)[:, 0]
    np.testing.assert_allclose(first, times[0], rtol=0.03)


def test_a_beta_that_rises_at_its_own_fall_of_the_loss_is_told_from_one_that_does_not():
    """Three heads that learn at steps 10, 20 and 40, and one seed in which the second beta rises at step 38."""
    pop, steps = stages.experiment(), np.arange(60)
    states = np.zeros((60, 2, pop.size))
    w, beta = pop.split(states)
    for head, step in enumerate((10, 20, 40)):
        beta[steps >= step, :, head], w[:, :, head, head] = 9.0, 20.0
    assert figures_1_and_4.together_share(pop, figures_1_and_4.Training(steps, steps, states[:, :1])).value == 1
    beta[:, 1, 1] = np.where(steps < 20, 0.0, np.where(steps < 38, 5.0, 12.0))
    assert figures_1_and_4.together_share(pop, figures_1_and_4.Training(steps, steps, states[:, 1:])).value == 0


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


def test_trainings_from_several_starts_meet_the_same_batches():
    pop, starts = stages.experiment(), ((0.3, 0.1, 0.03), (0.03, 0.1, 0.3))
    both = figures_1_and_4.sgd(pop, starts, 0.1, 0.9, 30, 8, 2)
    for i, start in enumerate(starts):
        alone = figures_1_and_4.sgd(pop, start, 0.1, 0.9, 30, 8, 2)
        np.testing.assert_allclose(both.states[:, i], alone.states, rtol=1e-10, atol=1e-15)
        np.testing.assert_allclose(both.loss[:, i], alone.loss, rtol=1e-12)
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
            np.testing.assert_allclose(by_w[h], beta**2 * a[i, h] * (sums - a[i, h] @ sums), rtol=1e-10, atol=1e-15)


# -- sweep over starts, and later jumps ---------------------------------------------------------------------------------


def test_census_with_w_at_zero_follows_beta_and_large_w_does_not(monkeypatch):
    ratios = (0.0, 0.03, 0.1, 1.0, 10.0)
    grid = stages.Grid((0.1,), ratios, 12)
    monkeypatch.setitem(stages.GRIDS, "smoke", grid)
    shares = stages.shares(grid, stages.activated("smoke", range(5))["times"])
    values = stages.order_values(shares, grid)
    assert values["census/w0"].value.tolist() == [1.0]
    assert values["census/ratio_10"].value[0] < 0.85
    assert (shares["finished"] <= 1).all()


# -- simplifications ----------------------------------------------------------------------------------------------------


def test_the_kept_model_on_tokens_is_the_population():
    """A0, A2 and A3 kept: flow of the transformer against the flow of the population, the same activation times."""
    betas = (0.3, 0.1, 0.03)
    model = RecallTransformer(3, stages.R, 3)
    run = simplifications.watched(model, simplifications.flow_of(model, betas, 250.0))
    np.testing.assert_allclose(run["mass"], 1.0, rtol=1e-12)
    np.testing.assert_allclose(run["loss"], run["normalised"], rtol=1e-9)
    pop = stages.experiment(order=3, n_heads=3)
    times = stages.activations(pop, stages.small(pop, betas)[None], 250.0)[0]
    active = stages.first_passage(run["times"], run["advantage"], stages.ACTIVE)
    np.testing.assert_allclose(active[:2], times[:2], rtol=0.02)
    assert np.isinf(active[2])
    assert np.isinf(times[2])


def test_what_is_watched_is_that_of_the_model_at_each_state():
    model = RecallTransformer(3, 4, 3, 0.5, a0=False, a2=False, a3=False)
    states = np.random.default_rng(0).normal(size=(3, 3 * model.length + 3))
    run = simplifications.watched(model, Flow(np.arange(3.0), states))
    for i, state in enumerate(states):
        simplifications.load(model, state)
        s = model.response_weights(simplifications.every_query(model))
        assert run["mass"][i] == pytest.approx(s.sum(1).mean().item(), rel=1e-12)
        assert run["accuracy"][i] == pytest.approx((s.diagonal() / s.sum(1)).mean().item(), rel=1e-12)
        np.testing.assert_allclose(run["advantage"][i], model.advantage().detach(), rtol=1e-12)
        np.testing.assert_array_equal(run["beta"][i], state[-3:])


def test_jumps_of_lifted_models_are_read_from_the_normalised_loss(monkeypatch):
    """A raw loss that would say something else must not be read."""
    task = AssociativeRecall(3, stages.R)
    middles = [(task.plateau_dp(m) + task.plateau_dp(m + 1)) / 2 for m in (0, 1)]
    curve = np.interp(np.arange(5.0), [0, 1, 3, 4], [0.6, middles[0], middles[1], 0.0])
    made_up = {"times": np.arange(5.0), "normalised": curve, "loss": curve[::-1], "advantage": np.ones((5, 3))}
    monkeypatch.setattr(simplifications, "flow_of", lambda *_: None)
    monkeypatch.setattr(simplifications, "watched", lambda *_: dict(made_up))
    for run in simplifications.lifted().values():
        np.testing.assert_allclose(run["jumps"], [1.0, 3.0])
