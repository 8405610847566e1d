"""A stranger's text in a ledger, a stored result or a notebook's record is shown to a reader, and never runs."""

import json
from pathlib import Path

import pytest
import yaml
from browser import harness

from iclbook.book.build import build

pytestmark = pytest.mark.browser
SETS = "document.documentElement.dataset.ran=1"
HOSTILE = f"""--></a>"'><svg/onload="{SETS}"></svg><script>{SETS}</script><img src="x:" onerror="{SETS}"> [a](javascript:{SETS})"""


def ran(browser: harness.Browser, page: Path) -> bool:
    browser.open(page.resolve().as_uri())
    for fold in ("details", "[title]"):  # what a fold holds counts, too
        browser.driver.execute_script("document.querySelectorAll(arguments[0]).forEach(e => (e.open = true))", fold)
    return browser.driver.execute_script("return document.documentElement.dataset.ran === '1'")


def test_a_strangers_text_never_runs(browser, minibook):
    ledger = minibook / "src/iclbook/papers/tiny/claims.yaml"
    body = yaml.safe_load(ledger.read_text())
    body["title"] += HOSTILE
    body["values"]["tiny/frames"]["says"] += HOSTILE
    one, two = body["claims"]
    one |= dict.fromkeys(("where", "says", "paper", "reduced"), HOSTILE)
    one["parts"][0] |= {"name": HOSTILE, "because": HOSTILE, "reading": HOSTILE}
    one["short"] = two["short"] = HOSTILE[:60]
    two |= {"says": HOSTILE, "out_of_reach": HOSTILE, "inventory": HOSTILE}
    ledger.write_text(yaml.safe_dump(body))
    chapter = minibook / "notebooks/tiny.py"
    hostile_study = {
        "device": HOSTILE,
        "date": HOSTILE,
        "torch": HOSTILE,
        "numpy": HOSTILE,
        "source": {HOSTILE: HOSTILE},
    }
    text = chapter.read_text().replace('5, "a <b>cpu")', f'5, "cpu") | {hostile_study!r}')
    text = text.replace('"name": "line"', f'"name": {HOSTILE!r}')
    text = text.replace('record("tiny/frames", len(stack.children))', f'record("tiny/frames", {HOSTILE!r})')
    text = text.replace('label="rising"', f"label={HOSTILE!r}")
    assert text.count(SETS) > 20
    chapter.write_text(text)
    results = minibook / "results/tiny/paper"
    results.mkdir(parents=True)
    about = {"files": {}, "config": {}, "seconds": 1, "source": {HOSTILE: HOSTILE}}
    about |= dict.fromkeys(("torch", "device"), HOSTILE)
    (results / "st.json").write_text(json.dumps(about))
    (minibook / "book/status.md").write_text("# Status\n\n<!-- status -->\n")
    with (minibook / "_toc.yml").open("a") as toc:
        toc.write("  - file: book/status\n")
    build("smoke", root=minibook)
    pages = harness.pages(minibook / "_build/html")
    assert sum("svg/onload" in page.read_text() for page in pages) >= 3, "the texts are on the pages"
    assert [page.name for page in pages if ran(browser, page)] == []


def test_a_text_that_runs_is_noticed(browser, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(f"<p>{HOSTILE}</p>")
    assert ran(browser, page)
