"""Chapters run headless: what runs leaves a copy, what fails, hangs, dies or goes stale is caught."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from queue import Empty

import nbformat
import pytest
from jupyter_client.channels import AsyncZMQSocketChannel

from iclbook import execution
from iclbook.errors import UserError
from iclbook.execution import run_notebook
from iclbook.inputs import chapters, executed_path, input_digests, is_stale, write_copy

HEADER = '# %% tags=["parameters"]\nprofile = "paper"\ndevice = "auto"\n'


def rewrite(root: Path, *cells: str) -> None:
    """Put a notebook of the given code cells in place of the tiny chapter."""
    (root / "notebooks" / "tiny.py").write_text(HEADER + "".join(f"\n# %%\n{cell}\n" for cell in cells))


def left_behind(root: Path, profile: str = "smoke") -> list[str]:
    """Names in the folder of executed copies."""
    return sorted(p.name for p in (root / "executed" / profile).iterdir())


def test_a_run_leaves_a_fresh_copy(minibook: Path) -> None:
    assert is_stale("tiny", "smoke") == "it was never run"
    path = run_notebook("tiny", "smoke", device="cpu")
    assert path == executed_path("tiny", "smoke")
    assert is_stale("tiny", "smoke") == ""
    assert left_behind(minibook) == ["tiny.ipynb"]
    copy = nbformat.read(path, as_version=4)
    streams = "".join(o.text for c in copy.cells for o in c.get("outputs", []) if o.output_type == "stream")
    assert "profile smoke device cpu threads 1" in streams
    assert all(c.metadata.papermill.duration is not None for c in copy.cells if c.cell_type == "code")
    assert str(minibook) not in path.read_text(), "a path of this machine in the copy"
    assert not {"input_path", "output_path"} & {*copy.metadata.papermill}, "the whole notebook once more"


def test_a_readers_surroundings_move_nothing(minibook: Path, tmp_path: Path) -> None:
    """Warnings as errors, a matplotlibrc that asks for LaTeX, another backend, a file named as a module of Python's."""
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\n")
    (minibook / "notebooks" / "random.py").write_text("raise SystemExit\n")
    around = {"MATPLOTLIBRC": str(tmp_path), "PYTHONWARNINGS": "error", "MPLBACKEND": "TkAgg"}
    run = f'"{sys.executable}" -W ignore -m iclbook.cli run tiny --profile smoke'
    assert subprocess.run(run, shell=True, env=os.environ | around, check=False).returncode == 0
    assert is_stale("tiny", "smoke") == ""


def test_failing_cell(minibook_that_ran: Path) -> None:
    minibook = minibook_that_ran
    assert is_stale("tiny", "smoke") == ""
    before = executed_path("tiny", "smoke").read_bytes()
    rewrite(minibook, "x = 1", "# why\n1 / 0", "x = 2")
    with pytest.raises(
        UserError, match=r"notebooks/tiny\.py stopped at .*'1 / 0'.* ZeroDivisionError: division by zero"
    ):
        run_notebook("tiny", "smoke")
    assert executed_path("tiny", "smoke").read_bytes() == before, "a failure must leave the older copy as it was"
    assert left_behind(minibook) == ["tiny.failed.ipynb", "tiny.ipynb"]
    assert "notebook" in is_stale("tiny", "smoke")


def test_timed_out_cell(minibook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICLBOOK_CELL_TIMEOUT", "1")
    rewrite(minibook, "import time\ntime.sleep(60)")
    with pytest.raises(UserError, match=r"stopped at .*: timed out after 1 s"):
        run_notebook("tiny", "smoke")
    assert left_behind(minibook) == ["tiny.failed.ipynb"]


def test_killed_kernel(minibook: Path) -> None:
    rewrite(minibook, "print('it ' + 'ran')", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(UserError, match=r"'import os, signal'.*: the kernel died"):
        run_notebook("tiny", "smoke")
    assert left_behind(minibook) == ["tiny.failed.ipynb"]
    kept = executed_path("tiny", "smoke").with_name("tiny.failed.ipynb").read_text(encoding="utf-8")
    assert "it ran" in kept, "what came before is kept"


@pytest.mark.parametrize(
    "cell",
    [
        "import ipywidgets\n@ipywidgets.interact(k=(0, 3))\ndef f(k):\n    raise ValueError('hidden')",
        "import ipywidgets\nout = ipywidgets.Output()\nwith out:\n    raise ValueError('hidden')\nout",
    ],
    ids=["interact", "output"],
)
def test_error_inside_a_widget(minibook: Path, cell: str) -> None:
    rewrite(minibook, cell)
    with pytest.raises(UserError, match="ValueError: hidden"):
        run_notebook("tiny", "smoke")
    assert left_behind(minibook) == ["tiny.failed.ipynb"]


def test_a_reply_is_looked_for_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []

    async def swallowed_twice(self: object, timeout: float) -> str:
        looks.append(timeout)
        if len(looks) < 3:
            raise Empty
        return "reply"

    monkeypatch.setattr(AsyncZMQSocketChannel, "get_msg", swallowed_twice)
    channel = execution._headless_kernel({}, "").client_factory.shell_channel_class
    ours = channel.__new__(channel)
    assert asyncio.run(ours.get_msg(1800)) == "reply"
    assert looks == [1, 1, 1]
    looks.clear()
    with pytest.raises(Empty):
        asyncio.run(ours.get_msg(0.5))


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ("notebooks/tiny.py", "notebook"),
        ("src/iclbook/papers/tiny/claims.yaml", "ledger"),
        ("results/tiny/paper/run/a.0123abcd.npz", "results"),
        ("lock.txt", "pins"),
    ],
)
def test_stale(minibook: Path, changed: str, what: str) -> None:
    path = executed_path("tiny", "paper")
    copy = nbformat.v4.new_notebook(metadata={"iclbook": {"inputs": input_digests("tiny", "paper")}})
    write_copy(path, copy)
    assert is_stale("tiny", "paper") == ""
    (minibook / changed).parent.mkdir(parents=True, exist_ok=True)
    with (minibook / changed).open("a") as file:
        file.write("\nanother: line\n")
    assert is_stale("tiny", "paper") == f"changed since: {what}"


def test_bad_input(minibook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"no chapter 'nope'.*tiny"):
        run_notebook("nope", "smoke")
    with pytest.raises(UserError, match="unknown profile 'large'"):
        run_notebook("tiny", "large")
    monkeypatch.setenv("ICLBOOK_CELL_TIMEOUT", "soon")
    with pytest.raises(UserError, match="ICLBOOK_CELL_TIMEOUT=soon"):
        run_notebook("tiny", "smoke")
    monkeypatch.delenv("ICLBOOK_CELL_TIMEOUT")
    (minibook / "notebooks" / "tiny.py").write_text("# %%\n1\n")
    with pytest.raises(UserError, match="no cell tagged `parameters`"):
        run_notebook("tiny", "smoke")
    (minibook / "notebooks" / "tiny.py").write_text(
        "# ---\n# jupyter:\n#   kernelspec:\n#     name: x\n# ---\n# %%\n1\n"
    )
    with pytest.raises(UserError, match=r"is no notebook .'display_name' is a required"):
        run_notebook("tiny", "smoke")
    (minibook / "_toc.yml").write_text("root: [")
    with pytest.raises(UserError, match=r"_toc\.yml, line \d: not valid YAML"):
        chapters()


@pytest.mark.parametrize(
    "cell",
    [
        "raise SystemExit",
        "exit()",
        "import os\nos._exit(0)",
        *(
            pytest.param(cell, marks=pytest.mark.full)
            for cell in ("import sys\nsys.exit(3)", "quit()", "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)")
        ),
    ],
)
@pytest.mark.parametrize("last", [True, False], ids=["in the last cell", "in the middle"])
def test_a_notebook_that_exits_early_has_not_run(minibook: Path, cell: str, last: bool) -> None:
    rewrite(minibook, cell, *([] if last else ["x = 2"]))
    with pytest.raises(UserError, match=r"notebooks/tiny\.py stopped"):
        run_notebook("tiny", "smoke")
    assert left_behind(minibook) == ["tiny.failed.ipynb"]
