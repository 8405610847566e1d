"""Verdicts of the claims of all papers, from the ledgers and the executed chapters."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..draw import outputs
from ..project import check_profile, find_root
from . import render
from .ledger import Claim, Ledger, all_ledgers
from .record import Record, read_records
from .references import load_reference, reference_path
from .verdicts import judge


@dataclass(frozen=True)
class Board:
    """One paper's claims with their verdicts, and what its chapter recorded, by key: nothing where there is no executed copy to read."""

    ledger: Ledger
    rows: tuple[render.Row, ...]
    records: Mapping[str, Record]

    def place(self, claim: Claim, folder: str = "") -> str:
        """A claim's badge in its chapter; ``folder`` leads from the page to the chapters."""
        return f"{folder}{self.ledger.chapter_name}.html#{claim.anchor}"


def board(ledger: Ledger, profile: str = "paper", root: Path | None = None) -> Board:
    """The board of one ledger."""
    root = root or find_root()
    name = ledger.chapter_name
    path = outputs(root) / "executed" / check_profile(profile) / f"{name}.ipynb"
    # these change whenever a file is written anew; every page that is built asks for all boards
    files = [file.stat() for file in (path, reference_path(name, profile, root, draw=0)) if file.is_file()]
    return _board(ledger, path, profile, root, tuple((file.st_ino, file.st_size, file.st_mtime_ns) for file in files))


@lru_cache(maxsize=256)
def _board(ledger: Ledger, path: Path, profile: str, root: Path, files: tuple) -> Board:
    records = read_records(path) if path.is_file() else {}
    verdicts = judge(ledger, records, profile, load_reference(ledger.chapter_name, profile, root))
    return Board(ledger, tuple((claim, verdicts[claim.id]) for claim in ledger.claims), records)


def boards(profile: str = "paper", root: Path | None = None) -> list[Board]:
    """One board for each ledger."""
    root = root or find_root()
    return [board(ledger, profile, root) for ledger in all_ledgers(root)]
