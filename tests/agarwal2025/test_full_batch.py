"""agarwal2025: full-batch training on sequences of a run's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from iclbook import random
from iclbook.models.single_head import SingleHead
from iclbook.papers.agarwal2025 import causal, chain_runs
from iclbook.papers.agarwal2025.chain_runs import EM, SGD, arm_runs
from iclbook.papers.agarwal2025.runs import SIZES
from iclbook.tasks.sticky_chain import StickyChain
from iclbook.training import FullBatch, Group, Sgd
from iclbook.training.study import Study


def small(arms=(SGD, EM), seeds=(1, 2), T=60, steps=12, alternating=False) -> Study:
    blocks = (("W_V",), ("W_Q", "W_K", "W_O")) if alternating else ()
    group = Group(
        "runs",
        SingleHead,
        SIZES,
        arm_runs(arms, seeds),
        Sgd(),
        chain_runs.mean_cross_entropy,
        gradient=chain_runs.closed_gradient,
        blocks=blocks,
        observe=chain_runs.OnSequences(),
    )
    data = FullBatch(chain_runs.OwnSequences(StickyChain(T=T)))
    return Study("agarwal2025", "small", data, (group,), steps, 1, (4, 8, 12))


def naive(seed: int, rates: dict[str, float], steps: int, T: int = 60) -> dict[str, torch.Tensor]:
    """Plain autograd gradient descent, as a careful author would write it."""
    own = chain_runs.data(StickyChain(T=T), seed)
    model = SingleHead()
    model.initialise(random.generator(seed, 0), chain_runs.INIT_SCALE)
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(own.train.x), own.train.y)
        grads = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for (name, p), g in zip(model.named_parameters(), grads, strict=True):
                p -= rates[name] * g
    return {name: p.detach() for name, p in model.named_parameters()}


@pytest.mark.parametrize("arm", [0, 1])
def test_trainer_equals_a_plain_loop(arm):
    """SGD and the schedule, with its own rate for W_V."""
    study = small()
    trainer = study.trainer("cpu", False)
    trainer.train(progress=False)
    rates = dict.fromkeys(chain_runs.MATRICES, 0.01) | ({"W_V": 0.1} if arm else {})
    expected = naive(2, rates, 12)
    found = trainer.parameters()["runs"]
    for name, value in expected.items():
        np.testing.assert_allclose(found[name][2 * arm + 1], value.numpy(), atol=2e-6)


def test_alternation_uses_fresh_gradients_for_routing():
    trainer = small((EM,), (3,), steps=1, alternating=True).trainer("cpu", False)
    start = {k: torch.from_numpy(v[0]) for k, v in trainer.parameters()["runs"].items()}
    trainer.train(progress=False)
    after = {k: torch.from_numpy(v[0]) for k, v in trainer.parameters()["runs"].items()}
    own = chain_runs.data(StickyChain(T=60), 3)
    first = causal.step(own.train.x, own.target, *[start[n] for n in chain_runs.MATRICES])
    moved = start | {"W_V": start["W_V"] - 0.1 * first.W_V}
    torch.testing.assert_close(after["W_V"], moved["W_V"])
    second = causal.step(own.train.x, own.target, *[moved[n] for n in chain_runs.MATRICES])
    torch.testing.assert_close(after["W_O"], start["W_O"] - 0.01 * second.W_O)
