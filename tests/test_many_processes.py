"""Pages that are read and written by a process a core."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from iclbook.book import sphinx_ext
from iclbook.errors import UserError
from iclbook.files import is_alive as lives


@pytest.mark.parametrize("problem", [RuntimeError, UserError("x", "y")])
def test_what_is_wrong_with_a_ledger_is_said_by_the_page_that_needs_it(problem, minibook, monkeypatch):
    def boards(profile, root):
        raise problem

    monkeypatch.setattr(sphinx_ext, "boards", boards)
    app = SimpleNamespace(srcdir=minibook, config=SimpleNamespace(iclbook_profile="smoke"))
    sphinx_ext.note_sources(app, None, [])
    assert app.iclbook_sources == {}


def test_a_reader_does_not_outlive_the_build():
    """A forked child asks to be killed with its parent; a child of that child does not take it for its own."""
    code = (
        "import os, signal, time\n"
        "from types import SimpleNamespace\n"
        "from iclbook.book import sphinx_ext\n"
        "sphinx_ext.use_all_cores(SimpleNamespace(extensions={}), None)\n"
        "read, write = os.pipe()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    grandchild = os.fork()\n"
        "    if not grandchild:\n"
        "        os._exit(0)\n"
        "    os.write(write, b'%d' % os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))\n"
        "    time.sleep(600)\n"
        "print(child, os.read(read, 9).decode(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    child, grandchild = done.stdout.split()
    assert grandchild == "0", done.stderr
    assert ended(int(child))


def ended(number: int) -> bool:
    """Whether a process is gone, or goes within some seconds."""
    deadline = time.monotonic() + 10
    while lives(number) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not lives(number)
