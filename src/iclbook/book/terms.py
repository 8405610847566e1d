"""Words and letters of the notation page, linked where a chapter uses them first.

Only prose is touched: no heading, caption, table, box, badge, code or formula of more than one letter, and no text that is a link already. Each word and each letter
is linked once in a chapter, so that a page stays calm; the link shows the word's meaning when it is pointed at.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import NamedTuple

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform

#: Where the glossary and the list of letters stand.
NOTATION = "book/notation"
#: Words of the glossary that chapters also use in another sense, as in double precision or stability window: never linked by themselves.
ORDINARY = {
    *("activation", "claim", "degree", "episode", "kernel", "ladder", "margin", "offset", "precision", "profile"),
    *("reading", "record", "replay", "residual", "side", "spread", "stack", "stage", "study", "window"),
}
#: What is no prose, with everything in it.
NO_PROSE = (
    nodes.Admonition,
    nodes.caption,
    nodes.container,
    nodes.figure,
    nodes.FixedTextElement,
    nodes.literal,
    nodes.raw,
    nodes.reference,
    nodes.table,
    nodes.title,
)


class Place(NamedTuple):
    """Where a word is explained: the place in the notation page, and a sentence to show; the sentence may be empty."""

    anchor: str
    meaning: str = ""


class FirstUses(SphinxPostTransform):
    """Link the first use of each word of the glossary, and of each letter of several meanings, in every chapter."""

    default_priority = 25  # after captions have moved into their figures
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        """Change the page in place."""
        page = self.env.docname
        if page.startswith("notebooks/") and NOTATION in self.env.found_docs:
            notation = self.env.get_doctree(NOTATION)
            address = self.app.builder.get_relative_uri(page, NOTATION)
            link_first_uses(self.document, _words(notation), _letters(notation), address)


def _words(notation: nodes.document) -> dict[str, Place]:
    """Words of the glossary, without the :data:`ORDINARY` ones."""
    return {
        term.astext(): Place(term["ids"][0], _first_sentence(item))
        for glossary in notation.findall(addnodes.glossary)
        for item in glossary.findall(nodes.definition_list_item)
        for term in item.findall(nodes.term)
        if term.astext() not in ORDINARY
    }


def _letters(notation: nodes.document) -> dict[str, Place]:
    """Letters that have several meanings, as TeX."""
    return {
        letter.astext(): Place(entry["ids"][0], f"What {letter.astext().lstrip(chr(92))} stands for")
        for entry in notation.findall(nodes.inline)
        if any(name.startswith("letter-") for name in entry["ids"])
        for letter in entry.findall(nodes.math)
    }


def _first_sentence(item: nodes.definition_list_item) -> str:
    """First sentence of an explanation; empty where it holds a formula, which a tooltip cannot show."""
    paragraph = next(item.findall(nodes.paragraph), nodes.paragraph())
    words = takewhile(lambda child: not isinstance(child, nodes.math), paragraph.children)
    sentence = re.match(r"(.+?\.)(\s|$)", "".join(child.astext() for child in words), re.DOTALL)
    return " ".join(sentence[1].split()) if sentence else ""


def link_first_uses(
    document: nodes.document, words: Mapping[str, Place], letters: Mapping[str, Place], address: str
) -> None:
    """Link each word and each letter once, in place, to where it is explained; ``address`` is that of the notation page, seen from this one."""
    there = {node.get("refuri", "").partition("#")[2] for node in document.findall(nodes.reference)}
    left = {word: place for word, place in words.items() if place.anchor not in there}
    signs = dict(letters)
    for node in list(_prose(document)):
        if isinstance(node, nodes.Text):
            node.parent.replace(node, list(_pieces(str(node), left, address)))
        elif place := signs.get(node.astext()):
            signs = {sign: other for sign, other in signs.items() if other != place}
            node.replace_self(_link(node.deepcopy(), place, address))


def _prose(node: nodes.Node) -> Iterator[nodes.Text | nodes.math]:
    """Texts and formulas of the page's prose, in order; of emphasised text only what is a single word or term."""
    for child in node.children:
        sentence = isinstance(child, nodes.emphasis) and len(child.astext().split()) > 3
        if isinstance(child, nodes.Text | nodes.math):
            yield child
        elif not sentence and not isinstance(child, NO_PROSE):
            yield from _prose(child)


def _pieces(text: str, left: dict[str, Place], address: str) -> Iterator[nodes.Node]:
    """The text, cut at the words that are linked, the longest first, none as a part of another; those leave ``left``."""
    while left:
        longest = sorted(left, key=len, reverse=True)
        choices = "|".join(f"({_pattern(word)})" for word in longest)
        match = re.search(rf"(?<![\w-])(?:{choices})(?![\w-])", text)
        if match is None:
            break
        yield nodes.Text(text[: match.start()])
        yield _link(nodes.Text(match[0]), left.pop(longest[match.lastindex - 1]), address)
        text = text[match.end() :]
    yield nodes.Text(text)


def _pattern(word: str) -> str:
    """A word, also in the plural; capitals count in abbreviations and names only."""
    exact = re.escape(word).replace(r"\ ", r"\s+").replace("'", "['\u2019]")
    return exact if word[:1].isupper() else f"(?i:{exact}(?:e?s)?)"


def _link(shown: nodes.Node, place: Place, address: str) -> nodes.reference:
    title = {"reftitle": place.meaning} if place.meaning else {}
    uri = f"{address}#{place.anchor}"
    return nodes.reference("", "", shown, internal=True, refuri=uri, classes=["iclbook-term"], **title)
