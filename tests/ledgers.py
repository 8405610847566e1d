"""The repository's ledgers, each read once for all tests of a process, whatever book a test works in; and what their rules say of given values."""

from functools import cache
from pathlib import Path

from iclbook.claims import Ledger, Record, Verdict, load_ledger
from iclbook.claims.verdicts import verdict
from iclbook.statistics import Estimate

ROOT = Path(__file__).resolve().parents[1]
#: Verdicts and answers of a claim that holds, and of one that does not or in part.
GREEN = {"reproduced", "reproduced (reduced)", "yes", "yes (reduced)"}
RED = {"partly", "not reproduced", "inconsistent", "it depends", "no"}


@cache
def ledger(paper: str) -> Ledger:
    """``papers/<paper>/claims.yaml``."""
    return load_ledger(paper, ROOT)


def judge(claim: str, values: dict) -> Verdict:
    """The verdict of the paper profile on these values of ``paper/item``; what its ledger does not know is left out."""
    known, plain = ledger(claim.partition("/")[0]), {}
    for key, value in values.items():
        plain |= {key: value.value, f"{key}_se": value.error} if isinstance(value, Estimate) else {key: value}
    records = {key: Record.make(key, value) for key, value in plain.items() if key in known.keys}
    return verdict(known.claim(claim), records, "paper")


def failing(result: Verdict) -> set[str]:
    """Keys of the parts that fail."""
    return {part.key for part in result.parts if not part.holds}


def holds(claim: str, key: str, value, values: dict | None = None) -> bool:
    """Whether the parts of ``paper/item`` that read ``key`` accept ``value`` beside these others."""
    parts = [part for part in ledger(claim.partition("/")[0]).claim(claim).parts if part.key == key]
    assert parts, f"{claim} has no part on {key}"
    return all(part.rule.check(value, values or {}) for part in parts)
