"""The repository's ledgers, each read once for all tests of a process, whatever book a test works in."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from iclbook.claims import Ledger, load_ledger

ROOT = Path(__file__).resolve().parents[1]


@cache
def ledger(paper: str) -> Ledger:
    """``papers/<paper>/claims.yaml``."""
    return load_ledger(paper, ROOT)
