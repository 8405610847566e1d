"""The ensemble trainer against plain loops, alone against together, interrupted against not."""

import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from naive import code_scale, train
from waiting import wait_until

from iclbook import random
from iclbook.errors import UserError
from iclbook.models import Attention, ReducedAttention
from iclbook.tasks import Batch, LinearRegression, MultiTaskRegression
from iclbook.training import Adam, Group, Momentum, Run, Sgd, Trainer
from iclbook.training.ensemble import Ensemble
from iclbook.training.groups import next_token
from iclbook.training.history import pack

TASK, HEADS = LinearRegression(d=3, L=8), {"d": 3, "n_heads": 2}


def trainer(runs, steps=30, n_heads=2, task=TASK, compile=False, dtype=torch.float64, optimiser=None, **kwargs):
    sizes = {"d": task.d, "n_heads": n_heads, "n_tasks": task.n_tasks, **kwargs}
    group = Group("g", Attention, sizes, runs, optimiser or Adam())
    return Trainer(task, [group], steps, batch_size=32, device="cpu", compile=compile, dtype=dtype)


def batches(task, seed, steps, dtype=torch.float64):
    for step in range(1, steps + 1):
        (block,) = random.normals(random.keys([seed]), torch.tensor([step]), random.DATA, (task.normals, 32), dtype)
        yield task.batch(block[0])


@pytest.mark.parametrize(
    ("optimiser", "plain"),
    [
        (Adam(), torch.optim.Adam),
        (Sgd(), torch.optim.SGD),
        (Momentum(0.9), lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9)),
    ],
    ids=["adam", "sgd", "momentum"],
)
@pytest.mark.parametrize("task", [TASK, MultiTaskRegression(L=8)], ids=["one task", "two tasks"])
def test_stacked_runs_equal_a_plain_loop_with_torch_optim(task, optimiser, plain):
    runs = [Run(3, rate=1e-2), Run(8, rate=3e-3)]
    t = trainer(runs, task=task, optimiser=optimiser, score_scale="code")
    start = {k: v.copy() for k, v in t.parameters()["g"].items()}
    t.train(progress=False)
    for r, run in enumerate(runs):
        alone = train(
            {k: torch.from_numpy(v[r]) for k, v in start.items()},
            batches(task, run.seed, 30),
            task.n_tasks,
            run.rate,
            plain,
            code_scale(task.d + task.n_tasks),
        )
        for name, value in alone.items():
            np.testing.assert_allclose(t.parameters()["g"][name][r], value.numpy(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_run_alone_equals_the_same_run_among_seven_different_ones(compile):
    runs = [Run(s, rate=10.0 ** -(2 + s / 4), init_scale=0.5 + s / 3, stream=s % 3) for s in range(7)]
    together = trainer(runs, steps=50, dtype=torch.float32, compile=compile).train(progress=False)["g"]
    for r in (0, 4, 6):
        alone = trainer([runs[r]], steps=50, dtype=torch.float32).train(progress=False)["g"]
        np.testing.assert_allclose(together.circuits["kq"][:, r], alone.circuits["kq"][:, 0], rtol=1e-3, atol=2e-5)
        np.testing.assert_allclose(together.loss[1:, r], alone.loss[1:, 0], rtol=1e-4)


def test_runs_with_one_stream_see_the_same_data_and_others_do_not():
    t = trainer([Run(1, stream=5), Run(1, stream=5), Run(1, stream=6)], steps=5)
    loss = t.train(progress=False)["g"].loss[1:]
    assert np.array_equal(loss[:, 0], loss[:, 1])
    assert not np.allclose(loss[:, 0], loss[:, 2])


def test_a_rate_factor_of_zero_freezes_that_parameter_only():
    group = Group("g", Attention, HEADS, [Run(0, factors=(("query", 0.0),)), Run(0)])
    t = Trainer(TASK, [group], 5, 32, device="cpu", compile=False)
    before = t.parameters()["g"]
    before = {k: v.copy() for k, v in before.items()}
    t.train(progress=False)
    after = t.parameters()["g"]
    for run, frozen in enumerate(({"query"}, set())):  # a factor belongs to one run, not to the runs beside it
        assert {k for k in after if np.array_equal(after[k][run], before[k][run])} == frozen


def test_blocks_step_one_after_the_other_with_new_gradients():
    def loss(m, _):
        return (m.omega * m.mu).sum()

    group = Group("g", ReducedAttention, {"n_heads": 1}, [Run(3, 0.1)], Sgd(), loss=loss, blocks=(("omega",), ("mu",)))
    t = Trainer(TASK, [group], 1, 1, device="cpu", compile=False, dtype=torch.float64)
    omega, mu = (t.parameters()["g"][name][0, 0] for name in ("omega", "mu"))
    history = t.train(progress=False)["g"]
    moved = omega - 0.1 * mu
    assert t.parameters()["g"]["omega"][0, 0] == pytest.approx(moved)
    assert t.parameters()["g"]["mu"][0, 0] == pytest.approx(mu - 0.1 * moved)
    assert history.loss[1, 0] == pytest.approx(omega * mu), "the loss before the step"


def test_named_parameters_are_kept_at_the_records():
    group = Group("g", Attention, HEADS, [Run(0), Run(1)], keep=("query", "output"))
    t = Trainer(TASK, [group], 6, 32, record=(3,), device="cpu", compile=False)
    kept = t.train(progress=False)["g"].circuits
    assert set(kept) == {"kq", "ov", "query", "output"}
    assert kept["query"].shape == (3, 2, 2, 4, 4)
    np.testing.assert_array_equal(kept["query"][-1], t.parameters()["g"]["query"])
    assert not np.array_equal(kept["query"][0], kept["query"][1])


def test_parameters_are_kept_at_chosen_steps_in_half_precision(tmp_path):
    """Also by a training that was interrupted between them; circuits and losses are those of a training that keeps nothing."""
    runs = [Run(0), Run(1)]
    group = Group("g", Attention, HEADS, runs, keep=("query", "output"), keep_at=(0, 10))

    def make(g):
        return Trainer(TASK, [g], 10, 16, (4, 10), device="cpu", compile=False)

    whole = make(group)
    found = whole.train(progress=False)["g"]
    assert found.circuits.keys() == make(Group("g", Attention, HEADS, runs)).train(progress=False)["g"].circuits.keys()
    assert set(found.kept) == {"query", "output"}
    assert found.kept["query"].dtype == np.float16
    assert found.kept["query"].shape == (2, *whole.ensembles[0].params["query"].shape)
    np.testing.assert_array_equal(found.kept["query"][1], whole.parameters()["g"]["query"].astype(np.float16))
    assert not np.array_equal(found.kept["query"][0], found.kept["query"][1])
    checkpoint = tmp_path / "c.pt"
    make(group).train(checkpoint, progress=False, until=6)
    again = make(group).train(checkpoint, progress=False)["g"]
    for name, array in found.kept.items():
        np.testing.assert_array_equal(again.kept[name], array)
    arrays = pack({"g": found})
    assert {"g/kept query", "g/kept output"} < arrays.keys()


def longer() -> Trainer:
    return Trainer(TASK, [Group("g", Attention, HEADS, [Run(0), Run(1)])], 2000, 32, device="cpu", compile=False)


@pytest.mark.slow
@pytest.mark.xdist_group("resumes")
@pytest.mark.parametrize(
    "how",
    [
        pytest.param(signal.SIGINT, id="Ctrl-C"),
        pytest.param(signal.SIGKILL, id="SIGKILL", marks=pytest.mark.full),
        pytest.param(signal.SIGTERM, id="cluster", marks=pytest.mark.full),
    ],
)
def test_an_interrupted_run_resumes_to_the_same_numbers(tmp_path, monkeypatch, how):
    path, batch, drawn = tmp_path / "run.pt", LinearRegression.batch, []

    def interrupting(self, normals):
        drawn.append(1)
        if len(drawn) == 700:
            os.kill(os.getpid(), how)
        return batch(self, normals)

    if how == signal.SIGKILL:
        code = (
            f"from test_trainer import Path, longer; longer().train(Path({str(path)!r}), every_s=0.02, progress=False)"
        )
        process = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parent)
        wait_until(lambda: path.exists() or process.poll() is not None)
        process.kill()
        assert process.wait() != 0, "it was interrupted before its end"
    else:
        monkeypatch.setattr(LinearRegression, "batch", interrupting)
        with pytest.raises(KeyboardInterrupt):
            longer().train(path, every_s=1e9, progress=False)
    assert path.exists(), "an interrupted run leaves a checkpoint"
    found, reference = longer().train(path, progress=False)["g"], whole()
    np.testing.assert_array_equal(found.steps, reference.steps)
    np.testing.assert_allclose(found.circuits["kq"], reference.circuits["kq"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.loss[1:], reference.loss[1:], rtol=1e-5)


@cache
def whole():
    return longer().train(progress=False)["g"]


def test_a_damaged_or_foreign_checkpoint_is_refused_in_one_line(tmp_path):
    path = tmp_path / "run.pt"
    t = trainer([Run(0)], steps=20)
    t.train(path, progress=False, until=7)
    for other in (trainer([Run(1)], steps=20), trainer([Run(0)], steps=20, score_scale="code")):
        with pytest.raises(UserError, match="another configuration"):
            other.train(path, progress=False)
    with pytest.raises(UserError, match="another configuration"):
        trainer([Run(0)], steps=20).train(path, progress=False, about="newer code")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(UserError, match="damaged"):
        trainer([Run(0)], steps=20).train(path, progress=False)


def test_a_fresh_training_goes_on_from_its_own_checkpoint_and_replaces_others(tmp_path):
    path = tmp_path / "run.pt"
    whole = trainer([Run(0)], steps=20).train(progress=False)["g"]
    trainer([Run(0)], steps=20).train(path, progress=False, until=7, fresh=True)
    resumed = trainer([Run(0)], steps=20)
    resumed.train(path, progress=False, until=0, fresh=True)
    assert resumed.done == 7
    again = trainer([Run(0)], steps=20).train(path, progress=False, fresh=True)["g"]
    np.testing.assert_array_equal(again.circuits["kq"], whole.circuits["kq"])
    for other in (b"nonsense", None):
        if other is None:
            trainer([Run(1)], steps=20).train(path, progress=False, until=7)
        else:
            path.write_bytes(other)
        again = trainer([Run(0)], steps=20).train(path, progress=False, fresh=True)["g"]
        np.testing.assert_array_equal(again.circuits["kq"], whole.circuits["kq"])


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here: the CUDA path is not exercised")
def test_cpu_and_cuda_agree_on_the_same_data():
    group = Group("g", Attention, {"d": 5, "n_heads": 2}, [Run(s) for s in range(4)])
    batch = LinearRegression().batch(torch.randn(4, LinearRegression().normals, 256))
    out = {}
    for device in ("cpu", "cuda"):
        runs_there = Ensemble(group, 1, range(4), torch.device(device), torch.float32)
        grads, losses = runs_there.gradients(runs_there.params, type(batch)(*(x.to(device) for x in batch)))
        out[device] = ({k: g.cpu() for k, g in grads.items()}, losses.cpu())
    torch.testing.assert_close(out["cuda"][1], out["cpu"][1], rtol=1e-5, atol=1e-6)
    for name, g in out["cpu"][0].items():
        torch.testing.assert_close(out["cuda"][0][name], g, rtol=1e-3, atol=1e-5)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here: the CUDA path is not exercised")
def test_a_captured_graph_gives_the_numbers_of_single_steps():
    histories, group = [], Group("g", Attention, {"d": 5, "n_heads": 2}, [Run(0), Run(1)])
    for graphs in (True, False):
        t = Trainer(LinearRegression(), [group], 64, device="cuda", compile=False)
        t.GRAPHS = graphs
        if not graphs:
            t._capture = lambda: pytest.fail("captured")
        histories.append(t.train(progress=False)["g"])
    np.testing.assert_allclose(histories[0].circuits["kq"][-1], histories[1].circuits["kq"][-1], rtol=1e-3, atol=1e-5)


def test_next_token_leaves_out_places_where_nothing_follows():
    logits, target = torch.randn(5, 3, 7), torch.randint(7, (5, 3))
    target[1:3, 2] = -1
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=-1)
    torch.testing.assert_close(next_token(lambda tokens: logits, Batch(target, target, target)), expected)
