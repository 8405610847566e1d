"""The printed book: every page of the contents, every picture, links that lead within it, and no more than paper can hold."""

from __future__ import annotations

import re
from pathlib import Path

import pypdf
import pytest
from browser import harness, tiny_book
from bs4 import BeautifulSoup

from iclbook.book import pdf
from iclbook.errors import UserError
from iclbook.inputs import listed_pages

ROOT = Path(__file__).resolve().parents[1]
PNG = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
CHAPTER = f"""<html><body>
<article class="bd-article"><section id="top"><h1>A chapter<a class="headerlink" href="#top">#</a></h1>
<a href="../book/intro.html#start">back</a> <a href="#top">up</a> <a href="../_images/data.csv">data</a> <a href="https://example.org">out</a>
<img src="../_images/a.png" loading="lazy"><details class="hide above-input">code</details><details class="errata"><p>Errata</p></details>
<div class="iclbook-strip"><details class="iclbook-verdict">a line<ul class="iclbook-parts"><li>parts</li></ul></details></div><form>filter</form>
<script type="application/vnd.jupyter.widget-view+json">{{"model_id": "knob"}}</script><img class="iclbook-slider-still" alt="second" src="{PNG}"
data-title="Waves" data-start="heads: 2"></section></article></body></html>"""


def written(root: Path) -> Path:
    """A book of two built pages."""
    for name, text in {
        "_toc.yml": "root: book/intro\nchapters:\n  - file: notebooks/one\n",
        "_config.yml": "title: A Book\nauthor: Nobody\n",
        "_build/html/book/intro.html": '<html><head><script src="../_static/mathjax/tex-mml-chtml.js"></script></head>'
        '<article class="bd-article"><h1 id="start">Start</h1></article></html>',
        "_build/html/notebooks/one.html": CHAPTER,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_pages_become_one_document(tmp_path: Path) -> None:
    page = BeautifulSoup(pdf.book_html(written(tmp_path)), "html.parser")
    one = page.find(id="notebooks-one")
    assert [(a.get_text(), a.get("href")) for a in one.find_all("a")] == [
        ("back", "#book-intro--start"),
        ("up", "#notebooks-one--top"),
        ("data", None),
        ("out", "https://example.org"),
    ]
    targets = {tag["id"] for tag in page.find_all(id=True)}
    assert {"book-intro--start", "notebooks-one--top", "book-intro"} <= targets
    assert [a["href"] for a in page.nav.find_all("a")] == ["#book-intro", "#notebooks-one"]
    pictures = one.find_all("img")
    assert pictures[0]["src"] == "../html/_images/a.png"
    assert "loading" not in pictures[0].attrs
    assert [p["alt"] for p in pictures[1:]] == ["second"], "a slider figure shows where it begins"
    assert "heads: 2" in one.get_text()
    assert "code" not in one.get_text()
    assert "filter" not in one.get_text()
    assert [d.has_attr("open") for d in one.find_all("details")] == [True, True]
    assert "a line" in one.get_text()
    assert "parts" not in one.get_text()
    assert page.find("script", src="../html/_static/mathjax/tex-mml-chtml.js")


def test_without_a_browser_nothing_is_looked_for_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="Install chromium and chromium-driver"):
        pdf.printed(tmp_path / "book.html")


def pictures_in(document: pypdf.PdfReader) -> int:
    """Pixel pictures of a PDF; one that stands twice counts once, a mask not at all."""
    objects = (document.get_object(number) for number in range(1, document.trailer["/Size"]))
    images = [o for o in objects if isinstance(o, pypdf.generic.StreamObject) and o.get("/Subtype") == "/Image"]
    masks = {image["/SMask"].indirect_reference.idnum for image in images if "/SMask" in image}
    return len({image.indirect_reference.idnum for image in images} - masks)


@pytest.mark.browser
@pytest.mark.xdist_group("tiny")
@pytest.mark.timeout(300)
def test_a_small_book_is_printed(tmp_path: Path) -> None:
    harness.require()
    tiny_book.build(tmp_path)
    document = pypdf.PdfReader(pdf.print_book(tmp_path))
    text = "\n".join(page.extract_text() for page in document.pages)
    assert len(document.pages) >= 4, "cover, contents, two pages"
    assert all(words in text for words in ("A tiny book", "Waves", "Contents"))
    assert pictures_in(document) == 2, "a model and a figure"
    assert "2" in document.pages[1].extract_text().split(), "a page bears its number"
    lost = (tmp_path / pdf.PDF).with_suffix(".html")
    lost.write_text('<img src="nowhere.png">')
    with pytest.raises(UserError, match=r"cannot be printed: the picture .*nowhere\.png"):
        pdf.printed(lost)


@pytest.mark.browser
@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_book_is_printed_with_every_figure(book: Path) -> None:
    harness.require()
    path = pdf.print_book(ROOT)
    page = BeautifulSoup(path.with_suffix(".html").read_text(), "html.parser")
    document = pypdf.PdfReader(path)
    text = plain("".join(p.extract_text() for p in document.pages))
    assert 20 < len(document.pages) <= 150
    for number, leaf in enumerate(document.pages, 1):
        lines = leaf.extract_text().split("\n")
        assert 2 * sum(len(line.strip()) <= 2 for line in lines) < max(len(lines), 10), (
            f"page {number}: columns of letters"
        )
    ids = ["/" + name.replace("/", "-") for name in listed_pages(ROOT)]
    places = document.named_destinations
    starts = {i: document.get_destination_page_number(places[i]) for i in ids}
    assert max(start for i, start in starts.items() if i.startswith("/notebooks-")) < starts["/book-scoreboard"]
    for name in listed_pages(ROOT):
        title = page.find(id=name.replace("/", "-")).find("h1").get_text()
        assert text.count(plain(title)) >= 2, f"{title}: in the contents and over its chapter"
    shown = page.select("article figure.iclbook-figure, article figure.iclbook-sliders, article .iclbook-still")
    assert len(shown) > 50
    assert all(figure.find("img") for figure in shown)
    pixels = {i["src"] for i in page.find_all("img") if not i["src"].endswith(".svg")}
    assert pictures_in(document) >= len(pixels)
    inner = {a["href"][1:] for a in page.find_all("a", href=True) if a["href"].startswith("#")}
    assert inner - {tag["id"] for tag in page.find_all(id=True)} == set(), "links that lead nowhere"
    assert len(places) > 100


def plain(words: str) -> str:
    """Letters and digits only: print breaks lines and joins letters."""
    return re.sub(
        r"[^a-z0-9]", "", words.lower().replace("\ufb01", "fi").replace("\ufb02", "fl").replace("\ufb03", "ffi")
    )
