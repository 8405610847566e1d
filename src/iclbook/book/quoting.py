"""Verdicts and measured values quoted on pages that are no chapters, such as *What we found*.

``{{ verdict PAPER/ITEM: WORD }}`` becomes the claim's badge, a link to its place in the chapter. WORD is the verdict for which the sentences around it were
written: where the claim came out otherwise, the build warns, so that prose cannot outlive its verdict.
``{{ value PAPER KEY }}`` becomes the value that the chapter recorded, ``{{ unfolded PAPER/ITEM }}`` the claim's whole badge, unfolded.
"""

from __future__ import annotations

import re
from functools import partial
from html import escape
from pathlib import Path

from ..claims import render
from ..claims.scoreboard import Board, boards
from ..errors import UserError
from ..formulas import plain

MARKER = re.compile(
    r"\{\{ (?:verdict (?P<claim>\S+): (?P<word>[^}]+?)|value (?P<paper>\S+) (?P<key>\S+)"
    r"|unfolded (?P<whole>\S+)) \}\}"
)


def quote(text: str, folder: str, profile: str, root: Path) -> str:
    """A page's text with its quotations filled in.

    Args:
        folder: from the page to the book's folder, such as ``..``.

    Raises:
        UserError: no such claim or value; a claim that came out otherwise than the text says.
    """
    found = {board.ledger.paper: board for board in boards(profile, root)}
    return MARKER.sub(partial(_filled, found=found, folder=folder), text)


def _filled(match: re.Match, found: dict[str, Board], folder: str) -> str:
    if match["paper"] is not None:
        return _value(found, match["paper"], match["key"])
    named = match["claim"] or match["whole"]
    board = _board(found, named.partition("/")[0])
    rows = {claim.id: (claim, verdict) for claim, verdict in board.rows}
    if named not in rows:
        board.ledger.claim(named)  # names the nearest
    claim, verdict = rows[named]
    if match["whole"]:
        unfolded = render.verdict_html(claim, verdict, anchor=False).replace("<details ", "<details open ", 1)
        return f"```{{raw}} html\n{unfolded}\n```"
    if verdict.label != match["word"]:
        raise UserError(
            f"{claim.id} is {verdict.label!r}, and the text was written for {match['word']!r}",
            "Read the text again and write it for what came out.",
        )
    page = f"{folder}/{board.ledger.chapter.removesuffix('.py')}.html#{claim.anchor}"
    title = escape(plain(" ".join(f"{verdict.label}: {claim.says}".split())))
    return f'<a class="iclbook-quoted" href="{page}" title="{title}">{render.mark(verdict.word)}</a>'


def _value(found: dict[str, Board], paper: str, key: str) -> str:
    records = _board(found, paper).records
    if key not in records:
        raise UserError(f"{paper} recorded no {key!r}", "Name a key that its chapter records.")
    return render.plain_markdown(records[key].text)


def _board(found: dict[str, Board], paper: str) -> Board:
    if paper not in found:
        raise UserError(f"there is no paper {paper!r}", f"Choose one of: {', '.join(found)}.")
    return found[paper]
