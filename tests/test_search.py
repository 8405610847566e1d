"""The book's own search: what it reads of a page, and what it shows for some words, from the disk."""

import json
import shutil
from pathlib import Path

import pytest
from browser import harness

from iclbook.book.addresses import entries

ASSETS = Path(__file__).resolve().parents[1] / "book" / "assets"
PAGE = r"""<article><section id="top"><h1>A chapter<a class="headerlink" href="#top">#</a></h1><p>First words with \(\omega_1\).</p>
<section id="waits"><h2>How long it waits</h2><p>The loss stays on a
plateau for 0.13 steps.</p><pre>plateau = 1</pre>
<details class="iclbook-verdict" id="claim-one"><summary><span class="iclbook-badge">holds</span> <span class="iclbook-line">Figure 2: two heads</span></summary>
<div class="iclbook-note">It is .130, not 10.13.</div><ul><li>one part</li></ul></details></section></section></article>"""


def test_a_page_is_read_by_sections_and_claims() -> None:
    assert list(entries(PAGE)) == [
        ("top", "A chapter", "A chapter", "First words with ω_1."),
        ("waits", "A chapter", "How long it waits", "The loss stays on a plateau for 0.13 steps."),
        ("claim-one", "A chapter", "Figure 2: two heads", "Figure 2: two heads\nIt is .130, not 10.13.\none part"),
    ]
    assert list(entries("<p>no article</p>")) == []


@pytest.fixture
def page(tmp_path: Path) -> str:
    (tmp_path / "_static").mkdir()
    shutil.copy(ASSETS / "search.js", tmp_path / "_static")
    found = [["notebooks/one", *entry] for entry in entries(PAGE)]
    (tmp_path / "_static" / "search_text.js").write_text(f"iclbookSearch({json.dumps(found)});", encoding="utf-8")
    path = tmp_path / "search.html"
    field = '<div class="bd-search-container"><form><input name="q"></form><div id="search-results"></div></div>'
    path.write_text(
        f'<meta charset="utf-8"><body>{field}<script src="_static/search.js"></script></body>', encoding="utf-8"
    )
    return path.as_uri()


@pytest.mark.browser
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("plateaus", {"waits": "The loss stays on a plateau for 0.13 steps."}),
        (".13", {"waits": "The loss stays on a plateau for 0.13 steps."}),
        ("0.13 PLATEAU", {"waits": "The loss stays on a plateau for 0.13 steps."}),
        ("two heads", {"claim-one": "Figure 2: two heads"}),
        ("chapter", {"top": "First words with"}),
        ("ateau", {}),
        ("a(b*", {}),
    ],
)
def test_search_shows_the_sentence(browser: harness.Browser, page: str, query: str, found: dict[str, str]) -> None:
    browser.load(f"{page}?q={query.replace(' ', '+')}")
    browser._wait("document.querySelector('.search-summary')")
    shown = browser._run(
        "return [...document.querySelectorAll('#search-results li')].map((li) => [li.querySelector('a').getAttribute('href'), li.querySelector('.context')?.textContent ?? ''])"
    )
    assert {address.removeprefix("notebooks/one.html#") for address, _ in shown} == {*found}
    for address, sentence in shown:
        assert found[address.partition("#")[2]] in sentence
    assert browser._run("return document.querySelector('.search-summary').textContent").startswith(
        "One place" if found else "No place has"
    )
    assert browser.problems() == []
