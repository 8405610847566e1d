"""The scoreboard's graph of claims that rest on claims: papers by colour, verdicts by shape, each node a link to its claim."""

from __future__ import annotations

import itertools
from html import escape

from ..drawing.layers import Drawing, drawings
from ..formulas import plain
from .ties import Ties

#: What a shape says, and the SVG inside a box from -8 to 8; ``o`` takes the paper's colour as its outline, ``f`` as its filling.
SHAPES = {
    "holds": '<circle class="f" r="6.5"/>',
    "holds, reduced": '<circle class="o" r="6"/><circle class="f" r="2.5"/>',
    "in part, or it depends": '<path class="f" d="M0-8 8 0 0 8-8 0z"/>',
    "does not hold": '<path class="o" d="M-6-6 6 6M-6 6 6-6"/>',
    "undecided": '<path class="o" d="M0-6.5 7 6H-7z"/>',
}
_SHAPE = {
    "reproduced": "holds",
    "yes": "holds",
    "reproduced (reduced)": "holds, reduced",
    "yes (reduced)": "holds, reduced",
    "partly": "in part, or it depends",
    "it depends": "in part, or it depends",
    "not reproduced": "does not hold",
    "inconsistent": "does not hold",
    "no": "does not hold",
}
#: Where chapters are, from the scoreboard.
FOLDER = "../notebooks/"


def shape(word: str) -> str:
    """What the shape of a verdict's node says."""
    return _SHAPE.get(word, "undecided")


def section(ties: Ties) -> str:
    """The graph's part of the page in MyST Markdown; empty where no claim names a premise."""
    edges = ties.graph.edges
    if not edges:
        return ""
    doubted = sum(bool(ties.doubts(claim)) for claim in ties.graph.rests)
    lines = [
        "## Claims that stand on claims",
        "",
        f"A theorem needs its lemma; a mechanism presupposes the pattern that it explains. {len(edges)} such ties join {len(_nodes(ties))} claims. Read from left to right: "
        "what stands further right rests on what it is joined to. A verdict is that of the claim by itself; where something it rests on does not hold or is undecided, the "
        f"lines are broken and the node has a ring ({doubted} claims).",
        "",
        picture(ties),
        "",
        _listed(ties),
        "",
    ]
    return "\n".join(lines)


def _nodes(ties: Ties) -> list[str]:
    return list(dict.fromkeys(claim for edge in ties.graph.edges for claim in edge))


def picture(ties: Ties) -> str:
    """Legend, and one drawing for each connected part."""
    parts = "".join(_part(drawing, ties) for drawing in drawings(ties.graph.edges))
    return f'<div class="iclbook-premises">{_legend(ties)}{parts}</div>'


def _legend(ties: Ties) -> str:
    there = {ties.paper(claim) for claim in _nodes(ties)}
    papers = [
        f'<span class="iclbook-key {_hue(ties, paper)}">{_symbol("holds")}{escape(ties.names[paper])}</span>'
        for paper in ties.ledgers
        if paper in there
    ]
    shapes = [f'<span class="iclbook-key">{_symbol(name)}{name}</span>' for name in SHAPES]
    return f'<p class="iclbook-legend">{" ".join(papers)}<br>{" ".join(shapes)}</p>'


def _hue(ties: Ties, paper: str) -> str:
    return f"iclbook-hue-{list(ties.ledgers).index(paper) % 6}"


def _symbol(name: str) -> str:
    return f'<svg viewBox="-9 -9 18 18" aria-hidden="true">{SHAPES[name]}</svg>'


def _part(drawing: Drawing, ties: Ties) -> str:
    """One connected part: lines in an SVG that is stretched over the box, nodes at their places in it."""
    lines = "".join(_line(edge, places, ties) for edge, places in drawing.paths.items())
    nodes = "".join(_node(claim, *place, ties) for claim, place in drawing.places.items())
    size = f"--columns: {drawing.columns}; --rows: {drawing.rows}"
    svg = (
        f'<svg class="iclbook-lines" viewBox="0 0 {drawing.columns} {drawing.rows}" preserveAspectRatio="none" '
        f'aria-hidden="true">{lines}</svg>'
    )
    return f'<div class="iclbook-part" style="{size}">{svg}{nodes}</div>'


def _line(edge: tuple[str, str], places: list[tuple[int, float]], ties: Ties) -> str:
    """A curve from node to node; broken where what it starts from does not carry. Nodes stand at a tenth of their column."""
    points = [(column + 0.1, row + 0.5) for column, row in places]
    path = f"M{points[0][0]:g} {points[0][1]:g}"
    for (x, y), (next_x, next_y) in itertools.pairwise(points):
        path += f"C{x + 0.6:g} {y:g} {next_x - 0.4:g} {next_y:g} {next_x:g} {next_y:g}"
    premise, claim = edge
    broken = shape(ties.words[premise]) in ("does not hold", "undecided") or ties.doubts(premise)
    name = ' class="iclbook-broken"' if broken else ""
    return f'<path{name} data-edge="{escape(premise)} {escape(claim)}" d="{path}"/>'


def _node(claim_id: str, column: int, row: float, ties: Ties) -> str:
    claim, verdict = ties.rows[claim_id]
    paper = ties.paper(claim_id)
    doubts = ties.doubts(claim_id)
    says = f"{ties.names[paper]}, {claim.where}: {claim.says} \u2013 {verdict.label}"
    if doubts:
        says += f"; rests on what is in doubt ({'; '.join(ties.rows[d][0].where for d in doubts)})"
    says = escape(plain(says)).replace("\n", " ")
    address = ties.address(claim_id, FOLDER)
    where = f'href="{address}"' if address else 'tabindex="0" role="img"'
    ring = " iclbook-ring" if doubts else ""
    name = escape(claim_id.partition("/")[2].removeprefix("q-"))
    return (
        f'<a class="iclbook-node {_hue(ties, paper)}{ring}" {where} style="--column: {column}; --row: {row:g}" aria-label="{name}. {says}" '
        f'data-says="{says}">{_symbol(shape(verdict.word))}<span>{name}</span></a>'
    )


def _listed(ties: Ties) -> str:
    """The same in words, folded."""
    items = []
    for claim, named in ties.graph.rests.items():
        links = ", ".join(ties.link(premise, ties.paper(claim), FOLDER) for premise in named)
        items.append(f"<li>{ties.link(claim, '', FOLDER)} rests on {links}</li>")
    return f'<details class="iclbook-premises-list"><summary>The same as a list</summary><ul>{"".join(items)}</ul></details>'
