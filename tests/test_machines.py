"""Emulated machines: what their environments do to torch, and that a machine leaves nothing of the one before it."""

import os
import subprocess
import sys

import pytest

from iclbook.errors import UserError
from iclbook.machines import MEMORY, PINNED, SWITCHES, TRAINING, emulated, environment

CAPABILITY = "import torch; print(torch.backends.cpu.get_cpu_capability(), torch.get_num_threads())"


def seen_on(machine, program=CAPABILITY):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=environment(machine),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()


def test_three_processors_and_two_thread_counts_at_least():
    machines = emulated()
    assert len({name.split("-")[0] for name in machines}) >= 3
    assert {name.split("-")[1] for name in machines} == {"1", "2"}


def test_an_environment_clears_the_switches_of_the_machine_before(monkeypatch):
    for name in SWITCHES:
        monkeypatch.setenv(name, "left over")
    kept = {"OMP_NUM_THREADS", "MKL_DYNAMIC", "OMP_WAIT_POLICY", *MEMORY}
    assert not set(environment("native-1")) & (SWITCHES - kept)
    assert "left over" not in environment("sse-2").values()
    pinned = environment("pinned")
    assert {k: pinned[k] for k in PINNED} == PINNED
    assert pinned["PATH"] == os.environ["PATH"]
    training = environment("training")
    assert {k: training[k] for k in TRAINING} == TRAINING
    changed = {name for name in TRAINING if TRAINING[name] != PINNED.get(name)}
    assert changed == {"MKL_CBWR", *MEMORY}


FAULTS = """
import ctypes, resource
c = ctypes.CDLL(None)
c.malloc.restype, c.malloc.argtypes, c.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [c.malloc(2**22) for _ in range(8)]
    for block in blocks:
        ctypes.memset(block, 1, 2**22)
    for block in reversed(blocks):
        c.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(sum([faults() for _ in range(10)][5:]))
"""


def test_freed_memory_stays_with_a_process_on_every_machine():
    """Pages that were given back and taken again are faults: none once the memory is there, where a plain process has thousands."""
    for machine in ("pinned", "training", "native-1"):
        assert int(*seen_on(machine, FAULTS)) < 100, machine
    plain = {name: value for name, value in os.environ.items() if name not in SWITCHES}
    program = [sys.executable, "-c", FAULTS]
    without = subprocess.run(program, env=plain, capture_output=True, text=True, check=True).stdout
    assert int(without) > 10_000


@pytest.mark.parametrize("name", ["", "sse", "sse-3", "z80-1", "native-0"])
def test_an_unknown_machine_is_one_line(name):
    with pytest.raises(UserError, match=r"unknown machine.*Choose pinned, training or one of: sse-1"):
        environment(name)


def test_torch_follows():
    assert seen_on("sse-2") == ["DEFAULT", "2"]
    assert seen_on("pinned") == seen_on("training") == ["AVX2", "1"]


def test_other_kernels_round_otherwise_and_the_same_ones_alike():
    program = (
        "import hashlib, numpy as np, torch; torch.manual_seed(0); a = torch.randn(200, 200)\n"
        "x = [(a @ a).softmax(0).numpy(), np.exp(a.double().numpy()) @ a.double().numpy()]\n"
        "print(*(hashlib.sha256(np.ascontiguousarray(y).tobytes()).hexdigest() for y in x))"
    )
    pinned, again, old = seen_on("pinned", program), seen_on("pinned", program), seen_on("sse-1", program)
    assert pinned == again
    assert pinned[0] != old[0]
    assert pinned[1] != old[1]


def test_compiling_believes_the_processor_and_probes_nothing(tmp_path):
    """Inductor's own probes of every instruction set take a third of a first compilation; with this compiler they all fail."""
    compiler = tmp_path / "g++"
    compiler.write_text('#!/bin/sh\ncase "$1" in --version|-v) echo "g++ 12.2.0";; *) exit 1;; esac\n')
    compiler.chmod(0o755)
    program = (
        "import types; from iclbook.training.backends import compile_method\n"
        "compile_method(types.MethodType(lambda self: self, 1))\n"
        "from torch._inductor.cpu_vec_isa import pick_vec_isa; print(pick_vec_isa())"
    )
    env = environment("pinned") | {"CXX": str(compiler), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    env.pop("TORCHINDUCTOR_VEC_ISA_OK", None)
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["avx2"]
