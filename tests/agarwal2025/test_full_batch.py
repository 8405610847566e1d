"""agarwal2025: full-batch training on sequences of a run's own."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from iclbook import random
from iclbook.models.single_head import SingleHead
from iclbook.papers.agarwal2025 import causal, chain_runs
from iclbook.papers.agarwal2025.chain_runs import EM, SGD, arm_runs
from iclbook.papers.agarwal2025.runs import SIZES
from iclbook.tasks.sticky_chain import StickyChain
from iclbook.training import FullBatch, Group, Sgd, Trainer
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


def test_a_run_alone_equals_the_run_in_the_ensemble():
    study = small()
    spec = study.groups[0]
    alone = dataclasses.replace(study, groups=(dataclasses.replace(spec, runs=(spec.runs[1],)),))
    both = [s.trainer("cpu", False).train(progress=False)["runs"] for s in (study, alone)]
    np.testing.assert_allclose(both[0].circuits["nll"][:, 1], both[1].circuits["nll"][:, 0], atol=1e-6)


def test_the_closed_gradient_is_that_of_the_loss():
    study = small()
    batch = study.data.task.dataset(1)
    model = SingleHead()
    model.initialise(random.generator(1, 0), 0.5)
    loss = chain_runs.mean_cross_entropy(model, batch)
    grads = torch.autograd.grad(loss, [getattr(model, n) for n in chain_runs.MATRICES])
    closed, value = chain_runs.closed_gradient({n: p.detach() for n, p in model.named_parameters()}, batch)
    assert float(value) == pytest.approx(loss.item(), rel=1e-5)
    for name, grad in zip(chain_runs.MATRICES, grads, strict=True):
        torch.testing.assert_close(closed[name], grad, rtol=1e-4, atol=1e-6)


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


def test_interrupted_training_resumes_to_the_same_numbers(tmp_path):
    study = small()
    whole = study.trainer("cpu", False).train(progress=False)["runs"]
    study.trainer("cpu", False).train(tmp_path / "c.pt", progress=False, until=5)
    resumed = study.trainer("cpu", False)
    assert isinstance(resumed, Trainer)
    np.testing.assert_array_equal(
        resumed.train(tmp_path / "c.pt", progress=False)["runs"].circuits["nll"], whole.circuits["nll"]
    )
