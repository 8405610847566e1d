"""agarwal2025: the sticky chain and its filter."""

import numpy as np
import pytest
import torch
from ledgers import holds

from iclbook import random
from iclbook.tasks.sticky_chain import StickyChain


def test_published_chain_stays_longer_than_stated():
    assert StickyChain("code").transition[0, 0] == pytest.approx(0.3 + 0.7 * 0.3 / (3.9166667 + 0.3), abs=1e-6)
    assert StickyChain("nearer").transition[0, 0] == 0.3
    near, far = StickyChain("nearer").transition[0], StickyChain("farther").transition[0]
    assert near[1] > near[4]
    assert far[1] < far[4]
    assert holds("agarwal2025/table1", "table1/code/minimum", StickyChain("code").entropy_rate)


def test_inputs_show_the_previous_symbol():
    task = StickyChain(T=50, noise=0.0)
    seq = task.sequence(*random.drawn(task, 0, 5, ()))
    state = (seq.x[:, None] - seq.means).square().sum(-1).argmin(1)
    assert (state[1:] == seq.y[:-1]).all()
    assert len(seq.y) == 49


def filter_error(T: int = 6) -> float:
    """The forward filter against the sum over all paths of a short sequence of three symbols."""
    chain = StickyChain("code", T=T, n=3, d=2)
    seq = chain.sequence(*random.drawn(chain, 0, 9, (), dtype=torch.float64))
    x, means = seq.x.numpy(), seq.means.numpy()
    emission = np.exp(-((x[:, None] - means) ** 2).sum(-1) / 2)  # (T - 1, n)
    filtered, worst = chain.bayes_predictive(seq), 0.0
    for t in range(T - 1):
        paths = (
            np.array(np.meshgrid(*[range(3)] * (t + 2), indexing="ij")).reshape(t + 2, -1).T
        )  # states y_0 .. y_{t+1}
        weight = chain.stationary[paths[:, 0]]
        for step in range(t + 1):
            weight = weight * emission[step, paths[:, step]] * chain.transition[paths[:, step], paths[:, step + 1]]
        joint = np.bincount(paths[:, -1], weight, 3)
        worst = max(worst, float(np.abs(joint / joint.sum() - filtered[t]).max()))
    return worst


def test_filter_against_all_paths_and_clean_limit():
    assert filter_error() <= 1e-12
    task = StickyChain(T=400, noise=0.0)
    seq = task.sequence(*random.drawn(task, 0, 5, ()))
    state = (seq.x[:, None] - seq.means).square().sum(-1).argmin(1).numpy()
    expected = -np.log(task.transition[state, seq.y.numpy()]).mean()
    assert task.bayes_loss(seq) == pytest.approx(expected, rel=1e-12)
