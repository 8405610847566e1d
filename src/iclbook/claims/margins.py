"""How far a part is from coming out the other way, in units of what its value may be off: its margin.

A recorded value may be off for two reasons. Another machine rounds differently: the regression check's tolerance, from the spread measured over emulated
machines (:mod:`iclbook.references`). And other seeds or samples give another value: its standard error, where the ledger's part names one. Its uncertainty
is the sum ``tolerance + 2 error``. Two standard errors because, were the true value on the other side of the bound, a value measured so far on this side
would be seen in fewer than one repetition of forty; with one it would be one of six, and with three a claim would need twice the runs.

A part whose margin is 1 or less is *close*: the same measurement, repeated elsewhere or with other seeds, may come out the other way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from .. import draw
from ..numbers import number
from ..references import Reference, agrees, read_reference, redrawn_paths, reference_path, tolerance
from .ledger import Part
from .records import Record
from .rules import Value

#: Standard errors in an uncertainty.
ERRORS = 2.0
#: Margins above it are not told apart.
AMPLE = 1000


@dataclass(frozen=True)
class Yardstick:
    """What margins are measured with.

    Attributes:
        tolerances: how far rounding may carry each value, by key; absent where it was never measured.
        values: of records that agree with their reference, the reference's value. Margins are measured there: were they measured at a run's own
            values, a margin near 1 would be above it on one machine and below it on another. So all runs that agree have one verdict.
        redrawn: a claim's verdicts at other draws, each a word and the digest of the rules that gave it.
    """

    tolerances: Mapping[str, Value] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    redrawn: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)


def yardstick(records: Mapping[str, Record], reference: Reference | None) -> Yardstick:
    """From a chapter's reference at the profile of the run; without one, or without its spreads, margins are not known."""
    values: dict[str, Value] = {}
    tolerances: dict[str, Value] = {}
    for key, spread in (reference.spread if reference is not None else {}).items():
        if key not in records:
            continue
        value = records[key].value
        if agrees(value, reference.records[key], spread):
            value = values[key] = reference.records[key]
        if _shape(value) == _shape(spread):
            tolerances[key] = tolerance(value, spread)
    return Yardstick(tolerances, values, reference.redrawn if reference is not None else {})


def load_reference(chapter: str, profile: str, root: Path) -> Reference | None:
    """A chapter's reference, or None where there is none yet. That of the book at any draw: what rounding does is the same.

    Raises:
        UserError: a damaged reference.
    """
    path = reference_path(chapter, profile, root, draw=0)
    if not path.is_file():
        return None
    others = [] if draw.number() else redrawn_paths(chapter, profile, root)
    redrawn: dict[str, tuple[tuple[str, str], ...]] = {}
    for other in (read_reference(path, root) for path in others):
        for name, word in other.verdicts.items():
            redrawn[name] = (*redrawn.get(name, ()), (word, other.rules.get(name, "")))
    return replace(read_reference(path, root), redrawn=redrawn)


def _shape(value: Value) -> int | None:
    return len(value) if isinstance(value, list) else None


def margin(part: Part, values: Mapping[str, Value], by: Yardstick) -> float | None:
    """Distance of a part from coming out the other way, in units of its uncertainty.

    A part that holds comes out the other way when one condition fails; a part that fails, when all its failing conditions hold.

    Args:
        values: what was recorded; holds every key of the part.

    Returns:
        0 or more; infinite where nothing that may be off can change the outcome; None where a tolerance is not known.
    """
    if any(key not in by.tolerances for key in (part.key, *part.rule.references())):
        return None
    values = {key: by.values.get(key, values[key]) for key in part.keys}
    doubt = _uncertainty(by.tolerances[part.key], values[part.error] if part.error is not None else 0.0)
    conditions = part.rule.distances(values[part.key], values, doubt, by.tolerances)
    failing = [condition.margin for condition in conditions if not condition.holds]
    return max(failing) if failing else min(condition.margin for condition in conditions)


def _uncertainty(rounding: Value, error: Value) -> Value:
    """``tolerance + 2 error``; either may be a list.

    Raises:
        ValueError: lists of different length, a negative error.
    """
    if not isinstance(rounding, list) and not isinstance(error, list):
        if isinstance(error, bool | str) or error < 0:
            raise ValueError(f"{error!r} is not a standard error")
        return rounding + ERRORS * error
    length = len(rounding if isinstance(rounding, list) else error)
    columns = [side if isinstance(side, list) else [side] * length for side in (rounding, error)]
    return [_uncertainty(*pair) for pair in zip(*columns, strict=True)]


def margin_text(margin: float | None, sampled: bool) -> str:
    """A margin in a phrase; empty where it is not known.

    Args:
        sampled: whether the uncertainty holds a standard error, or only what rounding does.
    """
    if margin is None:
        return ""
    if math.isinf(margin):
        return "exact"
    what = "its uncertainty" if sampled else "its rounding"
    if margin <= 1:
        return f"margin: only {number(margin, 1)} of {what}"
    if margin > AMPLE:
        return f"margin: over {number(AMPLE)} times {what}"
    return f"margin: {number(margin, 2)} times {what}"
