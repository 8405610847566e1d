"""What the regression check found, for a terminal and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..numbers import number
from ..references import Value, write_text


@dataclass(frozen=True)
class Difference:
    """One thing that is not as the reference has it.

    Attributes:
        kind: ``moved``, ``missing`` (in the reference, no longer recorded), ``new`` (recorded, not in the reference), ``verdict``,
            ``figure`` (the numbers of a figure, slider or model of the page).
        name: the record's key, the claim's id, or the figure and its series.
        tolerance: the bound that was exceeded, in words.
    """

    kind: str
    name: str
    reference: Value | None
    measured: Value | None
    tolerance: str = ""


@dataclass
class ChapterCheck:
    """What the check found in one chapter."""

    chapter: str
    paper: str
    profile: str
    seconds: float
    compared: int = 0
    differences: list[Difference] = field(default_factory=list)
    error: str = ""
    updated: bool = False

    @property
    def ok(self) -> bool:
        """Nothing moved and the chapter ran."""
        return self.updated or not (self.differences or self.error)


def table(results: Sequence[ChapterCheck]) -> str:
    """What moved, for a terminal; one closing line for each chapter."""
    lines = []
    for result in results:
        shown = [("what", "name", "reference", "measured", "tolerance")]
        shown += [(d.kind, d.name, _short(d.reference), _short(d.measured), d.tolerance) for d in result.differences]
        if len(shown) > 1:
            widths = [max(len(row[i]) for row in shown) for i in range(5)]
            lines += [
                "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown
            ]
        lines.append(_closing(result))
    return "\n".join(lines)


def _closing(result: ChapterCheck) -> str:
    head = f"{result.chapter} ({result.profile}, {number(result.seconds, form='.0f')} s)"
    if result.error:
        return f"{head}: FAILED. {result.error}"
    count = len(result.differences)
    if result.updated:
        return f"{head}: reference written, {result.compared} values, {count} differences to the old one"
    if not count:
        return f"{head}: ok, {result.compared} values agree"
    return f"{head}: MOVED, {count} difference{'' if count == 1 else 's'}, {result.compared} values recorded"


def _short(value: Value | None) -> str:
    if value is None:
        return "-"
    text = (
        number(value, 10) if isinstance(value, float) else json.dumps(value) if isinstance(value, list) else str(value)
    )
    return text if len(text) <= 40 else text[:39] + "\u2026"


def write_json(path: Path, results: Sequence[ChapterCheck]) -> None:
    """The results as JSON."""
    body = {"ok": all(r.ok for r in results), "chapters": [asdict(r) | {"ok": r.ok} for r in results]}
    write_text(path, json.dumps(body, indent=1) + "\n")
