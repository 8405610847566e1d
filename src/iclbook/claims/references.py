"""References: what a chapter recorded, how far rounding alone carries each value, and the verdicts; ``references/<profile>/<chapter>.json``.

A value agrees with its reference if it differs by no more than rounding can do or a reader can tell: the largest of four times its *spread*, five digits and
a hundredth of its standard error. The spread is its largest deviation when the chapter runs on the two emulated machines :data:`MACHINES`. Where they move no value
of a figure (the first part of a key), its values agree to :data:`ROUNDING`, as closed forms do.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..draw import number as draw_of_this_process
from ..errors import UserError
from ..files import NO_CHECKSUM, is_as_written, reading, with_checksum, write_whole

Value = bool | int | float | str | list

#: Emulated machines that spreads are measured on: another instruction set, and this processor as it is with two threads.
MACHINES = ("sse-1", "native-2")
#: A value may move by so many spreads: of deviations with one scale, a third is rarely four times the larger of two.
SPREADS = 4.0
#: Relative tolerance of a figure's values where rounding moves any of them: no reader sees the sixth digit.
DIGITS = 1e-5
#: Tolerance of a value in its standard errors, and of a standard error relative to itself.
ERRORS = 0.01
#: Joint standard errors by which draws may differ before their errors are called too small.
APART = 2.0
#: Relative tolerance of closed forms.
ROUNDING = 2.0**-40
#: First part of the keys of what a reader's own probes measure, of which there is no reference: rounding is far below their errors.
PROBED = "probes/"
#: A value no larger than ROUNDING is the residual of an identity. It agrees while it is no larger than so many times itself or a unit of double precision.
RESIDUALS = 16
#: A spread of more than 1 and so many times a value and its error would let everything pass.
WIDEST = 10

Spread = float | list


@dataclass(frozen=True)
class Reference:
    """A stored reference.

    Attributes:
        spread: key to the largest deviation over the emulated machines: a number, or a list like the value; 1 for a text or truth value that differs.
        made: where it was made: the date, the processor, versions, and the machines of the spread.
        figures: name -> condensed numbers of every figure, slider and page model (:mod:`iclbook.check.figures`).
        rules: claim id to the digests of the rules of its parts (:attr:`iclbook.claims.Part.digest`); at another draw, to that of all its rules together
            (:attr:`iclbook.claims.Claim.rules_digest`).
        draws: the records of every other draw (:mod:`iclbook.replication`).
    """

    records: Mapping[str, Value]
    spread: Mapping[str, Spread] = field(default_factory=dict)
    verdicts: Mapping[str, str] = field(default_factory=dict)
    made: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, Mapping[str, list[float]]] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    draws: tuple[Mapping[str, Value], ...] = ()

    @cached_property
    def inexact(self) -> frozenset[str]:
        """First parts of the keys of values that rounding moves."""
        pairs = ((key, tolerance(self.records[key], 0.0), spread) for key, spread in self.spread.items())
        return frozenset(figure_of(key) for key, exact, spread in pairs if np.any(np.greater(spread, exact)))

    def allowance(self, key: str) -> Spread:
        """How far a value may be from its reference and agree, element by element. A standard error may move as far as what rounding does to its value: that of a
        median jumps with the median."""
        value, error = self.records[key], self.records.get(f"{key}_se", 0.0)
        spread = self.spread.get(key, 0.0)
        if key.endswith("_se"):
            spread = np.maximum(spread, self.spread.get(key.removesuffix("_se"), 0.0))
            spread = spread.tolist() if isinstance(value, list) else float(spread.max())
        if isinstance(value, list):
            columns = (np.broadcast_to(x, len(value)).tolist() for x in (spread, error))
            return [self._allowance(key, *row) for row in zip(value, *columns, strict=True)]
        return self._allowance(key, value, spread, error)

    def _allowance(self, key: str, value: Value, spread: float, error: float) -> float:
        if isinstance(value, bool | str):
            return spread
        if figure_of(key) not in self.inexact:
            return max(SPREADS * spread, ROUNDING * abs(value))
        error = abs(value) if key.endswith("_se") else error
        return max(SPREADS * spread, DIGITS * abs(value), ERRORS * error)

    def agrees(self, key: str, measured: Value) -> bool:
        """Whether a value agrees with its reference (see the module)."""
        return agrees(measured, self.records[key], self.allowance(key))


@dataclass(frozen=True)
class Tolerances:
    """Tolerances of a chapter's values, in units of which margins are measured.

    Attributes:
        tolerances: how far rounding may carry each value, by key; absent where it was never measured.
        values: of records that agree with their reference, the value that is judged: the reference's, pooled over all draws (:func:`pooled`). Were a
            run's own values judged, a margin near 1 would be above it on one machine and below it on another. So all runs that agree have one verdict.
        draws: the records of every draw, this one's first; empty where there is one draw only.
    """

    tolerances: Mapping[str, Value] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    draws: tuple[Mapping[str, Value], ...] = ()


def tolerances_of(records: Mapping[str, Value], reference: Reference | None) -> Tolerances:
    """Tolerances of recorded values, key to value, from a chapter's reference at the profile of the run; empty without one, or without its spreads."""
    tolerances = {key: tolerance(value, 0.0) for key, value in records.items() if key.startswith(PROBED)}
    if reference is None:
        return Tolerances(tolerances)
    values: dict[str, Value] = {}
    over_draws = pooled(reference)
    for key, spread in reference.spread.items():
        if key not in records:
            continue
        value = records[key]
        if reference.agrees(key, value):
            value = values[key] = over_draws.get(key, reference.records[key])
        if np.shape(value) == np.shape(spread):
            tolerances[key] = tolerance(value, spread)
    draws = (reference.records, *reference.draws) if values and reference.draws else ()
    return Tolerances(tolerances, values, draws)


def pooled(reference: Reference) -> dict[str, Value]:
    """Values and standard errors over all draws: weighted means with ``w = 1 / se^2`` and their errors ``sum(w)^(-1/2)``, element by element.

    Draws that differ by more than :data:`APART` of their errors, ``z = sqrt(chi^2 / (draws - 1))``, show that the errors are too small: the error is then widened by
    ``z / APART``. Left alone are values without an error, and values of a figure of which no value moves by more than rounding from draw to draw.
    """
    drawn = {figure_of(key) for key in reference.records if _is_drawn(reference, key)}
    found: dict[str, Value] = {}
    for key in reference.records:
        names = (key, f"{key}_se")
        rows = [draw for draw in (reference.records, *reference.draws) if all(name in draw for name in names)]
        columns = [[draw[name] for draw in rows] for name in names]
        if figure_of(key) not in drawn or len(rows) < 2 or len({np.shape(x) for column in columns for x in column}) > 1:
            continue
        values, errors = (np.array(column, dtype=float) for column in columns)
        known = (errors > 0).all(0)
        weights = 1 / np.where(known, errors, 1.0) ** 2
        mean = (weights * values).sum(0) / weights.sum(0)
        z = np.sqrt((weights * (values - mean) ** 2).sum(0) / (len(rows) - 1))
        error = np.maximum(1, z / APART) / np.sqrt(weights.sum(0))
        found[key] = np.where(known, mean, values[0]).tolist()
        found[names[1]] = np.where(known, error, errors[0]).tolist()
    return found


def _is_drawn(reference: Reference, key: str) -> bool:
    """Whether a value moves by more than rounding from draw to draw, and so rests on something random."""
    value = reference.records[key]
    allowance = tolerance(value, reference.spread.get(key, 0.0))
    return any(key in draw and not agrees(draw[key], value, allowance) for draw in reference.draws)


def load_reference(chapter: str, profile: str, root: Path) -> Reference | None:
    """A chapter's reference with the records of other draws, or None where there is none yet. It is the book's own at every draw, because rounding acts alike in all."""
    path = reference_path(chapter, profile, root, draw=0)
    if not path.is_file():
        return None
    return replace(read_reference(path, root), draws=other_draws(chapter, profile, root))


def other_draws(chapter: str, profile: str, root: Path) -> tuple[Mapping[str, Value], ...]:
    """What the chapter recorded at every other draw; nothing for a process that draws anew itself."""
    paths = [] if draw_of_this_process() else sorted(root.glob(f"references/replication/*/{profile}/{chapter}.json"))
    return tuple(read_reference(path, root).records for path in paths)


def reference_path(chapter: str, profile: str, root: Path, draw: int | None = None) -> Path:
    """``references/<profile>/<chapter>.json``; of another draw (default: this process's) ``references/replication/<draw>/<profile>/<chapter>.json``."""
    draw = draw_of_this_process() if draw is None else draw
    folder = root / "references" / "replication" / str(draw) if draw else root / "references"
    return folder / profile / f"{chapter}.json"


def figure_of(key: str) -> str:
    """The first part of a key: values of one figure, theorem or section share it."""
    return key.partition("/")[0]


def tolerance(value: Value, spread: Spread) -> Spread:
    """How far rounding may carry a value: ``4 spread + 2^-40 |value|``, element by element; for texts and truth values the spread itself."""
    if isinstance(value, list):
        return [tolerance(v, s) for v, s in zip(value, np.broadcast_to(spread, len(value)).tolist(), strict=True)]
    return float(spread) if isinstance(value, bool | str) else SPREADS * spread + ROUNDING * abs(value)


def agrees(measured: Value, reference: Value, allowance: Spread) -> bool:
    """Whether a value is within its allowance of its reference; lists in length and in every element. Of a residual only the size counts."""
    if np.shape(measured) != np.shape(reference):
        return False
    if isinstance(reference, list):
        return all(map(agrees, measured, reference, np.broadcast_to(allowance, len(reference)).tolist()))
    if isinstance(reference, bool | str) or isinstance(measured, bool | str):
        return type(measured) is type(reference) and (measured == reference or allowance > 0)
    if abs(reference) <= ROUNDING and abs(measured) <= RESIDUALS * max(abs(reference), 2.0**-52):
        return True
    return math.isfinite(measured) and abs(measured - reference) <= allowance


def spread_of(reference: Value, others: Sequence[Value]) -> Spread:
    """The largest deviation of ``others`` from ``reference``: a number, or a list of them; 1 where a text or truth value differs, or its kind. All must be of
    one shape (ValueError)."""
    if any(np.shape(other) != np.shape(reference) for other in others):
        raise ValueError("lists of different length, or a list beside a number")
    if isinstance(reference, list):
        return [spread_of(item, [other[i] for other in others]) for i, item in enumerate(reference)]
    if any(isinstance(item, bool | str) for item in (reference, *others)):
        return float(any(type(other) is not type(reference) or other != reference for other in others))
    return max((float(f"{abs(other - reference):.3g}") for other in others), default=0.0)


def read_reference(path: Path, root: Path) -> Reference:
    """Read a stored reference."""
    hint = f"Make it with `iclbook check {path.stem} --profile {path.parent.name} --update` and review the change."
    if not path.is_file():
        raise UserError(f"{path.relative_to(root)} is not there", hint)
    with reading(path, hint):
        text = path.read_text(encoding="utf-8")
        if '"checksum"' in text and not is_as_written(text):
            raise ValueError("its checksum differs")
        body = json.loads(text, **dict.fromkeys(("parse_int", "parse_float", "parse_constant"), _finite))
        parts = {name: dict(body[name]) for name in ("records", "verdicts")}
        parts |= {name: dict(body.get(name, {})) for name in ("spread", "figures", "rules")}
        records = parts["records"]
        errors = [(key.removesuffix("_se"), error) for key, error in records.items() if key.endswith("_se")]
        for key, spread in [*parts["spread"].items(), *(pair for pair in errors if pair[0] in records)]:
            if np.shape(spread) not in ((), np.shape(records.get(key))) or not np.all(np.greater_equal(spread, 0)):
                raise ValueError(f"{key} has a spread or an error that is no size of it")
        for key, spread in parts["spread"].items():
            value, error = records[key], records.get(f"{key}_se", 0.0)
            words = isinstance(value, bool | str)
            with np.errstate(over="ignore"):
                widest = 1 if words else 1 + WIDEST * (np.abs(value) + np.abs(error))
            if np.any(np.greater(spread, widest)):
                raise ValueError(f"{key} has a spread that no rounding makes")
        for key, value in records.items():
            items = value if isinstance(value, list) else [value]
            if not items or not all(isinstance(item, int | float | str) for item in items):
                raise ValueError(f"{key} is {value}, which is no value")
        return Reference(**parts, made=dict(body.get("made", {})))


def _finite(text: str) -> int | float:
    """A number of JSON; one that is not finite is refused, as whatever is measured would agree with it."""
    if not math.isfinite(float(text)):
        raise ValueError(f"{text[:40]} is not a finite number")
    return int(text) if text.lstrip("-").isdigit() else float(text)


def write_reference(path: Path, paper: str, reference: Reference) -> None:
    """Store a reference, atomically."""
    body = {
        "paper": paper,
        "profile": path.parent.name,
        "made": dict(reference.made),
        "records": dict(reference.records),
        "spread": dict(reference.spread),
        "verdicts": dict(reference.verdicts),
        **({"rules": dict(reference.rules)} if reference.rules else {}),
        "figures": {},
    }
    if "replication" in path.parts:  # these are not measured anew at each check
        body = {"checksum": NO_CHECKSUM} | body
    text = json.dumps(body, indent=1, allow_nan=False)
    lines = [f"  {json.dumps(name)}: {json.dumps(series)}" for name, series in reference.figures.items()]
    if lines:  # a line a figure
        text = text.replace('"figures": {}', '"figures": {\n' + ",\n".join(lines) + "\n }")
    write_whole(path, with_checksum(text + "\n"))
