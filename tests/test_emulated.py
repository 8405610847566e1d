"""The same book on other processors, emulated by the environment switches of :mod:`iclbook.machines`: replays, values and verdicts (hours)."""

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
