"""The scoreboard's page: counts, then every claim of every paper, linked to its chapter."""

from __future__ import annotations

from html import escape
from pathlib import Path

from ..claims import Claim, Verdict, render
from ..claims.scoreboard import Board, boards, counts_line
from ..project import find_root
from .inputs import chapters

__all__ = ["counts_line", "markdown"]


def markdown(profile: str = "paper", root: Path | None = None) -> str:
    """The scoreboard's body in MyST Markdown: counts, then one section and table for each document."""
    root = root or find_root()
    found = boards(profile, root)
    rows = [row for board in found for row in board.rows]
    lines = [f"Profile `{profile}`. {_badges(rows, False, 'claims of the documents')}", ""]
    lines += [_badges(rows, True, "questions of our own"), ""]
    lines += [picture(found, root), ""]
    for board in found:
        lines += [
            f"## {render.plain_markdown(board.ledger.title)}",
            "",
            _chapter_line(board, profile, root),
            "",
        ]
        # The container gives the table its own scroll bar on narrow screens.
        lines += ["````{container} iclbook-scroll", render.table_myst(board.rows), "````", ""]
    return "\n".join(lines)


def picture(found: list[Board], root: Path | None = None) -> str:
    """All claims and questions as an HTML table, one cell each by document and verdict: a link to its place in the chapter, with its sentence on hover and focus."""
    listed = chapters(root or find_root())
    body = []
    for board in found:
        page = (
            f"../{board.ledger.chapter.removesuffix('.py')}.html"
            if board.ledger.chapter_name in listed
            else ""
        )
        title = escape(board.ledger.title)
        claims, questions = (_cells(board.rows, asked, page) for asked in (False, True))
        body.append(
            f'<tr><th scope="row">{title}</th><td>{claims}</td><td class="iclbook-questions">{questions}</td></tr>'
        )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("Document", "Claims", "Questions of our own"))
    return (
        f'<table class="iclbook-picture"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'
    )


def _cells(rows: tuple[render.Row, ...], questions: bool, page: str) -> str:
    order = list(render.counts(rows, questions))
    chosen = [row for row in rows if row[0].is_question == questions]
    chosen.sort(key=lambda row: order.index(row[1].word))
    return "".join(_cell(*row, page) for row in chosen)


def _cell(claim: Claim, verdict: Verdict, page: str) -> str:
    symbol, name = render.SYMBOLS[verdict.word]
    says = escape(f"{claim.where}: {claim.says} \u2013 {verdict.label}", quote=True).replace("\n", " ")
    where = f' href="{page}#{claim.anchor}"' if page else ' tabindex="0"'
    return f'<a class="iclbook-cell iclbook-badge-{name}"{where} aria-label="{says}" data-says="{says}">{symbol}</a>'


def _badges(rows: list[render.Row], questions: bool, what: str) -> str:
    numbers = render.counts(rows, questions)
    per_word = " ".join(f"{render.badge(word)}&nbsp;{number}" for word, number in numbers.items() if number)
    return f"{sum(numbers.values())} {what}: {per_word}"


def _chapter_line(board: Board, profile: str, root: Path) -> str:
    line = f"{render.counts_line(board.rows)}. {render.rules_line(board.rows)}"
    if board.ledger.chapter_name in chapters(root):
        link = f"{{doc}}`The chapter </{board.ledger.chapter.removesuffix('.py')}>` tells the story."
        return (
            f"{link} {line}"
            if board.executed
            else f"{link} It has not been run at profile `{profile}`. {line}"
        )
    return f"The chapter is not written yet. {line}"
