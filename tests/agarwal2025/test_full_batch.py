"""agarwal2025: full-batch training on sequences of a run's own."""

import numpy as np
import pytest
import torch

from iclbook import random
from iclbook.models.single_head import SingleHead
from iclbook.papers.agarwal2025 import chain_runs
from iclbook.papers.agarwal2025.chain_runs import EM, SGD, arm_runs
from iclbook.papers.agarwal2025.runs import SIZES
from iclbook.tasks.sticky_chain import StickyChain
from iclbook.training import FullBatch, Group, Sgd, Study


def small() -> Study:
    group = Group(
        "runs",
        SingleHead,
        SIZES,
        arm_runs((SGD, EM), (1, 2)),
        Sgd(),
        chain_runs.mean_cross_entropy,
        gradient=chain_runs.closed_gradient,
        observe=chain_runs.OnSequences(),
    )
    data = FullBatch(chain_runs.OwnSequences(StickyChain(T=60)))
    return Study("agarwal2025", "small", data, (group,), 12, 1, (4, 8, 12))


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
