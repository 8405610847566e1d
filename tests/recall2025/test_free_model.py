"""recall2025: the whole model trained end to end, its stages and heads; and A2 lifted at six orders of beta."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from iclbook.models import RecallTransformer
from iclbook.papers.recall2025.measures import free_model, queries
from iclbook.papers.recall2025.runs import free_model as runs
from iclbook.papers.recall2025.runs.free_model import FreeModel, FreeRun
from iclbook.statistics import share_error
from iclbook.tasks import AssociativeRecall

SETTING = FreeModel(order=4, n_responses=4)


def sigmoid(x):
    return (1 + np.tanh(x / 2)) / 2


def falls(steps, at, width=12.0):
    """A loss that falls from each plateau of the task to the next at these steps."""
    levels = [SETTING.task.plateau_dp(m) for m in range(4)]
    drops = zip(np.diff(levels), at, strict=True)
    return levels[0] + sum(drop * sigmoid((steps - t) / width) for drop, t in drops)


def test_a_loss_rests_at_a_plateau_only_between_two_jumps():
    steps = np.arange(0, 2001, 20)
    for at, found in (
        ((400, 900, 1500), [True, True]),
        ((400, 430, 1500), [False, True]),
        ((400, 900, 930), [True, False]),
        ((400, 420, 440), [False, False]),
    ):
        assert free_model.rests(steps, falls(steps, at), SETTING).tolist() == found
    smooth = SETTING.task.plateau_dp(0) * np.exp(-steps / 500)
    assert not free_model.rests(steps, smooth, SETTING).any()
    assert not free_model.rests(steps, falls(steps, (400, 9000, 9500)), SETTING).any()  # never gets there


def test_offsets_are_counted_once_and_from_half_of_the_attention():
    def scores(*offsets):
        return 5.0 * np.eye(4)[[o - 1 for o in offsets]]

    w = np.stack([scores(1, 2, 3, 4), scores(1, 1, 2, 2), np.zeros((4, 4))])
    assert free_model.offsets_found(w, SETTING).tolist() == [4, 2, 0]
    lifted = FreeModel(order=3, a0=False)
    own = np.zeros((1, 3, 27))
    own[0, 0, 0] = own[0, 1, 1] = own[0, 2, 9] = 9.0  # itself, offset 1, beyond the permutation
    assert free_model.offsets_found(own, lifted).tolist() == [1]


def test_values_of_made_up_runs():
    steps = np.arange(0, 2001, 20)
    calm, rushed = falls(steps, (400, 900, 1500)), falls(steps, (400, 430, 1500))
    course = np.stack([calm, rushed], 1)  # (T, 2 seeds)
    w = np.zeros((len(steps), 2, 4, 4))
    w[-1] = 9.0 * np.eye(4)
    loss = np.full_like(course, 0.5)
    loss[-1] = [0.01, 0.03]
    run = FreeRun(steps, loss, course, w)
    values = free_model.free_values((SETTING, run), (SETTING, run), (SETTING, run))
    assert values["free/rests_window"] == 0.75
    assert values["free/rests_window_se"] == share_error(3, 4)
    assert values["free/rests_each"] == [0.5, 1.0]
    assert values["free/loss"] == pytest.approx(0.03 / SETTING.task.plateau_dp(0))
    # of two seeds drawn twice, the second, whose loss is 3, is missed once in four; then the largest is 1
    spread = np.sqrt(3 / 16) * 0.02 / SETTING.task.plateau_dp(0)
    assert values["free/loss_se"] == pytest.approx(spread, rel=0.1)
    assert (values["free/offsets_window"], values["free/offsets_start"]) == (4, 0)
    assert values["free/rests_together"] == 0.0


def test_right_answers_are_those_of_the_task_and_shuffled_ones_are_not():
    for shuffled in (False, True):
        setting = FreeModel(order=3, n_responses=4, shuffled=shuffled)
        tokens, right = setting.draw(200, np.random.default_rng(0))
        answers = []
        for row in tokens:
            pairs = row[:-3].reshape(-1, 4)
            answers.append(pairs[(pairs[:, :3] == row[-3:]).all(1), 3].item())
        agree = (np.array(answers) == right).mean()
        assert bool(agree == 1) != shuffled
        assert agree < 0.5 or not shuffled


def test_training_learns_and_shuffled_answers_teach_nothing():
    setting = FreeModel(order=3, n_responses=4, rate=0.3, momentum=0.9)
    learned = runs.train(setting, 1, 400)
    first = setting.task.plateau_dp(0)
    assert learned.normalised[0, 0] == pytest.approx(first, abs=0.05)
    assert learned.normalised[-1, 0] < 0.1 * first
    idle = runs.train(FreeModel(order=3, n_responses=4, rate=0.3, momentum=0.9, shuffled=True), 1, 400)
    assert idle.normalised[-1, 0] > 0.9 * first


def test_each_seed_trains_as_if_alone():
    three, one = runs.train(FreeModel(), 3, 40), runs.train(FreeModel(), 1, 40)
    assert three.loss.shape == three.normalised.shape == (3, 3)
    np.testing.assert_allclose(three.loss[:, 0], one.loss[:, 0], rtol=1e-9)


@pytest.mark.parametrize("a0", [True, False])
def test_losses_of_free_matrices_are_the_models(a0):
    models = [RecallTransformer(3, 2, 3, a0=a0, a1=False, a2=False, a3=False) for _ in range(2)]
    task, rng = AssociativeRecall(3, 2), np.random.default_rng(0)
    tokens, right, alone, shares = [], [], [], []
    for seed, model in enumerate(models):
        model.initialise(torch.Generator().manual_seed(seed))
        queries_, maps = task.sample(5, rng)
        tokens.append(torch.tensor(task.sequences(queries_, maps)))
        right.append(torch.tensor(3 + maps[np.arange(5), queries_]))
        p = model(tokens[-1])
        found = p.gather(1, right[-1][:, None])[:, 0]
        shares.append(1 - (found / p[:, 3:].sum(-1)).mean().item())
        loss = 1 - found.mean()
        alone.append((loss.detach(), *torch.autograd.grad(loss, [model.w, model.beta])))
    w, beta = (
        torch.stack([getattr(m, name).detach() for m in models]).requires_grad_() for name in ("w", "beta")
    )
    losses, normalised = runs.losses(models[0], w, beta, torch.stack(tokens), torch.stack(right))
    together = (losses.detach(), *torch.autograd.grad(losses.sum(), [w, beta]))
    for ours, theirs in zip(together, zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(ours, torch.stack(theirs), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(normalised.detach(), shares, rtol=1e-12)


# -- A2 lifted ----------------------------------------------------------------------------------------------------------


def test_apart_and_ordered_by_hand():
    inf = np.inf
    np.testing.assert_allclose(
        queries.apart(np.array([[1.0, 2.0, 3.0], [1.0, 1.1, 5.0], [1.0, 2.0, inf]])), [1.5, 1.1, 0]
    )
    active = queries.RANKS.astype(float)  # the head of rank 0 first
    assert queries.ordered(active).all()
    active[0, 2] = inf
    active[5] = active[5, ::-1]
    assert queries.ordered(active).tolist() == [False, True, True, True, True, False]


def test_the_race_with_a2_follows_beta_and_without_it_does_not():
    values = queries.a2_values()
    assert values["a2/kept_apart"] == values["a2/kept_ordered"] == 6
    assert max(values["a2/apart"], values["a2/ordered"]) < 6
