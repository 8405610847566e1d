"""Sections that are closed at first, in the notebook and in the page."""

import nbformat

from iclbook.book import chapter_head
from iclbook.book.chapter_head import MARK, with_folds

OPEN = '<details class="iclbook-fold">'


def notebook(*cells: str, marked: int = 1) -> nbformat.NotebookNode:
    made = [
        nbformat.v4.new_code_cell(text[1:]) if text.startswith("!") else nbformat.v4.new_markdown_cell(text)
        for text in cells
    ]
    made[marked].metadata[MARK] = True
    return nbformat.v4.new_notebook(cells=made)


def test_a_marked_section_is_wrapped_up_to_the_next_heading_of_its_level():
    found = with_folds(notebook("# Title", "## Errata\n\n- A slip.", "!badge()", "more", "## Next", "end"))
    sources = [cell.source for cell in found.cells]
    assert sources[1].startswith(f"## Errata\n\n\n\n{OPEN}<summary>")
    assert sources[1].rstrip().endswith("\n\n- A slip.")
    assert sources[2:] == ["badge()", "more", "</details>", "## Next", "end"]


def test_a_first_paragraph_stays_in_sight():
    found = with_folds(notebook("# Title", "## Exercises\nEach can be solved.\n\n1. One.", "## Next"))
    assert found.cells[1].source.startswith(f"## Exercises\n\nEach can be solved.\n\n{OPEN}")


def test_a_marked_section_at_the_end_is_closed_and_a_deeper_heading_does_not_close_it():
    found = with_folds(notebook("# Title", "## Errata", "### Of proofs"))
    assert [cell.source for cell in found.cells][2:] == ["### Of proofs", "</details>"]


def test_without_the_mark_nothing_changes():
    plain = notebook("# Title", "## Errata", "## Next")
    del plain.cells[1].metadata[MARK]
    assert [cell.source for cell in with_folds(plain).cells] == ["# Title", "## Errata", "## Next"]


def test_folded_text_takes_no_time_to_read():
    long = notebook("# Title", "## Errata\n\n- " + "word " * 2200, "## Next")
    assert chapter_head.minutes(long) == 10
    assert chapter_head.minutes(with_folds(long)) == 1
