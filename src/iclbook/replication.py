"""The book beside another draw of itself: rules that were frozen before, verdicts that came out otherwise, and whether errors say how far values move.

``references/replication/rules.json`` freezes the rules: a digest of what judges each claim. ``references/replication/DRAW/PROFILE/CHAPTER.json`` are the values and
verdicts of a draw (:mod:`iclbook.draw`), as ``iclbook check --draw DRAW --update`` leaves them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from .claims import Claim, Ledger, Record, Verdict, all_ledgers, judge
from .claims.verdicts import NOT_YET_TESTED, OPEN, OUT_OF_REACH, TOO_CLOSE, PartResult
from .errors import UserError
from .files import write_whole
from .project import find_root
from .references import Reference, agrees, read_reference, reference_path

#: Verdicts that decide nothing, so that no other draw can contradict them.
UNDECIDED = (OUT_OF_REACH, NOT_YET_TESTED, OPEN, TOO_CLOSE)


def rules_path(root: Path) -> Path:
    """Where the frozen rules lie."""
    return root / "references" / "replication" / "rules.json"


def rules_of(claim: Claim) -> str:
    """Digest of all that judges a claim: rules, keys, errors, controls and readings of its parts, and how they make a verdict; no sentence of it."""
    parts = [(p.key, p.rule.text, p.error, p.reading, p.printed, p.refuses and astuple(p.refuses)) for p in claim.parts]
    judged = (parts, claim.decides, claim.reduced is None, claim.fails_as, claim.conjunction)
    return hashlib.sha256(repr(judged).encode()).hexdigest()[:16]


def freeze(root: Path) -> None:
    """Write the digest of every claim's rules: from then on a draw judges by these or not at all."""
    found = {claim.id: rules_of(claim) for ledger in all_ledgers(root) for claim in ledger.claims}
    write_whole(rules_path(root), json.dumps(found, indent=1) + "\n")


def frozen(root: Path) -> dict[str, str]:
    """Claim id -> digest of its frozen rules; empty where nothing is frozen."""
    path = rules_path(root)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def require_frozen(ledgers: Iterable[Ledger], root: Path) -> None:
    """Refuse to judge another draw by rules that were written after they were frozen.

    Raises:
        UserError: the first claims whose rules are not the frozen ones.
    """
    known = frozen(root)
    changed = [claim.id for ledger in ledgers for claim in ledger.claims if known.get(claim.id) != rules_of(claim)]
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise UserError(
            f"the rules of {', '.join(changed[:3])}{more} are not the frozen ones",
            "Freeze them first, `python -m iclbook.replication`, and commit that before anything is drawn.",
        )


@dataclass(frozen=True)
class Pair:
    """A claim's verdicts at both draws."""

    ledger: Ledger
    claim: Claim
    first: Verdict
    second: Verdict

    @property
    def decided(self) -> bool:
        """Whether the book decides it: not what is out of reach, untested or too close to call."""
        return self.first.word not in UNDECIDED

    @property
    def differs(self) -> bool:
        """Whether the other draw gives another word."""
        return self.decided and self.first.word != self.second.word

    def parts(self) -> list[tuple[PartResult, PartResult]]:
        """The parts, each at both draws."""
        return list(zip(self.first.parts, self.second.parts, strict=True))


@dataclass(frozen=True)
class Replica:
    """A chapter's two references."""

    ledger: Ledger
    first: Reference
    second: Reference

    def pairs(self, rules: dict[str, str]) -> list[Pair]:
        """Every claim whose rules are the frozen ones still, judged twice by one yardstick."""
        # read without what other draws say: each by its own values
        verdicts = [judge(self.ledger, _records(r), "paper", self.first) for r in (self.first, self.second)]
        kept = [claim for claim in self.ledger.claims if rules.get(claim.id) == rules_of(claim)]
        return [Pair(self.ledger, claim, *(found[claim.id] for found in verdicts)) for claim in kept]

    def is_drawn(self, key: str) -> bool:
        """Whether a value moved by more than rounding, and so rests on something random."""
        values = (r.records.get(key) for r in (self.second, self.first))
        return key in self.first.records and not agrees(*values, self.first.spread.get(key, 0.0))

    def rests_on_chance(self, pair: Pair) -> bool:
        """Whether any value that decides a claim moved by more than rounding."""
        parts = (part.with_error(self.first.records) for part in pair.claim.parts)
        return any(self.is_drawn(key) for part in parts for key in part.keys)

    def deviations(self) -> dict[str, np.ndarray]:
        """Key -> difference of the two draws in units of their joint standard error, of every value that carries one at both and that moved.

        A share of 0 or 1 that comes out the same has an error all the same, for what so few trials can show; it says nothing here.
        """
        found = {}
        for key in self.first.records:
            pairs = [
                [np.atleast_1d(r.records.get(k, np.nan)) for r in (self.first, self.second)] for k in (key, f"{key}_se")
            ]
            if f"{key}_se" not in self.first.records or len({x.shape for pair in pairs for x in pair}) > 1:
                continue
            (before, after), (error, other) = pairs
            joint = np.hypot(error, other)
            kept = np.isfinite(after - before) & (joint > 0) & (after != before)
            if kept.any():
                found[key] = ((after - before) / np.where(joint > 0, joint, 1))[kept]
        return found


def _records(reference: Reference) -> dict[str, Record]:
    return {key: Record.make(key, value) for key, value in reference.records.items()}


def replicas(draw: int, root: Path | None = None) -> list[Replica]:
    """Every chapter that was run at a draw, beside the book's.

    Raises:
        UserError: a damaged reference.
    """
    root = root or find_root()
    found = []
    for ledger in all_ledgers(root):
        paths = [reference_path(ledger.chapter_name, "paper", root, draw=k) for k in (0, draw)]
        if all(path.is_file() for path in paths):
            found.append(Replica(ledger, *(read_reference(path, root) for path in paths)))
    return found


if __name__ == "__main__":
    freeze(find_root())
