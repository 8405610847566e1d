"""How far a part is from coming out the other way, in units of what its value may be off: its margin.

A recorded value may be off for two reasons. Another machine rounds differently: the regression check's tolerance, from the spread measured over emulated
machines (:mod:`iclbook.references`). And other seeds or samples give another value: its standard error, where the ledger's part names one. Its uncertainty
is the sum ``tolerance + 2 error``. Two standard errors because a value that far from its bound comes out on the other side in one repetition of forty; at
one it would be one of six, and at three a claim would need twice the runs to say anything, while sampling is not all that a repetition could change.

A part whose margin is 1 or less is *close*: the same measurement, repeated elsewhere or with other seeds, may come out the other way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..references import tolerance
from .ledger import Part
from .records import Record, significant
from .rules import Value

#: Standard errors in an uncertainty.
ERRORS = 2.0
#: Margins above it are not told apart.
AMPLE = 1000

Tolerances = Mapping[str, Value]


def tolerances(records: Mapping[str, Record], spread: Mapping[str, Value] | None) -> Tolerances:
    """The tolerance of each recorded value, from the measured spreads of its chapter at its profile.

    Keys are absent where no spread was measured, or one of a value of another shape: their margins are unknown.
    """
    found = {}
    for key, record in records.items():
        if spread is not None and key in spread:
            try:
                found[key] = tolerance(record.value, spread[key])
            except (TypeError, ValueError):  # a list of another length
                continue
    return found


def margin(part: Part, values: Mapping[str, Value], known: Tolerances) -> float | None:
    """Distance of a part from coming out the other way, in units of its uncertainty.

    A part that holds comes out the other way when one condition fails; a part that fails, when all its failing conditions hold.

    Args:
        values: what was recorded; holds every key of the part.
        known: tolerances by key.

    Returns:
        0 or more; infinite where nothing that may be off can change the outcome; None where a tolerance is not known.
    """
    if any(key not in known for key in (part.key, *part.rule.references())):
        return None
    error = values[part.error] if part.error is not None else 0.0
    doubt = _uncertainty(known[part.key], error)
    conditions = part.rule.distances(values[part.key], values, doubt, known)
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
        return f"margin: only {significant(margin, 1)} of {what}"
    if margin > AMPLE:
        return f"margin: over {AMPLE} times {what}"
    return f"margin: {significant(margin, 2)} times {what}"
