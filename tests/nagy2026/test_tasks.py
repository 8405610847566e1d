"""Tasks, probes and ensembles of nagy2026's controlled experiments: moments, coverage, a run alone, and what is refused."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from iclbook import random
from iclbook.models.deep_attention import DeepAttention
from iclbook.models.spectral_attention import SpectralAttention
from iclbook.papers.nagy2026.studies import SPECTRUM, OnProbes, Probes, penalised_error
from iclbook.random import generator
from iclbook.tasks.spectral_regression import SpectralRegression, StoredPrompts
from iclbook.training import Adam, FixedSet, Group, Run, Sgd, Trainer

F64 = torch.float64


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# -- tasks --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_balanced", [False, True])
def test_moments_of_the_spectral_task(is_balanced):
    """Means over 60,000 prompts within five standard errors, which the fourth moments of normals give."""
    lam, weight_var, n = np.array([10.0, 1.0, 0.01]), 0.25, 60_000
    task = SpectralRegression(tuple(lam), L=2, weight_var=weight_var, balanced=is_balanced)
    assert task.normals == 3 * 3 + 3
    batch = task.batch(torch.randn(task.normals, n, dtype=F64, generator=seeded(0)))
    assert batch.context.shape == (2, 4, n)
    assert batch.query.shape == (3, n)
    x = torch.cat([batch.context[:, :3].reshape(6, n), batch.query]).numpy()  # (9, n)
    scale = np.sqrt(np.tile(lam, 3))
    moments = (x / scale[:, None]) @ (x / scale[:, None]).T / n
    allowed = 5 * np.sqrt((1 + np.eye(9)) / n)  # var(z^2) = 2, var(z z') = 1
    assert (np.abs(moments - np.eye(9)) < allowed).all()
    # given w, var y = sum_i c_i w_i^2, so E y^4 = 3 weight_var^2 (2 sum c^2 + (sum c)^2)
    c = np.ones(3) if is_balanced else lam
    assert task.variance == pytest.approx(weight_var * c.sum())
    for y in (*batch.context[:, 3].numpy(), batch.target[0].numpy()):
        error = weight_var * np.sqrt((6 * (c**2).sum() + 2 * c.sum() ** 2) / n)
        assert abs((y**2).mean() - task.variance) < 5 * error


@pytest.mark.parametrize("is_balanced", [False, True])
def test_every_prompt_has_one_weight_of_the_stated_variance(is_balanced):
    """Least squares on the noiseless context finds it, and it answers the query exactly; in the balanced task it is w / sqrt(lambda)."""
    lam, n = (4.0, 1.0, 0.25), 4000
    task = SpectralRegression(lam, L=6, weight_var=0.5, balanced=is_balanced)
    batch = task.batch(torch.randn(2, task.normals, n, dtype=F64, generator=seeded(1)))
    x, y = batch.context[..., :3, :].movedim(-1, 1), batch.context[..., 3, :].movedim(-1, 1)  # (2, n, L, d)
    w = torch.linalg.lstsq(x, y[..., None]).solution[..., 0]  # (2, n, d)
    torch.testing.assert_close((w * batch.query.movedim(-1, 1)).sum(-1), batch.target[:, 0], rtol=1e-6, atol=1e-8)
    var = 0.5 / np.array(lam) if is_balanced else np.full(3, 0.5)
    found = (w.reshape(-1, 3) ** 2).mean(0).numpy()
    assert (np.abs(found / var - 1) < 5 * math.sqrt(2 / (2 * n))).all()


# -- probes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_balanced", [False, True])
def test_probes_are_prefixes_of_one_draw_and_low_leaves_only_the_smallest(is_balanced):
    task = SpectralRegression(SPECTRUM, L=12, balanced=is_balanced)
    probes = Probes(task, 400, (12, 5), low=2)
    found, again = probes.draw(), probes.draw()
    assert list(found) == ["n12", "n5", "low"]
    for name in found:
        assert all(torch.equal(a, b) for a, b in zip(found[name], again[name], strict=True))
    context, query, target = found["n12"]
    assert context.shape == (12, 9, 400)
    assert query.shape == (8, 400)
    assert torch.equal(found["n5"][0], context[:5])
    low_context, low_query, low_target = found["low"]
    assert torch.equal(low_context, context)
    assert (low_query[:6] == 0).all()
    assert torch.equal(low_query[6:], query[6:])
    w = torch.linalg.lstsq(context[:, :8].movedim(-1, 0).double(), context[:, 8].T[..., None].double()).solution
    answer = (w[..., 0].T * low_query).sum(0)
    torch.testing.assert_close(answer, low_target[0].double(), rtol=1e-2, atol=1e-3)
    assert not torch.allclose(low_target, target)


# -- ensembles ----------------------------------------------------------------------------------------------------------

DROPPED = SpectralRegression((1.0,) * 3, L=5, weight_var=0.25, dropout_rows=3 * 8)
FULL = {"sink": True, "layer_scale": True, "orthogonality": 0.05, "dropout": 0.2}
CASES = {
    "deep": (
        FixedSet(StoredPrompts(DROPPED), 40),
        DROPPED,
        DeepAttention,
        {"d": 3, "width": 8, "n_heads": 2, "n_layers": 3, **FULL},
    ),
    "masked": (
        SpectralRegression((4.0, 1.0, 0.1, 0.1), L=6),
        SpectralRegression((4.0, 1.0, 0.1, 0.1), L=6),
        SpectralAttention,
        {"d": 4, "width": 8, "n_heads": 2, "mask": "random", "diversity": 0.5},
    ),
    "linear": (
        SpectralRegression((4.0, 1.0, 0.1, 0.1), L=6, balanced=True),
        SpectralRegression((4.0, 1.0, 0.1, 0.1), L=6, balanced=True),
        SpectralAttention,
        {"d": 4, "width": 8, "n_heads": 2, "activation": "linear"},
    ),
}


def trained(case: str, runs: list[Run], steps: int = 40, dtype: torch.dtype = torch.float32) -> Trainer:
    data, plain, model, kwargs = CASES[case]
    watched = OnProbes(Probes(dataclasses.replace(plain, dropout_rows=0), 16, (plain.L,)))
    group = Group("g", model, kwargs, runs, loss=penalised_error, observe=watched)
    return Trainer(data, [group], steps, 16, (10,), device="cpu", compile=False, dtype=dtype)


@pytest.mark.parametrize("case", CASES)
def test_an_ensemble_equals_plain_loops_with_torch_optim(case):
    """The module itself, autograd and torch.optim.Adam on the same batches, in float64."""
    runs = [Run(3, rate=1e-2), Run(8, rate=3e-3)]
    t = trained(case, runs, 15, F64)
    t.train(progress=False)
    _, _, make, kwargs = CASES[case]
    for r, run in enumerate(runs):
        model = make(**kwargs)
        model.initialise(generator(run.seed, 0))
        model.double()
        optimiser = torch.optim.Adam(model.parameters(), lr=run.rate)
        for step in range(1, 16):
            numbers = t.data.draw(random.keys([run.seed]), torch.tensor([step]), 16, F64)
            fixed = tuple(part.double() for part in t.data.fixed([run.seed]))
            batch = t.data.batch(tuple(x[0, 0] for x in numbers), fixed)
            error = ((model(batch.context, batch.query) - batch.target) ** 2).mean()
            optimiser.zero_grad()
            (error + model.penalty()).backward()
            optimiser.step()
        for name, p in model.named_parameters():
            if (
                name == "key_bias"
            ):  # adds one number to all scores of a row: its gradient is rounding, which Adam magnifies
                continue
            np.testing.assert_allclose(t.parameters()["g"][name][r], p.detach(), rtol=1e-6, atol=1e-8, err_msg=name)


def test_random_bands_differ_between_seeds_and_training_never_moves_them():
    model = SpectralAttention(8, mask="random")
    seen = set()
    for seed in range(200):
        model.initialise(seeded(seed))
        bands = model.visible.detach()  # (heads, d)
        assert ((bands.sum(1) == 2).all(), (bands.sum(0) == 1).all()) == (True, True)
        seen.add(tuple(bands.argmax(1).tolist()))
    assert len(seen) > 100
    for optimiser in (Adam(), Sgd()):
        runs = [Run(0, 1e-2), Run(1, 1e-2)]
        group = Group("g", SpectralAttention, {"d": 8, "mask": "random"}, runs, optimiser)
        t = Trainer(SpectralRegression(SPECTRUM, L=4), [group], 3, 8, device="cpu", compile=False)
        before = t.parameters()["g"]["visible"]
        t.train(progress=False)
        assert np.array_equal(before, t.parameters()["g"]["visible"])
