"""For the tests of agarwal2025: what the rules of its ledger accept."""

from __future__ import annotations

from ledgers import ledger

LEDGER = ledger("agarwal2025")


def holds(claim: str, key: str, value, reading: str | None = None) -> bool:
    """Whether the parts of this claim that read ``key`` accept ``value``."""
    parts = [p for p in LEDGER.claim(f"agarwal2025/{claim}").parts if p.key == key]
    parts = [p for p in parts if reading is None or p.reading == reading]
    assert parts, f"{claim} has no part on {key}"
    return all(p.rule.check(value, {}) for p in parts)
