"""For the tests of wang2025: verdicts of its ledger on given values."""

from __future__ import annotations

from ledgers import ledger

from iclbook.claims import Record, Verdict, verdict
from iclbook.statistics import Estimate

LEDGER = ledger("wang2025")


def judge(claim: str, values: dict) -> Verdict:
    """The verdict of the paper profile on these values."""
    plain = {}
    for key, value in values.items():
        if isinstance(value, Estimate):
            plain[f"{key}_se"], value = value.error, value.value
        plain[key] = value
    records = {k: Record.make(k, v) for k, v in plain.items() if k in LEDGER.keys}
    return verdict(LEDGER.claim(f"wang2025/{claim}"), records, "paper")


def failing(result: Verdict) -> set[str]:
    """Keys of the parts that fail."""
    return {p.key for p in result.parts if not p.holds}
