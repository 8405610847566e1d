"""The HTML build: a miniature book with the real configuration and front end."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from iclbook.book import pages
from iclbook.book.build import _make_pages, build
from iclbook.errors import UserError
from iclbook.inputs import executed_path

REPOSITORY = Path(__file__).resolve().parents[1]
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("minibook")]
COUNTS = "2 claims: holds 1, untested 1"


@pytest.fixture(scope="module")
def built(make_minibook: Callable[[], Path]) -> Path:
    """A miniature book that was built once, for tests that only look at it or build it again."""
    root = make_minibook()
    (root / "book" / "plain.md").write_text("# A plain page\n\nNothing on it is computed.\n")
    with (root / "_toc.yml").open("a") as toc:
        toc.write("  - file: book/plain\n")
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
    assert (built / "_build" / "html" / ".nojekyll").is_file(), "GitHub Pages leaves out _static otherwise"
    assert re.search(r'We measured <span class="pasted-text">1\.0', page), "numbers in prose are injected"
    scoreboard = (built / "_build" / "html" / "book" / "scoreboard.html").read_text()
    assert "scoreboard --" not in scoreboard
    assert COUNTS in scoreboard
    assert "claim-tiny-one" in scoreboard
    assert "claim-tiny-two" in scoreboard


def test_a_figure_carries_its_numbers_its_origin_and_a_picture_for_phones(built: Path) -> None:
    page = page_of(built, "notebooks/tiny")
    text = page.read_text(encoding="utf-8")
    (figure,) = re.findall(r'<figure[^>]*id="figure-1".*?</figure>', text, re.DOTALL)
    image = re.search(r"<img [^>]*>", figure)[0]
    assert all(
        part in image for part in ('loading="lazy"', 'decoding="async"', 'width="700"', 'height="', 'alt="A line')
    )
    narrow, *_ = re.findall(r'<source media="[^"]*" srcset="([^"]*)"', figure)  # light, then dark
    assert (page.parent / narrow).read_bytes().startswith(b"\x89PNG")
    (numbers,) = re.findall(r'<a href="([^"]*)" download="[^"]*">Numbers of this figure</a>', figure)
    rows = (page.parent / numbers).read_text().splitlines()
    assert rows[0] == "panel,series,kind,x axis,y axis,x,y"
    assert rows[2] == "1,rising,line,step,height,1,1.5"
    assert "<p>From these stored runs:</p><ul><li><code>tiny/line</code>: 2 runs (seeds 0–1), 5 s" in figure
    assert "Two lines." in figure
    assert "base64" not in figure


def test_widgets_stay_on_the_disk_until_a_reader_comes_near(built: Path) -> None:
    page = page_of(built, "notebooks/tiny")
    text = page.read_text(encoding="utf-8")
    assert "widget-view+json" in text
    assert "widget-state+json" not in text
    assert '<script src="../_static/widgets/embed.js' not in text
    (state,) = re.findall(r'data-state="\.\./([^"]*)"', text)
    assert "widget-state+json" in (page.parents[1] / state).read_text(encoding="utf-8")


@pytest.mark.full
def test_an_unchanged_book_is_not_read_again_and_every_change_is_seen(
    built: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    build("smoke")
    for path, undone in (
        (built / "book" / "plain.md", True),
        (page_of(built, "book/intro"), False),
        (built / "_build" / "html" / "_static" / "iclbook.css", False),
        (built / "src/iclbook/papers/tiny/claims.yaml", True),
    ):
        capfd.readouterr()
        build("smoke")
        assert "the pages are up to date" in capfd.readouterr().out
        good = path.read_bytes()
        path.write_bytes(good + b"\n")
        assert not pages.is_sealed(built, "smoke"), path
        if undone:
            path.write_bytes(good)
            assert pages.is_sealed(built, "smoke"), path
        build("smoke")
    assert not pages.is_sealed(built, "paper")


@pytest.mark.full
def test_new_prose_needs_no_run(built: Path, capfd: pytest.CaptureFixture[str]) -> None:
    notebook, copy = built / "notebooks" / "tiny.py", executed_path("tiny", "smoke")
    source, ran = notebook.read_text(), json.loads(copy.read_text())
    notebook.write_text(
        source.replace("# Some mathematics", "# Other words, {glue:text}`tiny/frames`, some mathematics")
    )
    try:
        build("smoke")
        out = capfd.readouterr().out
        assert "notebooks/tiny.py has new prose; its code ran as it stands" in out
        assert "running" not in out
        assert re.search(r"Other words, <span[^>]*>5", page_of(built, "notebooks/tiny").read_text())
        assert [c for c in json.loads(copy.read_text())["cells"] if c["cell_type"] == "code"] == [
            c for c in ran["cells"] if c["cell_type"] == "code"
        ], "what ran stays as it ran"
        notebook.write_text(source.replace("# Some mathematics", "# Other words, {glue:text}`tiny/frame`"))
        with pytest.raises(UserError, match="the book was not built"):
            build("smoke")
        assert "tiny/frame" in capfd.readouterr().err
    finally:
        notebook.write_text(source)
        build("smoke")


@pytest.mark.full
def test_stale_and_missing_copies_are_refused(built: Path, capfd: pytest.CaptureFixture[str]) -> None:
    copy, ledger = executed_path("tiny", "smoke"), built / "src/iclbook/papers/tiny/claims.yaml"
    good, rules = copy.read_bytes(), ledger.read_text()
    try:
        ledger.write_text(rules.replace("title: ", "title: New ", 1))
        with pytest.raises(UserError, match="the book was not built"):
            _make_pages(built, "smoke")
        said = capfd.readouterr().err
        assert "is stale (changed since: ledger). Run `iclbook run tiny --profile smoke`" in said
        ledger.write_text(rules)
        copy.unlink()
        with pytest.raises(UserError, match="the book was not built"):
            _make_pages(built, "smoke")
        assert "it was never run" in capfd.readouterr().err
    finally:
        copy.write_bytes(good)
        ledger.write_text(rules)
        build("smoke")


def page_of(built: Path, name: str) -> Path:
    return built / "_build" / "html" / f"{name}.html"


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ('<a href="nowhere.html">x</a>', "leads to a file that is not there"),
        ('<a href="../here.html#nowhere">x</a>', "leads to a place that is not there"),
        ('<a href="#nowhere">x</a>', "leads to a place that is not there"),
        ('<a href="../../../outside.html">x</a>', "leads out of the book"),
        ('<img src="nowhere.png" alt="x">', "leads to a file that is not there"),
        ('<script src="https://example.org/a.js"></script>', "loads from outside"),
        ('<img src="//example.org/a.png" alt="x">', "loads from outside"),
        ('<link rel="stylesheet" href="http://example.org/a.css">', "loads from outside"),
        ('<iframe src="https://example.org"></iframe>', "loads from outside"),
        ('<p style="background: url(https://example.org/a.png)">x</p>', "loads from outside"),
        ('<img srcset="https://example.org/a.png 2x" alt="x">', "loads from outside"),
        ('<style>@import "https://example.org/a.css";</style>', "loads from outside"),
        ("<style>p { background: url(//example.org/a.png) }</style>", "loads from outside"),
        ('<meta http-equiv="refresh" content="0; URL=https://example.org">', "loads from outside"),
        ('<a href="#top" ping="https://example.org">x</a>', "loads from outside"),
        ('<table background="https://example.org/a.png"></table>', "loads from outside"),
        ('<svg onload="x()"></svg>', "runs a script"),
        ('<iframe srcdoc="x"></iframe>', "runs a script"),
        ('<a href="javascript:x()">x</a>', "runs a script"),
        ('<object data="data:text/html,x"></object>', "runs a script"),
        ('<script>fetch("https://example.org")</script>', "loads from outside"),
        ("<script type='module'>import '//example.org/a.js'</script>", "loads from outside"),
    ],
)
def test_raw_html_may_not_lead_to_nowhere_or_load_from_outside(tmp_path: Path, raw: str, says: str) -> None:
    (tmp_path / "book").mkdir()
    (tmp_path / "here.html").write_text("<p>here</p>")
    good = '<a href="../here.html#top">here</a> <a href="https://example.org">out</a> <a href="#top">up</a>'
    good += '<img src="data:image/png;base64,AA" alt="x"><a href="mailto:a@b">post</a>'
    (tmp_path / "book" / "page.html").write_text(f"<html><body>{good}</body></html>")
    assert pages.problems(tmp_path) == []
    (tmp_path / "book" / "page.html").write_text(f"<html><body>{good}\n{raw}</body></html>")
    (problem,) = pages.problems(tmp_path)
    assert problem.startswith("book/page.html: ")
    assert says in problem
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "a.css").write_text("p { background: url(https://example.org/a.png), url(b.png) }")
    assert "_static/a.css: loads from outside (https://example.org/a.png)" in pages.problems(tmp_path)


@pytest.mark.parametrize("folder", ["book/assets", "tests/vendor"])
def test_vendored_files_are_what_their_list_says(folder: str) -> None:
    assets = REPOSITORY / folder
    listed = {}
    for line in (assets / "VENDORED.txt").read_text().splitlines():
        if not line.startswith("#"):
            digest, name = line.split()
            listed[name] = digest
    found = {
        path.relative_to(assets).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for name in ("widgets", "mathjax", "axe-core")
        for path in (assets / name).rglob("*")
        if path.is_file()
    }
    assert found == listed
