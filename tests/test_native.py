"""What is done in C: the same whole numbers as torch's, normals within rounding of it, gradients of autograd, one set of bits on every processor."""

import ctypes
import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from iclbook import cli, native, random
from iclbook.errors import UserError
from iclbook.machines import this_machine
from iclbook.models import Attention, attention
from iclbook.models.attention import ACTIVATIONS
from iclbook.tasks import LinearRegression, MultiTaskRegression
from iclbook.training import Adam, AdamW, Cosine, Group, Momentum, Run, Trainer
from iclbook.training.ensemble import Ensemble, in_c

pytestmark = pytest.mark.skipif(native.functions() is None, reason="no C compiler, or no fused multiply-add")
STEPS = torch.tensor([0, 9, 2**33])


@pytest.fixture
def by_torch(monkeypatch):
    """Numbers as a machine without a compiler draws them."""

    def draw(kind, *args):
        with monkeypatch.context() as without:
            without.setattr(native, "can_draw", lambda keys: False)
            return getattr(random, kind)(*args)

    return draw


@pytest.mark.parametrize("n", [1, 2, 3, 4, 63, 64, 65, 127, 1001])
def test_whole_numbers_are_torchs_and_normals_differ_by_rounding(by_torch, n):
    keys = random.keys([5, 2**40 + 3, 2**64 - 1])
    where = keys, STEPS, 3, (n,)
    assert torch.equal(random.words(*where), by_torch("words", *where))
    ours, theirs = random.normals(*where), by_torch("normals", *where)
    assert ours.shape == theirs.shape == (3, 3, n)
    # radius and angle as for two processors in test_random: a few units of the radius, at most 6.7
    assert (ours - theirs).abs().max() < 16 * 2**-23
    assert (ours != 0).all()


def _instruction_sets() -> list[list[str]]:
    """Flags for older processors of this kind than the one at hand; the slowest has no fused multiply-adds and calls the library's."""
    return [["-march=x86-64-v3"], ["-march=x86-64", "-DALLOW_SLOW"]]


def _libraries(source: str, *macros: str) -> list[ctypes.CDLL]:
    every = [[native.NATIVE, *macros], *([*flags, *macros] for flags in _instruction_sets())]
    return [ctypes.CDLL(str(native.compiled(source, flags))) for flags in every]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="flags of x86-64")
def test_every_instruction_set_draws_the_same_bits():
    keys, steps = random.keys([1, 2]), torch.tensor([1, 2**35])
    found = []
    for library in _libraries("counter.c"):
        out = torch.empty(2, 2, 1003)
        library.normals(
            *map(ctypes.c_void_p, (out.data_ptr(), keys.data_ptr())),
            *(ctypes.c_int64(2), ctypes.c_void_p(steps.data_ptr()), ctypes.c_int64(2), 1, ctypes.c_int64(1003)),
        )
        found.append(out)
    assert len(found) == 3, this_machine()
    assert all(torch.equal(found[0], other) for other in found[1:])


def _ensemble(activation: str, n_heads: int, task, runs: int = 2, scale=None, **group) -> Ensemble:
    kwargs = {"d": task.d, "n_heads": n_heads, "n_tasks": task.n_tasks, "activation": activation}
    scale = scale or (0.3 if activation == "affine" else "code")  # far from the pole of the affine weights
    spec = Group("g", Attention, kwargs | {"score_scale": scale}, tuple(Run(s) for s in range(runs)), **group)
    return Ensemble(spec, 10, list(range(runs)), torch.device("cpu"), torch.float32)


def _gradients(ensemble: Ensemble, task, batch: int = 64):
    """Gradients and losses of C code and of autograd, on the same numbers."""
    runs = len(ensemble.runs)
    numbers = random.normals(random.keys(range(runs)), torch.tensor([3]), random.DATA, (task.normals, batch))[
        :, 0
    ].contiguous()
    ours = {k: torch.full_like(p, torch.nan) for k, p in ensemble.params.items()}
    losses, step = ensemble.loss_sum, in_c(task, ensemble, ours, batch)
    for r in range(runs):
        step(numbers[r], torch.tensor([r]))
    return ours, losses, *ensemble.gradients(ensemble.params, task.batch(numbers))


COLOURED = LinearRegression(d=3, L=7, covariance=((1.0, 0.5, 0.2), (0.5, 2.0, 0.1), (0.2, 0.1, 0.7)))
TASKS = {
    "plain": LinearRegression(),
    "coloured": COLOURED,
    "shared": MultiTaskRegression(),
    "apart": MultiTaskRegression(L=9, noise_var=0.4, target_noise_var=0.0, shared_beta=False, beta_var=1.0),
}


def _apart(ours, losses, theirs, their_losses) -> float:
    """Largest distance of gradients and losses, as a share of the largest entry of each."""
    pairs = [(losses, their_losses), *((ours[k], theirs[k]) for k in theirs)]
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_are_those_of_autograd(task, activation):
    # both sum some ten thousand terms in single precision
    assert _apart(*_gradients(_ensemble(activation, 3, TASKS[task]), TASKS[task])) < 2e-5


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="flags of x86-64")
@pytest.mark.parametrize("task", ["coloured", "apart"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_instruction_set_gives_the_same_gradients(monkeypatch, activation, task):
    task, found = TASKS[task], []
    macros = [f"-DD={task.d + task.n_tasks}", f"-DN={task.n_tasks}", f"-DACT={activation.upper()}"]
    for library in _libraries("attention.c", *macros):
        monkeypatch.setattr(attention, "library", lambda source, library=library, **macros: library)
        ours, losses, *_ = _gradients(_ensemble(activation, 2, task), task)
        found.append([*ours.values(), losses])
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


def _trained(groups, task=None, steps=30, fused=True, **kwargs):
    trainer = Trainer(task or TASKS["plain"], groups, steps, 64, (0, 1, 10, steps), compile=fused, **kwargs)
    assert (trainer._in_c is not None) == fused
    return trainer.train(progress=False), trainer.parameters()


@pytest.mark.parametrize(
    "optimiser", [Adam(), Adam(0.8, 0.98, 1e-4), Adam(beta1=0.0), AdamW(clip=0.1), Momentum()], ids=str
)
def test_trainings_in_c_are_those_of_autograd(optimiser):
    runs = (Run(0), Run(1, rate=3e-3), Run(2, stream=1), Run(3, factors=(("key", 0.0), ("value", 2.0))))
    groups = [Group(f"h{h}", Attention, {"d": 5, "n_heads": h}, runs, optimiser, schedule=Cosine()) for h in (1, 2)]
    (ours, end), (theirs, their_end) = _trained(groups), _trained(groups, fused=False)
    for name in ours:
        # thirty steps of rounding; a rate wrong by 1 % leaves 3e-4
        assert np.abs(ours[name].loss[1:] / theirs[name].loss[1:] - 1).max() < 1e-5
        for k, value in end[name].items():
            assert np.abs(value - their_end[name][k]).max() < 2e-6
    frozen = [history["h2"].circuits["kq"] for history in (ours, theirs)]
    assert np.abs(frozen[0] - frozen[1]).max() < 2e-5


def test_a_run_is_the_same_to_the_bit_alone_and_beside_others():
    runs = tuple(Run(s, rate=1e-2, stream=s % 3) for s in range(7))
    group = Group("g", Attention, {"d": 5, "n_heads": 2}, runs)
    beside = Group("other", Attention, {"d": 5, "n_heads": 3, "activation": "tanh"}, runs[:2])
    _, many = _trained([group, beside])
    for at in (0, 4, 6):
        _, one = _trained([dataclasses.replace(group, runs=(runs[at],))])
        assert all(np.array_equal(one["g"][k][0], many["g"][k][at]) for k in one["g"])


WITHOUT = """
import torch
from iclbook import random
from iclbook import native
from iclbook.models import Attention
from iclbook.tasks import LinearRegression
from iclbook.training import Group, Run, Trainer
group = Group("g", Attention, {"d": 5, "n_heads": 2}, (Run(0),))
trainer = Trainer(LinearRegression(), [group], 3, 64, compile=None)
trainer.train(progress=False)
print(native.functions() is None, trainer.compiled, random.words(random.keys([7]), torch.tensor([1]), 3, (3,)).tolist())
"""


@pytest.mark.parametrize(
    "way",
    [
        pytest.param({"PATH": "/nowhere", "CC": ""}, id="no compiler"),
        pytest.param({"ICLBOOK_KERNELS": "off"}, id="off", marks=pytest.mark.full),
    ],
)
def test_all_of_it_can_be_done_without(way):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], env=os.environ | way, capture_output=True, text=True, check=True
    )
    words = random.words(random.keys([7]), torch.tensor([1]), 3, (3,)).tolist()
    assert done.stdout.strip() == f"True False {words}"


def test_a_source_that_does_not_compile_is_done_without(monkeypatch, tmp_path):
    (tmp_path / "broken.c").write_text("int f(void) { return nothing; }")
    monkeypatch.setattr(native, "HERE", tmp_path)
    assert native.library("broken.c") is None
    with pytest.raises(UserError, match=r"broken.c does not compile .*undeclared"):
        native.compiled("broken.c", [])


@pytest.mark.parametrize("activation", ["softmax", "tanh", "square"])
def test_large_scores_saturate_as_torchs_do(activation):
    """Scores of some hundreds, far beyond what single precision can exponentiate."""
    ensemble = _ensemble(activation, 2, TASKS["plain"], scale=40.0)
    assert _apart(*_gradients(ensemble, TASKS["plain"])) < 1e-3


def test_a_library_of_other_sources_and_a_damaged_one_are_removed_by_the_next_command(monkeypatch, tmp_path):
    monkeypatch.setenv(native.SWITCH, str(tmp_path))
    (tmp_path / "old.so").write_bytes(b"of other sources")
    cli.main(["claims", "no such paper"])
    assert [path.name for path in tmp_path.iterdir()] == ["sources"]
    whole, damaged = tmp_path / "counter-0.so", tmp_path / "counter-1.so"
    for path in (whole, damaged):
        path.write_bytes(b"code")
    for content in (b"code", b"cofe"):
        damaged.write_bytes(content)
        cli.main(["claims", "no such paper"])
    assert {*tmp_path.iterdir()} == {whole, whole.with_suffix(".sha256"), tmp_path / "sources"}
