"""The benchmarks compare like with like, and the book's page says what was measured."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # benchmarks/ is not part of the installed package

from benchmarks import contenders, format, growth, idle, page, suite, work  # noqa: E402
from benchmarks.plain_loop import PlainLoop, prompts  # noqa: E402
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
        loop = PlainLoop(
            contenders.TASK, one, 64, torch.Generator(), work.RATE, one["query"].shape[-1] ** -0.5
        )
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
    ("ours", "words"),
    [
        ((1.0, 110), "never behind the plain loop"),
        ((1.2, 110), "behind the plain loop in trainings of 1 step (by 0.199 s)"),
        ((0.9, 99.9), "behind the plain loop in trainings of 1,000,000 steps (by 9.91 s)"),
        ((1.1, 99.9), "trainings of 1 step (by 0.1 s) and of 1,000,000 steps (by 10.1 s)"),
    ],
)
def test_the_page_says_whether_the_trainers_own_choice_ever_loses(ours, words):
    def row(first, rate):
        return {"first_s": first, "rate": {"median": rate}}

    assert words in page._choice({"plain": row(1.0, 100), "compiled": row(*ours)})


# -- how cost grows ----------------------------------------------------------------------------------------------------


def points(axis, seconds, peak=400.0, contender="eager"):
    """Rows of one axis: seconds by value."""
    return [
        {"axis": axis, "value": v, "contender": contender, "peak_mb": peak, "seconds": growth._spread([s])}
        for v, s in seconds.items()
    ]


def page_of(rows, cache=1.0):
    return growth.text({"runs": 8, "heads": 2, "cache_mb": cache, "rows": rows}, {"torch": 200, "jax": 150})


def test_an_exponent_is_written_as_the_book_writes_numbers():
    said = format.exponent({"exponent": -0.004, "low": -0.016, "high": 0.008})
    assert said == "0.00 (\u22120.02 to 0.01)"


def test_the_exponent_of_a_power_is_found_with_its_interval():
    x = [1, 2, 4, 8, 16]
    exact = growth.slope(x, [3 * v**1.5 for v in x])
    assert exact == {"exponent": 1.5, "low": 1.5, "high": 1.5}
    assert growth.slope(x, [7.0] * 5) == {"exponent": 0.0, "low": 0.0, "high": 0.0}
    rough = growth.slope(x, [3 * v * f for v, f in zip(x, (1.2, 0.9, 1.1, 0.8, 1.1), strict=True)])
    assert rough["low"] < 1 < rough["high"]
    assert rough["low"] > 0.5
    # scipy's own t interval, computed the long way
    logs = np.log(x), np.log([1.2, 1.8, 4.4, 6.4, 17.6])
    errors = logs[1] - np.polyval(np.polyfit(*logs, 1), logs[0])
    stderr = np.sqrt((errors**2).sum() / 3 / ((logs[0] - logs[0].mean()) ** 2).sum())
    assert rough["high"] - rough["exponent"] == pytest.approx(3.1824 * stderr, rel=1e-2)


def test_cost_that_grows_as_the_work_needs_no_reason():
    assert "\n\nNowhere." in page_of(points("steps", {50: 0.1, 200: 0.401, 800: 1.59, 3200: 6.4}))


def test_a_fixed_cost_is_found_and_said():
    work = {r: growth.work_at("runs", r) for r in (1, 4, 16, 64)}
    rows = points("runs", {r: 1e-3 * (3 + w / work[1]) for r, w in work.items()})
    assert "75 % of the time at the smallest size is there whatever the size" in page_of(rows)
    assert growth.fixed_share([1, 2], [3.0, 2.0]) == 1  # no more than all of it, though less work took longer


def test_arrays_that_leave_the_cache_are_a_reason_only_where_they_do():
    rows = points("runs", {r: 1e-3 * r**1.3 for r in (1, 4, 16, 64)})
    assert "a step's arrays at the largest size take" in page_of(rows)
    assert "neither a fixed cost nor the cache explains it" in page_of(rows, cache=10_000.0)


def test_the_work_counts_every_axis():
    assert growth.work_at("steps", 20) == 20 * growth.work_at("steps", 1)
    assert growth.work_at("runs", 20) == pytest.approx(20 * growth.work_at("runs", 1))
    for axis, values in growth.AXES.items():
        exponent = growth.slope(values, [growth.work_at(axis, v) for v in values])["exponent"]
        assert 0.3 < exponent <= 1.01, axis  # what every head shares, and the query, grow by nothing


def test_every_point_is_asked_of_a_process_of_its_own():
    asked = []

    def measured(job):
        asked.append(job)
        return {"cases": [{"rates": [10.0, 20.0]}], "peak_mb": 300.0}

    found = growth.measure(
        measured, ("plain", "eager"), "cpu", 2, 0.1, lambda _: None, {"steps": (5, 9), "L": (4, 8)}
    )
    assert len(asked) == len(found["rows"]) == 8
    assert asked[1]["steps"] == 9
    assert "steps" not in asked[4]
    assert asked[5]["cases"][0]["L"] == 8
    plain, eager = found["rows"][0], found["rows"][2]
    assert plain["seconds"] == eager["seconds"], "the plain loop takes the same runs one after another"
    assert eager["seconds"]["max"] == 5 * 8 / 10.0


def test_processes_meet_and_their_rates_add_up():
    def measured(job):
        with_others = len(os.listdir(job["meet"][0])) if job["beside"] else 0
        return {"cases": [{"rates": [100.0 * job["threads"]]}], "peak_mb": 250.0, "seen": with_others}

    rows = growth.cores(measured, ("eager",), (2,), [(1, 1), (1, 2), (2, 1)], 1, 0.1, lambda _: None)
    rates = {(r["processes"], r["threads"]): r["rate"]["median"] for r in rows}
    assert rates == {(1, 1): 100, (1, 2): 200, (2, 1): 200}
    assert "500" in growth.cores_text(rows), "two processes take twice the memory"


# -- a busy machine ----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc/stat")
def test_what_others_use_is_seen_and_what_we_use_is_not(monkeypatch):
    clock = {"busy": 100.0, "own": 10.0, "time": 0.0}
    monkeypatch.setattr(idle, "busy_seconds", lambda: clock["busy"])
    monkeypatch.setattr(idle, "own_seconds", lambda: clock["own"])
    monkeypatch.setattr(idle.time, "monotonic", lambda: clock["time"])
    watch = idle.Watch()
    clock.update(busy=120.0, own=30.0, time=10.0)
    assert watch.others() == 0
    clock.update(busy=135.0)
    assert watch.others() == 1.5
    monkeypatch.undo()
    before = idle.busy_seconds()
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        pass
    assert idle.busy_seconds() - before > 0.3, "our own work is in what the machine did"


@pytest.mark.parametrize(("before", "during"), [(0.5, 0.0), (0.0, 0.5)])
def test_nothing_is_published_from_a_busy_machine(monkeypatch, tmp_path, capsys, before, during):
    from benchmarks import __main__ as command

    results = {"machine": {"others": {"before": before, "during": during}}}
    monkeypatch.setattr(suite, "ROOT", tmp_path)
    monkeypatch.setattr(suite, "run", lambda *_: results)
    monkeypatch.setattr(idle, "before", lambda: before)
    monkeypatch.setattr(page, "RESULTS", {"cpu": tmp_path / "results.json"})
    monkeypatch.setattr(page, "write", lambda: pytest.fail("the page was written"))
    assert command.main([]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: the machine is busy: other programs used 0.5 of its")
    assert said.count("\n") == 1
    assert not (tmp_path / "results.json").exists()
    assert (tmp_path / ".cache" / "benchmarks-cpu.json").exists() == bool(during)


@pytest.mark.slow
@pytest.mark.timeout(900)  # on a busy machine
def test_quick_mode_measures_and_renders(tmp_path):
    out = tmp_path / "quick.json"
    before = page.PAGE.read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--out", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())
    rates = {name: row["rate"]["median"] for b in results["paired"] for name, row in b["rows"].items()}
    assert {"plain", "eager"} <= set(rates)
    assert all(math.isfinite(rate) and rate > 0 for rate in rates.values())
    assert all(row["peak_mb"] > 0 for row in results["ladder"])
    if "compiled" not in results["missing"]:
        (row,) = results["first"]
        assert row["again_s"] < row["cold_s"], "the second process finds what the first one compiled"
    assert "no GPU" in results["missing"]["graph"]
    assert all(
        f"## {part}" in done.stdout
        for part in ("Side by side", "The first step", "How cost grows", "Processes and threads")
    )
    assert {r["value"] for r in results["growth"]["rows"]} == {1, 4, 16}
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


def test_parts_that_were_not_measured_again_are_named(monkeypatch):
    monkeypatch.setattr(suite.idle, "before", lambda: 0.0)
    monkeypatch.setattr(suite, "_imports", lambda device: {})
    monkeypatch.setattr(suite, "_floor", lambda plan: {"new": 1})
    before = {"floor": {"old": 1}, "growth": {"old": 1}}
    found = suite.run(suite.QUICK, "cpu", lambda _: None, ("floor",), before)
    assert found["floor"] == {"new": 1}
    assert found["earlier"] == ["growth"]
    work = {"d": 5, "L": 40, "batch": 256}
    assert page.described(found | {"work": work}).endswith("as it then was: How cost grows.")
    assert "before that" not in page.described(found | {"work": work, "earlier": []})
