"""The same book on other processors, emulated by the environment switches of :mod:`iclbook.machines`.

In the size that `make test` affords: on every machine but this one as it is, whose replays are test_results.py's, the replays that rounding moves most, one of
each paper; and two chapters, each on one machine.
``ICLBOOK_FULL=1``: all replays, and all values and verdicts of both profiles, on all machines.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from iclbook.inputs import chapters
from iclbook.machines import emulated, environment

REPOSITORY = Path(__file__).resolve().parents[1]
FULL = os.environ.get("ICLBOOK_FULL") == "1"
MACHINES = emulated()
#: Tiny weights under Adam, where first steps magnify rounding most; then one study of each other paper.
REPLAYS = ("wang2025-square_softmax", "he2025-isotropic", "agarwal2025-shown", "nagy2026-masks")
#: The chapter that trains most in single precision, as on an old processor, and another one without any pin.
PAIRS = [("linear_regression", "sse-1"), ("gradient_descent", "native-1")]
EVERY = [(name, machine) for name in chapters(REPOSITORY) for machine in MACHINES]


def run_on(machine: str, *arguments: str) -> str:
    """Run a module of this interpreter on an emulated machine; its output, or a failure that shows its end."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        env=environment(machine),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("machine", MACHINES if FULL else [m for m in MACHINES if m != "native-1"])
def test_stored_runs_replay(machine):
    chosen = "replays" if FULL else " or ".join(f"group_replays[{name}]" for name in REPLAYS)
    out = run_on(machine, "pytest", "-q", "-p", "no:cacheprovider", "tests/test_results.py", "-k", chosen)
    assert f"{len(REPLAYS)} passed" in out or FULL


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "machine"), EVERY if FULL else PAIRS)
def test_a_chapter_agrees(name, machine):
    """Every value within what rounding gives it, every verdict the same."""
    run_on(machine, "iclbook.cli", "check", name, "--profile", "smoke", "--machine", machine, "--device", "cpu")


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not FULL, reason="ICLBOOK_FULL=1 checks the paper profile on every emulated machine")
@pytest.mark.parametrize(("name", "machine"), EVERY)
def test_a_chapter_agrees_at_the_paper_profile(name, machine):
    run_on(machine, "iclbook.cli", "check", name, "--profile", "paper", "--machine", machine, "--device", "cpu")
