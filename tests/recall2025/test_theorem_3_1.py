"""recall2025: closed forms of the first jump and of the chain of jumps, along exact flows and by hand."""

import math

import numpy as np
import pytest

from iclbook.papers.recall2025 import theorem_3_1, theory
from iclbook.papers.recall2025.theory import Population
from iclbook.tasks import AssociativeRecall
from iclbook.training import Flow, gradient_flow


@pytest.mark.parametrize(("n_responses", "gamma", "order"), theorem_3_1.OTHERS)
def test_time_of_the_jump_and_local_law_at_other_gamma(n_responses, gamma, order):
    pop = Population(AssociativeRecall(order, n_responses), order, order, gamma)
    eps = 1e-4
    time = theorem_3_1.jump_time(pop, eps)
    assert time * eps == pytest.approx(theory.jump_limit(order, n_responses, pop.kappa), rel=5e-3)
    at = [lambda x: x[0] - x[1] - 0.002]
    flow = gradient_flow(pop.gradient, theorem_3_1.start(pop, eps), time, events=at, stop_at=0)
    alpha, beta = theorem_3_1.alpha_beta(pop, flow.states[-1])
    slope = (beta**2 - eps**2) / np.expm1(alpha) ** 2
    assert slope == pytest.approx(theory.local_coefficient(order), rel=5e-3)  # corrections of order s


def test_course_of_the_first_jump_is_a_tangent_and_heads_that_look_away_die_out():
    found = theorem_3_1.local_law((3,), 1e-3)
    assert max(found["local/tangent"]) < 0.02 < 1 < found["local/line"]
    assert found["local/growth"] == pytest.approx([2], abs=0.05)
    found = theorem_3_1.looking_away((-0.2,), 3)
    assert found["looking/above"][0] < 1e-3 < 1 < found["looking/below"][0], "five per cent decide"


def test_late_slope_at_other_gamma_is_that_of_the_late_law():
    """Where gamma_1 is large, it grows like kappa beta^2, and beta^2 like 4 (k-1)/k^2 e^alpha: the rate c of the late law."""
    pop = Population(AssociativeRecall(3, 2), 3, 3, 0.5)
    late = theorem_3_1.late_growth(pop)
    assert late["slope"] == pytest.approx(late["predicted"], rel=0.01)
    assert late["slope"] != pytest.approx(1.0, rel=0.05)
    alpha = 12.0
    beta = 2 * math.sqrt(theory.potential(np.array(alpha), 3, 1))
    weight = theory.score_weight(np.array(alpha), beta, 3, pop.kappa)
    assert weight / np.exp(alpha) == pytest.approx(theory.late_rate(3, pop.kappa), rel=1e-3)


def test_growth_exponent_of_known_powers():
    x = np.linspace(10, 20, 50)
    for p in (0.9, 1.0, 1.1):
        assert theorem_3_1.growth_exponent(x, 3 * x**p + 7) == pytest.approx(p, abs=1e-3)


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
    monkeypatch.setattr(theorem_3_1, "run", lambda order, **settings: made[order])
    assert theorem_3_1.direction((2, 3))["thm3.1/others"] == pytest.approx(0.75)
    assert theorem_3_1.direction((3, 2))["thm3.1/others"] == pytest.approx(0.75)


# -- the chain of jumps -------------------------------------------------------------------------------------------------


def test_the_chain_begins_with_the_limit_of_the_first_jump():
    for order, n_responses, kappa in ((3, 2, 1.5), (4, 4, 1.0), (5, 3, 1.0)):
        times = theory.chained_times((0.01, 0.001), order, n_responses, kappa=kappa)
        assert times[0] * 0.01 == pytest.approx(theory.jump_limit(order, n_responses, kappa), rel=1e-12)


def test_speed_of_cross_entropy_at_uniform_attention():
    """The gradient of the population at ``w = 0``, with attention spread over all orderings, under both losses."""
    for order, n_responses in ((3, 2), (4, 4)):
        task, theta = AssociativeRecall(order, n_responses), np.zeros(order * (order + 1))
        theta[0], theta[-order:] = 1e-6, 1.0
        cross, dot = (Population(task, order, order, loss=loss).gradient(theta)[0] for loss in ("ce", "dp"))
        expected = theory.cross_entropy_speed(task.n_permutations, n_responses)
        assert cross / dot == pytest.approx(expected, rel=1e-4)


def test_heads_that_begin_afresh_jump_later_than_those_carried_on():
    betas = (0.02, 0.005, 0.00125)
    carried, afresh = (theory.chained_times(betas, 4, 4, carried=c) for c in (True, False))
    assert carried[0] == afresh[0]
    assert (carried[1:] < 0.9 * afresh[1:]).all()
    # afresh: each jump the first of the reduced order, slower by k / (k - h + 1)
    expected = [4 / n * theory.jump_limit(n, 4) / b for n, b in zip((4, 3, 2), betas, strict=True)]
    np.testing.assert_allclose(afresh, np.cumsum(expected), rtol=1e-12)
