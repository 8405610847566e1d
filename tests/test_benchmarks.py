"""The benchmarks compare like with like, and the book's page says what was measured."""

import json
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # benchmarks/ is not part of the installed package

from benchmarks import contenders, page, suite, work  # noqa: E402
from benchmarks.plain_loop import PlainLoop  # noqa: E402
from iclbook.tasks import Batch  # noqa: E402
from iclbook.training.ensemble import Ensemble  # noqa: E402

RUNS = 3


CASES = [work.Case("eager", h, RUNS) for h in (1, 2, 8)] + [work.Case("eager", 2, RUNS, d=3, L=7)]


@pytest.fixture(params=CASES, ids=lambda case: f"H={case.n_heads} d={case.d}")
def group(request):
    """The trainer's group in float64, one batch for all its runs, and the trainer's losses and gradients on it."""
    trainer = contenders.trainer(request.param)
    ensemble = Ensemble(trainer.ensembles[0].group, 1, trainer.streams, torch.device("cpu"), torch.float64)
    params = ensemble.params
    normals = torch.randn(
        RUNS,
        contenders.task(request.param).normals,
        64,
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(1),
    )
    batch = contenders.task(request.param).batch(normals)
    return params, batch, *ensemble.gradients(params, batch)


def of_run(params: dict, batch: Batch, r: int):
    """Parameters and batch of one run; tokens ``(B, L, D)``, query ``(B, d)``, target ``(B,)``."""
    one = {name: p[r] for name, p in params.items()}
    return one, batch.context[r].permute(2, 0, 1), batch.query[r].T, batch.target[r, 0]


def test_the_plain_loop_computes_the_trainers_losses_and_gradients(group):
    params, batch, grads, losses = group
    for r in range(RUNS):
        one, tokens, query, target = of_run(params, batch, r)
        loop = PlainLoop(contenders.TASK, one, 64, torch.Generator(), work.RATE, one["query"].shape[-1] ** -0.5)
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


def test_the_traced_contender_takes_no_steps_in_c():
    assert contenders.trainer(work.Case("traced", 2, RUNS), contenders.Traced)._in_c is None


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
        plan = suite.CUDA if device == "cuda" else suite.Plan()
        assert {r["runs"] for r in results["ladder"]} == {1, *plan.runs}
