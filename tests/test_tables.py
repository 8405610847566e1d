"""Tables of a chapter: every cell is escaped and labelled, and words are marked."""

from iclbook.drawing.figure_data import Table

ROWS = [{"name": "a < b", "result": "proved"}, {"name": "c", "result": "refuted", "why": "x = 1"}]
COLUMNS = {"name": "statement", "result": "result", "why": "counterexample"}


def test_cells_are_escaped_labelled_and_marked():
    html = Table(ROWS, COLUMNS, "two & more")._repr_html_()
    assert "a &lt; b" in html
    assert 'aria-label="two &amp; more"' in html
    assert html.count("<tr>") == 3
    assert html.count('data-label="counterexample"') == 2
    assert '<span class="iclbook-holds">✓ proved</span>' in html
    assert "✗ refuted" in html


def test_a_folded_table_shows_its_label_and_text_lists_every_row():
    table = Table(ROWS, COLUMNS, "all", folded=True)
    assert table._repr_html_().startswith("<details><summary>all</summary>")
    assert repr(table).splitlines()[1] == "statement: a < b; result: proved; counterexample: "
