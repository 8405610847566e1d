"""The scoreboard's page: counts, then every claim of every paper, linked to its chapter."""

from __future__ import annotations

from pathlib import Path

from ..claims import render
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
