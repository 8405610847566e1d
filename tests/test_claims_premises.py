"""What claims rest on: the field, the graph, the doubt, the sentences on badges, the picture."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from claims_kit import make_root, write_notebook

from iclbook.book import premises_picture, scoreboard_page
from iclbook.book.ties import Ties, both_directions, doubt_sentence, filled, with_ties
from iclbook.claims import WORDS, all_ledgers, load_ledger
from iclbook.claims.premises import DOUBTS, Premises
from iclbook.claims.render import verdict_html
from iclbook.claims.scoreboard import boards
from iclbook.claims.verdicts import ANSWER_WORDS
from iclbook.drawing.layers import crossings, drawings
from iclbook.errors import UserError

ROOT = Path(__file__).resolve().parents[1]


def ledger(paper: str, **requires: str) -> str:
    """Claims ``bad`` (its rule fails), ``good``, ``next``, ``last`` and ``bare`` (no rule) of one paper, with these premises."""
    lines = [f"paper: {paper}", f"title: The {paper}", f"chapter: notebooks/{paper}.py", "claims:"]
    for name in ("bad", "good", "next", "last", "bare"):
        lines += [f"  - id: {paper}/{name}", f"    where: Theorem {name}", f"    says: says {name}"]
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


def ties_of(root: Path) -> Ties:
    return Ties.of(boards("paper", root), root)


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ("[demo/goood]", r"demo/claims.yaml, line \d+: demo/next requires 'demo/goood', which is no claim"),
        ("[other/none]", r"demo/claims.yaml, line \d+: demo/next requires 'other/none', which is no claim"),
        ("[demo/next]", r"demo/claims.yaml, line \d+: demo/next requires itself[.] "),
        ("[demo/good, demo/good]", "each once"),
        ("[good]", "requires 'good'"),
        ("demo/good", "requires is not a list"),
    ],
)
def test_a_premise_that_is_none_is_refused_in_one_line(tmp_path, named, problem):
    root = book(tmp_path, {"next": named})
    with pytest.raises(UserError, match=problem) as caught:
        all_ledgers(root)
    assert "\n" not in str(caught.value)
    line = re.search(r"line (\d+)", str(caught.value))
    text = (root / "src/iclbook/papers/demo/claims.yaml").read_text().splitlines()
    assert named in text[int(line[1]) - 1]


def test_a_chapter_that_runs_alone_refuses_its_own_and_leaves_the_others(tmp_path):
    load_ledger("demo", book(tmp_path / "a", {"next": "[other/none]"}))
    with pytest.raises(UserError, match="which is no claim"):
        load_ledger("demo", book(tmp_path / "b", {"next": "[demo/none]"}))


def test_circles_are_refused_also_across_papers(tmp_path):
    root = book(tmp_path, {"next": "[demo/good, demo/last]", "last": "[other/good]"}, {"good": "[demo/next]"})
    with pytest.raises(UserError, match="demo/next requires itself by way of demo/last, other/good"):
        all_ledgers(root)
    # two ways to one premise are no circle
    fine = book(tmp_path / "fine", {"next": "[demo/good, demo/last]", "last": "[demo/good]"})
    assert len(all_ledgers(fine)) == 2


def test_both_directions(tmp_path):
    graph = ties_of(book(tmp_path, {"next": "[demo/good]", "last": "[demo/good, demo/next]"})).graph
    assert graph.rests == {"demo/next": ("demo/good",), "demo/last": ("demo/good", "demo/next")}
    assert graph.carries == {"demo/good": ("demo/next", "demo/last"), "demo/next": ("demo/last",)}
    assert graph.below("demo/last") == ["demo/good", "demo/next"]


def test_doubt_passes_along_and_only_from_what_fails(tmp_path):
    root = book(tmp_path, {"next": "[demo/bad]", "last": "[demo/next]"}, {"next": "[demo/last, other/good]"})
    ties = ties_of(root)
    assert [ties.doubts(f"demo/{name}") for name in ("bad", "good", "next", "last")] == [
        [],
        [],
        ["demo/bad"],
        ["demo/bad"],
    ]
    assert ties.doubts("other/next") == ["demo/bad"]
    assert ties.words["demo/last"] == "reproduced", "a verdict is that of the claim by itself"


def test_the_badge_of_a_claim_on_a_failed_premise_says_so_and_one_on_a_good_premise_does_not(tmp_path):
    root = book(tmp_path, {"next": "[demo/bad]", "last": "[demo/good]"}, {"last": "[demo/bad, demo/bare]"})
    ties = ties_of(root)
    bad = '<a href="demo.html#claim-demo-bad" title="says bad">Theorem bad</a>'
    assert doubt_sentence(ties, "demo/next") == f"Rests on {bad}, which did not reproduce."
    assert doubt_sentence(ties, "demo/last") == ""
    assert re.sub("<[^>]*>", "", doubt_sentence(ties, "other/last")) == (
        "Rests on The demo, Theorem bad, which did not reproduce, and on The demo, Theorem bare, which is not yet tested."
    )
    shown = {claim: filled(verdict_html(*ties.rows[claim]), ties) for claim in ties.rows}
    assert "iclbook-doubt" in shown["demo/next"]
    assert "did not reproduce" in shown["demo/next"].split("</summary>")[1], "no link inside a summary"
    assert "iclbook-doubt" not in shown["demo/last"]
    assert "Rests on: <a" in shown["demo/last"]
    assert not any("<!--" in text for text in shown.values())
    assert "Rests on" not in shown["other/good"]
    assert "Carries" not in shown["other/good"]


def test_a_claim_without_parts_unfolds_its_ties(tmp_path):
    ties = ties_of(book(tmp_path, {"bare": "[demo/good]"}, {"last": "[demo/bare, other/good]"}))
    text = filled(verdict_html(*ties.rows["demo/bare"]), ties)
    assert "<details><summary>What it rests on and carries</summary>" in text
    assert both_directions(ties, "demo/good") == (
        '<div class="iclbook-ties">Carries: <a href="demo.html#claim-demo-bare" title="says bare">Theorem bare</a></div>'
    )
    lines = re.sub("<[^>]*>", " ", both_directions(ties, "other/last")).split("  ")
    assert [" ".join(line.split()) for line in lines if line.strip()] == [
        "Rests on:",
        "Theorem good",
        "Rests on, in The demo:",
        "Theorem bare",
    ]


def test_many_doubts_are_counted(tmp_path):
    root = book(tmp_path, {"last": "[demo/bad, demo/bare, other/bad, other/bare]"})
    text = re.sub("<[^>]*>", "", doubt_sentence(ties_of(root), "demo/last"))
    assert text == (
        "Rests on Theorem bad and The other, Theorem bad, which did not reproduce, on Theorem bare, which is not yet tested, and on 1 more such."
    )


def test_the_places_in_an_executed_copy_are_filled(tmp_path):
    root = book(tmp_path, {"next": "[demo/bad]"})
    ties = ties_of(root)
    html = verdict_html(*ties.rows["demo/next"])
    output = nbformat.v4.new_output("display_data", {"text/html": html, "text/plain": "next"})
    cell = nbformat.v4.new_code_cell("record.verdict(...)", outputs=[output])
    notebook = with_ties(nbformat.v4.new_notebook(cells=[cell]), "paper", root)
    assert notebook.cells[0].outputs[0].data["text/html"] == filled(html, ties) != html


def test_every_word_carries_or_is_told():
    carry = {"reproduced", "reproduced (reduced)", "partly", "yes", "yes (reduced)", "it depends"}
    assert set(DOUBTS) == {*WORDS, *ANSWER_WORDS} - carry


# ------------------------------------------------------------------------------------------------- the picture


def test_columns_follow_premises_and_edges_cross_no_name():
    edges = [("a", "b"), ("b", "c"), ("a", "c"), ("x", "c"), ("y", "z")]
    first, second = drawings(edges)
    assert {node: place[0] for node, place in first.places.items()} == {"a": 0, "b": 1, "x": 1, "c": 2}
    assert set(second.places) == {"y", "z"}
    assert sorted([*first.paths, *second.paths]) == sorted(edges)
    places = list(first.places.values())
    assert len(set(places)) == 4
    between = first.paths["a", "c"][1]
    assert between[0] == 1
    assert between not in places


def test_an_order_without_crossings_is_found():
    edges = [("a", "3"), ("b", "2"), ("c", "1"), ("a", "2"), ("b", "1")]
    (drawing,) = drawings(edges)
    layers = [
        sorted((n for n in drawing.places if drawing.places[n][0] == c), key=lambda n: drawing.places[n][1])
        for c in (0, 1)
    ]
    assert crossings([["a", "b", "c"], ["1", "2", "3"]], edges) > 0
    assert crossings(layers, edges) == 0


def test_the_picture_holds_every_edge_and_every_claim_once(tmp_path):
    root = book(tmp_path, {"next": "[demo/bad]", "last": "[demo/next, demo/good]"}, {"next": "[demo/last]"})
    ties = ties_of(root)
    drawn = premises_picture.picture(ties)
    assert sorted(re.findall(r'data-edge="([^"]*)"', drawn)) == sorted(
        f"{a} {b}" for a, b in ties.graph.edges
    )
    links = re.findall(r'<a class="iclbook-node[^>]*href="([^"]*)"', drawn)
    assert sorted(links) == sorted(
        f"../notebooks/{name}.html#claim-{name}-{item}"
        for name, item in (
            ("demo", "bad"),
            ("demo", "next"),
            ("demo", "last"),
            ("demo", "good"),
            ("other", "next"),
        )
    )
    broken = re.findall(r'class="iclbook-broken" data-edge="([^"]*)"', drawn)
    assert broken == ["demo/bad demo/next", "demo/next demo/last", "demo/last other/next"]
    assert drawn.count("iclbook-ring") == 3
    named = dict(re.findall(r'iclbook-node[^>]*#claim-(\S+)" .*?aria-label="([^"]*)"', drawn))
    assert named["demo-bad"] == "bad. The demo, Theorem bad: says bad \u2013 not reproduced"
    page = scoreboard_page.markdown("paper", root)
    assert drawn in page
    assert page.count("<li>") == 3


def test_shapes_tell_verdicts_apart():
    assert premises_picture.shape("reproduced") == premises_picture.shape("yes") == "holds"
    assert premises_picture.shape("inconsistent") == premises_picture.shape("no") == "does not hold"
    assert {premises_picture.shape(word) for word in (*WORDS, *ANSWER_WORDS)} == set(premises_picture.SHAPES)


def test_without_premises_there_is_no_picture(tmp_path):
    assert "stand on claims" not in scoreboard_page.markdown("paper", book(tmp_path, {}))


def test_the_books_own_premises():
    ledgers = all_ledgers(ROOT)
    graph = Premises.of([claim for ledger in ledgers for claim in ledger.claims])
    papers = {ledger.paper for ledger in ledgers}
    assert {claim.partition("/")[0] for claim in graph.rests} == papers
    across = [(a, b) for a, b in graph.edges if a.partition("/")[0] != b.partition("/")[0]]
    assert {a.partition("/")[0] for a, _ in across} == papers - {"crossing"}
    assert {b.partition("/")[0] for _, b in across} == {"crossing"}
