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
