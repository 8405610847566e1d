"""The book beside another draw of itself: rules that were frozen before, verdicts that came out otherwise, whether errors say how far values move.

Below ``references/replication``:

- ``rules.json`` freezes the rules: a digest of what judges each claim.
- ``DRAW/verdicts.json`` has every verdict that the draws before DRAW decide and, as predicted before it was made, how likely DRAW alone contradicts it or leaves it
  undecided. The verdict by DRAW alone is added once, when it is judged, and stays whatever rules become.
- ``DRAW/PROFILE/CHAPTER.json`` are the values of a draw (:mod:`iclbook.draw`), as ``iclbook check --draw DRAW --update`` leaves them.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from . import formulas
from .claims import Claim, Ledger, Record, Verdict, all_ledgers, judge
from .claims.references import Reference, agrees, pooled, read_reference, reference_path, tolerance
from .claims.repeats import imagined
from .claims.verdicts import SILENT, TOO_CLOSE, PartResult
from .draw import number as draw_number
from .errors import UserError
from .files import reading, write_whole
from .project import ends_in_one_line, find_root
from .sources import short
from .store import folder, read_provenance

#: Where the frozen rules lie, below the book's root.
RULES = Path("references") / "replication" / "rules.json"


def freeze(root: Path) -> None:
    """Write the digest of every claim's rules: from then on a draw judges by these or not at all. Predictions of what was not judged yet are made anew."""
    found = {claim.id: claim.rules_digest for ledger in all_ledgers(root) for claim in ledger.claims}
    write_whole(root / RULES, json.dumps(found, indent=1) + "\n")
    for path in (root / RULES).parent.glob("*/verdicts.json"):
        if not any("alone" in entry for entry in entries(int(path.parent.name), root).values()):
            path.unlink()


def require_frozen(ledgers: Iterable[Ledger], root: Path) -> None:
    """Refuse to judge another draw by rules that were written after they were frozen."""
    with reading(root / RULES, "Restore it from git."):
        known = dict(json.loads((root / RULES).read_text(encoding="utf-8"))) if (root / RULES).is_file() else {}
    changed = [claim.id for ledger in ledgers for claim in ledger.claims if known.get(claim.id) != claim.rules_digest]
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        hint = "Freeze them first, `python -m iclbook.replication`, and commit that before anything is drawn."
        raise UserError(f"the rules of {', '.join(changed[:3])}{more} are not the frozen ones", hint)


#: Claim id -> the verdict before a draw; ``contradicted`` and ``undecided``, the predicted probabilities, where there was a prediction; ``alone``, the verdict by that
#: draw alone, and ``moved``, whether a value that it rests on moved, once it is judged.
Entries = dict[str, dict[str, Any]]


def _entries_path(draw: int, root: Path) -> Path:
    return root / "references" / "replication" / str(draw) / "verdicts.json"


def entries(draw: int, root: Path) -> Entries:
    """What was predicted and found at a draw; empty where nothing was written down."""
    path = _entries_path(draw, root)
    if not path.is_file():
        return {}
    with reading(path, "Restore it from git."):
        found = {claim: dict(entry) for claim, entry in dict(json.loads(path.read_text(encoding="utf-8"))).items()}
        if not all(isinstance(entry["before"], str) for entry in found.values()):
            raise ValueError("a verdict is not a word")
        return found


def _write_entries(draw: int, found: Entries, root: Path) -> None:
    lines = ",\n".join(f" {json.dumps(claim)}: {json.dumps(entry)}" for claim, entry in found.items())  # a line a claim
    write_whole(_entries_path(draw, root), f"{{\n{lines}\n}}\n")


def predict(draw: int, root: Path) -> None:
    """Write down, before a draw is made, what the draws before it decide and how likely it alone contradicts each verdict or leaves it undecided."""
    ledgers = all_ledgers(root)
    require_frozen(ledgers, root)
    if not entries(draw, root):
        _write_entries(draw, predicted(draw, ledgers, root), root)


def predicted(draw: int, ledgers: Sequence[Ledger], root: Path) -> Entries:
    """What a draw will do to the verdicts that those before it decide, as it stands now."""
    found = {}
    for ledger in ledgers:
        reference = _before(ledger, draw, root) or Reference({})
        records = {key: Record.make(key, value) for key, value in reference.records.items()}
        verdicts = judge(ledger, records, "paper", reference)
        for i, claim in enumerate(ledger.claims):
            word = verdicts[claim.id].word
            if word not in (TOO_CLOSE, *SILENT):
                contradicted, undecided = imagined(claim, verdicts[claim.id], "paper", i)
                found[claim.id] = {"before": word, "contradicted": contradicted, "undecided": undecided}
    return found


def keep_verdicts(draw: int, ledger: Ledger, root: Path) -> None:
    """Add what a draw alone says of a chapter's claims; what was added before stays."""
    found, now = entries(draw, root), next(r for r in replicas(draw, root) if r.ledger.paper == ledger.paper)
    for pair in now.pairs():
        entry = found.get(pair.claim.id)
        if entry is not None and "alone" not in entry:
            entry.update(alone=pair.second.word, moved=bool(pair.moved))
    _write_entries(draw, found, root)


@dataclass(frozen=True)
class Pair:
    """A claim's verdicts: the book's before a draw, which pool the draws made before it, and that draw's own.

    Attributes:
        moved: every part that rests on a value that moved by more than rounding, by its name with its reading.
    """

    ledger: Ledger
    claim: Claim
    first: Verdict
    second: Verdict
    moved: frozenset[str]

    @property
    def decided(self) -> bool:
        """Whether the book decides it and the other draw can contradict it: not what is too close to call, out of reach or untested."""
        return self.first.word not in (TOO_CLOSE, *SILENT) and self.second.word not in SILENT

    @property
    def differs(self) -> bool:
        """Whether the other draw gives another word."""
        return self.decided and self.first.word != self.second.word

    def parts(self) -> list[tuple[PartResult, PartResult]]:
        """The parts that were recorded at both draws."""
        after = {part.full_name: part for part in self.second.parts}
        return [(part, after[part.full_name]) for part in self.first.parts if part.full_name in after]

    def turned(self) -> list[tuple[PartResult, PartResult]]:
        """The parts that hold at one draw and fail at the other."""
        return [(before, after) for before, after in self.parts() if before.holds != after.holds]

    def outcome(self) -> str:
        """The other draw's verdict in HTML: the same, with the parts or the reading that differ under it, or another word."""
        if self.differs:
            return f"<em>{self.second.word}</em>"
        names = [formulas.html(before.full_name) for before, _ in self.turned()]
        if self.second.reading not in (self.first.reading, None):
            names.append(f"decided by the reading {formulas.html(self.second.reading)}")
        return f"the same verdict; what differs: {', '.join(names)}" if names else "the same verdict"

    def late(self) -> Counter[bool]:
        """Counts of late parts on a moved value that come out as before (True) and that do not."""
        late = [pair for pair in self.parts() if pair[0].late and pair[0].full_name in self.moved]
        return Counter(before.holds == after.holds for before, after in late)


@dataclass(frozen=True)
class Replica:
    """A chapter's reference, with the records of the draws before, and that of a draw."""

    ledger: Ledger
    first: Reference
    second: Reference

    def pairs(self) -> list[Pair]:
        """Claims whose rules are those of the other draw, judged twice with the same tolerances."""
        # the draw by its own values alone
        both = [{k: Record.make(k, value) for k, value in r.records.items()} for r in (self.first, self.second)]
        by = self.first, replace(self.first, draws=())
        verdicts = [judge(self.ledger, *each) for each in zip(both, ("paper", "paper"), by, strict=True)]
        pairs = []
        for claim in self.ledger.claims:
            if self.second.rules.get(claim.id) == claim.rules_digest:
                parts = [part for part in claim.parts if any(map(self.is_drawn, part.with_error(both[0]).keys))]
                moved = frozenset(part.full_name for part in parts)
                own = (found[claim.id] for found in verdicts)
                pairs.append(Pair(self.ledger, claim, *own, moved))
        return pairs

    def unfounded(self) -> list[str]:
        """Claims whose stored verdict at the other draw is not what the values stored beside it give, or that lost the digest of their rules."""
        records = {key: Record.make(key, value) for key, value in self.second.records.items()}
        now, then, rules = judge(self.ledger, records, "paper", self.second), self.second.verdicts, self.second.rules
        found = [c.id for c in self.ledger.claims if c.id in then and c.id not in rules]
        same = [c.id for c in self.ledger.claims if c.id in then and rules.get(c.id) == c.rules_digest]
        return found + [each for each in same if then[each] not in (now[each].word, *SILENT)]

    def is_drawn(self, key: str) -> bool:
        """Whether a value that both draws recorded moved by more than rounding, and so rests on something random."""
        before, after = self.first.records.get(key), self.second.records.get(key)
        if None in (before, after):
            return False
        return not agrees(after, before, tolerance(before, self.first.spread.get(key, 0.0)))

    def deviations(self) -> dict[str, np.ndarray]:
        """Key -> difference of the draw and the mean of those before in units of their joint standard error, of every value that carries one and that moved.

        A share of 0 or 1 that comes out the same has an error all the same, for what so few trials can show; it says nothing here.
        """
        found, before = {}, {**self.first.records, **pooled(self.first)}
        for key in filter(self.is_drawn, before):
            draws, names = (before, self.second.records), (key, f"{key}_se")
            four = [np.atleast_1d(values.get(name, np.nan)) for name in names for values in draws]
            if names[1] not in before or len({x.shape for x in four}) > 1:
                continue
            moved, joint = four[1] - four[0], np.hypot(*four[2:])
            kept = np.isfinite(moved) & (joint > 0) & (moved != 0)
            if kept.any():
                found[key] = moved[kept] / joint[kept]
        return found


def drawn(root: Path) -> list[int]:
    """Numbers of the draws beside the book's whose references are there."""
    folders = (root / "references" / "replication").glob("*/paper")
    return sorted(int(path.parent.name) for path in folders if path.parent.name.isdigit())


def _before(ledger: Ledger, draw: int, root: Path) -> Reference | None:
    """The book's reference of a chapter with the records of the draws before one; None where there is none yet."""
    numbers = (0, *(k for k in drawn(root) if 0 < k < draw))
    paths = [reference_path(ledger.chapter_name, "paper", root, draw=k) for k in numbers]
    if not paths[0].is_file():
        return None
    first, *others = (read_reference(path, root) for path in paths if path.is_file())
    return replace(first, draws=tuple(each.records for each in others))


def replicas(draw: int, root: Path) -> list[Replica]:
    """Chapters that were run at a draw, beside the book's reference and its draws before."""
    found = []
    for ledger in all_ledgers(root):
        first, path = _before(ledger, draw, root), reference_path(ledger.chapter_name, "paper", root, draw=draw)
        if first is not None and path.is_file():
            found.append(Replica(ledger, first, read_reference(path, root)))
    return found


def made_by(paper: str, study: str, root: Path) -> str:
    """Digest of the code that made the book's own results of a study; empty where there are none."""
    there = (folder(paper, "paper", root) / f"{study}.json").is_file()
    return short(read_provenance(paper, "paper", study, root)["source"]) if there else ""


def keep_provenance(paper: str, profile: str, root: Path) -> None:
    """Keep where a paper's studies of this draw come from, ``{study: ...}`` with the checksums of their arrays, which stay in ``draws/``."""
    names = sorted(path.stem for path in folder(paper, profile, root).glob("*.json"))
    made = {name: read_provenance(paper, profile, name, root) for name in names}
    entries = ("device", "seconds", "python", "torch", "numpy", "files")  # the configuration is the book's
    kept = {name: {key: about[key] for key in entries} for name, about in made.items()}
    kept = {name: about | {"code": short(made[name]["source"])} for name, about in kept.items()}
    path = root / "references" / "replication" / str(draw_number()) / "provenance" / profile / f"{paper}.json"
    write_whole(path, json.dumps(kept, indent=1) + "\n")


def fold_lines(root: Path) -> dict[str, str]:
    """Claim id -> what its verdict's fold says of other draws, in HTML; nothing of what rests on no value that moved."""
    lines: dict[str, str] = {}
    for pair in (pair for k in drawn(root) for replica in replicas(k, root) for pair in replica.pairs()):
        if not (pair.decided and pair.moved):
            continue
        late = pair.late()
        rule = f"; {late[True]} of {late.total()} late rules come out as before" if late else ""
        line = f'<div class="iclbook-premises">Drawn anew: {pair.outcome()}{rule}</div>'
        lines[pair.claim.id] = lines.get(pair.claim.id, "") + line
    return lines


if __name__ == "__main__":
    with ends_in_one_line():
        predict(draw_number(), find_root()) if draw_number() else freeze(find_root())
