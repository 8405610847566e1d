"""The HTML build: a miniature book with the real configuration and front end."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from iclbook.book.build import build
from iclbook.book.inputs import executed_path
from iclbook.errors import UserError

REPOSITORY = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.slow
COUNTS = "2 claims: 1 reproduced, 1 not yet tested"


@pytest.fixture(scope="module")
def built(make_minibook: Callable[[], Path]) -> Path:
    """A miniature book that was built once, for tests that only look at it or build it again."""
    root = make_minibook()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ICLBOOK_ROOT", str(root))
        build("smoke", root=root)
    return root


@pytest.fixture(autouse=True)
def _inside(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(built)
    monkeypatch.setenv("ICLBOOK_ROOT", str(built))


def test_pages_show_the_executed_chapter_and_the_counts(built: Path) -> None:
    page = (built / "_build" / "html" / "notebooks" / "tiny.html").read_text()
    assert "profile smoke device auto threads 1" in page
    assert "application/vnd.jupyter.widget-view+json" in page
    assert "tag_parameters" in page
    assert "injected" not in page, "the cell that papermill puts in must not show"
    intro = (built / "_build" / "html" / "book" / "intro.html").read_text()
    assert "verdict counts" not in intro
    assert COUNTS in intro
    assert re.search(r'We measured <span class="pasted-text">1\.0', page), "numbers in prose are injected"
    scoreboard = (built / "_build" / "html" / "book" / "scoreboard.html").read_text()
    assert "scoreboard --" not in scoreboard
    assert "tiny/one" in scoreboard
    assert "tiny/two" in scoreboard


def test_second_build_reuses_everything(built: Path, capfd: pytest.CaptureFixture[str]) -> None:
    copy, page = executed_path("tiny", "smoke"), built / "_build" / "html" / "notebooks" / "tiny.html"
    before = copy.stat().st_mtime_ns, page.stat().st_mtime_ns
    assert build("smoke") == built / "_build" / "html" / "index.html"
    assert (copy.stat().st_mtime_ns, page.stat().st_mtime_ns) == before
    out = capfd.readouterr().out
    assert "notebooks/tiny.py is up to date" in out
    assert out.rstrip().splitlines()[-2:] == [
        "The book is at _build/html/index.html",
        COUNTS,
    ]


def test_stale_and_missing_copies_are_refused(built: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, copy = built / "notebooks" / "tiny.py", executed_path("tiny", "smoke")
    ledger = built / "claims" / "tiny.yaml"
    text, good, rules = source.read_text(), copy.read_bytes(), ledger.read_text()
    try:
        ledger.write_text(rules + "# no page's own file has changed\n")
        with pytest.raises(UserError, match="the book was not built"):
            build("smoke", run=False)
        assert "changed since: ledger" in capfd.readouterr().err
        ledger.write_text(rules)
        source.write_text(text + "\n# %%\n1 + 1\n")
        with pytest.raises(UserError, match="the book was not built"):
            build("smoke", run=False)
        assert "changed since: notebook. Run `iclbook run tiny --profile smoke`" in capfd.readouterr().err
        source.write_text(text)
        copy.unlink()
        with pytest.raises(UserError, match="the book was not built"):
            build("smoke", run=False)
        assert "it was never run" in capfd.readouterr().err
    finally:
        source.write_text(text)
        copy.write_bytes(good)
        ledger.write_text(rules)


def test_warnings_are_errors(built: Path, capfd: pytest.CaptureFixture[str]) -> None:
    intro = built / "book" / "intro.md"
    text = intro.read_text()
    try:
        intro.write_text(text + "\n[a link to nowhere](nowhere.md)\n")
        with pytest.raises(UserError, match="the book was not built"):
            build("smoke")
        assert "nowhere" in capfd.readouterr().err
    finally:
        intro.write_text(text)


def test_vendored_files_are_what_their_list_says() -> None:
    assets = REPOSITORY / "book" / "assets"
    listed = {}
    for line in (assets / "VENDORED.txt").read_text().splitlines():
        if not line.startswith("#"):
            digest, name = line.split()
            listed[name] = digest
    found = {
        path.relative_to(assets).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in ("widgets", "mathjax")
        for path in (assets / folder).rglob("*")
        if path.is_file()
    }
    assert found == listed


def test_toc_pages_exist() -> None:
    toc = (REPOSITORY / "_toc.yml").read_text()
    for page in re.findall(r"(?:file|root): (\S+)", toc):
        if not page.startswith("notebooks/"):
            assert (REPOSITORY / f"{page}.md").is_file(), page


@pytest.mark.browser
def test_mathematics_and_play_work_offline(built: Path) -> None:
    from browser import harness

    if harness.missing():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(harness.missing())
    browser = harness.Browser()
    try:
        browser.open((built / "_build" / "html" / "book" / "intro.html").as_uri())
        assert len(browser.driver.find_elements("css selector", "mjx-container")) == 2
        assert not browser.driver.find_elements("css selector", "mjx-merror")
        assert browser.problems() == []
        browser.open((built / "_build" / "html" / "notebooks" / "tiny.html").as_uri())
        assert browser.driver.find_elements("css selector", ".widget-label mjx-container"), "a label's $k$"
        browser.driver.find_element("css selector", ".widget-play button").click()
        browser._wait("document.querySelector('.widget-readout').textContent === '4'", seconds=10)
        assert browser.problems() == []
    finally:
        browser.close()
