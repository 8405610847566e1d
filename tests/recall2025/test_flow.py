"""Gradient flow of one run, and first passages of an ensemble."""

import math

import numpy as np
import pytest

from iclbook.papers.recall2025.theory import Population
from iclbook.tasks import AssociativeRecall
from iclbook.training import first_crossings, gradient_flow

# -- gradient flow ------------------------------------------------------------------------------------------------------


def test_flow_of_a_quadratic_is_exact_and_finds_events():
    flow = gradient_flow(lambda x: x, np.array([[1.0], [2.0]]), 3.0, [0.0, 1.0, 3.0], [lambda x: 0.5 - x[0, 0]])
    np.testing.assert_allclose(flow.states[:, :, 0], np.exp(-flow.times)[:, None] * [1, 2], rtol=1e-9)
    assert flow.first() == pytest.approx(math.log(2), rel=1e-8)


def test_the_named_event_ends_the_flow_and_no_other():
    events = [lambda x: 0.5 - x[0], lambda x: 0.25 - x[0], lambda x: 0.1 - x[0]]
    flow = gradient_flow(lambda x: x, np.ones(1), 10.0, events=events, stop_at=1)
    assert flow.times[-1] == pytest.approx(math.log(4), rel=1e-8)
    assert [len(e) for e in flow.events] == [1, 1, 0]


# -- passages -----------------------------------------------------------------------------------------------------------


def test_passages_of_exponentials_over_eight_orders_of_magnitude():
    """x' = x from 10^-j passes 1 at j log 10, whatever the other runs do; a run that never does is left at its end."""
    start = 10.0 ** -np.arange(9.0)[:, None]
    found = first_crossings(lambda x: -x, lambda x: x - 1.0, start, 100.0, rtol=1e-9, atol=1e-16)
    np.testing.assert_allclose(found[:, 0], np.arange(9) * math.log(10), rtol=1e-7, atol=1e-12)
    lost = first_crossings(lambda x: x, lambda x: x - 2.0, np.ones((1, 1)), 3.0, rtol=1e-9)
    assert np.isinf(lost).all()


def test_passages_agree_with_the_flow_of_one_run():
    pop = Population(AssociativeRecall(4, 4), 3, 4)
    theta = pop.join(np.zeros((3, 4)), np.array([0.1, 0.05, 0.02]))
    found = first_crossings(pop.gradient, lambda x: pop.advantage(x) - 1.0, theta[None], 1e5, 1e-8, 1e-13)
    events = [lambda x, h=h: float(pop.advantage(x)[h]) - 1.0 for h in range(3)]
    flow = gradient_flow(pop.gradient, theta, 1e5, events=events, stop_at=2)
    np.testing.assert_allclose(found[0], [flow.first(h) for h in range(3)], rtol=1e-5)
