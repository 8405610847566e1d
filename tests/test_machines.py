"""Emulated machines: what their environments do to torch, and that the same one rounds alike."""

import subprocess
import sys

import pytest

from iclbook.machines import environment

SEEN = """
import hashlib, numpy as np, torch
torch.manual_seed(0)
a = torch.randn(200, 200)
x = [(a @ a).softmax(0).numpy(), np.exp(a.double().numpy()) @ a.double().numpy()]
print(torch.backends.cpu.get_cpu_capability(), torch.get_num_threads())
print(*(hashlib.sha256(np.ascontiguousarray(y).tobytes()).hexdigest() for y in x))
"""


def seen_on(machine):
    """Instruction set, threads, and digests of products by torch and by numpy."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", SEEN],
        env=environment(machine),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()


@pytest.mark.full
def test_torch_follows_and_other_kernels_round_otherwise():
    pinned, old = seen_on("pinned"), seen_on("sse-2")
    assert pinned[:2] == ["AVX2", "1"]
    assert old[:2] == ["DEFAULT", "2"]
    assert seen_on("training")[:2] == pinned[:2]
    assert seen_on("pinned") == pinned
    assert all(one != other for one, other in zip(pinned[2:], old[2:], strict=True))
