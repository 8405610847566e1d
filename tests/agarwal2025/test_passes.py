"""Measures of agarwal2025 that go over sequences by blocks, side by side or at chosen places only, against plain evaluations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from iclbook.papers.agarwal2025 import causal, chain_runs, closed_forms, table_1
from iclbook.papers.agarwal2025.closed_forms import causal_mask
from iclbook.papers.agarwal2025.closed_forms_checked import random_weights, relative
from iclbook.random import generator
from iclbook.tasks.sticky_chain import StickyChain


@pytest.fixture(scope="module")
def long_case():
    """Inputs, targets and weights of three blocks, the last one short."""
    own = chain_runs.data(StickyChain(T=2 * causal.BLOCK + 8), 3)
    return own.train.x.double(), own.train.y, random_weights(generator(3, 8), 20, 10, 15, 8, 0.4)


def test_a_pass_by_blocks_is_the_plain_one(long_case):
    x, y, w = long_case
    mask = causal_mask(len(x))
    rows, columns = (part[::97] for part in torch.where(mask))
    found = causal.causal_pass(x, y, w, (rows, columns))
    f, (_, d) = closed_forms.forward(x, w, mask), closed_forms.every_gradient(x, y, w, mask)
    for name in "qkv":
        assert relative(getattr(found, f"d{name}"), d[name]) < 1e-12, name
        assert relative(getattr(found, name), getattr(f, name)) < 1e-12, name
    assert relative(found.usage, f.alpha.sum(0)) < 1e-12
    assert relative(found.ds, d["s"][rows, columns]) < 1e-12
    assert relative(found.adv, -closed_forms.advantage(f.alpha, d["alpha"])[rows, columns]) < 1e-12
    moved = closed_forms.score_step_of_weights(d["q"], d["k"], f.q, f.k, x, 1.0)
    assert relative(causal.score_steps(found, x, (rows, columns)), moved[rows, columns]) < 1e-12


@pytest.mark.parametrize("noise", [1.0, 0.3])
def test_sequences_filtered_side_by_side_have_the_losses_of_each(noise):
    chain = StickyChain("nearer", T=90, noise=noise)
    own = [chain_runs.data(chain, seed) for seed in (1, 5, 8)]
    for held_out in (False, True):
        alone = [chain.bayes_loss(of.held_out if held_out else of.train) for of in own]
        np.testing.assert_allclose(table_1.bayes_losses(chain, (1, 5, 8), held_out), alone, rtol=1e-12)
    assert alone[0] != alone[1]
