"""What agarwal2025's chapter records must not hang on rounding: no run that diverges is read beyond the point where it has."""

import numpy as np
import pytest
import torch

from iclbook import random
from iclbook.errors import UserError
from iclbook.models.single_head import SingleHead
from iclbook.papers.agarwal2025.measures import follow, regularisation
from iclbook.papers.agarwal2025.runs import dropped, full_batch, short
from iclbook.papers.agarwal2025.theory import causal
from iclbook.tasks.sticky_chain import StickyChain
from iclbook.training import FullBatch, Group, Run, Sgd, Trainer


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
def test_runs_with_dropout_fall_and_never_rise_above_their_start(share):
    loss = regularisation.trained(StickyChain("code", T=200), (9999,), 120, range(121))[
        f"dropped{share}"
    ].loss
    assert loss[1:].max() < 1.01 * loss[1, 0]
    assert loss[-1, 0] < loss[1, 0] - 0.2


def test_a_run_that_overflows_is_an_error_that_names_seed_and_step(monkeypatch):
    monkeypatch.setattr(dropped, "RATE", 1e30)
    with pytest.raises(
        UserError, match=r"regularisation: .* of group \w+, seed 3 .* is not finite at step 20"
    ):
        regularisation.trained(StickyChain("code", T=40), (3,), 20)


def test_layer_norm_leaves_no_spread_but_its_own_constant():
    chain = StickyChain("code", T=60)
    model = regularisation.at(regularisation.trained(chain, (0,), 5)["normed"], 0, value_norm=True)
    x = full_batch.data(chain, 0).train.x.double()
    with torch.no_grad():
        again = regularisation._norm_spread(model, x * (1 + 1e-13))
    assert regularisation._norm_spread(model, x) == pytest.approx(again, rel=1e-6)
    assert model.W_V.dtype == torch.float32  # the model itself is left as it was


def test_dropout_drops_its_share_and_leaves_the_mean():
    chain = StickyChain("code", T=60)
    drawn = dropped.DroppedSequences(chain)
    numbers = drawn.draw(random.keys([0, 1]), torch.tensor([1, 2]), 1, torch.float32)
    u = drawn.batch(tuple(x[:, 0] for x in numbers), drawn.fixed([0, 1])).query
    assert u.shape == (2, 59, 59)
    for share in regularisation.DROPOUTS:
        assert abs((u < share).double().mean() - share) < 4.5 * (share * (1 - share) / u.numel()) ** 0.5
    assert not torch.equal(u, drawn.batch(tuple(x[:, 1] for x in numbers), drawn.fixed([0, 1])).query)


def test_plain_runs_are_gradient_descent_on_the_closed_form():
    """The trainer's autograd against the closed-form gradients of the paper, step by step."""
    chain = StickyChain("code", T=60)
    history = regularisation.trained(chain, (5,), 8)["plain"]
    start, own = regularisation.at(history, 0, 0), full_batch.data(chain, 5)
    weights = [getattr(start, name).detach().double() for name in full_batch.MATRICES]
    for _ in range(8):
        got = causal.step(own.train.x.double(), own.target.double(), *weights)
        weights = [
            p - dropped.RATE * getattr(got, n) for p, n in zip(weights, full_batch.MATRICES, strict=True)
        ]
    for name, p in zip(full_batch.MATRICES, weights, strict=True):
        np.testing.assert_allclose(history.circuits[name][-1, 0], p, rtol=1e-4, atol=1e-6)


def test_a_race_is_what_the_trainer_trains():
    chain, seed, rate, ratio, steps = StickyChain("nearer", 0.3, 60), 42, 0.02, 10.0, 20
    runs = (
        Run(seed, rate, full_batch.INIT_SCALE, factors=(("W_V", ratio),)),
        Run(seed, rate, full_batch.INIT_SCALE),
        Run(seed, rate * ratio, full_batch.INIT_SCALE),
    )
    sizes = {"d_x": chain.d, "n_classes": chain.n}
    chosen = {"loss": full_batch.mean_cross_entropy, "gradient": full_batch.closed_gradient}
    group = Group("race", SingleHead, sizes, runs, Sgd(), **chosen)
    data = FullBatch(full_batch.OwnSequences(chain))
    trained = Trainer(data, [group], steps, 1, range(steps), "cpu", compile=False).train(progress=False)
    race = short.race(ratio, 0.3, T=60, steps=steps)
    np.testing.assert_allclose(
        np.stack([race.schedule, race.sgd, race.uniform], 1), trained["race"].loss[1:], rtol=1e-6
    )
