"""Emulated machines: what their environments do to torch, and that a machine leaves nothing of the one before it."""

import subprocess
import sys

from iclbook.machines import emulated, environment

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
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["avx2"]
