"""Verdicts on pages that are no chapters: the scoreboard, with every claim of every paper, and verdicts and values that other pages quote.

``{{ verdict PAPER/ITEM: WORD }}`` becomes the claim's badge, a link to its place in the chapter. WORD is the verdict for which the sentences around it were
written: where the claim came out otherwise, the build warns, so that prose cannot outlive its verdict.
``{{ value PAPER KEY }}`` becomes the value that the chapter recorded, ``{{ unfolded PAPER/ITEM }}`` the claim's whole badge, unfolded.
"""

import re
from functools import partial
from html import escape
from pathlib import Path

from docutils.nodes import make_id

from .. import formulas
from ..claims import render
from ..claims.scoreboard import Board, boards
from ..claims.verdicts import ANSWER_WORDS, WORDS
from ..errors import UserError
from ..inputs import chapters
from .premises import Premises, paper_of

#: The chapters, from the scoreboard.
CHAPTERS = "../notebooks/"


def markdown(profile: str, root: Path) -> str:
    """The scoreboard's body in MyST Markdown: counts, the picture, filters, then one section for each paper with a line for each claim."""
    listed = chapters(root)
    found = boards(profile, root)
    for name in [board.ledger.chapter_name for board in found]:
        if name not in listed:
            raise UserError(
                f"_toc.yml does not list the chapter {name} of a ledger", f"List notebooks/{name} in _toc.yml."
            )
    found = sorted(found, key=lambda board: listed.index(board.ledger.chapter_name))
    rows = [row for board in found for row in board.rows]
    lines = [f"Profile `{profile}`. {_badges(rows, False, 'claims of the papers')}", ""]
    lines += [_badges(rows, True, "questions of our own"), ""]
    lines += [_picture(found), "", _filters(found), ""]
    for board in found:
        summary = f"{render.counts_line(board.rows)}. {render.rules_line(board.rows)}"
        lines += [f"## {render.plain_markdown(board.ledger.title)}", ""]
        lines += [f"{{doc}}`The chapter </notebooks/{board.ledger.chapter_name}>` tells the story. {summary}", ""]
        lines += ["````{container} iclbook-scroll iclbook-list", *_table(board), "````", ""]
    return "\n".join([*lines, *_premises(Premises(found, root))])


def _badges(rows: list[render.Row], questions: bool, what: str) -> str:
    return f"{sum(claim.is_question == questions for claim, _ in rows)} {what}: {render.marks(rows, questions)}"


def _picture(found: list[Board]) -> str:
    """HTML table of claims and questions, one row a paper, one cell each by verdict: a link to its place in the chapter, with its sentence on hover and focus."""
    body = []
    for board in found:
        title = f'<a href="#{make_id(board.ledger.title)}">{escape(board.ledger.title)}</a>'
        claims, questions = (_cells(board, asked) for asked in (False, True))
        asked = f'<span class="iclbook-questions">Questions of our own: {questions}</span>' if questions else ""
        body.append(f'<tr><th scope="row">{title}</th><td>{claims}{asked}</td></tr>')
    return f'<table class="iclbook-picture"><tbody>{"".join(body)}</tbody></table>'


def _cells(board: Board, questions: bool) -> str:
    order = ANSWER_WORDS if questions else WORDS
    chosen = [row for row in board.rows if row[0].is_question == questions]
    cells = ""
    for claim, verdict in sorted(chosen, key=lambda row: order.index(row[1].word)):
        symbol, name, word = render.LOOKS[verdict.word]
        says = escape(formulas.plain(f"{word}: {claim.short} ({claim.where})"))
        look = f'class="iclbook-cell iclbook-badge-{name}" href="{board.place(claim, CHAPTERS)}"'
        cells += f'<a {look} aria-label="{says}" data-says="{says}">{symbol}</a>'
    return cells


def _filters(found: list[Board]) -> str:
    """A form by which ``scoreboard.js`` shows the lines that are asked for; without scripts and in print it is hidden, and all lines are there."""
    words = {render.LOOKS[verdict.word][2] for board in found for _, verdict in board.rows}
    choices = {
        "verdict": {word: word for _, _, word in render.LOOKS.values() if word in words},
        "chapter": {"every": "every chapter"} | {board.ledger.paper: board.ledger.title for board in found},
        "kind": {"claim": "claims of the papers", "question": "questions of our own"},
    }
    boxes = []
    for name, listed in choices.items():
        options = "".join(f'<option value="{escape(value)}">{escape(text)}</option>' for value, text in listed.items())
        boxes.append(f'<label>{name} <select name="{name}"><option value="">any</option>{options}</select></label>')
    boxes.append('<label>text <input type="search" name="text"></label>')
    count = '<output aria-live="polite"></output>'
    return f'<form class="iclbook-filters" aria-label="Which claims to show" hidden>{"".join(boxes)}{count}</form>'


def _table(board: Board) -> list[str]:
    """One line a claim: verdict, sentence, and where, a link to its badge in the chapter. In MyST, so that the book's search finds the sentences."""
    lines = ["| Verdict | What it says | Where |", "|---|---|---|"]
    for claim, verdict in board.rows:
        kind = "question" if claim.is_question else "claim"
        key = f'<span data-verdict="{render.LOOKS[verdict.word][2]}" data-chapter="{board.ledger.paper}" data-kind="{kind}"></span>'
        says = formulas.markdown(claim.short, render.plain_markdown)
        where = formulas.markdown(claim.where, render.plain_markdown).replace("|", "&#124;")
        link = f'<a href="{board.place(claim, CHAPTERS)}">{where}</a>'
        lines.append(f"| {key}{render.sight(verdict)} | {says} | {link} |")
    return lines


def _premises(premises: Premises) -> list[str]:
    """The claims that stand on claims, folded; nothing where no claim names a premise."""
    if not premises.requires:
        return []
    items = ""
    for claim, named in premises.requires.items():
        links = ", ".join(premises.link(premise, paper_of(claim), CHAPTERS) for premise in named)
        items += f"<li>{premises.link(claim, '', CHAPTERS)} depends on {links}</li>"
    doubted = sum(bool(premises.open_premises(claim)) for claim in premises.requires)
    sentences = (
        f"A theorem needs its lemma; a mechanism presupposes the pattern that it explains. {sum(map(len, premises.requires.values()))} such dependences join "
        f"{len({*premises.requires, *premises.required_by})} claims. A verdict is that of the claim by itself: of {doubted} claims something that they depend on "
        "does not hold or is undecided, and their badges say so."
    )
    folded = f"<summary>Premises of the claims</summary><p>{sentences}</p><ul>{items}</ul>"
    return ["## Claims that stand on claims", "", f'<details class="iclbook-premises-list">{folded}</details>', ""]


# -- quotations -------------------------------------------------------------------------------------------------------

MARKER = re.compile(
    r"\{\{ (?:verdict (?P<claim>\S+): (?P<word>[^}]+?)|value (?P<paper>\S+) (?P<key>\S+)"
    r"|unfolded (?P<whole>\S+)) \}\}(?P<end>[.,;:]?)"
)


def filled(text: str, page: str, profile: str, root: Path) -> str:
    """A page's text with its quotations filled in. No such claim or value, and a claim that came out otherwise than the text says, are a UserError."""
    found = {board.ledger.paper: board for board in boards(profile, root)}
    return MARKER.sub(partial(_quotation, found=found, folder="../" * page.count("/") or "./"), text)


def _quotation(match: re.Match, found: dict[str, Board], folder: str) -> str:
    named = match["claim"] or match["whole"]
    paper = match["paper"] or paper_of(named)
    if paper not in found:
        raise UserError(f"there is no paper {paper!r}", f"Choose one of: {', '.join(found)}.")
    board = found[paper]
    if match["paper"]:
        if match["key"] not in board.records:
            raise UserError(f"{paper} recorded no {match['key']!r}", "Name a key that its chapter records.")
        return render.plain_markdown(board.records[match["key"]].text) + match["end"]
    claim = board.ledger.claim(named)
    verdict = next(verdict for other, verdict in board.rows if other is claim)
    if match["whole"]:
        unfolded = render.verdict_html(claim, verdict, anchor=False).replace("<details ", "<details open ", 1)
        return f"```{{raw}} html\n{unfolded}\n```"
    if verdict.label != match["word"]:
        raise UserError(
            f"{claim.id} is {verdict.label!r}, and the text was written for {match['word']!r}",
            "Read the text again and write it for what came out.",
        )
    place = board.place(claim, f"{folder}notebooks/")
    title = escape(formulas.plain(f"{verdict.label}: {claim.short}"))
    badge = f'<a class="iclbook-quoted" href="{place}" title="{title}">{render.mark(verdict.word)}</a>'
    return f'<span class="iclbook-together">{badge}{match["end"]}</span>' if match["end"] else badge
