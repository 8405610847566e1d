"""The device code of ``native/gpu.cu``, compiled as C++ with one thread after another, trains as the steps in C do; and on a GPU, where there is one."""

import ctypes
import shutil
from types import SimpleNamespace

import pytest
import torch
from test_native import TASKS, _ensemble

from iclbook import native, random
from iclbook.models.attention import ACTIVATIONS
from iclbook.training import Trainer, on_gpu
from iclbook.training.groups import Adam, Cosine

pytestmark = pytest.mark.skipif(
    native.functions() is None or shutil.which("c++") is None, reason="no C++ compiler, or no fused multiply-add"
)
BATCH, STEPS = 64, 20
#: No alias by type, as on a GPU.
FLAGS = ("-x", "c++", native.NATIVE, "-fno-strict-aliasing", "-fwrapv", "-O1")


class There(on_gpu.OneLaunch):
    """A trainer on a CPU that believes itself on a GPU."""

    def _choose(self, *how):
        self.device = SimpleNamespace(type="cuda")
        super()._choose(*how)
        self.device = torch.device("cpu")


def _emulated(gpu, size, THREADS=0, **macros) -> ctypes.CDLL:
    return ctypes.CDLL(str(native.compiled("gpu.cu", [*FLAGS, *(f"-D{k}={v}" for k, v in macros.items())])))


@pytest.fixture
def gpu(monkeypatch):
    """A GPU of few processors; ``backwards`` for threads in the opposite order."""
    here = SimpleNamespace(major=9, minor=0, multi_processor_count=1, shared_memory_per_multiprocessor=233_472)
    here.backwards, here.launches = False, []

    def launch(function, blocks, *rest):
        size, about = rest[5], ctypes.c_void_p(rest[7][0])
        memory = torch.full((8 * size // 4,), torch.nan)  # of a whole cluster
        taken = function.train(about, ctypes.c_void_p(memory.data_ptr()), here.backwards)
        assert 4 * taken == size, "shared memory that the launch is given"
        here.launches.append(blocks)

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: here)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0))
    monkeypatch.setattr(on_gpu, "_driver", lambda: SimpleNamespace(cuLaunchKernel=launch))
    monkeypatch.setattr(on_gpu, "compiled", _emulated)
    return here


def _trained(kind, *of, device="cpu", **group):
    """Parameters and moments of two runs at the end, and losses on the way."""
    trainer = kind(TASKS[of[-1]], [_ensemble(*of[:-1], TASKS[of[-1]], **group).group], STEPS, BATCH, (1, 9), device)
    assert kind is Trainer or trainer._launched
    history = trainer.train(progress=False)["g"]
    return [x.cpu() for x in trainer.ensembles[0].leaves()[:-1]] + [torch.from_numpy(history.loss[1:])]


def _apart(ours, theirs) -> float:
    """Largest distance as a share of the largest entry, over all tensors."""
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("task", TASKS)
def test_a_gpus_threads_draw_the_bits_of_the_steps_in_c(task):
    task = TASKS[task]
    steps = on_gpu.Steps(_ensemble("softmax", 1, task), task, BATCH, random.keys([0, 1]), 1, 32)
    step, found = 2**33 + 5, torch.empty(task.normals, BATCH)
    memory, about = torch.empty(on_gpu.floats(task, 1, 32)), steps.after(0, 1)
    places = [ctypes.c_void_p(x.data_ptr()) for x in (memory, found)]
    _emulated("", 0, **steps.macros).drawn(ctypes.byref(about), places[0], ctypes.c_int64(step), places[1])
    (drawn,) = random.drawn(task, 0, random.DATA, (BATCH,), step)
    assert torch.equal(found, drawn)


OF = [*((a, "coloured") for a in ACTIVATIONS), ("softmax", "shared"), ("tanh", "apart")]


@pytest.mark.parametrize("n_heads", [1, 2, 8])
@pytest.mark.parametrize(("activation", "task"), OF)
def test_device_code_trains_as_the_steps_in_c(gpu, activation, task, n_heads):
    of = activation, n_heads, task
    kind = {"optimiser": Adam(0.8, 0.98), "schedule": Cosine()} if n_heads == 2 else {}
    # twenty steps of sums of another order; a gradient wrong by 1 % is as wrong in its moments
    assert _apart(_trained(There, *of, **kind), _trained(Trainer, *of, **kind)) < 2e-5
    assert gpu.launches == [2, 2, 2], "a block a run, to each record"


def test_no_thread_reads_what_another_writes_before_a_barrier(gpu):
    """Threads in the opposite order give the same bits, however many prompts a block takes at a time; several blocks add in another order."""
    found, whole = [], gpu.shared_memory_per_multiprocessor
    for processors, memory in ((1, whole), (1, whole // 12), (8, whole)):
        gpu.multi_processor_count, gpu.shared_memory_per_multiprocessor = processors, memory
        for gpu.backwards in (False, True):
            found.append(_trained(There, "softmax", 2, "coloured"))
    assert gpu.launches == [2] * 12 + [8] * 6
    assert _apart(found[5], found[4]) == max(_apart(other, found[0]) for other in found[1:4]) == 0
    assert 0 < _apart(found[4], found[0]) < 2e-5


on_a_card = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here: the kernel is not launched")


@pytest.mark.cuda
@on_a_card
@pytest.mark.parametrize("n_heads", [1, 8])
@pytest.mark.parametrize(("activation", "task"), OF)
def test_a_gpu_trains_as_the_steps_in_c(activation, task, n_heads):
    of = activation, n_heads, task
    assert _apart(_trained(on_gpu.OneLaunch, *of, device="cuda"), _trained(Trainer, *of)) < 2e-6


@pytest.mark.cuda
@on_a_card
@pytest.mark.parametrize("parts", on_gpu.PARTS)
def test_blocks_of_a_gpu_share_a_run(parts, monkeypatch):
    monkeypatch.setattr(on_gpu, "PARTS", (parts, 1))
    of = "softmax", 2, "coloured"
    assert _apart(_trained(on_gpu.OneLaunch, *of, device="cuda"), _trained(Trainer, *of)) < 2e-6
