"""The real book builds at the paper profile, by the command that a user types. The page tests (test_browser.py) look at what it built."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.browser
@pytest.mark.timeout(1800)
def test_book_builds_without_a_warning(book: Path) -> None:
    assert (book / "index.html").is_file()
