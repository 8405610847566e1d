"""The wait of a product of factors, beside closed forms: its laws with chance and with weight decay."""

import numpy as np
import pytest

from iclbook.papers.crossing import waits_in_page as product


@pytest.mark.parametrize("p", product.DEGREES)
def test_the_gradient_is_that_of_the_loss(p):
    rng = np.random.default_rng(p)
    x, c = rng.uniform(0.1, 1.1, 5), 0.1 * rng.standard_normal(3)
    steps = 1e-6 * np.eye(5)
    slopes = np.array([product.loss(x + h, p, c) - product.loss(x - h, p, c) for h in steps]) / 2e-6
    times = [1, 1, 1, 1, max(p - 2, 0)]  # z stands for p - 2 factors
    assert times * product.gradient(x, p, c) == pytest.approx(slopes, abs=1e-9)
    assert (product.gradient(x, p, c, 0.5) - product.gradient(x, p, c))[:4] == pytest.approx(0.5 * x[:4])


def test_halvings_of_two_and_three_factors_add_what_their_law_says():
    """log 2, and 1 / eps."""
    two, three = ([product.product_flow(p, size).first() for size in (0.02, 0.01)] for p in (2, 3))
    assert np.diff(two) == pytest.approx(np.log(2), rel=0.01)
    assert np.diff(three) == pytest.approx(50, rel=0.01)


def test_chance_adds_its_logarithm_and_then_that_of_the_other_factors():
    """Outputs and values grow at the rate c until they fit the mean, ``O V = c / v``; then the others do, at ``c / v - c^3 / v^2``."""
    c = product.rate_of_chance(32) / 2
    waits = [product.product_flow(4, size, c).first() for size in (2e-9, 1e-9)]
    second = (1 - c**2 / product.MEAN) * c / product.MEAN
    assert waits[1] - waits[0] == pytest.approx(np.log(2) * (1 / c + 1 / second), rel=0.01)


def test_decay_keeps_starts_below_its_strength():
    """Three factors, ``x^2 < decay x``; whatever fits the mean as well costs a little."""
    assert [len(product.product_flow(3, size, decay=0.02).events[0]) for size in (0.019, 0.021)] == [0, 1]
