"""recall2025: gradient flow, passages of an ensemble, and the closed forms of the first jump along exact flows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from iclbook.errors import UserError
from iclbook.papers.recall2025 import theory
from iclbook.papers.recall2025.measures import chain, first_jump, time_scales
from iclbook.papers.recall2025.theory import Population
from iclbook.tasks import AssociativeRecall
from iclbook.training import Flow, gradient_flow
from iclbook.training.flow import first_crossings

# -- gradient flow ------------------------------------------------------------------------------------------------------


def test_flow_of_a_quadratic_is_exact_and_finds_events():
    flow = gradient_flow(
        lambda x: x, np.array([[1.0], [2.0]]), 3.0, [0.0, 1.0, 3.0], [lambda x: 0.5 - x[0, 0]]
    )
    np.testing.assert_allclose(flow.states[:, :, 0], np.exp(-flow.times)[:, None] * [1, 2], rtol=1e-9)
    assert flow.first() == pytest.approx(math.log(2), rel=1e-8)


def test_the_named_event_ends_the_flow_and_no_other():
    events = [lambda x: 0.5 - x[0], lambda x: 0.25 - x[0], lambda x: 0.1 - x[0]]
    flow = gradient_flow(lambda x: x, np.ones(1), 10.0, events=events, stop_at=1)
    assert flow.times[-1] == pytest.approx(math.log(4), rel=1e-8)
    assert [len(e) for e in flow.events] == [1, 1, 0]
    with pytest.raises(UserError, match="did not happen"):
        flow.first(2)
    with pytest.raises(UserError, match="watched 3"):
        flow.first(3)


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"until": 0.0}, "end after 0"),
        ({"at": [0.0, 2.0]}, "do not rise"),
        ({"at": [-1.0]}, "do not rise"),
        ({"at": [0.5, 0.5]}, "do not rise"),
        ({"stop_at": 0}, "stop at event 0"),
        ({"stop_at": 1, "events": [lambda x: x[0]]}, "stop at event 1"),
        ({"gradient": lambda x: -(x**3), "until": 10.0}, "stopped"),
        ({"gradient": lambda x: x * np.nan}, "not finite"),
        ({"gradient": lambda x: np.where(x < 0.5, np.inf, x), "until": 5.0}, "not finite"),
    ],
)
def test_flows_that_cannot_be_followed_are_refused(kwargs, match):
    with pytest.raises(UserError, match=match), np.errstate(all="ignore"):
        gradient_flow(**{"gradient": lambda x: x, "start": np.ones(1), "until": 1.0, **kwargs})


def test_an_event_that_was_not_watched_is_refused():
    with pytest.raises(UserError, match="watched 0"):
        Flow(np.zeros(1), np.zeros((1, 1))).first()


# -- passages -----------------------------------------------------------------------------------------------------------


def test_passages_of_exponentials_over_eight_orders_of_magnitude():
    """x' = x from 10^-j passes 1 at j log 10, whatever the other runs do; a run that never does is left at its end."""
    start = 10.0 ** -np.arange(9.0)[:, None]
    found = first_crossings(lambda x: -x, lambda x: x - 1.0, start, 100.0, rtol=1e-9, atol=1e-16)
    np.testing.assert_allclose(found.times[:, 0], np.arange(9) * math.log(10), rtol=1e-7, atol=1e-12)
    lost = first_crossings(lambda x: x, lambda x: x - 2.0, np.ones((1, 1)), 3.0, rtol=1e-9)
    assert np.isinf(lost.times).all()
    assert lost.end[0] == 3.0
    assert lost.states[0, 0] == pytest.approx(math.exp(-3.0), rel=1e-7)


def test_passages_agree_with_the_flow_of_one_run():
    pop = Population(AssociativeRecall(4, 4), 3, 4)
    theta = pop.join(np.zeros((3, 4)), np.array([0.1, 0.05, 0.02]))
    found = first_crossings(pop.gradient, lambda x: pop.advantage(x) - 1.0, theta[None], 1e5, 1e-8, 1e-13)
    events = [lambda x, h=h: float(pop.advantage(x)[h]) - 1.0 for h in range(3)]
    flow = gradient_flow(pop.gradient, theta, 1e5, events=events, stop_at=2)
    np.testing.assert_allclose(found.times[0], [flow.first(h) for h in range(3)], rtol=1e-5)
    np.testing.assert_allclose(found.end[0], flow.times[-1], rtol=0.2)  # left at the step after the last


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"until": 0.0}, "ensemble"),
        ({"start": np.ones(3)}, "ensemble"),
        ({"gradient": lambda x: x * np.nan}, "not finite"),
        ({"most_steps": 3}, "more than 3 steps"),
    ],
)
def test_ensembles_that_cannot_be_followed_are_refused(kwargs, match):
    ask = {"gradient": lambda x: x, "marks": lambda x: x - 2, "start": np.ones((2, 1)), "until": 9.0}
    with pytest.raises(UserError, match=match):
        first_crossings(**{**ask, **kwargs})


# -- closed forms -------------------------------------------------------------------------------------------------------


def test_first_jump_claims_hold_along_the_flow():
    orders = (3, 4)
    conserved = first_jump.conservation(orders)
    assert conserved["conserved/proof"] <= 1e-9
    assert conserved["conserved/ce"] <= 1e-9
    assert min(conserved["conserved/window"], conserved["conserved/window_longer"]) > 0.01
    ode = first_jump.sufficient_ode(orders)
    assert ode["ode/half"] <= 1e-6
    np.testing.assert_allclose(ode["ode/clock"], 2, atol=1e-3)
    direction = first_jump.direction(orders)
    assert direction["thm3.1/signs"]
    assert direction["thm3.1/others"] == 0
    assert direction["thm3.1/delta"] <= 1e-12 < 0.01 < direction["thm3.1/delta_wrong"]


@pytest.mark.parametrize(("n_responses", "gamma", "order"), time_scales.OTHERS)
def test_time_of_the_jump_and_local_law_at_other_gamma(n_responses, gamma, order):
    pop = Population(AssociativeRecall(order, n_responses), order, order, gamma)
    eps = 1e-4
    time = first_jump.jump_time(pop, eps)
    assert time * eps == pytest.approx(theory.jump_limit(order, n_responses, pop.kappa), rel=5e-3)
    flow = gradient_flow(
        pop.gradient, first_jump.start(pop, eps), time, events=[lambda x: x[0] - x[1] - 0.002], stop_at=0
    )
    alpha, beta = first_jump.alpha_beta(pop, flow.states[-1])
    slope = (beta**2 - eps**2) / np.expm1(alpha) ** 2
    assert slope == pytest.approx(theory.local_coefficient(order), rel=5e-3)  # corrections of order s


def test_late_slope_at_other_gamma_is_that_of_the_late_law():
    """Where gamma_1 is large, it grows like kappa beta^2, and beta^2 like 4 (k-1)/k^2 e^alpha: the rate c of the late law."""
    pop = Population(AssociativeRecall(3, 2), 3, 3, 0.5)
    late = time_scales.late_growth(pop)
    assert late["slope"] == pytest.approx(late["predicted"], rel=0.01)
    assert late["slope"] != pytest.approx(1.0, rel=0.05)
    alpha = 12.0
    beta = 2 * math.sqrt(theory.potential(np.array(alpha), 3, 1))
    weight = theory.score_weight(np.array(alpha), beta, 3, pop.kappa)
    assert weight / np.exp(alpha) == pytest.approx(theory.late_rate(3, pop.kappa), rel=1e-3)


def test_lemma_c2_equals_the_gradient_of_the_population():
    pop = Population(AssociativeRecall(4, 3), 4, 4, 0.7)
    alpha, beta, delta = np.random.default_rng(6).normal(size=(3, 4))
    theta = pop.join(alpha[:, None] * np.eye(4) + delta[:, None], beta)
    w, b = pop.split(pop.gradient(theta))
    by_score = pop._score_gradient(pop.weights(theta))
    for h in range(4):
        by_beta, by_w = theory.lemma_c2(h, alpha, beta, delta, by_score, pop.match, pop.kappa, False)
        assert by_beta == pytest.approx(b[h], rel=1e-10, abs=1e-15)
        np.testing.assert_allclose(by_w, w[h], rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize(("alpha", "beta"), [(0.3, 0.5), (1.5, 2.0), (3.0, 3.0)])
def test_velocity_in_log_time_is_that_of_the_population(alpha, beta):
    """Of alpha and beta at one state, against the whole population's gradient, with weak and with strong scores of a match."""
    pop, tau = Population(AssociativeRecall(4, 3), 4, 4, 0.5), 2.0
    w, betas = np.zeros((4, 4)), np.array([beta, 0.0, 0.0, 0.0])
    w[0, 0] = alpha
    by_w, by_beta = pop.split(pop.gradient(pop.join(w, betas)))
    expected = -math.exp(tau) * np.array([by_w[0, 0] - by_w[0, 1], by_beta[0]])
    speed = time_scales.log_time_velocity(tau, np.array([alpha, beta]), pop)
    np.testing.assert_allclose(speed, expected, rtol=1e-10)


def test_growth_exponent_of_known_powers():
    x = np.linspace(10, 20, 50)
    for p in (0.9, 1.0, 1.1):
        assert time_scales.growth_exponent(x, 3 * x**p + 7) == pytest.approx(p, abs=1e-3)


# -- the chain of jumps -------------------------------------------------------------------------------------------------


def test_times_under_two_losses_are_compared_head_by_head_and_as_successive_ratios():
    dot, cross = np.array([10.0, 30.0, 120.0]), np.array([20.0, 40.0, 200.0])
    found = chain.loss_times((0.02, 0.005, 0.00125), dot, cross)
    assert found["ce/ratio"] == pytest.approx([2, 4 / 3, 5 / 3])
    assert found["losses/durations_dp"] == pytest.approx([3, 4])
    assert found["losses/durations_ce"] == pytest.approx([2, 5])
    assert found["losses/durations"] == pytest.approx([2 / 3, 5 / 4])
    closed = [
        theory.chained_times((0.02, 0.005, 0.00125), chain.ORDER, chain.R, loss) for loss in ("ce", "dp")
    ]
    assert found["ce/ratio_closed"] == pytest.approx((closed[0] / closed[1]).tolist())
    assert found["ce/ratio_first"] == pytest.approx([found["ce/ratio_closed"][0]] * 3)


def test_betas_of_the_chain_fall_by_four():
    assert chain.FALLING.tolist() == [0.25**head for head in range(chain.HEADS)]


def test_the_head_that_moves_most_beside_the_first_counts(monkeypatch):
    """Along a made-up flow of order 3 the second head's w reaches 0.5 and its beta 0.25; along one of order 2 nothing moves but the first head."""
    made = {}
    for order in (2, 3):
        pop = Population(AssociativeRecall(order, 4), order, order, 0.3)
        w, beta = np.zeros((2, order, order)), np.zeros((2, order))
        w[1, 0] = -1.0
        w[1, 0, 0], beta[:, 0] = order - 1.0, 0.1
        if order == 3:
            w[1, 1, 0], beta[1, 1] = 0.5, -0.25
        made[order] = pop, Flow(np.arange(2.0), pop.join(w, beta))
    monkeypatch.setattr(first_jump, "run", lambda order, **settings: made[order])
    assert first_jump.direction((2, 3))["thm3.1/others"] == pytest.approx(0.75)
    assert first_jump.direction((3, 2))["thm3.1/others"] == pytest.approx(0.75)


def test_the_chain_begins_with_the_limit_of_the_first_jump():
    for order, n_responses, kappa in ((3, 2, 1.5), (4, 4, 1.0), (5, 3, 1.0)):
        times = theory.chained_times((0.01, 0.001), order, n_responses, kappa=kappa)
        assert times[0] * 0.01 == pytest.approx(theory.jump_limit(order, n_responses, kappa), rel=1e-12)


def test_speed_of_cross_entropy_at_uniform_attention():
    """The gradient of the population at ``w = 0``, with attention spread over all orderings, under both losses."""
    for order, n_responses in ((3, 2), (4, 4)):
        theta = np.concatenate([np.zeros(order * order), np.ones(order)])
        theta[0] = 1e-6
        slopes = [
            Population(AssociativeRecall(order, n_responses), order, order, loss=loss).gradient(theta)[0]
            for loss in ("ce", "dp")
        ]
        orderings = math.factorial(order)
        assert slopes[0] / slopes[1] == pytest.approx(
            theory.cross_entropy_speed(orderings, n_responses), rel=1e-4
        )


def test_heads_that_begin_afresh_jump_later_than_those_carried_on():
    betas = (0.02, 0.005, 0.00125)
    carried, afresh = (theory.chained_times(betas, 4, 4, carried=c) for c in (True, False))
    assert carried[0] == afresh[0]
    assert (carried[1:] < 0.9 * afresh[1:]).all()
    # afresh: each jump the first of the reduced order, slower by k / (k - h + 1)
    expected = [4 / n * theory.jump_limit(n, 4) / b for n, b in zip((4, 3, 2), betas, strict=True)]
    np.testing.assert_allclose(afresh, np.cumsum(expected), rtol=1e-12)


def test_stages_sharpen_and_the_flow_scales_only_with_the_window_of_the_order():
    values = chain.pronounced((0.1, 0.03))
    assert values["pronounced/order"] > 2.5
    assert values["pronounced/k"] < 1.01
    values = chain.symmetry()
    assert values["symmetry/order"] == pytest.approx(1, abs=0.05)
    assert values["symmetry/k"] < 0.5
