"""References: what a chapter recorded, how far rounding alone carries each value, and the verdicts; ``references/<profile>/<chapter>.json``.

The tolerance of the regression check is not typed but measured. A reference holds the values of a run under pinned code paths and, for each, the *spread*:
its largest deviation over the emulated machines of :mod:`iclbook.machines`.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..draw import number as draw_of_this_process
from ..errors import UserError
from ..files import reading, write_whole

Value = bool | int | float | str | list

#: A value may move by so many spreads. The spread is the largest of a handful of deviations; a machine that is not among them may deviate more, but
#: of deviations with any one scale the next is rarely four times the largest of seven.
SPREADS = 4.0
#: Beside them a value may move by this fraction of itself: where no emulated machine differs, another one may still round the last digits differently.
ROUNDING = 2.0**-40
#: And a value agrees within four units of double precision at one: the residual of an identity is a difference of numbers of that order.
RESIDUAL = 2.0**-50

Spread = float | list


@dataclass(frozen=True)
class Reference:
    """A stored reference.

    Attributes:
        records: key to value, from a pinned run.
        spread: key to the largest deviation over the emulated machines: a number, or a list like the value; 1 for a text or truth value that differs.
        verdicts: claim id to word.
        machines: those that the spread was measured on.
        figures: name -> condensed numbers of every figure, slider and page model (:mod:`iclbook.check.figures`).
        rules: of another draw, claim id to the digest of the rules that it was judged by (:attr:`iclbook.claims.Claim.rules_digest`).
        redrawn: claim id to its word and rules at every other draw (:mod:`iclbook.replication`).
    """

    records: Mapping[str, Value]
    spread: Mapping[str, Spread] = field(default_factory=dict)
    verdicts: Mapping[str, str] = field(default_factory=dict)
    machines: tuple[str, ...] = ()
    figures: Mapping[str, Mapping[str, list[float]]] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    redrawn: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Tolerances:
    """Tolerances of a chapter's values, in units of which margins are measured.

    Attributes:
        tolerances: how far rounding may carry each value, by key; absent where it was never measured.
        values: of records that agree with their reference, the reference's value. Margins are measured there: were they measured at a run's own
            values, a margin near 1 would be above it on one machine and below it on another. So all runs that agree have one verdict.
        redrawn: a claim's verdicts at other draws, each a word and the digest of the rules that gave it.
    """

    tolerances: Mapping[str, Value] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    redrawn: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)


def tolerances_of(records: Mapping[str, Value], reference: Reference | None) -> Tolerances:
    """Tolerances of recorded values, key to value, from a chapter's reference at the profile of the run; empty without one, or without its spreads."""
    if reference is None:
        return Tolerances()
    values: dict[str, Value] = {}
    tolerances: dict[str, Value] = {}
    for key, spread in reference.spread.items():
        if key not in records:
            continue
        value = records[key]
        if agrees(value, reference.records[key], spread):
            value = values[key] = reference.records[key]
        if np.shape(value) == np.shape(spread):
            tolerances[key] = tolerance(value, spread)
    return Tolerances(tolerances, values, reference.redrawn)


def load_reference(chapter: str, profile: str, root: Path) -> Reference | None:
    """A chapter's reference, or None where there is none yet. It is the book's own at every draw, because rounding acts alike in all."""
    path = reference_path(chapter, profile, root, draw=0)
    if not path.is_file():
        return None
    others = [] if draw_of_this_process() else sorted(root.glob(f"references/replication/*/{profile}/{chapter}.json"))
    redrawn: dict[str, tuple[tuple[str, str], ...]] = {}
    for other in (read_reference(other, root) for other in others):
        for name, word in other.verdicts.items():
            redrawn[name] = (*redrawn.get(name, ()), (word, other.rules.get(name, "")))
    return replace(read_reference(path, root), redrawn=redrawn)


def reference_path(chapter: str, profile: str, root: Path, draw: int | None = None) -> Path:
    """``references/<profile>/<chapter>.json``; of another draw (default: this process's) ``references/replication/<draw>/<profile>/<chapter>.json``."""
    draw = draw_of_this_process() if draw is None else draw
    folder = root / "references" / "replication" / str(draw) if draw else root / "references"
    return folder / profile / f"{chapter}.json"


def tolerance(value: Value, spread: Spread) -> Spread:
    """Tolerance of a value, the deviation from which on it counts as moved: ``4 spread + 2^-40 |value|``, element by element; for texts and truth values the spread itself."""
    if isinstance(value, list):
        return [tolerance(v, s) for v, s in zip(value, spread, strict=True)]
    return float(spread) if isinstance(value, bool | str) else SPREADS * spread + ROUNDING * abs(value)


def agrees(measured: Value, reference: Value, spread: Spread) -> bool:
    """Whether a value agrees with its reference; lists in length and in every element."""
    if np.shape(measured) != np.shape(reference):
        return False
    if isinstance(reference, list):
        return all(map(agrees, measured, reference, np.broadcast_to(spread, len(reference)).tolist()))
    if isinstance(reference, bool | str) or isinstance(measured, bool | str):
        return type(measured) is type(reference) and (measured == reference or spread > 0)
    return math.isfinite(measured) and abs(measured - reference) <= tolerance(reference, spread) + RESIDUAL


def is_unmoved(measured: Value, reference: Value, spread: Spread) -> bool:
    """Whether a value agrees with its reference. Where no element is larger than its tolerance, as of the rounding residual of an identity, it must only be as
    small, nearer to 0 than four tolerances: its size is left to the rules that judge it."""
    pairs = list(zip(reference, spread, strict=True)) if isinstance(reference, list) else [(reference, spread)]
    numbers = [(v, s) for v, s in pairs if not isinstance(v, bool | str)]
    if any(s == 0 for _, s in pairs) or any(tolerance(v, s) < abs(v) for v, s in numbers):
        return agrees(measured, reference, spread)
    zero = [v if isinstance(v, bool | str) else 0.0 for v, _ in pairs]
    return agrees(measured, zero if isinstance(reference, list) else zero[0], tolerance(reference, spread))


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
        body = json.loads(path.read_text(encoding="utf-8"))
        parts = {name: dict(body[name]) for name in ("records", "verdicts")}
        parts |= {name: dict(body.get(name, {})) for name in ("spread", "figures", "rules")}
        shapes = {key: np.shape(value) for key, value in parts["records"].items()}
        if any(np.shape(spread) not in ((), shapes.get(key)) for key, spread in parts["spread"].items()):
            raise ValueError("a spread of another shape than its value")
        return Reference(**parts, machines=tuple(body.get("machines", ())))


def write_reference(path: Path, paper: str, reference: Reference) -> None:
    """Store a reference, atomically."""
    body = {
        "paper": paper,
        "profile": path.parent.name,
        "records": dict(reference.records),
        "spread": dict(reference.spread),
        "machines": list(reference.machines),
        "verdicts": dict(reference.verdicts),
        **({"rules": dict(reference.rules)} if reference.rules else {}),
        "figures": {},
    }
    text = json.dumps(body, indent=1, allow_nan=False)
    lines = [f"  {json.dumps(name)}: {json.dumps(series)}" for name, series in reference.figures.items()]
    if lines:  # a line a figure
        text = text.replace('"figures": {}', '"figures": {\n' + ",\n".join(lines) + "\n }")
    write_whole(path, text + "\n")
