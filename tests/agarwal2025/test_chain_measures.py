"""agarwal2025: Table 1's measurements and trials, followed runs and regularisation."""

import numpy as np
import pytest

from iclbook.papers.agarwal2025 import fair_trial, figure_9, figures_6_to_8
from iclbook.papers.agarwal2025.figures_6_to_8 import Curves
from iclbook.statistics import share_error, student
from iclbook.tasks.sticky_chain import StickyChain


def curves(end: float, seeds=(42, 2024, 1337)) -> Curves:
    steps = np.arange(0, 1001, 100)
    fall = np.linspace(0, 1, 11)[:, None]
    speeds = 1 + 0.01 * np.arange(len(seeds)) * (end < 1.9)
    nll = 2.08 - (2.08 - end) * fall * speeds + 1e-9 * np.arange(len(seeds))
    return Curves(steps, seeds, {"nll": nll, "entropy": nll, "accuracy": 2.2 - nll, "kl": 0 * nll + 0.1 * fall})


def test_steps_to_a_level_are_interpolated():
    fast, slow = curves(1.88), curves(1.98)
    np.testing.assert_allclose(figures_6_to_8.steps_to(fast, slow["nll"][-1]), [500, 500 / 1.01, 500 / 1.02])
    np.testing.assert_allclose(figures_6_to_8.steps_to(slow, np.full(3, 0.0)), 1000)
    np.testing.assert_allclose(figures_6_to_8.steps_to(slow, np.full(3, 9.0)), 0)


def test_curves_are_compared_by_the_area_between_them():
    """SGD stays at 2; the schedule falls to 1 in a straight line in one seed and to 0 in the other: 1/2 and 1 below in the mean."""
    steps = np.array([0, 10, 20])
    sgd = Curves(steps, (1, 2), {k: np.full((3, 2), 2.0) for k in ("nll", "entropy", "accuracy")})
    em = Curves(steps, (1, 2), {k: 2 - np.array([[0, 0], [0.5, 1], [1, 2]]) for k in ("nll", "entropy", "accuracy")})
    found = figures_6_to_8.curve_values({"code": (em, sgd)})["fig6-8/loss_apart"]
    assert found.value == pytest.approx([-0.75])
    assert found.error == pytest.approx([student(2) * 0.25])


def test_an_alternation_pays_two_gradients_a_step():
    """Alternation that reaches SGD's loss after 500 of 1,000 steps is no faster, gradient for gradient."""
    others = dict.fromkeys((*fair_trial.RIVALS, "alternating", "uniform0.02", "uniform1"), curves(1.88))
    for curve in others.values():
        curve.values["held_out"] = curve["nll"]
    sgd = curves(1.98)
    found = fair_trial.fair_values(others["alternating"], sgd, others)["manual/speedup"]
    assert found.value == pytest.approx(1000 / (2 * np.mean([500, 500 / 1.01, 500 / 1.02])))


def test_joined_keeps_the_seeds_apart():
    both = figures_6_to_8.joined(curves(1.9, (1, 2)), curves(1.9, (3,)))
    assert both.seeds == (1, 2, 3)
    assert both["nll"].shape == (11, 3)
    with pytest.raises(AssertionError, match="a seed of two studies"):
        figures_6_to_8.joined(both, curves(1.9, (2,)))


def test_weights_by_hand_are_near_the_floor():
    assert fair_trial.by_hand(StickyChain("code", T=1000), 42) < 0.085


def test_way_left_and_its_mean():
    """A straight way has half of it left in the mean; one that is done at half time has a quarter."""
    steps, straight = np.array([0, 10, 20, 30, 40]), np.linspace(1, 0, 5)
    left = figure_9.way_left(straight[:, None, None, None] * np.ones((5, 1, 3, 2)))[:, 0]
    assert left[2] == pytest.approx(0.5)
    early, late = np.maximum(1 - 2 * (1 - straight), 0)[:, None] * [1, 1], left[:, None] * [1, 1]
    found = figure_9.frame_values({"attention": early, "values": late, "error": early}, steps, "toy")
    assert (found["toy/before_values"].value, found["toy/before_error"].value) == pytest.approx((-0.25, 0))


def test_printed_p_among_draws_of_five():
    """Alike seeds give small p always, seeds of both signs never; ten seeds are two draws that share none."""
    alike, mixed = -1 + 0.01 * np.arange(10.0), (-1.0) ** np.arange(10) + 0.1 * np.arange(10)
    assert figures_6_to_8.p_share(alike, 5).value == 1
    assert figures_6_to_8.p_share(mixed, 5).value < 0.05
    assert figures_6_to_8.p_share(alike, 5).error == pytest.approx(share_error(2, 2))


def test_a_summed_loss_ends_where_it_has_diverged():
    losses = fair_trial.summed_loss(StickyChain("code", T=300), 42, 60)
    assert len(losses) < 60
    assert losses[-1] > fair_trial.LOST * losses[0] >= losses[:-1].max()


def test_a_summed_loss_is_the_same_from_weights_moved_by_rounding(monkeypatch):
    draw = fair_trial.random_weights

    def moved(*args):
        weights = draw(*args)
        return type(weights)(*[p * (1 + 1e-14) for p in weights])

    chain = StickyChain("code", T=300)
    before = fair_trial.summed_loss(chain, 42, 60)
    monkeypatch.setattr(fair_trial, "random_weights", moved)
    after = fair_trial.summed_loss(chain, 42, 60)
    assert len(before) == len(after)
    np.testing.assert_allclose(before, after, rtol=1e-6)
