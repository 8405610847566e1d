import pytest
from claims_kit import LEDGER, make_root, records_of, write_notebook

from iclbook.book import scoreboard_page
from iclbook.claims import load_ledger
from iclbook.claims.render import LOOKS, counts, counts_line, mark, rules_line, verdict_html
from iclbook.claims.scoreboard import boards
from iclbook.claims.verdicts import ANSWER_WORDS, ANSWERS, WORDS, verdict
from iclbook.errors import UserError


@pytest.fixture
def root(tmp_path):
    root = make_root(tmp_path / "book", chapters=("demo", "other"))
    other = LEDGER.replace("demo", "other").replace("A demonstration", "Another one")
    (root / "src/iclbook/papers/other").mkdir()
    (root / "src/iclbook/papers/other/claims.yaml").write_text(other)
    write_notebook(root / "executed" / "paper" / "demo.ipynb", omega=0.2, gap=0.0)
    return root


def test_counts_come_from_the_executed_copies(root):
    assert (
        counts_line(row for board in boards("paper", root) for row in board.rows)
        == "6 claims: holds 1, partly 1, untested 4"
    )


def test_a_chapter_that_was_not_run_leaves_its_claims_untested(root):
    assert counts_line(row for board in boards("smoke", root) for row in board.rows) == "6 claims: untested 6"


def test_the_page(root):
    page = scoreboard_page.markdown("paper", root)
    assert "## A demonstration" in page
    assert "{doc}`The chapter </notebooks/demo>`" in page
    rows = [line for line in page.splitlines() if line.startswith("| ") and "Where" not in line]
    assert len(rows) == 6
    row, _ = [line for line in rows if "two heads" in line]
    assert mark("partly") in row
    assert '<a href="../notebooks/demo.html#claim-demo-both">Figure 1</a>' in row
    assert 'data-verdict="partly" data-chapter="demo" data-kind="claim"' in row
    assert r"two heads \| \*both\* signs" in row, "a bar or star of the text must not end the cell or turn italic"


def test_a_chapter_that_the_contents_do_not_list_is_named(root):
    (root / "_toc.yml").write_text("format: jb-book\nroot: book/intro\nchapters:\n  - file: notebooks/demo\n")
    with pytest.raises(UserError, match=r"List notebooks/other in _toc\.yml"):
        scoreboard_page.markdown("paper", root)


def test_every_word_has_its_own_symbol_and_class():
    assert set(LOOKS) == {*WORDS, *ANSWER_WORDS}
    for words in (WORDS, ANSWER_WORDS):
        assert len({LOOKS[word][0] for word in words}) == len(words)
        assert len({LOOKS[word][1] for word in words}) == len(words)
        for word in words:
            assert LOOKS[word][2] in mark(word)
    assert LOOKS["yes"][:2] == LOOKS["reproduced"][:2]
    assert LOOKS["no"][:2] == LOOKS["not reproduced"][:2]


QUESTION = LEDGER.replace("demo/exact", "demo/q-exact").replace("the optimum is exact", "Is the optimum exact?")


def rows_of(tmp_path, text=QUESTION, **values):
    ledger = load_ledger("demo", make_root(tmp_path / "book", text))
    return [(claim, verdict(claim, records_of(**values), "paper")) for claim in ledger.claims]


def test_a_badge_line_is_a_sentence_with_its_place_and_what_came_out(tmp_path):
    rows = rows_of(tmp_path, LEDGER, omega=0.13, gap=0.0)
    lines = {claim.id: verdict_html(claim, found) for claim, found in rows}
    summary, _, folded = lines["demo/both"].partition("</summary>")
    assert "holds" in summary
    assert "two heads | *both* signs" in summary, "the short form, whole"
    assert "Figure 1" not in summary
    assert (
        '<span class="iclbook-where">Figure 1:</span> <span class="iclbook-says">two heads | opposite *signs*</span>'
        in folded
    )
    assert "<strong>reproduced</strong>. Paper: 0.13" in folded
    assert "<strong>0.13</strong>, rule: within 0.02 of 0.13" in folded
    (_, failing), *_ = rows_of(tmp_path, LEDGER, omega=0.5, gap=0.0)
    assert "holds: positive; fails: size (0.5, rule: within 0.02 of 0.13)" in verdict_html(rows[0][0], failing)
    assert "not tested yet" in lines["demo/later"]
    assert "Here:" not in lines["demo/later"]


def test_questions_are_answered_and_counted_apart(tmp_path):
    rows = rows_of(tmp_path, omega=0.13, gap=0.0)
    assert counts_line(rows) == "2 claims: holds 1, untested 1; 1 question: yes 1"
    assert counts(rows) == {"holds": ["reproduced", 1], "untested": ["not yet tested", 1]}
    assert counts(rows, True) == {"yes": ["yes", 1]}
    assert counts_line(rows_of(tmp_path, gap=1.0)) == "2 claims: untested 2; 1 question: no 1"
    assert counts_line(rows_of(tmp_path)) == "2 claims: untested 2; 1 question: undecided 1"
    assert counts_line([]) == "0 claims"
    assert set(ANSWERS) == set(WORDS)


def test_late_rules_are_counted(tmp_path):
    late = LEDGER.replace("because: float64", "because: float64\n        late: true")
    rows = rows_of(tmp_path, late, omega=0.13, gap=0.0)
    assert rules_line(rows).startswith("Of 3 rules 1 were")
    assert ["late rule" in verdict_html(claim, found) for claim, found in rows] == [False, True, False]
