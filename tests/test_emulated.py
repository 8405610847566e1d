"""The same book on other processors, emulated by the environment switches of :mod:`iclbook.machines`: replays, values and verdicts (hours)."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iclbook.inputs import chapters
from iclbook.machines import emulated, environment
from iclbook.project import PROFILES

REPOSITORY = Path(__file__).resolve().parents[1]
MACHINES = emulated()
pytestmark = [pytest.mark.full, pytest.mark.slow]


def run_on(machine: str, *arguments: str) -> None:
    """Run a module of this interpreter on an emulated machine; a failure shows the end of its output."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        env=environment(machine),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


@pytest.mark.parametrize("machine", MACHINES)
def test_stored_runs_replay(machine):
    run_on(machine, "pytest", "-q", "-p", "no:cacheprovider", "tests/test_results.py", "-k", "replays")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", chapters(REPOSITORY))
@pytest.mark.parametrize("profile", PROFILES)
def test_a_chapter_agrees(profile, name, machine):
    """Every value within what rounding gives it, every verdict the same."""
    run_on(machine, "iclbook.cli", "check", name, "--profile", profile, "--machine", machine, "--device", "cpu")


#: Prints the parameters of a short training whose every step torch takes: random numbers, gradients of softmax attention and Adam.
TRAINING = """
from iclbook.models.attention import Attention
from iclbook.tasks import LinearRegression
from iclbook.training import Adam, Group, Run, Trainer

group = Group("h2", Attention, {"d": 5, "n_heads": 2}, [Run(0, 0.01), Run(1, 0.01)], Adam())
trainer = Trainer(LinearRegression(), [group], 8, 64, device="cpu", compile=False)
trainer.train(progress=False)
print({name: x.tobytes().hex() for name, x in trainer.parameters()["h2"].items()})
"""


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="needs qemu-user, a package of Debian")
def test_two_makers_train_to_the_same_bits():
    """Under the pins, on an Intel and on an AMD processor that qemu stands for: their maker's name and approximate roots, which MKL's own root follows, included."""
    around = environment("pinned") | {"ICLBOOK_KERNELS": "off", "PYTHONPATH": ":".join(filter(None, sys.path))}
    commands = [["qemu-x86_64", "-cpu", cpu, sys.executable] for cpu in ("EPYC", "Skylake-Server")] + [[sys.executable]]
    seen = {
        subprocess.run([*command, "-c", TRAINING], env=around, capture_output=True, text=True, check=True).stdout
        for command in commands
    }
    assert len(seen) == 1
    assert len(seen.pop()) > 500
