"""Several chapters at once: all are run, failures are told apart, an interrupt leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import wait_until

from iclbook.errors import UserError
from iclbook.execution import run_notebooks

pytestmark = pytest.mark.slow

HEAD = "# %% tags=[\"parameters\"]\nprofile = 'smoke'\ndevice = 'auto'\n"


def write(root: Path, name: str, body: str) -> None:
    (root / "notebooks" / f"{name}.py").write_text(f"{HEAD}\n# %%\n{body}\n")


def test_all_run_at_once_and_a_failure_stops_no_other(minibook: Path) -> None:
    # each waits until the other has begun: one after the other they would wait in vain
    meet = "import pathlib, time\npathlib.Path('{me}.here').touch()\nwhile not pathlib.Path('{other}.here').exists(): time.sleep(0.1)\n"
    write(minibook, "one", meet.format(me="one", other="two"))
    write(minibook, "two", meet.format(me="two", other="one") + "raise ValueError('spoilt')")
    found = {name: result for name, result, _ in run_notebooks(["one", "two"], "smoke", "cpu", minibook, 2)}
    assert found["one"] == minibook / "executed" / "smoke" / "one.ipynb"
    assert found["one"].is_file()
    assert isinstance(found["two"], UserError)
    assert "ValueError: spoilt" in str(found["two"])
    assert "two.failed.ipynb" in found["two"].hint
    assert not (minibook / "executed" / "smoke" / "two.ipynb").exists()


def runs(process: int) -> bool:
    """Whether a process is there and more than an entry that nobody has collected."""
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(") ")[2][0] != "Z"


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.full)])
def test_an_interrupt_ends_every_kernel_and_leaves_nothing(minibook: Path, jobs: int) -> None:
    for name in ("one", "two"):
        write(
            minibook,
            name,
            f"import os, pathlib, time\npathlib.Path('{name}.new').write_text(str(os.getpid()))\n"
            f"os.rename('{name}.new', '{name}.here')\ntime.sleep(600)",
        )
    script = minibook / "go.py"
    script.write_text(
        "from pathlib import Path\nfrom iclbook.execution import run_notebooks\n"
        "if __name__ == '__main__':\n"
        f"    list(run_notebooks(['one', 'two'], 'smoke', 'cpu', Path({str(minibook)!r}), {jobs}))\n"
    )
    with subprocess.Popen([sys.executable, str(script)], cwd=minibook, stderr=subprocess.DEVNULL) as process:
        try:
            begun = lambda: list((minibook / "notebooks").glob("*.here"))  # noqa: E731
            wait_until(lambda: len(begun()) == jobs or process.poll() is not None)
            assert len(begun()) == jobs
            kernels = [int(path.read_text()) for path in begun()]
            os.kill(process.pid, signal.SIGINT)
            assert process.wait() != 0
        finally:
            process.kill()
    assert [p.name for p in (minibook / "executed" / "smoke").iterdir()] == []
    wait_until(lambda: not any(map(runs, kernels)))  # a kernel looks for its parent once a second
