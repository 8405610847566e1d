"""Waits predicted from the loss near zero alone, on models kept out of every table."""

import numpy as np
import pytest

from iclbook.models import Attention
from iclbook.papers.crossing import chance, escape
from iclbook.papers.crossing.models import _regression, softmax_heads
from iclbook.papers.crossing.waits import Resting, leave
from iclbook.papers.recall2025.theory import Population
from iclbook.tasks import AssociativeRecall, LinearRegression
from iclbook.training.landscape import Landscape


def _three_heads(draw):
    return _regression(Attention(3, 3, activation="tanh"), LinearRegression(d=3, L=8, noise_var=0.0))(draw)


def _order_four(draw):
    population = Population(AssociativeRecall(order=4, n_responses=3), n_heads=3, window=4)
    return Landscape(
        lambda seed: np.random.default_rng(seed).standard_normal(population.size),
        lambda theta: (float(population.value(theta)), population.gradient(theta)),
    )


@pytest.mark.parametrize(("model", "p", "size", "factor"), [(_three_heads, 4, 0.1, 2), (_order_four, 3, 0.05, 4)])
def test_the_wait_of_a_model_that_stands_in_no_table_is_predicted_within_two_per_cent(model, p, size, factor):
    landscape = model(5)
    first = escape.escape(landscape, 5)
    assert first.degree == p
    assert first.exponent == pytest.approx(p, abs=0.05)
    near, far = (leave(landscape, length * first.direction).first() for length in (size, size / factor))
    assert far - near == pytest.approx(first.longer(size, factor), rel=0.02)
    decay = first.degree * first.strength * 0.02 ** (p - 2)
    kept = escape.decayed(landscape, decay)
    assert first.stuck_below(decay) == pytest.approx(0.02)
    assert [escape.leaves(kept, length * first.direction) for length in (0.018, 0.022)] == [False, True]


@pytest.mark.parametrize(
    ("paths", "p"), [([(0, 1, 2)], 3), ([(0, 0, 1)], 3), ([(0, 1, 2), (3, 4)], 2), ([(0, 1, 1, 2)], 4)]
)
def test_products_have_their_degree_and_strength(paths, p):
    """On the unit sphere ``2 x_1 ... x_n`` of powers a_i is largest where ``x_i^2 = a_i / p``."""
    first = escape.escape(escape.product(*paths)(0), 0)
    assert first.exponent == pytest.approx(p, abs=0.01)
    shortest = min(paths, key=len)
    powers = np.unique(shortest, return_counts=True)[1]
    assert first.strength == pytest.approx(2 * np.prod((powers / p) ** (powers / 2)), rel=1e-3)


def test_a_loss_that_falls_nowhere_is_said_to_rest():
    bowl = Landscape(lambda seed: np.ones(3), lambda x: (1 + float(x @ x), 2 * x))
    with pytest.raises(Resting, match="no direction"):
        escape.escape(bowl, 0)


def test_chance_has_the_rate_of_gaussian_moments_and_the_loss_grows_at_it():
    squares = chance.correlations(400)
    assert np.sqrt(squares.mean()) == pytest.approx(chance.rate_of_chance(1), rel=0.1)
    landscape, rate = chance.plain_heads(3, 32)
    first = escape.escape(landscape, 3)
    assert first.degree == 2
    assert 2 * first.strength == pytest.approx(rate, rel=2e-3)


def test_sgd_leaves_as_gradient_flow_does_at_a_small_rate_and_a_large_batch():
    judge = softmax_heads(2, 0, 512)
    start = 0.1 * judge.start(0)
    steps = chance.sgd_wait(start, judge, 0, 512, 0.1, 20_000)
    assert steps * 0.1 == pytest.approx(leave(judge, start).first(), rel=0.3)
    assert np.isnan(chance.sgd_wait(start / 10, judge, 0, 16, 0.05, 10))
