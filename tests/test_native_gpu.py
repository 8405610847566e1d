"""The device code of ``native/gpu.cu``, compiled as C++ with one thread after another, gives what the steps in C give; on a GPU, what it gives there."""

import ctypes
import shutil

import pytest
import torch
from test_native import TASKS, _ensemble

from iclbook import native, random
from iclbook.models import Attention
from iclbook.models.attention import ACTIVATIONS
from iclbook.training import Group, Run, Trainer
from iclbook.training.data import Stream
from iclbook.training.ensemble import steps_in_c
from iclbook.training.groups import Adam, Cosine
from iclbook.training.on_gpu import OneLaunch, Steps, floats

pytestmark = pytest.mark.skipif(
    native.functions() is None or shutil.which("c++") is None, reason="no C++ compiler, or no fused multiply-add"
)
BATCH = 64
#: No alias by type, as on a GPU; memory of one kind is read as floats and as their vectors.
FLAGS = ("-x", "c++", native.NATIVE, "-fno-strict-aliasing", "-fwrapv", "-O1")


def _emulated(steps: Steps) -> tuple[ctypes.CDLL, torch.Tensor]:
    """The program of a group's steps, and room for its shared memory."""
    flags = [*FLAGS, *(f"-D{name}={value}" for name, value in steps.macros.items())]
    size = floats(steps.task, len(steps.ensemble.model.query), steps.prompts)
    return ctypes.CDLL(str(native.compiled("gpu.cu", flags))), torch.full((steps.parts * size,), torch.nan)


def _steps(ensemble, task, parts=1, prompts=32) -> Steps:
    return Steps(ensemble, task, BATCH, random.keys(range(len(ensemble.runs))), parts, prompts)


def _trained(ensemble, task, n=20, reverse=False, **shares):
    """Parameters, moments and losses after ``n`` steps of the device code, in two launches."""
    steps = _steps(ensemble, task, **shares)
    program, memory = _emulated(steps)
    for done, take in ((0, n // 2), (n // 2, n - n // 2)):
        about, _kept = steps.after(done, take)
        taken = program.train(ctypes.byref(about), ctypes.c_void_p(memory.data_ptr()), reverse)
        assert taken * steps.parts == memory.numel(), "shared memory that the launch is given"
    return ensemble.leaves()


def _in_c(ensemble, task, n=20):
    step = steps_in_c(Stream(task), [ensemble], random.keys(range(len(ensemble.runs))), BATCH, torch.float32)
    for number in range(1, n + 1):
        step(number, torch.tensor(float(number)))
    return ensemble.leaves()


def _apart(ours, theirs) -> float:
    """Largest distance as a share of the largest entry, over all tensors."""
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("task", TASKS)
def test_a_gpus_threads_draw_the_bits_of_the_steps_in_c(task):
    task = TASKS[task]
    steps, step, found = _steps(_ensemble("softmax", 1, task), task), 2**33 + 5, torch.empty(task.normals, BATCH)
    (program, memory), (about, _kept) = _emulated(steps), steps.after(0, 1)
    places = (ctypes.c_void_p(x.data_ptr()) for x in (memory, found))
    program.drawn(ctypes.byref(about), next(places), ctypes.c_int64(step), next(places))
    (drawn,) = random.drawn(task, 0, random.DATA, (BATCH,), step)
    assert torch.equal(found, drawn)


@pytest.mark.parametrize("n_heads", [1, 2, 8])
@pytest.mark.parametrize(
    ("activation", "task"), [*((a, "coloured") for a in ACTIVATIONS), ("softmax", "shared"), ("tanh", "apart")]
)
def test_device_code_trains_as_the_steps_in_c(activation, task, n_heads):
    kind = {"optimiser": Adam(0.8, 0.98), "schedule": Cosine()} if n_heads == 2 else {}
    theirs, ours = (_ensemble(activation, n_heads, TASKS[task], **kind) for _ in range(2))
    # twenty steps of sums of another order; a factor wrong by 1 % leaves 1e-3
    assert _apart(_trained(ours, TASKS[task]), _in_c(theirs, TASKS[task])) < 2e-5


def test_no_thread_reads_what_another_writes_before_a_barrier():
    """Threads in the opposite order give the same bits, however many prompts a block takes at a time; several blocks add in another order."""
    task, found = TASKS["coloured"], []
    for parts, prompts in ((1, 64), (1, 8), (4, 16)):
        there, back = (
            _trained(_ensemble("softmax", 2, task), task, reverse=order, parts=parts, prompts=prompts)
            for order in (False, True)
        )
        assert all(torch.equal(a, b) for a, b in zip(there, back, strict=True))
        found.append(there)
    assert _apart(found[1], found[0]) == 0
    assert 0 < _apart(found[2], found[0]) < 2e-5


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here: the kernel is not launched")
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("runs", [2, 200])
def test_a_gpu_trains_as_the_steps_in_c(task, runs):
    task, found = TASKS[task], []
    group = Group("g", Attention, {"d": task.d, "n_heads": 2, "n_tasks": task.n_tasks}, [Run(s) for s in range(runs)])
    for kind, device in ((OneLaunch, "cuda"), (Trainer, "cpu")):
        trainer = kind(task, [group], 600, 64, (0, 1, 30, 600), device=device)
        assert getattr(trainer, "_launched", trainer._in_c)
        found.append(trainer.train(progress=False)["g"])
    ours, theirs = found
    assert abs(ours.loss[1:] / theirs.loss[1:] - 1).max() < 1e-3
    assert abs(ours.circuits["kq"][2] - theirs.circuits["kq"][2]).max() < 2e-5
