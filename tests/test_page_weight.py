"""What a page loads from the disk before a reader scrolls, and how soon something stands there."""

from __future__ import annotations

import re
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browser import harness

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1200)]
ASSETS = Path(__file__).resolve().parents[1] / "book" / "assets"

MOST = 3_000_000  # bytes of a page's first view, all that it loads included
FRAMES = 4_000_000  # bytes of all frames of a page's sliders, in base64
SOONEST = 1000  # milliseconds until something is painted


def first_view(browser: harness.Browser, page: Path) -> tuple[dict[str, int], float]:
    """Bytes of every file that a page loads before a reader scrolls, and milliseconds until its first paint."""
    browser.resize(harness.WIDE)
    browser.driver.get("about:blank")
    browser.problems()
    browser.requests, browser.failures, browser.console = [], [], []
    browser.driver.get(page.as_uri())
    time.sleep(1.5)  # pictures near the window, fonts of formulas
    assert browser.problems() == [], page
    files = {unquote(urlsplit(url).path) for url in browser.requests if url.startswith("file:")}
    paint = browser.driver.execute_script(
        "return performance.getEntriesByType('paint').find(e => e.name === 'first-contentful-paint')?.startTime ?? 1e9"
    )
    return {name: Path(name).stat().st_size for name in files}, paint


def test_no_page_is_heavy_or_slow(browser, book):
    heavy, slow = {}, {}
    for page in harness.pages(book):
        files, paint = first_view(browser, page.resolve())
        assert str(page.resolve()) in files, "the page itself counts"
        if sum(files.values()) > MOST:
            largest = sorted(files.items(), key=lambda item: -item[1])[:5]
            heavy[page.name] = [(Path(name).name, size) for name, size in largest]
        if paint > SOONEST:  # once more: another program may have had the machine
            _, paint = first_view(browser, page.resolve())
        if paint > SOONEST:
            slow[page.name] = round(paint)
    assert heavy == {}
    assert slow == {}


def test_no_page_has_too_many_frames_of_sliders(book):
    heavy = {path.name: path.stat().st_size for path in (book / "_figures").glob("*-sliders.js")}
    assert heavy
    assert max(heavy.values()) < FRAMES


def test_the_measure_counts_what_a_page_loads(browser, tmp_path):
    (tmp_path / "large.js").write_text("/*" + "x" * MOST + "*/")
    (tmp_path / "far.png").write_bytes(b"no picture")
    page = tmp_path / "page.html"
    page.write_text(
        '<p>words</p><script src="large.js"></script><div style="height: 30000px"></div><img loading="lazy" src="far.png">'
    )
    files, paint = first_view(browser, page)
    assert sum(files.values()) > MOST
    assert str(tmp_path / "far.png") not in files, "what lies far below is not loaded"
    assert 0 < paint < 1e9


def test_a_slider_is_loaded_when_a_reader_comes_near(browser, book):
    page = next(p for p in harness.pages(book) if "data-manager" in p.read_text(encoding="utf-8"))
    files, _ = first_view(browser, page.resolve())
    assert not [name for name in files if name.endswith("embed.js")]
    browser.driver.execute_script("document.querySelector('.iclbook-slider-still').scrollIntoView()")
    browser._wait("document.querySelector('.widget-subarea .noUi-handle') !== null")
    browser._wait("!document.querySelector('.iclbook-slider-still').checkVisibility()")
    assert browser.problems() == []


def test_every_icon_of_the_pages_is_in_the_style_sheet(book):
    sheet = (ASSETS / "icons.css").read_text()
    known = set(re.findall(r"\.(fa-[a-z-]+)", sheet)) | {"fa-solid"}
    used = {
        name
        for page in harness.pages(book)
        for names in re.findall(r'<(?:i|span|svg)[^>]* class="([^"]*\bfa-[^"]*)"', page.read_text(encoding="utf-8"))
        for name in names.split()
        if name.startswith("fa-")
    }
    assert used, "the theme draws no icons any more?"
    assert used <= known
