"""Verdicts and values quoted on pages: linked badges, and a build that warns when prose outlives its verdict."""

import pytest
from claims_kit import make_root, write_notebook

from iclbook.book.scoreboard_page import filled
from iclbook.errors import UserError


@pytest.fixture
def root(tmp_path):
    root = make_root(tmp_path / "book")
    write_notebook(root / "executed" / "paper" / "demo.ipynb", omega=0.2, gap=0.0, seeds=8)
    return root


def test_a_verdict_is_a_badge_that_leads_to_its_claim(root):
    text = filled("Heads {{ verdict demo/both: partly }} differ.", "book/found", "paper", root)
    assert text.startswith('Heads <a class="iclbook-quoted" href="../notebooks/demo.html#claim-demo-both"')
    assert "iclbook-badge-partly" in text
    assert text.endswith("</a> differ.")


def test_a_value_is_what_the_chapter_recorded(root):
    assert filled("{{ value demo seeds }} seeds, {{ value demo omega }}", "book/found", "paper", root) == "8 seeds, 0.2"


@pytest.mark.parametrize(
    ("marker", "says"),
    [
        ("{{ verdict demo/both: reproduced }}", "is 'partly', and the text was written for 'reproduced'"),
        ("{{ verdict demo/bath: partly }}", "Did you mean 'demo/both'"),
        ("{{ verdict dema/both: partly }}", "no paper 'dema'"),
        ("{{ value demo omegas }}", "recorded no 'omegas'"),
    ],
)
def test_what_cannot_be_quoted_is_one_line(root, marker, says):
    with pytest.raises(UserError, match=says):
        filled(marker, "book/found", "paper", root)
