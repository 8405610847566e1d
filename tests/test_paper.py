"""The book on paper: nothing is lost, nothing is grey, the page is as it was afterwards; and all pages make one document."""

import re
from pathlib import Path

import pytest
from browser import harness, paper

from iclbook.book import pdf
from iclbook.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ROOT / "book" / "assets"
PAGE = """<!doctype html><html lang="en" data-theme="dark"><head><meta charset="utf-8"><title>Paper</title>
<link rel="stylesheet" href="verdicts.css"><link rel="stylesheet" href="print.css" media="print"><script src="reading.js"></script>
<style>body { background: #14181e; color: var(--pst-color-text-base, #eee); }</style></head><body><article class="bd-article">
<details class="iclbook-fold"><summary>Read on</summary><p>Folded words.</p></details>
<details class="iclbook-verdict" id="one"><summary><span class="iclbook-badge iclbook-badge-reproduced">holds</span> <span class="iclbook-line">A claim</span></summary>
<div class="iclbook-note">Its values and its rule.</div></details>
<details class="iclbook-verdict" open><summary>Open</summary>already</details>
<div class="iclbook-list"><table><tbody>ROWS</tbody></table></div></article></body></html>"""


@pytest.fixture
def page(tmp_path: Path) -> str:
    for name in ("verdicts.css", "print.css", "reading.js"):
        (tmp_path / name).write_text((ASSETS / name).read_text(encoding="utf-8"), encoding="utf-8")
    path = tmp_path / "page.html"
    rows = "".join(f"<tr><td>row {i}</td><td>{'a long sentence ' * 30}</td></tr>" for i in range(60))
    path.write_text(PAGE.replace("ROWS", rows), encoding="utf-8")
    return path.as_uri()


@pytest.mark.browser
def test_paper_shows_what_is_folded_on_white_and_the_page_is_as_it_was(browser: harness.Browser, page: str) -> None:
    browser.open(page, theme="dark", folds=False)
    state = "return [document.documentElement.dataset.theme, document.querySelectorAll('details[open]').length]"
    assert browser._run(state) == ["dark", 1]
    assert "Folded words." in browser._run(paper.LOST)
    paper.lay_out(browser)
    assert browser._run(paper.LOST) == []
    assert browser._run(paper.WIDE) == []
    assert browser._run(state) == ["light", 3]
    shown = "const { color, backgroundColor } = getComputedStyle(document.body); return [color, backgroundColor]"
    assert browser._run(shown) == ["rgb(20, 24, 30)", "rgb(255, 255, 255)"]
    paper.take_back(browser)
    assert browser._run(state) == ["dark", 1]


@pytest.mark.browser
def test_paper_shows_what_is_folded_without_scripts(browser: harness.Browser, page: str) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.driver.get(page)
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert browser._run(paper.LOST) == []
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_all_pages_become_one_whose_links_stay_inside(tmp_path: Path) -> None:
    (tmp_path / "_toc.yml").write_text(
        "root: book/intro\nparts:\n- chapters:\n  - file: notebooks/one\n", encoding="utf-8"
    )
    html = tmp_path / "_build" / "html"
    pages = {
        "book/intro": '<section id="a"><h1>A</h1><a href="../notebooks/one.html#claim">to the claim</a> <a href="#a">here</a><img src="../_images/p.png" loading="lazy"></section>',
        "notebooks/one": '<section id="a"><details class="iclbook-verdict" id="claim"><summary>x</summary>y</details><details class="iclbook-origin">data</details></section>',
    }
    for name, body in pages.items():
        (html / name).parent.mkdir(parents=True, exist_ok=True)
        head = '<title>T</title><link rel="stylesheet" href="../_static/print.css?v=1" media="print">'
        (html / f"{name}.html").write_text(f"<html><head>{head}</head><body><article>{body}</article></body></html>")
    with pytest.raises(UserError, match="no pages"):
        pdf.write(tmp_path)
    made = pdf.merged(tmp_path)
    ids = re.findall(r' id="([^"]+)"', made)
    assert sorted(ids) == sorted(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', made)) == {"one--claim", "intro--a"} <= set(ids)
    assert 'src="html/_images/p.png"' in made
    assert 'href="html/_static/print.css"' in made
    assert "loading" not in made
    assert "data</details>" not in made
    assert re.search(r'<details class="iclbook-verdict" id="one--claim" open="">', made)


@pytest.mark.full
@pytest.mark.browser
def test_the_book_on_paper_has_at_most_150_pages(book: Path) -> None:
    printed = pdf.write(ROOT).read_bytes()
    assert 50 < len(re.findall(rb"/Type /Page\b", printed)) < 150
