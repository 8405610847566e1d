"""The box at a chapter's head."""

import nbformat
import pytest
from claims_kit import make_root, write_notebook

from iclbook.book import chapter_head

BIB = "@article{demo, title = {T}, year = {2025}, url = {https://example.org/abs/1}, code = {https://example.org/c}}"


@pytest.fixture
def root(tmp_path):
    root = make_root(tmp_path / "book")
    write_notebook(root / "executed" / "paper" / "demo.ipynb", omega=0.13, gap=0.0)
    return root


def notebook(words: int) -> nbformat.NotebookNode:
    cells = [nbformat.v4.new_markdown_cell("# Title"), nbformat.v4.new_markdown_cell("word " * words)]
    return nbformat.v4.new_notebook(cells=cells)


def test_the_line_counts_verdicts_and_links_paper_and_code(root):
    (root / "book").mkdir(exist_ok=True)
    (root / "book" / "references.bib").write_text(BIB)
    text = chapter_head.with_summary(notebook(440), "demo", "paper", root).cells[1].source
    assert "2 minutes · [The paper](https://example.org/abs/1) · [its code](https://example.org/c) · Claims: " in text
    assert text.count("iclbook-badge-reproduced") == 1
    assert "holds</span>&nbsp;2" in text, "two claims are reproduced"


def test_the_hero_stands_first_with_its_caption_and_its_code_stays():
    drawn = [nbformat.v4.new_output("display_data", {"image/png": "cG5n"})]
    hero = nbformat.v4.new_code_cell("draw()", metadata={"tags": ["hero"]}, outputs=list(drawn))
    book = notebook(1)
    book.cells[1:] = [
        nbformat.v4.new_markdown_cell("Why."),
        hero,
        nbformat.v4.new_markdown_cell("*What\nto see.* More."),
    ]
    found = [(c.source[:5], c.get("outputs")) for c in chapter_head.with_hero(book).cells]
    assert found == [("# Tit", None), ("...", drawn), ("*What", None), ("Why. ", None), ("draw(", []), ("More.", None)]
    assert book.cells[3].source == 'Why. (<a href="#figure-1">Figure 1</a>)'


def test_without_addresses_or_a_ledger_nothing_is_invented(root):
    assert "http" not in chapter_head.with_summary(notebook(1), "demo", "paper", root).cells[1].source
    assert len(chapter_head.with_summary(notebook(1), "other", "paper", root).cells) == 2


def test_formulas_and_pictures_take_time():
    plain, rich = notebook(2200), notebook(2200)
    rich.cells[1].source += "$$ x $$" * 22
    picture = nbformat.v4.new_code_cell("draw()", metadata={"mystnb": {"image": {"alt": "a wave"}}})
    rich.cells += [picture] * 11
    assert chapter_head.minutes(plain) == 10
    assert chapter_head.minutes(rich) == 10 + 3 + 3
