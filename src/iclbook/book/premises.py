"""Premises of a claim and the claims that depend on it, written into the badges of chapters when the pages are built and all verdicts are known."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import nbformat

from ..claims import Ledger
from ..claims.render import LOOKS
from ..claims.scoreboard import Board, boards
from ..formulas import html, plain
from ..project import cell_outputs
from ..replication import fold_lines
from .chapter_head import authors, entries
from .cite import linked

#: The places that :func:`iclbook.claims.render.verdict_html` leaves.
PLACES = re.compile(r"<!--(open|premises) ([^\s>]+)-->")
#: Number of premises that a sentence names, the nearest ones first.
NAMED = 3
#: Words that leave dependent claims open.
OPEN = ("fails", "no", "undecided", "untested")


class Premises:
    """The graph of premises: all claims with their verdicts, and which depends on which."""

    def __init__(self, found: Sequence[Board], root: Path) -> None:
        self.rows = {claim.id: (claim, verdict) for board in found for claim, verdict in board.rows}
        self.requires = {claim.id: claim.requires for claim, _ in self.rows.values() if claim.requires}
        self.required_by: dict[str, list[str]] = {}
        for claim_id, premises in self.requires.items():
            for premise in premises:
                self.required_by.setdefault(premise, []).append(claim_id)
        self.names = {board.ledger.paper: _name(board.ledger, root) for board in found}
        self._boards = {board.ledger.paper: board for board in found}

    def word(self, claim_id: str) -> str:
        """The word of a claim's verdict, as pages show it."""
        return LOOKS[self.rows[claim_id][1].word][2]

    def open_premises(self, claim_id: str) -> list[str]:
        """Premises of a claim, direct or not, that do not hold or are undecided, the nearest first."""
        found = list(self.requires.get(claim_id, ()))
        for name in found:  # which grows
            found += [premise for premise in self.requires.get(name, ()) if premise not in found]
        return [name for name in found if self.word(name) in OPEN]

    def link(self, claim_id: str, home: str, folder: str = "") -> str:
        """A claim's place in its paper as a link, with its sentence as the title; with the paper's name where that is not ``home``.

        Args:
            folder: from the page to the chapters.
        """
        claim, paper = self.rows[claim_id][0], paper_of(claim_id)
        text = html(claim.where) if paper == home else f"{escape(self.names[paper])}, {html(claim.where)}"
        says = escape(plain(claim.short))
        return f'<a href="{self._boards[paper].place(claim, folder)}" title="{says}">{text}</a>'


def paper_of(claim_id: str) -> str:
    """The key of a claim's paper."""
    return claim_id.partition("/")[0]


def _name(ledger: Ledger, root: Path) -> str:
    """``He et al. (2025)``; the title of the chapter where no author is known."""
    entry = entries(root).get(ledger.paper)
    names = authors(entry) if entry is not None else ""
    return f"{names} ({entry.fields['year']})" if names not in ("", "Anonymous") else ledger.title


def premise_sentence(premises: Premises, claim_id: str) -> str:
    """``Depends on X (fails), Y (undecided).``; empty where no premise is open."""
    unsettled = premises.open_premises(claim_id)
    named = [f"{premises.link(name, paper_of(claim_id))} ({premises.word(name)})" for name in unsettled[:NAMED]]
    more = [f"{len(unsettled) - NAMED} more such"] if len(unsettled) > NAMED else []
    return f"Depends on {', '.join(named + more)}." if named else ""


def both_directions(premises: Premises, claim_id: str) -> str:
    """Premises of a claim and claims that need it, a line each for every paper; empty where there is neither."""
    home = paper_of(claim_id)
    lines = []
    for name, found in (("Depends on", premises.requires), ("Needed by", premises.required_by)):
        by_paper: dict[str, list[str]] = {}
        for other in sorted(found.get(claim_id, ()), key=lambda other: paper_of(other) != home):
            by_paper.setdefault(paper_of(other), []).append(premises.link(other, paper_of(other)))
        for paper, links in by_paper.items():
            where = "" if paper == home else f", in {escape(premises.names[paper])}"
            lines.append(f'<div class="iclbook-premises">{name}{where}: {"; ".join(links)}</div>')
    return "".join(lines)


def filled(text: str, premises: Premises, redrawn: Mapping[str, str]) -> str:
    """HTML of badges with the places filled in, among them what another draw says; those of claims that no ledger has any more stay empty."""

    def content(match: re.Match) -> str:
        kind, claim_id = match.groups()
        if claim_id not in premises.rows:
            return ""
        if kind == "premises":
            return both_directions(premises, claim_id) + redrawn.get(claim_id, "")
        sentence = premise_sentence(premises, claim_id)
        return f' <span class="iclbook-open-premise">{sentence}</span>' if sentence else ""

    return PLACES.sub(content, text)


def with_premises(notebook: nbformat.NotebookNode, profile: str, root: Path) -> nbformat.NotebookNode:
    """The notebook with the premises of its badges' claims."""
    premises = Premises(boards(profile, root), root)
    redrawn = fold_lines(root) if profile == "paper" else {}
    for output in cell_outputs(notebook):
        data = output.get("data", {})
        if "text/html" in data:
            data["text/html"] = linked(filled("".join(data["text/html"]), premises, redrawn), root)
    return notebook
