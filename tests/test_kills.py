"""A command that is killed leaves no process behind, and nothing that the next run would take for an input."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iclbook.inputs import executed_path, is_stale

pytestmark = [
    pytest.mark.slow,
    pytest.mark.full,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's /proc and prctl"),
]
HEAD = "# %% tags=[\"parameters\"]\nprofile = 'smoke'\ndevice = 'auto'\n"
WAITS = "import pathlib, time\npathlib.Path('{name}.here').touch()\ntime.sleep(600)"


def write(root: Path, name: str, body: str) -> None:
    (root / "notebooks" / f"{name}.py").write_text(f"{HEAD}\n# %%\n{body}\n")


def mark_of(process: subprocess.Popen) -> bytes:
    return f"ICLBOOK_TEST_MARK={process.mark}".encode()


def command(root: Path, *arguments: str) -> subprocess.Popen:
    """``iclbook`` in a session of its own; whatever it starts can be told by a mark in its environment."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    process = subprocess.Popen(
        [sys.executable, "-m", "iclbook.cli", *arguments],
        cwd=root,
        env=os.environ | {"ICLBOOK_TEST_MARK": mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    process.mark = mark
    return process


def family(process: subprocess.Popen) -> dict[int, str]:
    """Living processes that the command started, itself included: number -> command line."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and mark_of(process) in (folder / "environ").read_bytes().split(b"\0"):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                found[int(folder.name)] = b" ".join(words).decode(errors="replace")[:120]
        except OSError:  # it ended meanwhile, or is somebody else's
            continue
    return found


def kill(process: subprocess.Popen, number: signal.Signals) -> None:
    os.kill(process.pid, number)
    process.wait(timeout=30)


def ends(process: subprocess.Popen, seconds: float = 15) -> dict[int, str]:
    """What is left of a killed command's family, after a moment; ended here so that a failing test leaves nothing."""
    deadline = time.monotonic() + seconds
    while (left := family(process)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for number in left:
        os.kill(number, signal.SIGKILL)
    return left


def wait_for(condition, process: subprocess.Popen, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)


@pytest.fixture
def two_chapters(minibook: Path) -> Iterator[Path]:
    """A miniature book with two chapters that compute for ever."""
    (minibook / "_toc.yml").write_text(
        "format: jb-book\nroot: book/intro\nchapters:\n- file: notebooks/one\n- file: notebooks/two\n"
    )
    for name in ("one", "two"):
        write(minibook, name, WAITS.format(name=name))
    return minibook


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_build_leaves_no_kernel(two_chapters: Path, number: signal.Signals) -> None:
    process = command(two_chapters, "build", "--profile", "smoke", "--jobs", "2")
    begun = [two_chapters / "notebooks" / f"{name}.here" for name in ("one", "two")]
    wait_for(lambda: all(path.exists() for path in begun), process)
    assert len(family(process)) >= 3, "the command and two kernels"
    kill(process, number)
    assert ends(process) == {}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_build_leaves_no_page_builder(minibook_that_ran: Path, number: signal.Signals) -> None:
    assert is_stale("tiny", "smoke", minibook_that_ran) == ""
    process = command(minibook_that_ran, "build", "--profile", "smoke")
    wait_for(lambda: any("jupyter_book" in line for line in family(process).values()), process)
    kill(process, number)
    assert ends(process) == {}


@pytest.mark.full
def test_kills_at_random_times_lose_nothing(minibook: Path) -> None:
    """A build killed six times at random, seeded, and then left alone ends as one that was never disturbed."""
    draw = random.Random(11)
    for number in (signal.SIGKILL, signal.SIGTERM) * 3:
        process = command(minibook, "build", "--profile", "smoke")
        try:
            process.wait(timeout=draw.uniform(0.5, 12))
        except subprocess.TimeoutExpired:
            kill(process, number)
        assert ends(process) == {}
        copy = executed_path("tiny", "smoke", minibook)
        assert not copy.exists() or is_stale("tiny", "smoke", minibook) == "", "a copy is whole or not there"
    process = command(minibook, "build", "--profile", "smoke")
    assert process.wait(timeout=120) == 0
    assert [path.name for path in (minibook / "executed" / "smoke").iterdir()] == ["tiny.ipynb"]
    page = (minibook / "_build" / "html" / "notebooks" / "tiny.html").read_text()
    assert "profile smoke device auto threads 1" in page
    assert page.rstrip().endswith("</html>")
