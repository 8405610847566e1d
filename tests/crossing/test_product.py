"""The wait of a product of factors, beside closed forms and beside the flow itself."""

import numpy as np
import pytest

from iclbook.papers.crossing import waits_in_page as product
from iclbook.papers.crossing.waits import degrees
from iclbook.training import gradient_flow

GOAL = 1 - np.sqrt(product.LEFT)


def test_two_and_four_equal_factors_have_a_closed_form():
    """dx/dt = x (1 - x^2) and x^3 (1 - x^4), integrated by partial fractions."""
    two = lambda x: np.log(x) - np.log(1 - x**2) / 2  # noqa: E731
    four = lambda x: (np.arctanh(x**2) - x**-2) / 2  # noqa: E731
    for size in (0.3, 0.05, 0.01):
        assert product.wait(np.full(2, size)) == pytest.approx(two(GOAL ** (1 / 2)) - two(size), rel=1e-9)
        assert product.wait(np.full(4, size)) == pytest.approx(four(GOAL ** (1 / 4)) - four(size), rel=1e-9)


@pytest.mark.parametrize("p", product.DEGREES)
def test_unequal_factors_wait_as_long_as_their_flow_does(p):
    start = 0.2 * np.random.default_rng(p).uniform(0.5, 1.5, p)
    goal = product.LEFT * product.loss(np.zeros(p))
    flow = gradient_flow(product.gradient, start, 1e7, events=[lambda x: goal - product.loss(x)], stop_at=0, rtol=1e-11)
    assert product.wait(start, product.LEFT) == pytest.approx(flow.first(), rel=1e-6)


@pytest.mark.parametrize("kind", ["equal", "own"])
@pytest.mark.parametrize("p", product.DEGREES)
def test_small_starts_obey_the_law(kind, p):
    direction, sizes = product.directions()[kind][str(p)], 1e-3 / 2.0 ** np.arange(4)
    waits = np.array([product.wait(size * direction) for size in sizes])
    c = product.constant(direction)
    assert (c - np.log(sizes) if p == 2 else c * sizes ** (2.0 - p)) == pytest.approx(waits, rel=5e-3)
    assert degrees(waits[None], 2)[0, -1] == pytest.approx(p, abs=0.01)


def test_constants_of_equal_factors():
    assert product.constant(np.ones(2)) == pytest.approx(np.log(GOAL / (1 - GOAL)) / 2, abs=1e-9)
    for p in (3, 4, 8):
        assert product.constant(np.ones(p)) == pytest.approx(1 / (p - 2), rel=1e-6)
