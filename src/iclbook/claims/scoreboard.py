"""All claims of all documents with their verdicts, from the ledgers and the executed chapters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..profiles import check_profile
from ..project import find_root
from . import render
from .ledger import Ledger, all_ledgers
from .margins import load_reference
from .records import read_records
from .verdicts import judge


@dataclass(frozen=True)
class Board:
    """One document's claims with their verdicts.

    Attributes:
        executed: whether there was an executed copy of the chapter to read; without one nothing is tested yet.
    """

    ledger: Ledger
    rows: tuple[render.Row, ...]
    executed: bool


def boards(profile: str = "paper", root: Path | None = None) -> list[Board]:
    """One board for each ledger.

    Raises:
        UserError: unknown profile, malformed ledger, damaged executed copy or reference.
    """
    check_profile(profile)
    root = root or find_root()
    result = []
    for ledger in all_ledgers(root):
        path = root / "executed" / profile / f"{ledger.chapter_name}.ipynb"
        records = read_records(path) if path.is_file() else {}
        verdicts = judge(ledger, records, profile, load_reference(ledger.chapter_name, profile, root))
        rows = tuple((claim, verdicts[claim.id]) for claim in ledger.claims)
        result.append(Board(ledger, rows, path.is_file()))
    return result


def counts(profile: str = "paper", root: Path | None = None) -> dict[str, int]:
    """How many claims have each verdict, over all documents."""
    return render.counts(found for board in boards(profile, root) for _, found in board.rows)


def counts_line(profile: str = "paper", root: Path | None = None) -> str:
    """The counts in one line: ``218 claims: 30 reproduced, 3 partly, ...``."""
    return render.counts_line(counts(profile, root))


def markdown(profile: str = "paper", root: Path | None = None) -> str:
    """The scoreboard's body in MyST Markdown: counts, then one section and table for each document."""
    root = root or find_root()
    found = boards(profile, root)
    total = render.counts(item for board in found for _, item in board.rows)
    per_word = " ".join(f"{render.badge(word)}&nbsp;{number}" for word, number in total.items() if number)
    lines = [f"Profile `{profile}`. {sum(total.values())} claims: {per_word}", ""]
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


def _chapter_line(board: Board, profile: str, root: Path) -> str:
    line = render.counts_line(render.counts(item for _, item in board.rows)) + "."
    if board.ledger.chapter_name in listed_chapters(root):
        link = f"{{doc}}`The chapter </{board.ledger.chapter.removesuffix('.py')}>` tells the story."
        return (
            f"{link} {line}"
            if board.executed
            else f"{link} It has not been run at profile `{profile}`. {line}"
        )
    return f"The chapter is not written yet. {line}"


def listed_chapters(root: Path) -> list[str]:
    """Chapters that the book's table of contents lists."""
    from ..book.inputs import chapters  # the room above: only the page needs to know what can be linked

    return chapters(root)
