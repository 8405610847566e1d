"""The regression check: run chapters headless and compare every recorded value with its stored reference."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from xml.etree import ElementTree as ET

from .claims import Ledger, Record, all_ledgers, load_ledger, read_records, verdict
from .claims.rules import Value
from .errors import UserError
from .profiles import check_profile
from .project import find_root

#: ``runner(name, profile, device)`` runs a chapter and returns its executed copy.
Runner = Callable[[str, str, str], Path]


@dataclass(frozen=True)
class Difference:
    """One thing that is not as the reference has it.

    Attributes:
        kind: ``moved``, ``missing`` (in the reference, no longer recorded), ``new`` (recorded, not in the reference), ``verdict``.
        name: the record's key, or the claim's id.
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


def reference_path(chapter: str, profile: str, root: Path) -> Path:
    """``references/<profile>/<chapter>.json``."""
    return root / "references" / profile / f"{chapter}.json"


def check(
    names: Sequence[str] = (),
    profile: str = "smoke",
    device: str = "auto",
    update: bool = False,
    root: Path | None = None,
    runner: Runner | None = None,
    jobs: int | None = None,
) -> list[ChapterCheck]:
    """Run the chapters and compare what they record with the references.

    A chapter that fails counts as an error of that chapter; the others are still checked.

    Args:
        names: chapter names; all chapters of the book when empty.
        update: write the references instead of comparing; the differences to the old ones are still reported.
        runner: how to run a chapter; papermill unless a test says otherwise.
        jobs: chapters to run at once; default: one for each core.

    Raises:
        UserError: unknown chapter or profile, missing or damaged reference, malformed ledger.
    """
    check_profile(profile)
    root = root or find_root()
    known = known_chapters(root)
    for name in names:
        require_chapter(name, known)
    ledgers = {ledger.chapter_name: ledger for ledger in all_ledgers(root)}
    chosen = list(names) or known
    for name in chosen:  # before minutes of running
        if name not in ledgers:
            raise UserError(f"no ledger names notebooks/{name}.py", "Set chapter: in its claims/*.yaml.")
        if not update:
            read_reference(reference_path(name, profile, root), root)
    runs = (
        _run_in_turn(runner, chosen, profile, device)
        if runner
        else run_chapters(chosen, profile, device, root, jobs)
    )
    found = {
        name: _check_one(ledgers[name], profile, update, root, result, seconds)
        for name, result, seconds in runs
    }
    return [found[name] for name in chosen]


def known_chapters(root: Path) -> list[str]:
    """Chapters that the book lists, in reading order."""
    from .book.execute import chapters

    return chapters(root)


def require_chapter(name: str, known: Sequence[str]) -> None:
    """Refuse an unknown chapter, naming the known ones.

    Raises:
        UserError: not a chapter of the book.
    """
    if name not in known:
        raise UserError(f"unknown chapter {name!r}", f"Choose one of: {', '.join(known) or '(none yet)'}.")


def run_chapters(
    names: Sequence[str], profile: str, device: str, root: Path, jobs: int | None
) -> Iterable[tuple[str, Path | UserError, float]]:
    """Run chapters by papermill, several at once."""
    from .book.parallel import run_notebooks

    return run_notebooks(names, profile, device, root.resolve(), jobs)


def _run_in_turn(
    runner: Runner, names: Sequence[str], profile: str, device: str
) -> Iterable[tuple[str, Path | UserError, float]]:
    for name in names:
        began = perf_counter()
        try:
            result: Path | UserError = runner(name, profile, device)
        except UserError as problem:
            result = problem
        yield name, result, perf_counter() - began


def _check_one(
    ledger: Ledger, profile: str, update: bool, root: Path, executed: Path | UserError, seconds: float
) -> ChapterCheck:
    name = ledger.chapter_name
    result = ChapterCheck(name, ledger.paper, profile, seconds)
    path = reference_path(name, profile, root)
    try:
        if isinstance(executed, UserError):
            raise executed
        records = read_records(executed)
        reference = _old_reference(path, root) if update else read_reference(path, root)
        if reference is not None:
            result.differences = compare(ledger, records, reference, profile)
    except UserError as problem:
        result.error = str(problem)
        return result
    result.compared = len(records)
    if update:
        write_reference(path, ledger, records, profile)
        result.updated = True
    return result


def _old_reference(path: Path, root: Path) -> dict | None:
    """The reference that is about to be replaced; None where there is none to compare with, or a damaged one."""
    try:
        return read_reference(path, root)
    except UserError:
        return None


def compare(ledger: Ledger, records: dict[str, Record], reference: dict, profile: str) -> list[Difference]:
    """Every difference between what was recorded and the reference: values first, then verdicts.

    A key whose tolerance is ``none`` must still be there; its value may be anything.
    """
    differences = []
    stored = reference["records"]
    for key, expected in stored.items():
        bound = ledger.tolerance(key)
        if key not in records:
            differences.append(Difference("missing", key, expected, None))
        elif not bound.allows(records[key].value, expected):
            differences.append(Difference("moved", key, expected, records[key].value, str(bound)))
    for key, record in records.items():
        if key not in stored:
            differences.append(Difference("new", key, None, record.value))
    words = {claim.id: verdict(claim, records, profile).word for claim in ledger.claims}
    for claim_id in dict.fromkeys([*reference["verdicts"], *words]):
        before, now = reference["verdicts"].get(claim_id), words.get(claim_id)
        if before != now:
            differences.append(Difference("verdict", claim_id, before, now))
    return differences


def read_reference(path: Path, root: Path) -> dict:
    """A stored reference: ``records`` (key to value) and ``verdicts`` (claim id to word).

    Raises:
        UserError: not there, or not a reference.
    """
    shown = path.relative_to(root)
    mend = f"Make it with `iclbook check {path.stem} --profile {path.parent.name} --update` and review the change."
    try:
        reference = json.loads(path.read_text(encoding="utf-8"))
        if not all(isinstance(reference[part], dict) for part in ("records", "verdicts")):
            raise TypeError("records and verdicts are needed")
    except FileNotFoundError:
        raise UserError(f"{shown} is not there", mend) from None
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise UserError(f"{shown} cannot be read as a reference ({problem})", mend) from None
    return reference


def write_reference(path: Path, ledger: Ledger, records: dict[str, Record], profile: str) -> None:
    """Store what was recorded and judged as the new reference, atomically."""
    body = {
        "paper": ledger.paper,
        "profile": profile,
        "records": {key: record.value for key, record in records.items()},
        "verdicts": {claim.id: verdict(claim, records, profile).word for claim in ledger.claims},
    }
    write_text(path, json.dumps(body, indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a whole file or nothing.

    Raises:
        UserError: the folder or disk does not take it.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    except OSError as problem:
        raise UserError(
            f"cannot write {path} ({problem.strerror})", "Free space or change its rights."
        ) from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


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
    head = f"{result.chapter} ({result.profile}, {result.seconds:.0f} s)"
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
        f"{value:.10g}"
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


def ledger_of(name: str, root: Path | None = None) -> Ledger:
    """A ledger by its paper key or by its chapter's name.

    Raises:
        UserError: neither.
    """
    root = root or find_root()
    for ledger in all_ledgers(root):
        if name in (ledger.paper, ledger.chapter_name):
            return ledger
    return load_ledger(name, root)
