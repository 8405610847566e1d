"""The benchmarks compare like with like, and the book's page says what was measured."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # benchmarks/ is not part of the installed package

from benchmarks import contenders, page, work  # noqa: E402
from benchmarks.plain_loop import PlainLoop, prompts  # noqa: E402
from iclbook.tasks import Batch  # noqa: E402
from iclbook.training.ensemble import Ensemble  # noqa: E402

RUNS = 3


@pytest.fixture(params=[1, 2, 8], ids="H={}".format)
def group(request):
    """The trainer's group in float64, one batch for all its runs, and the trainer's losses and gradients on it."""
    trainer = contenders.trainer(work.Case("eager", request.param, RUNS))
    ensemble = Ensemble(trainer.ensembles[0].group, 1, trainer.streams, torch.device("cpu"), torch.float64)
    params = ensemble.params
    normals = torch.randn(
        RUNS, contenders.TASK.normals, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )
    batch = contenders.TASK.batch(normals)
    return params, batch, *ensemble.gradients(params, batch)


def of_run(params: dict, batch: Batch, r: int):
    """Parameters and batch of one run; tokens ``(B, L, D)``, query ``(B, d)``, target ``(B,)``."""
    one = {name: p[r] for name, p in params.items()}
    return one, batch.context[r].permute(2, 0, 1), batch.query[r].T, batch.target[r, 0]


def test_the_plain_loop_computes_the_trainers_losses_and_gradients(group):
    params, batch, grads, losses = group
    for r in range(RUNS):
        one, tokens, query, target = of_run(params, batch, r)
        loop = PlainLoop(contenders.TASK, one, 64, torch.Generator(), work.RATE, work.SCALE)
        loss = loop.loss(tokens, torch.nn.functional.pad(query, (0, 1))[:, None], target)
        loss.backward()
        assert loss.item() == pytest.approx(losses[r].item(), rel=1e-12)
        n_heads = loop.n_heads
        for name in ("query", "key", "value"):
            stacked = getattr(loop, name).grad  # (D, H D)
            expected = grads[name][r]  # (H, D, D)
            torch.testing.assert_close(
                stacked.unflatten(1, (n_heads, -1)).permute(1, 2, 0), expected, rtol=1e-10, atol=1e-12
            )
        output = loop.output.grad.unflatten(0, (n_heads, -1)).transpose(1, 2)
        torch.testing.assert_close(output, grads["output"][r], rtol=1e-10, atol=1e-12)


def test_the_plain_loop_draws_the_tasks_distribution():
    tokens, query, target = prompts(contenders.TASK, 20_000, torch.Generator().manual_seed(0))
    assert tokens.shape == (20_000, work.CONTEXT, work.WIDTH)
    assert torch.all(query[..., -1] == 0)
    # y = beta.x + noise has variance 1 + sigma^2; kurtosis 6/d + ... keeps the error of its mean square below this bound
    assert target.square().mean().item() == pytest.approx(1 + work.NOISE_VAR, abs=0.06)
    assert tokens[..., -1].square().mean().item() == pytest.approx(1 + work.NOISE_VAR, abs=0.04)
    x, y = tokens[..., :-1], tokens[..., -1:]
    beta = torch.linalg.lstsq(x.double(), y.double()).solution
    residual = (y - x @ beta.float()).square().sum((1, 2)).mean().item() / (work.CONTEXT - work.D_COVARIATE)
    assert residual == pytest.approx(work.NOISE_VAR, rel=0.02)
    assert contenders.TASK.normals * work.BATCH == work.NORMALS


def test_jax_computes_the_trainers_losses_and_gradients(group):
    jax = pytest.importorskip("jax", reason="optional peer: jax is not installed")
    from benchmarks import jax_peer

    params, batch, grads, losses = group
    for r in range(RUNS):
        one, tokens, query, target = of_run(params, batch, r)
        x = np.concatenate([tokens[..., :-1], query[:, None]], axis=1).astype(np.float32)
        y = np.concatenate([tokens[..., -1], target[:, None]], axis=1).astype(np.float32)
        values = {name: p.numpy().astype(np.float32) for name, p in one.items()}
        loss, gradient = jax.value_and_grad(jax_peer.loss)(values, x, y)
        assert float(loss) == pytest.approx(losses[r].item(), rel=1e-5)
        for name, g in gradient.items():
            np.testing.assert_allclose(g, grads[name][r], rtol=1e-3, atol=1e-6)


def test_jax_takes_the_trainers_adam_steps():
    jax = pytest.importorskip("jax", reason="optional peer: jax is not installed")
    from benchmarks import jax_peer
    from iclbook.training import Adam

    rng = np.random.default_rng(0)
    ours = {"p": torch.from_numpy(rng.normal(size=(1, 3, 3)).astype(np.float32))}
    theirs, state = {"p": ours["p"][0].numpy()}, Adam().init(ours)
    first = second = jax.tree_util.tree_map(np.zeros_like, theirs)
    for t in range(1, 5):
        g = rng.normal(size=(1, 3, 3)).astype(np.float32)
        ours, state = Adam().update(
            ours, {"p": torch.from_numpy(g)}, state, {"p": torch.tensor(work.RATE)}, torch.tensor(float(t))
        )
        theirs, first, second = jax_peer.adam(theirs, {"p": g[0]}, first, second, float(t))
        np.testing.assert_allclose(theirs["p"], ours["p"][0], rtol=1e-5, atol=1e-6)
    x, y = jax_peer.prompts(jax.random.key(0), 20_000)
    assert float((y**2).mean()) == pytest.approx(1 + work.NOISE_VAR, abs=0.04)
    assert x.shape == (20_000, work.CONTEXT + 1, work.D_COVARIATE)


def test_the_page_says_what_the_stored_results_say():
    _, body, _ = page.split(page.PAGE.read_text(encoding="utf-8"))
    assert body == page.rendered(page.stored()), "run: python -m benchmarks --write-page"


def test_stored_results_name_no_host_and_no_folder():
    for device, results in page.stored().items():
        if results is None:
            continue
        text = json.dumps(results)
        assert results["device"] == device
        assert "/" not in text, "a path has slipped into the results"
        assert {b["n_heads"] for b in results["paired"]} == set(work.HEADS)
        assert {r["runs"] for r in results["ladder"]} == set(work.RUNS)


@pytest.mark.parametrize(
    ("x", "text"), [(2753.4, "2,750"), (0.0912, "0.0912"), (9.31, "9.31"), (31.4, "31.4"), (999.6, "1,000")]
)
def test_numbers_have_three_significant_digits(x, text):
    assert page.number(x) == text


@pytest.mark.slow
def test_quick_mode_measures_and_renders(tmp_path):
    out = tmp_path / "quick.json"
    before = page.PAGE.read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--out", str(out)],
        cwd=ROOT,
        # every measurement has an empty cache: headers compiled into it would serve one kernel
        env=os.environ | {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())
    rates = {name: row["rate"]["median"] for b in results["paired"] for name, row in b["rows"].items()}
    assert {"plain", "eager"} <= set(rates)
    assert all(math.isfinite(rate) and rate > 0 for rate in rates.values())
    assert all(row["peak_mb"] > 0 for row in results["ladder"])
    assert "no GPU" in results["missing"]["graph"]
    assert "Side by side" in done.stdout
    assert page.PAGE.read_bytes() == before, "--out must leave the page alone"


def test_mistakes_end_in_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--device", "cuda"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: no CUDA device was found.")
    assert done.stderr.count("\n") == 1
