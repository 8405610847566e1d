"""What the regression check found, for a terminal, as JSON and as JUnit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

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
        shown += [
            (d.kind, d.name, _short(d.reference), _short(d.measured), d.tolerance) for d in result.differences
        ]
        if len(shown) > 1:
            widths = [max(len(row[i]) for row in shown) for i in range(5)]
            lines += [
                "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                for row in shown
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
        number(value, 10)
        if isinstance(value, float)
        else json.dumps(value)
        if isinstance(value, list)
        else str(value)
    )
    return text if len(text) <= 40 else text[:39] + "\u2026"


def write_json(path: Path, results: Sequence[ChapterCheck]) -> None:
    """The results as JSON."""
    body = {"ok": all(r.ok for r in results), "chapters": [asdict(r) | {"ok": r.ok} for r in results]}
    write_text(path, json.dumps(body, indent=1) + "\n")


def write_junit(path: Path, results: Sequence[ChapterCheck]) -> None:
    """The results as a JUnit report: one suite for each chapter, one case for each difference, one for the run."""
    suites = ET.Element("testsuites")
    for result in results:
        failures = 0 if result.updated else len(result.differences)
        suite = ET.SubElement(
            suites,
            "testsuite",
            name=f"{result.chapter}.{result.profile}",
            tests=str(1 + failures),
            failures=str(failures),
            errors=str(int(bool(result.error))),
            time=f"{result.seconds:.3f}",
        )
        run = ET.SubElement(
            suite, "testcase", classname=result.chapter, name="runs", time=f"{result.seconds:.3f}"
        )
        if result.error:
            ET.SubElement(run, "error", message=_xml(result.error))
        for item in result.differences[:failures]:
            case = ET.SubElement(suite, "testcase", classname=result.chapter, name=_xml(item.name))
            message = f"{item.kind}: reference {item.reference}, measured {item.measured}"
            ET.SubElement(case, "failure", message=_xml(message), type=item.kind).text = _xml(item.tolerance)
    write_text(path, ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n")


def _xml(text: str) -> str:
    """Without control characters, which XML cannot hold (an error's text may carry colour codes)."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)
