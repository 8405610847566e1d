"""What agarwal2025's chapter records must not hang on rounding: no run that diverges is read beyond the point where it has."""

import numpy as np
import pytest
import torch

from iclbook.errors import UserError
from iclbook.papers.agarwal2025.measures import follow, regularisation
from iclbook.tasks.sticky_chain import StickyChain


def test_a_summed_loss_ends_where_it_has_diverged():
    losses = follow.summed_loss(StickyChain("code", T=300), 42, 60)
    assert len(losses) < 60
    assert losses[-1] > follow.LOST * losses[0] >= losses[:-1].max()


def test_a_summed_loss_is_the_same_from_weights_moved_by_rounding(monkeypatch):
    draw = follow.random_weights

    def moved(*args):
        weights = draw(*args)
        return type(weights)(*[p * (1 + 1e-14) for p in weights])

    chain = StickyChain("code", T=300)
    before = follow.summed_loss(chain, 42, 60)
    monkeypatch.setattr(follow, "random_weights", moved)
    after = follow.summed_loss(chain, 42, 60)
    assert len(before) == len(after)
    np.testing.assert_allclose(before, after, rtol=1e-6)


@pytest.mark.parametrize("share", regularisation.DROPOUTS)
def test_runs_with_dropout_fall_and_never_rise_above_their_start(monkeypatch, share):
    losses = []
    step = regularisation._step

    def watched(*args):
        losses.append(step(*args))
        return losses[-1]

    monkeypatch.setattr(regularisation, "_step", watched)
    regularisation.train(StickyChain("code", T=200), 9999, 120, dropout=share)
    assert max(losses) < 1.01 * losses[0]
    assert losses[-1] < losses[0] - 0.2


def test_a_run_that_overflows_is_an_error_that_names_seed_and_step(monkeypatch):
    monkeypatch.setattr(regularisation, "RATE", 1e30)
    with pytest.raises(UserError, match=r"seed 3 with dropout 0\.2 diverged at step"):
        regularisation.train(StickyChain("code", T=40), 3, 20, dropout=0.2)


def test_layer_norm_leaves_no_spread_but_its_own_constant():
    chain = StickyChain("code", T=60)
    model = regularisation.train(chain, 0, 5, value_norm=True)
    x = regularisation.data(chain, 0).train.x.double()
    with torch.no_grad():
        again = regularisation._norm_spread(model, x * (1 + 1e-13))
    assert regularisation._norm_spread(model, x) == pytest.approx(again, rel=1e-6)
    assert model.W_V.dtype == torch.float32  # the model itself is left as it was
