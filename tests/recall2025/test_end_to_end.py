"""recall2025: the whole model trained end to end, its stages and heads; and A2 lifted at six orders of beta."""

import numpy as np
import pytest
import torch
from scipy import stats

from iclbook import random
from iclbook.models import RecallTransformer
from iclbook.papers.recall2025 import end_to_end
from iclbook.tasks import AssociativeRecall

TASK = AssociativeRecall(4, 4)


def sigmoid(x):
    return (1 + np.tanh(x / 2)) / 2


def falls(steps, at, width=12.0):
    """A loss that falls from each plateau of the task to the next at these steps."""
    levels = [TASK.plateau_dp(m) for m in range(4)]
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
        assert end_to_end.rests(steps, falls(steps, at), TASK).tolist() == found
    smooth = TASK.plateau_dp(0) * np.exp(-steps / 500)
    assert not end_to_end.rests(steps, smooth, TASK).any()
    assert not end_to_end.rests(steps, falls(steps, (400, 9000, 9500)), TASK).any()  # never gets there


def test_the_simplified_model_rests_where_its_heads_start_apart_and_not_where_they_jump_together(monkeypatch):
    class Betas:
        def __init__(self, *betas):
            self.betas = np.array(betas)

        def normal(self, size):
            return np.broadcast_to(self.betas, size)

    even = np.zeros((1, 4, 4))
    for betas, rested in (((1, 1 / 4, 1 / 16, 1 / 64), [True, True]), ((1, 1, 1, 1), [False, False])):
        monkeypatch.setattr(end_to_end, "numpy_rng", lambda seed, betas=betas: Betas(*betas))
        assert end_to_end.simplified(even, 0.02)[0].tolist() == rested
    share = end_to_end.shares_of(np.array([[True, False], [True, True], [True, False]]))
    assert share.value == pytest.approx([1, 1 / 3])


def test_offsets_are_counted_once_and_from_half_of_the_attention():
    def scores(*offsets):
        return 5.0 * np.eye(4)[[o - 1 for o in offsets]]

    w = np.stack([scores(1, 2, 3, 4), scores(1, 1, 2, 2), np.zeros((4, 4))])
    assert end_to_end.offsets_found(w).tolist() == [4, 2, 0]
    own = np.zeros((1, 3, 27))
    own[0, 0, 0] = own[0, 1, 1] = own[0, 2, 9] = 9.0  # itself, offset 1, beyond the permutation
    assert end_to_end.offsets_found(own).tolist() == [1]


def test_right_answers_are_those_of_the_task_and_every_sequence_is_as_likely():
    task = AssociativeRecall(3, 4)
    tokens, empty, right = task.batch(*random.drawn(task, 0, 9, (2000,)))
    assert (tokens.shape, empty.shape, right.shape) == ((task.length, 2000), (0, 2000), (1, 2000))
    queries, answers = [], []
    for row in tokens.T.numpy():
        pairs = row[:-3].reshape(-1, 4)
        assert (pairs[:, :3] == task.permutations).all()
        asked = (pairs[:, :3] == row[-3:]).all(1)
        queries.append(int(asked.argmax()))
        answers.append(pairs[asked, 3].item())
    assert answers == right[0].tolist()
    shown = task.sequences(np.array(queries), tokens[task.response_positions].T.numpy() - 3)
    assert (shown == tokens.T.numpy()).all()
    for drawn, n in ((queries, 6), (answers, 4)):
        counts = np.bincount(np.array(drawn) - (3 if n == 4 else 0), minlength=n)
        assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("a0", [True, False])
def test_losses_are_those_of_the_models_own_code(a0):
    model = RecallTransformer(3, 2, 3, a0=a0, a1=False, a2=False, a3=False)
    model.initialise(torch.Generator().manual_seed(0))
    task = AssociativeRecall(3, 2)
    batch = task.batch(*random.drawn(task, 0, 9, (7,)))
    p = model(batch.context.T)
    found = p.gather(1, batch.target.T)[:, 0]
    expected = 1 - found.mean(), 1 - (found / p[:, 3:].sum(-1)).mean()
    parameters = [model.w, model.beta]
    for ours, theirs in zip(end_to_end.losses(model, batch), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
        pairs = (torch.autograd.grad(loss, parameters, retain_graph=True) for loss in (ours, theirs))
        for mine, its in zip(*pairs, strict=True):
            torch.testing.assert_close(mine, its, rtol=1e-10, atol=1e-14)
