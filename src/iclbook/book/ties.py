"""What a claim rests on and what it carries, written into the badges of chapters when the pages are built, when the verdicts of all chapters are known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path

import nbformat

from ..claims import Claim, Ledger, Verdict
from ..claims.scoreboard import Board, boards
from ..formulas import html, plain
from ..inputs import chapters
from ..replication import fold_lines
from .glance import entries

#: The places that :func:`iclbook.claims.render.verdict_html` leaves.
PLACES = re.compile(r"<!--(doubt|ties) ([^\s>]+)-->")
#: A sentence of doubt names so many premises, the nearest ones.
NAMED = 3


#: How a premise is described that leaves in doubt what rests on it, by the word of its verdict, for one and for several.
DOUBTS = {
    "not reproduced": ("did not reproduce", "did not reproduce"),
    "inconsistent": ("is inconsistent", "are inconsistent"),
    "no": ("is answered no", "are answered no"),
    "too close to call": ("is too close to call", "are too close to call"),
    "out of reach": ("is out of reach", "are out of reach"),
    "not yet tested": ("is not yet tested", "are not yet tested"),
    "open": ("is open", "are open"),
}


@dataclass(frozen=True)
class Premises:
    """The graph, both ways.

    Attributes:
        rests: claim -> the claims that it names as its premises, in the ledger's order.
        carries: claim -> the claims that name it.
    """

    rests: Mapping[str, tuple[str, ...]]
    carries: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, claims: Sequence[Claim]) -> Premises:
        """The graph of these claims."""
        rests = {claim.id: claim.requires for claim in claims if claim.requires}
        carries: dict[str, tuple[str, ...]] = {}
        for claim_id, named in rests.items():
            for premise in named:
                carries[premise] = (*carries.get(premise, ()), claim_id)
        return cls(rests, carries)

    @property
    def edges(self) -> list[tuple[str, str]]:
        """Every (premise, what rests on it) once."""
        return [(premise, claim) for claim, named in self.rests.items() for premise in named]

    def below(self, claim_id: str) -> list[str]:
        """All that a claim rests on, directly or not, the nearest first."""
        found: list[str] = []
        todo = [*self.rests.get(claim_id, ())]
        while todo:
            name = todo.pop(0)
            if name not in found:
                found.append(name)
                todo += self.rests.get(name, ())
        return found

    def doubts(self, claim_id: str, words: Mapping[str, str]) -> list[str]:
        """Those of them that do not hold or are undecided, by the words of their verdicts."""
        return [name for name in self.below(claim_id) if words[name] in DOUBTS]


@dataclass(frozen=True)
class Ties:
    """The graph of premises with all verdicts.

    Attributes:
        rows: claim and verdict by id.
        ledgers: by paper, in the book's order.
        listed: chapters that the book shows; claims of others are named without a link.
        names: how each paper is called in a line.
    """

    rows: Mapping[str, tuple[Claim, Verdict]]
    ledgers: Mapping[str, Ledger]
    listed: frozenset[str]
    names: Mapping[str, str]

    @classmethod
    def of(cls, found: Sequence[Board], root: Path) -> Ties:
        """From the boards of all papers."""
        rows = {claim.id: (claim, verdict) for board in found for claim, verdict in board.rows}
        ledgers = {board.ledger.paper: board.ledger for board in found}
        names = {paper: name_of(ledger, root) for paper, ledger in ledgers.items()}
        return cls(rows, ledgers, frozenset(chapters(root)), names)

    @cached_property
    def graph(self) -> Premises:
        """Who rests on whom."""
        return Premises.of([claim for claim, _ in self.rows.values()])

    @cached_property
    def words(self) -> dict[str, str]:
        """The word of each verdict."""
        return {claim_id: verdict.word for claim_id, (_, verdict) in self.rows.items()}

    def doubts(self, claim_id: str) -> list[str]:
        """The premises that leave a claim in doubt, the nearest first."""
        return self.graph.doubts(claim_id, self.words)

    def paper(self, claim_id: str) -> str:
        """The key of a claim's paper."""
        return claim_id.partition("/")[0]

    def address(self, claim_id: str, folder: str) -> str:
        """Where the claim stands, from a page whose way to the chapters is ``folder``; empty if its chapter is in no book."""
        name = self.ledgers[self.paper(claim_id)].chapter_name
        return f"{folder}{name}.html#{self.rows[claim_id][0].anchor}" if name in self.listed else ""

    def link(self, claim_id: str, home: str, folder: str = "") -> str:
        """A claim's place in its paper as a link, with its sentence as the title; with the paper's name where that is not ``home``."""
        claim, _ = self.rows[claim_id]
        text = html(claim.where)
        if self.paper(claim_id) != home:
            text = f"{escape(self.names[self.paper(claim_id)])}, {text}"
        address = self.address(claim_id, folder)
        return f'<a href="{address}" title="{self.sentence(claim_id)}">{text}</a>' if address else text

    def sentence(self, claim_id: str) -> str:
        """What a claim says, for an attribute."""
        return escape(" ".join(plain(self.rows[claim_id][0].says).split()))


def name_of(ledger: Ledger, root: Path) -> str:
    """``He et al. (2025)``; the title of the chapter where no author is known."""
    found = entries(root).get(ledger.paper)
    people = found.persons.get("author", []) if found is not None else []
    last = [" ".join(person.last_names).strip("{}") for person in people]
    if last in ([], ["Anonymous"]):
        return ledger.title
    return f"{last[0]}{' et al.' if len(last) > 2 else ''.join(f' and {n}' for n in last[1:])} ({found.fields['year']})"


def doubt_sentence(ties: Ties, claim_id: str) -> str:
    """``Rests on X, which did not reproduce.``; empty where nothing that the claim rests on is in doubt."""
    doubts = ties.doubts(claim_id)
    home = ties.paper(claim_id)
    by_word: dict[str, list[str]] = {}
    for name in doubts[:NAMED]:
        by_word.setdefault(ties.words[name], []).append(ties.link(name, home))
    told = [f"on {_and(links)}, which {DOUBTS[word][len(links) > 1]}" for word, links in by_word.items()]
    if len(doubts) > NAMED:
        told.append(f"on {len(doubts) - NAMED} more such")
    return f"Rests {_and(told, ', and ')}." if told else ""


def _and(texts: list[str], last: str = " and ") -> str:
    return last.join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else texts[0]


def both_directions(ties: Ties, claim_id: str) -> str:
    """What the claim rests on and what it carries, a line each for every paper; empty where there is neither."""
    home = ties.paper(claim_id)
    lines = []
    for name, found in (("Rests on", ties.graph.rests), ("Carries", ties.graph.carries)):
        by_paper: dict[str, list[str]] = {}
        for other in sorted(found.get(claim_id, ()), key=lambda other: ties.paper(other) != home):
            by_paper.setdefault(ties.paper(other), []).append(ties.link(other, ties.paper(other)))
        for paper, links in by_paper.items():
            where = "" if paper == home else f", in {escape(ties.names[paper])}"
            lines.append(f'<div class="iclbook-ties">{name}{where}: {"; ".join(links)}</div>')
    return "".join(lines)


def filled(text: str, ties: Ties, redrawn: Mapping[str, str]) -> str:
    """HTML of badges with the places filled in, among them what another draw says; those of claims that no ledger has any more stay empty."""

    def told(match: re.Match) -> str:
        kind, claim_id = match.groups()
        if claim_id not in ties.rows:
            return ""
        if kind == "doubt":
            sentence = doubt_sentence(ties, claim_id)
            return f' <span class="iclbook-doubt">{sentence}</span>' if sentence else ""
        return both_directions(ties, claim_id) + redrawn.get(claim_id, "")

    return PLACES.sub(told, text)


def with_ties(notebook: nbformat.NotebookNode, profile: str, root: Path) -> nbformat.NotebookNode:
    """The notebook with what its badges' claims rest on.

    Raises:
        UserError: a malformed ledger or a damaged copy.
    """
    shown = [
        output["data"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if PLACES.search("".join(output.get("data", {}).get("text/html", "")))
    ]
    if shown:
        ties = Ties.of(boards(profile, root), root)
        redrawn = fold_lines(root) if profile == "paper" else {}
        for data in shown:
            data["text/html"] = filled("".join(data["text/html"]), ties, redrawn)
    return notebook
