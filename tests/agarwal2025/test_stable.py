"""What agarwal2025's chapter records must not hang on rounding: no run that diverges is read beyond the point where it has."""

import numpy as np

from iclbook.papers.agarwal2025 import fair_trial
from iclbook.tasks.sticky_chain import StickyChain


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
