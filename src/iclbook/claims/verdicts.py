"""The verdict of a claim, computed from what a notebook recorded, never typed by hand; and how far each part is from coming out the other way: its margin.

A part whose margin is 1 or less is *close*: the same measurement, repeated elsewhere or with other seeds, may come out the other way.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..errors import UserError
from ..numbers import number
from ..project import at_least
from .ledger import Claim, Ledger, Part
from .record import Record
from .references import Reference, Tolerances, Value, tolerances_of

REPRODUCED = "reproduced"
REDUCED = "reproduced (reduced)"
PARTLY = "partly"
NOT_REPRODUCED = "not reproduced"
NOT_REDUCED = "fails here, at a smaller size"
INCONSISTENT = "inconsistent"
TOO_CLOSE = "too close to call"
OUT_OF_REACH = "out of reach"
NOT_YET_TESTED = "not yet tested"
#: Every verdict of a claim, in the order in which the scoreboard counts them.
WORDS = (
    REPRODUCED,
    REDUCED,
    PARTLY,
    NOT_REPRODUCED,
    NOT_REDUCED,
    INCONSISTENT,
    TOO_CLOSE,
    OUT_OF_REACH,
    NOT_YET_TESTED,
)

YES, YES_REDUCED, DEPENDS, NO, OPEN = "yes", "yes (reduced)", "it depends", "no", "open"
#: What our own questions are answered where a claim would have that verdict.
ANSWERS = dict(zip(WORDS, (YES, YES_REDUCED, NO, NO, NO, NO, TOO_CLOSE, OUT_OF_REACH, OPEN), strict=True))
#: Words that say nothing of what was measured, so that nothing measured elsewhere contradicts them, nor they it.
SILENT = (OUT_OF_REACH, NOT_YET_TESTED, OPEN)
#: Every answer, in the scoreboard's order.
ANSWER_WORDS = (YES, YES_REDUCED, DEPENDS, NO, TOO_CLOSE, OUT_OF_REACH, OPEN)

#: Standard errors in an uncertainty. A value may be off because another machine rounds differently (the regression check's tolerance, from the spread measured
#: over emulated machines) and because other seeds or samples give another one (its standard error). We take two: if the true value
#: were on the other side of the bound, a measurement so far on this side would occur in fewer than one repetition of forty. With one it would be one of six,
#: and with three a claim would need twice the runs.
ERRORS = 2.0
#: Margins above it are printed alike.
AMPLE = 1000


@dataclass(frozen=True, kw_only=True)
class PartResult(Part):
    """A part with its measured value against its rule.

    Attributes:
        margin: distance from coming out the other way in units of the uncertainty (:func:`margin`); None where it is not known.
        draws: number of draws that the value is the mean of.
    """

    text: str
    bound: str
    holds: bool
    margin: float | None
    control: str
    passes_control: bool
    draws: int = 1

    @property
    def sampled(self) -> bool:
        """Whether the uncertainty holds a standard error, or only what rounding does."""
        return bool(self.error)

    @property
    def exact(self) -> bool:
        """Whether the ledger says that the value has no error, or none can be: a text or truth value."""
        return self.error == "" or self.rule.kind in ("truth", "text")

    @property
    def close(self) -> bool:
        """Whether a repetition may come out the other way, or the part holds by a rule that passes its negative control."""
        return (self.margin is not None and self.margin <= 1) or (self.passes_control and self.holds)

    @property
    def rule_text(self) -> str:
        """``below 0.2; margin: 12 times its uncertainty``."""
        return _joined(self.bound, self.margin_text)

    @property
    def margin_text(self) -> str:
        """The margin and the control in a phrase; empty where neither is known."""
        what = "its uncertainty" if self.sampled else "its rounding"
        if self.margin is None or not (self.sampled or self.exact or self.close):
            phrase = ""
        elif self.margin == 0 and not self.sampled:
            phrase = "holds at one draw and fails at another"
        elif math.isinf(self.margin):
            phrase = "exact"
        elif self.margin <= 1:
            phrase = f"margin: only {number(self.margin, 1)} of {what}"
        elif self.margin > AMPLE:
            phrase = f"margin: over {number(AMPLE)} times {what}"
        else:
            phrase = f"margin: {number(self.margin, 2)} times {what}"
        return _joined(phrase, self.control)


@dataclass(frozen=True)
class Verdict:
    """Verdict of one claim.

    Attributes:
        remark: what the parts do not show: the profile, the reading, the missing key, the command to run.
        reading: the reading of the paper under which the claim holds, where the ledger lists several.
        sides: which parts hold and which fail, with the measured values of the failing ones; empty unless one fails.
    """

    word: str
    remark: str = ""
    parts: tuple[PartResult, ...] = ()
    reading: str | None = None
    sides: str = ""

    @property
    def in_one_reading(self) -> bool:
        """Whether the claim holds because of one reading, while a part of another fails."""
        others = (part for part in self.parts if part.reading not in (None, self.reading))
        holds = self.word in (REPRODUCED, REDUCED, DEPENDS) and self.reading is not None
        return holds and any(not part.holds for part in others)

    @property
    def label(self) -> str:
        """The word, and whether it is that of one reading only."""
        return f"{self.word}, in one reading" if self.in_one_reading and self.word != DEPENDS else self.word

    @property
    def note(self) -> str:
        """The reason in one line; may be empty."""
        return _joined(self.sides, self.remark)

    def _ipython_display_(self) -> None:
        """Nothing: ``Recorder.verdict`` has already shown the badge."""


def judge(
    ledger: Ledger, records: Mapping[str, Record], profile: str, reference: Reference | None
) -> dict[str, Verdict]:
    """Verdicts of a ledger's claims, by id; ``reference`` is the chapter's at this profile, None where there is none yet."""
    by = tolerances_of({key: record.value for key, record in records.items()}, reference)
    return {claim.id: verdict(claim, records, profile, by) for claim in ledger.claims}


def verdict(claim: Claim, records: Mapping[str, Record], profile: str, by: Tolerances | None = None) -> Verdict:
    """Judge a claim by what was recorded at ``profile``.

    Parts without a reading are common to all readings. The claim holds if the common parts and all parts of any one reading
    hold. Every part must have been recorded, those of the other readings too: a reading cannot win by being the only one
    measured. Values are pooled over all draws (:func:`~iclbook.claims.references.pooled`). A claim is *too close to call* where parts within their uncertainty, or
    whose rule passes its negative control, could change the word. Without tolerances margins are not known.
    """
    words = ANSWERS if claim.is_question else {word: word for word in WORDS}
    by = by or Tolerances()
    results, missing = _measure(claim, records, by)
    if claim.out_of_reach is not None and not claim.is_probed(records):
        stand_in = f"stand-in: {_sides(results)}" if results else ""
        return Verdict(words[OUT_OF_REACH], claim.out_of_reach, results, sides=stand_in)
    if not claim.parts:
        return Verdict(words[NOT_YET_TESTED], "no rule yet")
    if missing:
        return Verdict(words[NOT_YET_TESTED], "not recorded: " + ", ".join(missing), results)
    return of_parts(claim, results, profile)


def of_parts(claim: Claim, results: tuple[PartResult, ...], profile: str) -> Verdict:
    """The verdict that measured parts give."""
    words = ANSWERS if claim.is_question else {word: word for word in WORDS}
    outcome = _judge(claim, results, profile)
    # Verdicts are monotone in the parts, so trying all-hold and all-fail is enough.
    ways = (tuple(replace(p, holds=holds) if p.close else p for p in results) for holds in (True, False))
    if all(_judge(claim, way, profile).word == outcome.word for way in ways):
        return outcome
    close = [f"{part.full_name} ({part.text}, rule: {part.rule_text})" for part in results if part.close]
    remark = _joined(f"does not decide: {', '.join(close)}", f"as measured: {outcome.word}", outcome.remark)
    return Verdict(words[TOO_CLOSE], remark, results, outcome.reading)


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))


def _judge(claim: Claim, results: tuple[PartResult, ...], profile: str) -> Verdict:
    """The verdict or answer from which parts hold. An answer that another reading would change depends."""
    outcome = _claimed(claim, results, profile)
    answer = DEPENDS if outcome.in_one_reading else ANSWERS[outcome.word]
    return replace(outcome, word=answer) if claim.is_question else outcome


def _claimed(claim: Claim, results: tuple[PartResult, ...], profile: str) -> Verdict:
    """The verdict of a claim."""
    decisive = at_least(profile, claim.decides)
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
    elif claim.reduced is not None and all(part.holds for part in considered if part.printed):
        # a failure at a smaller size says nothing about the paper's, whatever else holds
        word = NOT_REDUCED
    elif any(part.holds for part in considered) and not claim.conjunction:
        word = PARTLY
    else:
        word = NOT_REPRODUCED
    readings = list(dict.fromkeys(part.reading for part in results if part.reading is not None))
    if len(readings) > 1:
        remarks.append("readings tried: " + ", ".join(readings))
    return Verdict(word, "; ".join(remarks), results, sides=_sides(considered))


def _measure(claim: Claim, records: Mapping[str, Record], by: Tolerances) -> tuple[tuple[PartResult, ...], list[str]]:
    values = {key: by.values.get(key, record.value) for key, record in records.items()}
    results: list[PartResult] = []
    missing: list[str] = []
    for part in (part.with_error(values) for part in claim.parts):
        absent = [key for key in part.keys if key not in records]
        missing += [key for key in absent if key not in missing]
        if absent:
            continue
        try:
            text, value = _text(part, records, by), values[part.key]
            control, passes_control = _control(part, value, values)
            result = PartResult(
                **vars(part),
                text=text if len(text) <= 80 else text[:60].rsplit(", ", 1)[0] + ", \u2026",
                bound=part.rule.describe(values),
                holds=part.rule.check(value, values),
                margin=margin(part, values, by),
                control=control,
                passes_control=passes_control,
                draws=max(1, len(_pooled_from(part, by))),
            )
            results.append(result)
        except (TypeError, ValueError) as problem:
            named = f"{part.key!r} with error {part.error!r}" if part.error else repr(part.key)
            what = f"rule {part.rule.text!r} does not fit what {named} recorded ({problem})"
            hint = "Change the rule in the ledger or the value that the notebook records."
            raise UserError(f"{claim.id}, part {part.name!r}: {what}", hint) from None
    return tuple(results), missing


def _text(part: Part, records: Mapping[str, Record], by: Tolerances) -> str:
    """The measured value; of a number that was pooled over draws, that number and those of the draws."""
    record, pooled = records[part.key], by.values.get(part.key)
    draws = _pooled_from(part, by)
    if isinstance(pooled, list | bool | str) or not draws or not part.error:
        return record.text
    one, *each = (Record.make(part.key, value, part.format).text for value in (pooled, *draws))
    return f"{one} (draws: {', '.join(each)})"


def _pooled_from(part: Part, by: Tolerances) -> list[Value]:
    """The values of the draws over which a part's value is pooled; none where it is of one draw only."""
    pooled = by.values.get(part.key)
    if not by.draws or pooled in (None, by.draws[0].get(part.key)):
        return []
    return [draw[part.key] for draw in by.draws if part.key in draw and f"{part.key}_se" in draw]


def _draws_differ(part: Part, by: Tolerances) -> bool:
    """Whether a part without an error holds at one draw and fails at another."""
    outcomes = [part.rule.check(draw[part.key], draw) for draw in by.draws if all(key in draw for key in part.keys)]
    return not part.error and part.key in by.values and len(set(outcomes)) > 1


def margin(part: Part, values: Mapping[str, Value], by: Tolerances) -> float | None:
    """Distance of a part from coming out the other way, in units of its uncertainty ``tolerance + 2 error`` (:data:`ERRORS`).

    A part that holds comes out the other way when one condition fails; a part that fails, when all its failing conditions hold. The margin is infinite where
    nothing that may be off can change the outcome, 0 where draws differ on a part without an error, and None where a tolerance is not known.
    """
    if any(key not in by.tolerances for key in (part.key, *part.rule.references())):
        return None
    if _draws_differ(part, by):
        return 0.0
    uncertainty = _uncertainty(by.tolerances[part.key], values[part.error] if part.error else 0.0)
    conditions = part.rule.distances(values[part.key], values, uncertainty, by.tolerances)
    failing = [condition.margin for condition in conditions if not condition.holds]
    return max(failing) if failing else min(condition.margin for condition in conditions)


def _uncertainty(rounding: Value, error: Value) -> Value:
    """``tolerance + 2 error``; either may be a list, both of one length."""
    if np.any(np.less(error, 0)):
        raise ValueError(f"{error!r} is not a standard error")
    return (np.asarray(rounding) + ERRORS * np.asarray(error)).tolist()


def _control(part: Part, value: Value, values: Mapping[str, Value]) -> tuple[str, bool]:
    """The negative control in words, and whether the rule passes it: as a whole where the part's value is a list, any of it where the value is one number."""
    if part.negative_control is None:
        return "", False
    control = part.negative_control.value(values)
    one_of = control if isinstance(control, list) and not isinstance(value, list) else [control]
    passes = any(part.rule.check(item, values) for item in one_of)
    outcome = "passes as well, so it decides nothing" if passes else "fails it"
    return f"control {part.negative_control.named(values)} {outcome}", passes


def _best_reading(results: tuple[PartResult, ...]) -> str | None:
    """The reading with the largest share of its own parts holding; the first one listed wins a tie."""
    holds: dict[str, list[bool]] = {}
    for part in results:
        if part.reading is not None:
            holds.setdefault(part.reading, []).append(part.holds)
    return max(holds, key=lambda reading: sum(holds[reading]) / len(holds[reading]), default=None)


#: A claim's line names so many parts of a side; the others unfold with the rest.
LISTED = 4


def _sides(parts: tuple[PartResult, ...] | list[PartResult]) -> str:
    """``holds: ...; fails: ...`` with the measured value and the bound of every failing part."""
    holding = [part.full_name for part in parts if part.holds]
    if len(parts) > LISTED:
        holding = [f"{len(holding)} of {len(parts)} parts"] if holding else []
    failing = [f"{part.full_name} ({part.text}, rule: {part.bound})" for part in parts if not part.holds]
    if len(failing) > LISTED:
        failing = [*failing[:LISTED], f"and {len(failing) - LISTED} more"]
    sides = [f"{word}: {', '.join(names)}" for word, names in (("holds", holding), ("fails", failing)) if names]
    return "; ".join(sides)
