"""For the tests of wang2025: verdicts of its ledger on given values, and a story."""

from __future__ import annotations

import re

from ledgers import ledger

from iclbook.claims import Record, Verdict, verdict

LEDGER = ledger("wang2025")
#: A story of the grammar, word by word.
STORY = re.findall(
    r"\S+",
    """
    this is the story of tom the kind rabbit .
    he met anna the bear near the forest .
    anna gave tom a red kite .
    suddenly the red kite broke in two .
    first he tried to fix it with glue .
    so tom asked anna for help .
    at last the kite was whole again .
    they laughed and ate soup .
    tom learned to be patient .
    <eos>
    """,
)


def judge(claim: str, values: dict) -> Verdict:
    """The verdict of the paper profile on these values."""
    records = {k: Record.make(k, v) for k, v in values.items() if k in LEDGER.keys}
    return verdict(LEDGER.claim(f"wang2025/{claim}"), records, "paper")


def failing(result: Verdict) -> set[str]:
    """Keys of the parts that fail."""
    return {p.key for p in result.parts if not p.holds}
