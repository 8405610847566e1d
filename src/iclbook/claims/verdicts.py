"""The verdict of a claim, computed from what a notebook recorded; never typed by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import UserError
from ..profiles import at_least
from .ledger import Claim, Part
from .records import Record
from .rules import MissingRecord, RuleMismatch, Value

REPRODUCED = "reproduced"
REDUCED = "reproduced (reduced)"
PARTLY = "partly"
NOT_REPRODUCED = "not reproduced"
INCONSISTENT = "inconsistent"
OUT_OF_REACH = "out of reach"
NOT_YET_TESTED = "not yet tested"

#: Every verdict, in the order in which the scoreboard counts them.
WORDS = (REPRODUCED, REDUCED, PARTLY, NOT_REPRODUCED, INCONSISTENT, OUT_OF_REACH, NOT_YET_TESTED)


@dataclass(frozen=True)
class PartResult:
    """A measured value against its rule."""

    name: str
    key: str
    value: Value
    text: str
    rule: str
    holds: bool
    because: str
    reading: str | None = None


@dataclass(frozen=True)
class Verdict:
    """What came out for one claim.

    Attributes:
        word: one of ``WORDS``.
        remark: what the parts do not show: the profile, the reading, the missing key, the command to run.
        parts: every measured part, whether it holds or not.
        reading: the reading of the document under which the claim holds, where the ledger lists several.
        sides: which parts hold and which fail, with the measured values of the failing ones; empty unless one fails.
    """

    word: str
    remark: str = ""
    parts: tuple[PartResult, ...] = ()
    reading: str | None = None
    sides: str = ""

    @property
    def note(self) -> str:
        """The reason in one line; may be empty."""
        return "; ".join(text for text in (self.sides, self.remark) if text)

    def _ipython_display_(self) -> None:
        """Nothing: ``Recorder.verdict`` has already shown the badge."""


def verdict(claim: Claim, records: Mapping[str, Record], profile: str) -> Verdict:
    """Judge a claim by what was recorded at ``profile``.

    Parts without a reading are common to all readings. The claim holds if the common parts and all parts of any one reading
    hold. Every part must have been recorded, those of the other readings too: a reading cannot win by being the only one
    measured.

    Raises:
        UserError: unknown profile; a rule that does not fit the kind of value recorded.
    """
    decisive = at_least(profile, claim.decides)
    results, missing = _measure(claim, records)
    if claim.out_of_reach is not None:
        stand_in = f"stand-in: {_sides(results)}" if results else ""
        return Verdict(OUT_OF_REACH, claim.out_of_reach, results, sides=stand_in)
    if not claim.parts:
        return Verdict(NOT_YET_TESTED, "no rule yet")
    if missing:
        return Verdict(NOT_YET_TESTED, "not recorded: " + ", ".join(missing), results)

    best = _best_reading(results)
    considered = [part for part in results if part.reading in (None, best)]
    remarks = [claim.reduced] if claim.reduced is not None else []
    if all(part.holds for part in considered):
        if best is not None:
            remarks.append(f"reading: {best}")
        if not decisive:
            remarks.append(f"at the {profile} profile; the {claim.decides} profile decides")
        word = REPRODUCED if decisive and claim.reduced is None else REDUCED
        return Verdict(word, "; ".join(remarks), results, best)

    if not decisive:
        remarks.append(f"the rule fails at the {profile} profile; the {claim.decides} profile decides")
        word = NOT_YET_TESTED
    elif claim.fails_as == INCONSISTENT:
        word = INCONSISTENT
    elif any(part.holds for part in considered):
        word = PARTLY
    elif claim.reduced is not None:  # a failure at a smaller scale says nothing about the document's
        remarks.append("the rule fails at this scale, which does not decide")
        word = NOT_YET_TESTED
    else:
        word = NOT_REPRODUCED
    readings = list(dict.fromkeys(part.reading for part in results if part.reading is not None))
    if len(readings) > 1:
        remarks.append("readings tried: " + ", ".join(readings))
    return Verdict(word, "; ".join(remarks), results, sides=_sides(considered))


def _measure(claim: Claim, records: Mapping[str, Record]) -> tuple[tuple[PartResult, ...], list[str]]:
    values = {key: record.value for key, record in records.items()}
    results: list[PartResult] = []
    missing: list[str] = []
    for part in claim.parts:
        try:
            if part.key not in records:
                raise MissingRecord(part.key)
            results.append(_result(part, records[part.key], values))
        except MissingRecord as absent:
            if absent.key not in missing:
                missing.append(absent.key)
        except RuleMismatch as problem:
            raise UserError(
                f"{claim.id}, part {part.name!r}: rule {part.rule.text!r} does not fit what {part.key!r} recorded ({problem})",
                "Change the rule in the ledger or the value that the notebook records.",
            ) from None
    return tuple(results), missing


def _result(part: Part, record: Record, values: Mapping[str, Value]) -> PartResult:
    return PartResult(
        name=part.name,
        key=part.key,
        value=record.value,
        text=record.text if len(record.text) <= 80 else record.text[:60].rstrip(", ") + ", \u2026",
        rule=part.rule.describe(values),
        holds=part.rule.check(record.value, values),
        because=part.because,
        reading=part.reading,
    )


def _best_reading(results: tuple[PartResult, ...]) -> str | None:
    """The reading with the largest share of its own parts holding; the first one listed wins a tie."""
    readings = list(dict.fromkeys(part.reading for part in results if part.reading is not None))
    if not readings:
        return None

    def share(reading: str) -> float:
        own = [part.holds for part in results if part.reading == reading]
        return sum(own) / len(own)

    return max(readings, key=share)


#: A claim's line names so many parts of a side; the others unfold with the rest.
LISTED = 4


def _sides(parts: tuple[PartResult, ...] | list[PartResult]) -> str:
    """``holds: ...; fails: ...`` with the measured value and the bound of every failing part."""
    holding = [part.name for part in parts if part.holds]
    if len(parts) > LISTED:
        holding = [f"{len(holding)} of {len(parts)} parts"] if holding else []
    failing = [f"{part.name} ({part.text}, rule: {part.rule})" for part in parts if not part.holds]
    if len(failing) > LISTED:
        failing = [*failing[:LISTED], f"and {len(failing) - LISTED} more"]
    sides = [
        f"{word}: {', '.join(names)}" for word, names in (("holds", holding), ("fails", failing)) if names
    ]
    return "; ".join(sides)
