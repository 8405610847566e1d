"""Words of the glossary and letters of several meanings are linked where a chapter uses them first, and nowhere else."""

from pathlib import Path

import pytest
from docutils import nodes
from docutils.utils import new_document

from iclbook.book.terms import ORDINARY, Place, link_first_uses

ROOT = Path(__file__).resolve().parents[1]
WORDS = {
    "softmax": Place("term-softmax", "Turns scores into weights."),
    "softmax attention": Place("term-softmax-attention"),
    "Adam": Place("term-Adam"),
    "Glorot's start": Place("term-Glorot"),
    "batch": Place("term-batch"),
}
LETTERS = {r"\epsilon": Place("letter-epsilon"), r"\varepsilon": Place("letter-epsilon"), "w": Place("letter-w")}


def page(*children: nodes.Node) -> nodes.document:
    document = new_document("page")
    document += nodes.section("", nodes.title("", "Softmax, w and Adam"), *children)
    link_first_uses(document, WORDS, LETTERS, "../book/notation.html")
    return document


def text(*parts: str | nodes.Node) -> nodes.paragraph:
    return nodes.paragraph("", "", *(nodes.Text(part) if isinstance(part, str) else part for part in parts))


def linked(document: nodes.document) -> list[tuple[str, str]]:
    found = [node for node in document.findall(nodes.reference) if "iclbook-term" in node["classes"]]
    return [(node.astext(), node["refuri"]) for node in found]


def test_a_word_is_linked_once_where_it_stands_first_and_the_text_stays() -> None:
    document = page(text("A softmax, then softmax again."), text("And softmax."))
    assert linked(document) == [("softmax", "../book/notation.html#term-softmax")]
    assert [node.astext() for node in document.findall(nodes.paragraph)] == [
        "A softmax, then softmax again.",
        "And softmax.",
    ]
    (link,) = document.findall(nodes.reference)
    assert link["reftitle"] == "Turns scores into weights."


def test_the_longest_word_wins_and_both_are_linked_where_both_stand() -> None:
    document = page(text("Softmax attention has a softmax."))
    assert [shown for shown, _ in linked(document)] == ["Softmax attention", "softmax"]


def test_a_letter_is_linked_once_whatever_its_shape_and_formulas_are_left_alone() -> None:
    signs = [nodes.math("", sign) for sign in ("w x", "w", "w", r"\varepsilon", r"\epsilon")]
    document = page(text(*signs))
    assert linked(document) == [
        ("w", "../book/notation.html#letter-w"),
        (r"\varepsilon", "../book/notation.html#letter-epsilon"),
    ]
    assert len(list(document.findall(nodes.math))) == len(signs)


@pytest.mark.parametrize(
    "child",
    [
        nodes.container("", text("softmax"), classes=["cell"]),
        nodes.figure("", nodes.caption("", "softmax")),
        nodes.table("", text("softmax")),
        nodes.admonition("", text("softmax")),
        nodes.literal_block("", "softmax"),
        nodes.raw("", "softmax", format="html"),
        text(nodes.literal("", "softmax")),
        text(nodes.reference("", "softmax", refuri="elsewhere")),
        text(nodes.emphasis("", "The caption of a figure with softmax.")),
        text(nodes.reference("", "what softmax is", refuri="../book/notation.html#term-softmax"), " softmax"),
    ],
    ids=lambda child: type(child.children[0] if child.children else child).__name__,
)
def test_what_is_no_prose_or_linked_already_is_left_alone(child: nodes.Node) -> None:
    assert linked(page(child)) == []


def test_every_word_that_is_never_linked_stands_in_the_glossary() -> None:
    notation = (ROOT / "book" / "notation.md").read_text().splitlines()
    assert sorted(ORDINARY - set(notation)) == []
