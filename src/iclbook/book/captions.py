"""Figures of the pages: a picture that a cell drew, numbered, with its caption right below.

In a notebook the caption is the italic text with which the next text cell begins, so that a reader of the notebook sees it too. In the page it moves from below
the verdicts, which may stand between, into the figure.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform


class NumberedFigures(SphinxPostTransform):
    """Turn every picture of a code cell's output into a figure with a number and, where there is one, a caption."""

    default_priority = 20  # after MyST-NB has chosen among the forms of an output

    def run(self, **kwargs: object) -> None:
        """Change the page in place."""
        pictures = [node for node in self.document.findall(nodes.image) if _cell(node) is not None]
        for number, picture in enumerate(pictures, start=1):
            picture["loading"] = "lazy"
            figure = nodes.figure(ids=[f"figure-{number}"], classes=["iclbook-figure"])
            picture.replace_self(figure)
            figure += picture
            words = nodes.inline("", f"Figure {number}. ", classes=["caption-number"])
            caption = _take_caption(_cell(figure))
            figure += nodes.caption("", "", words, *(caption.children if caption is not None else ()))


def _cell(node: nodes.Node) -> nodes.container | None:
    """The code cell in whose output a node stands."""
    while node is not None and not (isinstance(node, nodes.container) and "cell" in node["classes"]):
        node = node.parent
    return node


def _take_caption(cell: nodes.container) -> nodes.emphasis | None:
    """The italic beginning of the text after a cell, cut from there; cells without a picture may stand between."""
    place = cell.parent.index(cell) + 1
    for node in cell.parent.children[place:]:
        if isinstance(node, nodes.container) and "cell" in node["classes"]:
            if any(True for _ in node.findall(nodes.image)):
                return None
            continue
        return _cut(node) if isinstance(node, nodes.paragraph) else None
    return None


def _cut(paragraph: nodes.paragraph) -> nodes.emphasis | None:
    first = next(iter(paragraph.children), None)
    if not isinstance(first, nodes.emphasis):
        return None
    paragraph.remove(first)
    if paragraph.children and isinstance(paragraph[0], nodes.Text):
        paragraph[0] = nodes.Text(paragraph[0].lstrip())
    if not paragraph.astext().strip() and not any(
        True for _ in paragraph.findall(nodes.Element, include_self=False)
    ):
        paragraph.parent.remove(paragraph)
    return first
