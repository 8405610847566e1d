"""The real book: its chapters match their references at the smoke profile, and its pages build at the paper profile.

Both are the commands that a user types, run with their progress visible. The page tests (test_browser.py) look at what is
built here; within a group of equal cost, tests run in the order of their files.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


def iclbook(capfd: pytest.CaptureFixture[str], *arguments: str) -> int:
    """Run the console command in the repository, its output going straight to the terminal."""
    call = "import sys; from iclbook.cli import main; sys.exit(main())"
    env = {k: v for k, v in os.environ.items() if k not in ("ICLBOOK_ROOT", "ICLBOOK_BOOK_PROFILE")}
    env["ICLBOOK_EXERCISE_SLIDERS"] = "1"  # every slider of a chapter is moved through its whole range
    with capfd.disabled():
        print(f"\n$ iclbook {' '.join(arguments)}", flush=True)
        return subprocess.run(
            [sys.executable, "-c", call, *arguments], cwd=REPOSITORY, env=env, check=False
        ).returncode


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_chapters_match_their_references(capfd: pytest.CaptureFixture[str]) -> None:
    assert iclbook(capfd, "check", "--profile", "smoke") == 0


@pytest.mark.browser
@pytest.mark.timeout(1800)
def test_book_builds_without_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    assert iclbook(capfd, "build", "--profile", "paper") == 0
    assert (REPOSITORY / "_build" / "html" / "index.html").is_file()
