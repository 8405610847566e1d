"""Kernels forked from a process that has loaded the libraries: each by itself, and none left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from iclbook.book import parallel
from iclbook.book.execute import NotebookError, run_notebook
from iclbook.book.kernels import kernel_environment
from iclbook.book.nursery import LIBRARIES, Nursery
from iclbook.book.orphans import lives

HEAD = "# %% tags=[\"parameters\"]\nprofile = 'smoke'\ndevice = 'auto'\n"
TELLS = (
    "import os, sys; print(os.getpid(), os.getppid(), 'torch' in sys.modules, 'seen' in globals()); seen = 1"
)


def write(root: Path, name: str, body: str) -> None:
    (root / "notebooks" / f"{name}.py").write_text(f"{HEAD}\n# %%\n{body}\n")


def said(path: Path) -> list[str]:
    """The words that the last cell of an executed copy printed."""
    return nbformat.read(path, 4).cells[-1].outputs[-1].text.split()


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    folder = tmp_path_factory.mktemp("no-book")
    found = Nursery(kernel_environment(folder), folder)
    yield found
    found.close()


def test_kernels_come_from_one_process_and_share_nothing_else(minibook: Path, nursery: Nursery) -> None:
    write(minibook, "tiny", TELLS)
    first, second = (said(run_notebook("tiny", "smoke", root=minibook, nursery=nursery)) for _ in range(2))
    assert first[0] != second[0]
    assert first[1] == second[1] != str(os.getpid())
    assert first[2:] == second[2:] == ["True", "False"]
    assert said(run_notebook("tiny", "smoke", root=minibook))[1:] == [str(os.getpid()), "False", "False"]


def test_a_forked_kernel_gives_what_a_started_one_gives(minibook: Path, nursery: Nursery) -> None:
    write(
        minibook,
        "tiny",
        "import os, sys, torch, matplotlib.pyplot as plt\n"
        "names = sorted(n for n in os.environ if not n.startswith('JPY_'))\n"
        "print(os.getcwd(), torch.get_num_threads(), plt.get_backend(), __name__, sys.argv[1], *names)\n"
        "plt.plot([0, 1]); plt.show()\n"
        "print(torch.__version__, names == sorted(n for n in os.environ if not n.startswith('JPY_')))",
    )
    outputs = []
    for way in (nursery, None):
        cell = nbformat.read(run_notebook("tiny", "smoke", root=minibook, nursery=way), 4).cells[-1]
        outputs.append([output.get("data", output.get("text")) for output in cell.outputs])
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == 3


def test_a_kernel_that_dies_is_told_and_the_next_one_runs(minibook: Path, nursery: Nursery) -> None:
    write(minibook, "tiny", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(NotebookError, match="kernel died"):
        run_notebook("tiny", "smoke", root=minibook, nursery=nursery)
    write(minibook, "tiny", TELLS)
    assert said(run_notebook("tiny", "smoke", root=minibook, nursery=nursery))[2] == "True"


def test_how_a_kernel_ended_is_told(nursery: Nursery, tmp_path: Path) -> None:
    """A command line that IPython refuses ends with its own exit code; a signal with its number."""
    refused = nursery.start(["kernel", "--no-such-option=1", "-f"], os.environ, str(tmp_path))
    assert refused.wait() > 0
    kernel = nursery.start(["kernel", "-f", str(tmp_path / "kernel.json")], os.environ, str(tmp_path))
    assert kernel.poll() is None
    kernel.send_signal(signal.SIGTERM)
    assert kernel.wait() == kernel.poll() == -signal.SIGTERM


def test_a_kernel_that_was_left_is_ended_by_the_next_and_with_the_nursery(
    tmp_path: Path,
) -> None:
    nursery = Nursery(os.environ, tmp_path)
    first, second = (
        nursery.start(["kernel", "-f", str(tmp_path / f"{n}.json")], os.environ, str(tmp_path)) for n in "ab"
    )
    assert first.poll() == -signal.SIGKILL
    assert second.poll() is None
    nursery.close()
    deadline = time.monotonic() + 10
    while lives(second.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not lives(second.pid)


def test_a_nursery_that_dies_between_two_kernels_is_replaced(minibook: Path) -> None:
    write(minibook, "tiny", TELLS)
    nursery = Nursery(kernel_environment(minibook), minibook)
    first = said(run_notebook("tiny", "smoke", root=minibook, nursery=nursery))
    os.kill(int(first[1]), signal.SIGKILL)
    second = said(run_notebook("tiny", "smoke", root=minibook, nursery=nursery))
    nursery.close()
    assert first[1] != second[1]
    assert second[2] == "True"


def test_one_that_cannot_live_is_told(tmp_path: Path) -> None:
    nursery = Nursery(os.environ | {"PYTHONHOME": str(tmp_path)}, tmp_path)  # Python itself will not start
    with pytest.raises(RuntimeError, match="died twice"):
        nursery.start(["kernel"], os.environ, str(tmp_path))
    nursery.close()


def test_a_forked_kernel_loads_this_library_itself_and_starts_with_one_thread(
    minibook: Path, nursery: Nursery
) -> None:
    write(
        minibook,
        "tiny",
        "import sys; print([n for n in sys.modules if n.startswith('iclbook')])\n"
        "import os; print(len(os.listdir(f'/proc/{os.getppid()}/task')))",
    )
    assert said(run_notebook("tiny", "smoke", root=minibook, nursery=nursery)) == ["[]", "1"]


@pytest.mark.parametrize(
    ("names", "jobs", "forked"), [("ab", 1, True), ("abc", 2, True), ("a", 1, False), ("ab", 2, False)]
)
def test_only_a_process_that_runs_several_chapters_forks(
    minibook: Path, names: str, jobs: int, forked: bool
) -> None:
    for name in names:
        write(minibook, name, TELLS)
    for _, result, _ in parallel.run_notebooks(list(names), "smoke", "auto", minibook, jobs):
        assert said(result)[2] == str(forked)


def test_every_library_is_one_that_chapters_may_load():
    import importlib.util

    assert all(importlib.util.find_spec(name) for name in LIBRARIES)
