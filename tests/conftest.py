"""Threads, order of the tests, miniature books, and the built book."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# Before anything imports torch: a test computes on one core, and workers of pytest-xdist have the others.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A shell that starts the tests in its background has them ignore Ctrl-C, and so every process that they start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

REPOSITORY = Path(__file__).resolve().parents[1]

#: Later groups cost more, or need what earlier ones make.
GROUPS = ("", "slow", "chapter", "book", "browser")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Unmarked tests first, then slow ones, then whole chapters: a failure should come early. Stable within a group.

    Workers of pytest-xdist take whole chapters first; one builds the book of them while others are busy, and pages come last; within each, large groups first.
    """
    groups = [getattr(item.get_closest_marker("xdist_group"), "args", (item.nodeid,))[0] for item in items]
    size = dict(zip(items, map(Counter(groups).get, groups), strict=True))
    order = ("chapter", "slow", "book", "", "browser") if hasattr(config, "workerinput") else GROUPS

    def place(item: pytest.Item) -> tuple[int, int]:
        marks = {mark.name for mark in item.iter_markers()}
        kind = next((group for group in reversed(GROUPS) if group in marks), "")
        return order.index(kind), -size[item] if order is not GROUPS else 0

    items.sort(key=place)


@pytest.fixture(scope="session")
def make_minibook(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Make a fresh miniature book: the real configuration and front end around one tiny chapter."""

    def make() -> Path:
        root = tmp_path_factory.mktemp("minibook") / "book root"  # a space: paths must be quoted everywhere
        shutil.copytree(REPOSITORY / "tests" / "fixtures" / "minibook", root)
        shutil.copy(REPOSITORY / "_config.yml", root)
        shutil.copy(REPOSITORY / "book" / "references.bib", root / "book")
        for folder in ("assets", "lab", "start", "templates"):
            (root / "book" / folder).symlink_to(REPOSITORY / "book" / folder)
        return root

    return make


@pytest.fixture
def minibook(make_minibook: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a fresh miniature book, which is also the working directory."""
    root = make_minibook()
    monkeypatch.chdir(root)
    monkeypatch.setenv("ICLBOOK_ROOT", str(root))
    return root


@pytest.fixture
def claim(tmp_path: Path) -> Callable[..., Any]:
    """A claim of the ledger of claims_kit, with texts replaced."""
    from claims_kit import LEDGER, make_root

    from iclbook.claims import load_ledger

    def make(claim_id: str = "demo/both", replace: dict[str, str] | None = None) -> Any:
        text = LEDGER
        for old, new in (replace or {}).items():
            assert old in text
            text = text.replace(old, new, 1)
        return load_ledger("demo", make_root(tmp_path / "book", text)).claim(claim_id)

    return make


@pytest.fixture
def empty_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a book without chapters, where studies of a test keep their results."""
    (tmp_path / "_toc.yml").write_text("")
    (tmp_path / "notebooks").mkdir()
    monkeypatch.setenv("ICLBOOK_ROOT", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="session")
def executed_minibook(make_minibook: Callable[[], Path]) -> Path:
    """A miniature book whose chapter was run once, to copy from: not to be changed."""
    from iclbook.execution import run_notebook

    root = make_minibook()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ICLBOOK_ROOT", str(root))
        run_notebook("tiny", "smoke", root=root)
    return root


@pytest.fixture
def minibook_that_ran(minibook: Path, executed_minibook: Path) -> Path:
    """A fresh miniature book, which is also the working directory, with its chapter's executed copy in it."""
    shutil.copytree(executed_minibook / "executed", minibook / "executed")
    return minibook


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this run see."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture
def chapter_ends(request: pytest.FixtureRequest, shared: Path) -> Iterator[None]:
    """Tells the workers that a test of a chapter has ended."""
    yield
    (shared / f"{request.node.name}.ended").touch()


@pytest.fixture(scope="session")
def book(request: pytest.FixtureRequest, shared: Path) -> Path:
    """The pages of the real book at the paper profile, built once for all workers after the tests of its chapters; what is stale is run first."""
    wanted = sum("chapter_ends" in item.fixturenames for item in request.session.items)
    while "PYTEST_XDIST_WORKER" in os.environ and len(list(shared.glob("*.ended"))) < wanted:
        time.sleep(0.5)
    with one_at_a_time(shared / "book.lock"):
        said = shared / "book.log"
        if not said.is_file():
            said.write_text(build_book())
    if said.read_text():
        pytest.fail(said.read_text(), pytrace=False)
    return REPOSITORY / "_build" / "html"


def build_book() -> str:
    """Run ``iclbook build``; the end of what it said if it failed."""
    call = "import sys; from iclbook.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", call, "build", "--profile", "paper"],
        cwd=REPOSITORY,
        env={name: value for name, value in os.environ.items() if not name.startswith("ICLBOOK_")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return f"iclbook build: exit code {done.returncode}\n{done.stdout[-8000:]}" if done.returncode else ""


@contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Hold a lock that all workers of this run know."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium of this worker, :class:`browser.harness.Browser`."""
    from browser import harness  # selenium is loaded where a browser is asked for

    harness.require()
    driven = harness.Browser()
    yield driven
    driven.close()
