"""The regression check: run chapters headless under pinned code paths and compare every recorded value with its stored reference."""

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from .. import draw, replication
from ..claims import Ledger, Record, all_ledgers, judge, read_records
from ..claims.references import (
    Reference,
    Spread,
    Value,
    is_unmoved,
    load_reference,
    read_reference,
    reference_path,
    spread_of,
    tolerance,
    write_reference,
)
from ..errors import UserError
from ..files import write_whole
from ..inputs import chosen, executed_path
from ..machines import emulated, environment
from ..numbers import number
from ..project import check_profile, find_root
from .figures import Digest, moved, read_figures


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
    """Result of the check of one chapter."""

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


def _ledger(name: str, root: Path) -> Ledger:
    ledger = next((ledger for ledger in all_ledgers(root) if ledger.chapter_name == name), None)
    if ledger is None:
        raise UserError(f"no ledger names notebooks/{name}.py", "Set chapter: in its claims.yaml.")
    return ledger


def check(
    names: Sequence[str] = (),
    profile: str = "smoke",
    device: str = "auto",
    update: bool = False,
    root: Path | None = None,
    jobs: int | None = None,
    spread: bool = False,
    machine: str = "pinned",
) -> list[ChapterCheck]:
    """Run the chapters and compare what they record with the references.

    A chapter that fails counts as an error of that chapter; the others are still checked.

    Args:
        names: chapter names; all chapters of the book when empty.
        update: write the references instead of comparing; the differences to the old ones are still reported.
        jobs: chapters to run at once; default: one for each core.
        spread: write the references with the spread of every value, measured anew over the emulated machines.
        machine: ``pinned``, or an emulated one, which runs in a copy of the book and leaves nothing here.
    """
    check_profile(profile)
    root = root or find_root()
    ledgers = {name: _ledger(name, root) for name in chosen(names, root)}
    if draw.number():
        replication.require_frozen(ledgers.values(), root)
    for name in [] if update or spread else ledgers:  # before minutes of running
        read_reference(reference_path(name, profile, root), root)
    pinned = machine == "pinned"
    with nullcontext(root) if pinned else _elsewhere(root) as book:
        results = {
            name: _check_one(ledgers[name], profile, (update or spread) and pinned, root, result, seconds, pinned)
            for name, result, seconds in run_chapters(list(ledgers), profile, device, book, jobs, machine)
        }
    if spread and pinned:
        measure_spreads([ledgers[name] for name, result in results.items() if result.updated], profile, root, jobs)
    return [results[name] for name in ledgers]


def check_executed(name: str, profile: str, root: Path, figures: bool = True) -> ChapterCheck:
    """Compare an executed copy that is there already with its reference; its ``figures`` too, whose numbers agree under pinned code paths only."""
    return _check_one(_ledger(name, root), profile, False, root, executed_path(name, profile, root), 0.0, figures)


def run_chapters(
    names: Sequence[str], profile: str, device: str, root: Path, jobs: int | None, machine: str
) -> Iterable[tuple[str, Path | UserError, float]]:
    """Run chapters by papermill on a machine, several at once; one at a time where a chapter has two threads."""
    from ..execution import run_notebooks

    jobs = 1 if machine.endswith("-2") else jobs
    return run_notebooks(names, profile, device, root.resolve(), jobs, environment(machine))


def _check_one(
    ledger: Ledger, profile: str, update: bool, root: Path, executed: Path | UserError, seconds: float, figures: bool
) -> ChapterCheck:
    """Compare what a chapter recorded with its reference, or replace that."""
    name = ledger.chapter_name
    result = ChapterCheck(name, ledger.paper, profile, seconds)
    path = reference_path(name, profile, root)
    try:
        if isinstance(executed, UserError):
            raise executed
        records, drawn = read_records(executed), {} if draw.number() else read_figures(executed)
        reference = None
        with suppress(UserError) if update else nullcontext():  # what is replaced may be missing or damaged
            reference = read_reference(path, root)
        if reference is not None:
            result.differences = compare(ledger, records, reference, profile, drawn if figures else reference.figures)
    except UserError as problem:
        result.error = str(problem)
        return result
    result.compared = len(records)
    if update:
        old = load_reference(name, profile, root) if draw.number() else reference
        rules = {claim.id: claim.rules_digest for claim in ledger.claims} if draw.number() else {}
        write_reference(
            path, ledger.paper, replace(_renewed(ledger, records, old, profile), figures=drawn, rules=rules)
        )
        if draw.number():
            replication.keep_provenance(ledger.paper, profile, root)
        result.updated = True
    return result


def _renewed(ledger: Ledger, records: Mapping[str, Record], old: Reference | None, profile: str) -> Reference:
    """A reference with new values; spreads are kept where the value is of the same shape, and are as old as they were."""
    values = {key: record.value for key, record in records.items()}
    old = old or Reference({})
    spread = {k: size for k, size in old.spread.items() if k in values and np.shape(values[k]) == np.shape(size)}
    new = Reference(values, spread, {}, old.machines)
    return replace(new, verdicts=words(ledger, records, profile, new))


def words(ledger: Ledger, records: Mapping[str, Record], profile: str, reference: Reference | None) -> dict[str, str]:
    """The verdict of every claim in a word."""
    return {claim_id: verdict.word for claim_id, verdict in judge(ledger, records, profile, reference).items()}


def compare(
    ledger: Ledger, records: Mapping[str, Record], reference: Reference, profile: str, figures: Mapping[str, Digest]
) -> list[Difference]:
    """Differences between an executed chapter and its reference: values first, then verdicts, then figures.

    A key whose tolerance is ``none`` must still be there; its value may be anything. A value whose tolerance is as large as itself must only stay as small.
    """
    differences = []
    for key in dict.fromkeys([*reference.records, *records]):
        expected = reference.records.get(key)
        spread = np.broadcast_to(reference.spread.get(key, 0.0), np.shape(expected)).tolist()
        if key not in records:
            differences.append(Difference("missing", key, expected, None))
        elif key not in reference.records:
            differences.append(Difference("new", key, None, records[key].value))
        elif key not in ledger.uncompared and not is_unmoved(records[key].value, expected, spread):
            bound = "exact" if isinstance(expected, bool | str) else number(np.max(tolerance(expected, spread)), 2)
            differences.append(Difference("moved", key, expected, records[key].value, bound))
    now = words(ledger, records, profile, reference)
    for claim_id in dict.fromkeys([*reference.verdicts, *now]):
        before, after = reference.verdicts.get(claim_id), now.get(claim_id)
        if before != after:
            differences.append(Difference("verdict", claim_id, before, after))
    differences += [Difference("figure", *what) for what in moved(reference.figures, figures)]
    return differences


# -- how far rounding alone carries each recorded value: chapters run again on emulated machines, in a copy of the book ------

#: Not part of the copy: what a run makes anew (caches hide differences between machines), and what it does not read.
LEFT_OUT = (".git", ".venv", ".cache", "_build", "draws", "executed", "__pycache__", ".*_cache")


@contextmanager
def _elsewhere(root: Path) -> Iterator[Path]:
    """A copy of the book's folder without caches and outputs, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="iclbook-") as folder:
        copy = Path(folder) / "book"
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=False)
        yield copy


def measure_spreads(
    ledgers: Sequence[Ledger], profile: str, root: Path, jobs: int | None = None, machines: Sequence[str] | None = None
) -> None:
    """Run chapters on emulated ``machines`` (default: all) and write the spread of each value into their references.

    They are written after every machine, and name those that the spread was measured on: an interrupt loses one machine's runs.
    """
    seen: dict[str, list[Mapping[str, Value]]] = {ledger.chapter_name: [] for ledger in ledgers}
    machines = tuple(machines or emulated())
    for done, machine in enumerate(machines, start=1):
        with _elsewhere(root) as copy:
            for name, result, _ in run_chapters(list(seen), profile, "cpu", copy, jobs, machine):
                if isinstance(result, UserError):
                    raise UserError(f"{name} on {machine}: {result.problem}", result.hint)
                seen[name].append({key: record.value for key, record in read_records(result).items()})
        for ledger in ledgers:
            path = reference_path(ledger.chapter_name, profile, root)
            reference = _with_spread(read_reference(path, root), seen[ledger.chapter_name], machines[:done])
            records = {key: Record.make(key, value) for key, value in reference.records.items()}
            write_reference(path, ledger.paper, replace(reference, verdicts=words(ledger, records, profile, reference)))
        print(f"{machine}: {', '.join(seen)}", flush=True)


def _with_spread(reference: Reference, others: Sequence[Mapping[str, Value]], machines: tuple[str, ...]) -> Reference:
    """The reference with the largest deviation of each value over ``others``, those of ``machines``; a value must be of one shape on all."""
    spread: dict[str, Spread] = {}
    for key, value in reference.records.items():
        try:
            spread[key] = spread_of(value, [values[key] for values in others])
        except (KeyError, ValueError):
            hint = "Record something that does not depend on rounding."
            raise UserError(f"{key} is not of one shape on all machines", hint) from None
    return replace(reference, spread=spread, machines=machines)


# -- the results, for a terminal and as JSON -------------------------------------------------------------------------------


def table(results: Sequence[ChapterCheck]) -> str:
    """Table of differences for a terminal, with a closing line for each chapter."""
    lines = []
    for result in results:
        shown = [(d.kind, d.name, _short(d.reference), _short(d.measured), d.tolerance) for d in result.differences]
        if shown:
            rows = [("what", "name", "reference", "measured", "tolerance"), *shown]
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        count, compared = len(shown), result.compared
        closing = f"MOVED, {count} difference{'' if count == 1 else 's'}, {compared} values recorded"
        if result.error:
            closing = f"FAILED. {result.error}"
        elif result.updated:
            closing = f"reference written, {compared} values, {count} differences to the old one"
        elif not count:
            closing = f"ok, {compared} values agree"
        lines.append(f"{result.chapter} ({result.profile}, {number(result.seconds, form='.0f')} s): {closing}")
    return "\n".join(lines)


def _short(value: Value | None) -> str:
    text = number(value, 10) if isinstance(value, float) else "-" if value is None else str(value)
    return text if len(text) <= 40 else text[:39] + "\u2026"


def write_json(path: Path, results: Sequence[ChapterCheck]) -> None:
    """The results as JSON."""
    body = {"ok": all(r.ok for r in results), "chapters": [asdict(r) | {"ok": r.ok} for r in results]}
    write_whole(path, json.dumps(body, indent=1) + "\n")
