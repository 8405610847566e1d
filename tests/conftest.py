"""Order of the tests, and miniature books."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]

#: Later groups cost more; a failure should come early.
GROUPS = ("slow", "browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Unmarked tests first, then slow ones, then those that need a built book and a browser. Stable within a group."""

    def cost(item: pytest.Item) -> int:
        return max(
            (GROUPS.index(mark.name) + 1 for mark in item.iter_markers() if mark.name in GROUPS), default=0
        )

    items.sort(key=cost)


@pytest.fixture(scope="session")
def make_minibook(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Make a fresh miniature book: the real configuration and front end around one tiny chapter."""

    def make() -> Path:
        root = tmp_path_factory.mktemp("minibook") / "book root"  # a space: paths must be quoted everywhere
        shutil.copytree(REPOSITORY / "tests" / "fixtures" / "minibook", root)
        shutil.copy(REPOSITORY / "_config.yml", root)
        shutil.copy(REPOSITORY / "book" / "references.bib", root / "book")
        for folder in ("assets", "templates"):
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
