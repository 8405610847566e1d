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


#: Verdicts and answers of a claim that holds, and of one that does not or in part.
GREEN = {"reproduced", "reproduced (reduced)", "yes", "yes (reduced)"}
RED = {"partly", "not reproduced", "inconsistent", "it depends", "no"}
