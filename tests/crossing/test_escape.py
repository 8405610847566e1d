"""Waits predicted from the loss near zero alone, on models kept out of every table."""

import numpy as np
import pytest

from iclbook.models import Attention
from iclbook.papers.crossing import chance, escape
from iclbook.papers.crossing.models import REGRESSION, _regression, prompts, residual_layer, softmax_heads
from iclbook.papers.crossing.waits import Resting, adam_wait, leave
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


def test_queries_and_keys_grow_at_their_rate_where_outputs_and_values_fit_chance():
    draw, count = 3, 128
    landscape, _ = chance.plain_heads(draw, count)
    batch = prompts(REGRESSION, draw, count)
    mean, answers = batch.context.mean(0).numpy(), batch.target[0].numpy()
    theta = np.zeros((4, 2, 3, 3))
    theta[1], theta[3, :, -1, 0] = 1e-6 * np.eye(3), 1
    theta[2, 0, 0] = np.linalg.lstsq(mean.T, answers, rcond=None)[0]
    slopes = landscape.gradient(theta.ravel()).reshape(theta.shape)
    assert np.abs(slopes[2]).max() < 1e-6, "the fit is stationary"
    start = landscape.start(draw).reshape(theta.shape)
    along = mean @ answers / np.linalg.norm(mean @ answers)
    grown = ((start[3, :, -1] + start[2] @ along) ** 2).sum(1)
    pulled = np.linalg.norm(slopes[0, 0], 2) / 1e-6
    assert chance.second_rate(draw, count) == pytest.approx(pulled * grown.max() / grown.sum(), rel=1e-6)


@pytest.mark.parametrize("normed", [False, True])
def test_a_residual_stream_and_layer_norm_leave_five_factors(normed):
    landscape = residual_layer(normed, 1)
    theta, rng = 0.5 * landscape.start(2), np.random.default_rng(0)
    direction, h = rng.standard_normal(len(theta)), 1e-6
    slope = (landscape.value(theta + h * direction) - landscape.value(theta - h * direction)) / (2 * h)
    assert landscape.gradient(theta) @ direction == pytest.approx(slope, rel=1e-6)
    assert escape.escape(landscape, 1).exponent == pytest.approx(5, abs=0.05)


def test_adam_below_its_guard_waits_as_gradient_flow_does():
    landscape, rate, guard = escape.product((0, 1, 2))(0), 1e-3, 0.01
    starts = [size * np.ones(3) for size in (0.004, 0.008)]
    long, short = (adam_wait(landscape, start, rate, guard=guard) for start in starts)
    added = np.diff([leave(landscape, start).first() for start in starts[::-1]])[0]
    assert (long - short) * rate / guard == pytest.approx(added, rel=0.03)


def test_sgd_leaves_as_gradient_flow_does_at_a_small_rate_and_a_large_batch():
    judge = softmax_heads(2, 0, 512)
    start = 0.1 * judge.start(0)
    steps = chance.sgd_wait(start, judge, 0, 512, 0.1, 20_000)
    assert steps * 0.1 == pytest.approx(leave(judge, start).first(), rel=0.3)
    assert np.isnan(chance.sgd_wait(start / 10, judge, 0, 16, 0.05, 10))
