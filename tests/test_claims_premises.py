"""Premises of claims: the field, the graph, open premises, the sentences on badges, the list on the scoreboard."""

import re
from pathlib import Path

import pytest
from claims_kit import make_root, write_notebook

from iclbook.book import scoreboard_page
from iclbook.book.premises import Premises, filled, premise_sentence
from iclbook.claims import all_ledgers
from iclbook.claims.render import verdict_html
from iclbook.claims.scoreboard import boards
from iclbook.errors import UserError


def ledger(paper: str, **requires: str) -> str:
    """Claims ``bad`` (its rule fails), ``good``, ``next``, ``last`` and ``bare`` (no rule) of one paper, with these premises."""
    lines = [f"paper: {paper}", f"title: The {paper}", f"chapter: notebooks/{paper}.py", "claims:"]
    for name in ("bad", "good", "next", "last", "bare"):
        lines += [
            f"  - id: {paper}/{name}",
            f"    where: Theorem {name}",
            f"    short: says {name}",
            f"    says: says {name}",
        ]
        if name in requires:
            lines.append(f"    requires: {requires[name]}")
        if name != "bare":
            bound = "> 1" if name == "bad" else "< 1"
            lines += ["    parts:", "      - name: size", f"        key: {name}", f'        rule: "{bound}"']
            lines.append("        because: known")
    return "\n".join(lines) + "\n"


def book(tmp_path: Path, demo: dict[str, str], other: dict[str, str] | None = None) -> Path:
    root = make_root(tmp_path / "book", ledger("demo", **demo), ("demo", "other"))
    (root / "src/iclbook/papers/other").mkdir()
    (root / "src/iclbook/papers/other/claims.yaml").write_text(ledger("other", **(other or {})))
    for name in ("demo", "other"):
        values = dict.fromkeys(("bad", "good", "next", "last"), 0.5)
        write_notebook(root / "executed" / "paper" / f"{name}.ipynb", **values)
    return root


def premises_of(root: Path) -> Premises:
    return Premises(boards("paper", root), root)


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ("[demo/goood]", "demo/next requires 'demo/goood', which is no claim"),
        ("[other/none]", "demo/next requires 'other/none', which is no claim"),
        ("[demo/next]", "demo/next requires itself[.] "),
        ("[good]", "requires 'good'"),
        ("demo/good", "requires is 'demo/good'"),
    ],
)
def test_a_premise_that_is_none_is_refused_in_one_line(tmp_path, named, problem):
    root = book(tmp_path, {"next": named})
    with pytest.raises(UserError, match=problem) as caught:
        all_ledgers(root)
    assert "\n" not in str(caught.value)


def test_circles_are_refused_also_across_papers(tmp_path):
    root = book(tmp_path, {"next": "[demo/good, demo/last]", "last": "[other/good]"}, {"good": "[demo/next]"})
    with pytest.raises(UserError, match="demo/next requires itself by way of demo/last, other/good"):
        all_ledgers(root)
    # two ways to one premise are no circle
    fine = book(tmp_path / "fine", {"next": "[demo/good, demo/last]", "last": "[demo/good]"})
    assert len(all_ledgers(fine)) == 2


def test_doubt_passes_along_and_only_from_what_fails(tmp_path):
    root = book(tmp_path, {"next": "[demo/bad]", "last": "[demo/next]"}, {"next": "[demo/last, other/good]"})
    premises = premises_of(root)
    assert [premises.open_premises(f"demo/{name}") for name in ("bad", "good", "next", "last")] == [
        [],
        [],
        ["demo/bad"],
        ["demo/bad"],
    ]
    assert premises.open_premises("other/next") == ["demo/bad"]
    assert premises.word("demo/last") == "holds", "a verdict is that of the claim by itself"


def test_the_badge_of_a_claim_on_a_failed_premise_says_so_and_one_on_a_good_premise_does_not(tmp_path):
    root = book(tmp_path, {"next": "[demo/bad]", "last": "[demo/good]"}, {"last": "[demo/bad, demo/bare]"})
    premises = premises_of(root)
    bad = '<a href="demo.html#claim-demo-bad" title="says bad">Theorem bad</a>'
    assert premise_sentence(premises, "demo/next") == f"Depends on {bad} (fails)."
    assert premise_sentence(premises, "demo/last") == ""
    assert re.sub("<[^>]*>", "", premise_sentence(premises, "other/last")) == (
        "Depends on The demo, Theorem bad (fails), The demo, Theorem bare (untested)."
    )
    shown = {claim: filled(verdict_html(*premises.rows[claim]), premises, {}) for claim in premises.rows}
    assert "iclbook-open-premise" in shown["demo/next"]
    assert "(fails)" in shown["demo/next"].split("</summary>")[1], "no link inside a summary"
    assert "iclbook-open-premise" not in shown["demo/last"]
    assert "Depends on: <a" in shown["demo/last"]
    assert not any("<!--" in text for text in shown.values())
    assert "Depends on" not in shown["other/good"]
    assert "Needed by" not in shown["other/good"]


def test_the_scoreboard_lists_premises(tmp_path):
    root = book(tmp_path, {"next": "[demo/bad]", "last": "[demo/next, demo/good]"}, {"next": "[demo/last]"})
    page = scoreboard_page.markdown("paper", root)
    assert "4 such dependences join 5 claims" in page
    assert "of 3 claims something that they depend on" in page
    assert page.count("<li>") == 3
    assert 'href="../notebooks/other.html#claim-other-next"' in page
