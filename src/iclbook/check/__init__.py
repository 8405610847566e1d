"""The regression check: run chapters headless under pinned code paths and compare every recorded value with its stored reference."""

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path

import nbformat
import numpy as np

from .. import draw, replication
from ..claims import Ledger, Record, all_ledgers, judge, read_records
from ..claims.references import (
    MACHINES,
    Reference,
    Spread,
    Value,
    load_reference,
    other_draws,
    read_reference,
    reference_path,
    spread_of,
    write_reference,
)
from ..errors import UserError, one_line, say
from ..files import write_whole
from ..inputs import chosen, executed_path, is_stale
from ..machines import environment, this_machine, versions
from ..numbers import number
from ..project import check_profile, find_root
from .figures import Digest, moved, read_figures, spread_of_figure

#: Processor seconds that a chapter should take, so that its references are renewed within minutes.
BUDGET = {"smoke": 20, "paper": 40}


@dataclass(frozen=True)
class Difference:
    """One thing that is not as the reference has it.

    Attributes:
        kind: ``moved``, ``missing`` (in the reference, no longer recorded), ``new`` (recorded, not in the reference), ``verdict``,
            ``figure`` (the numbers of a figure, slider or model of the page), ``rule`` (changed and not marked as late).
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
    first: bool = False
    slowest: list[tuple[float, str]] = field(default_factory=list)

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
    machine: str = "pinned",
    machines: Sequence[str] = MACHINES,
) -> list[ChapterCheck]:
    """Run the chapters and compare what they record with the references.

    A chapter that fails counts as an error of that chapter; the others are still checked.

    Args:
        update: write the references instead of comparing, with the spread of every value over emulated ``machines``, on which the chapters run again; the
            differences to the old references are still reported. Copies that show margins of old references are then made anew. At another draw spreads are the book's own, because rounding acts alike in all.
        machine: ``pinned``, or an emulated one, which runs in a copy of the book and leaves nothing here.
    """
    check_profile(profile)
    root = root or find_root()
    ledgers = {name: _ledger(name, root) for name in chosen(names, root)}
    if draw.number():
        replication.require_frozen(ledgers.values(), root)
        if update and profile == "paper":  # before anything of it is seen, and where it is trained by hand
            replication.predict(draw.number(), root)
    for name in [] if update else ledgers:  # before minutes of running
        read_reference(reference_path(name, profile, root), root)
    pinned = machine == "pinned"
    update = update and pinned
    with nullcontext(root) if pinned else _elsewhere(root) as book:
        runs = {n: (done, s) for n, done, s in run_chapters(list(ledgers), profile, device, book, jobs, machine)}
        measured = [name for name, (done, _) in runs.items() if update and isinstance(done, Path) and not draw.number()]
        others = _on_other_machines(measured, machines, profile, root, jobs) if measured else {}
        checked = [
            _check_one(ledger, profile, update, root, *runs[name], pinned, others.get(name, ()), machines)
            for name, ledger in ledgers.items()
        ]
        again = [each.chapter for each in checked if each.updated and is_stale(each.chapter, profile, root)]
        if again and not draw.number():
            list(run_chapters(again, profile, device, book, jobs, machine))
        return checked


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
    ledger: Ledger,
    profile: str,
    update: bool,
    root: Path,
    executed: Path | UserError,
    seconds: float,
    figures: bool,
    others: Sequence["Path | UserError"] = (),
    machines: Sequence[str] = MACHINES,
) -> ChapterCheck:
    """Compare what a chapter recorded with its reference, or replace that, with spreads over the ``others``, executed copies of other machines."""
    name = ledger.chapter_name
    result = ChapterCheck(name, ledger.paper, profile, seconds)
    path = reference_path(name, profile, root)
    try:
        if isinstance(executed, UserError):
            raise executed
        result.slowest = slowest(executed)
        records, drawn = read_records(executed), {} if draw.number() else read_figures(executed)
        reference = None
        with suppress(UserError) if update else nullcontext():  # what is replaced may be missing or damaged
            reference = replace(read_reference(path, root), draws=other_draws(name, profile, root))
        if reference is not None:
            result.differences = compare(ledger, records, reference, profile, drawn if figures else reference.figures)
    except UserError as problem:
        result.error = str(problem)
        return result
    result.compared = len(records)
    if not update:
        return result
    try:
        new = Reference({key: record.value for key, record in records.items()}, figures=drawn)
        if draw.number():
            old = load_reference(name, profile, root) or Reference({})
            known = ((k, size) for k, size in old.spread.items() if k in new.records)
            spread = {k: size for k, size in known if np.shape(new.records[k]) == np.shape(size)}
            rules = {claim.id: claim.rules_digest for claim in ledger.claims}
            new = replace(new, spread=spread, rules=rules)
        else:
            if changed := rules_changed(ledger, reference or Reference({})):
                raise UserError(f"{changed[0].name} changed after its first reference", "Mark it with late: true.")
            rules = {claim.id: " ".join(part.digest for part in claim.parts) for claim in ledger.claims}
            new = with_spread(replace(new, rules=rules, draws=other_draws(name, profile, root)), others)
        about = {"date": f"{date.today()}", "processor": this_machine(), "versions": versions(), "machines": machines}
        verdicts = words(ledger, records, profile, new)
        write_reference(path, ledger.paper, replace(new, made=about, verdicts=verdicts))
    except UserError as problem:
        result.error = str(problem)
        return result
    if draw.number():
        replication.keep_provenance(ledger.paper, profile, root)
        if profile == "paper":
            replication.keep_verdicts(draw.number(), ledger, root)
    if reference is None and not draw.number():
        result.first = True
        result.differences = _verdicts_moved(words(ledger, records, profile, None), verdicts)
    result.updated = True
    return result


def slowest(executed: Path, most: int = 3) -> list[tuple[float, str]]:
    """The slowest cells of an executed copy: seconds by the clock, and how they begin."""
    cells = [cell for cell in nbformat.read(executed, as_version=4).cells if cell.source]
    took = [(cell.metadata.get("papermill", {}).get("duration") or 0.0, cell.source[:40]) for cell in cells]
    return sorted(took, reverse=True)[:most]


def words(ledger: Ledger, records: Mapping[str, Record], profile: str, reference: Reference | None) -> dict[str, str]:
    """The verdict of every claim in a word."""
    return {claim_id: verdict.word for claim_id, verdict in judge(ledger, records, profile, reference).items()}


def compare(
    ledger: Ledger, records: Mapping[str, Record], reference: Reference, profile: str, figures: Mapping[str, Digest]
) -> list[Difference]:
    """Differences between an executed chapter and its reference: values first, then verdicts, then figures.

    A key whose tolerance is ``none`` must still be there; its value may be anything. Another draw keeps its verdicts whatever rules become, so there they are not compared.
    """
    differences = []
    for key in dict.fromkeys([*reference.records, *records]):
        expected = reference.records.get(key)
        if key not in records:
            differences.append(Difference("missing", key, expected, None))
        elif key not in reference.records:
            differences.append(Difference("new", key, None, records[key].value))
        elif key not in ledger.uncompared and not reference.agrees(key, records[key].value):
            bound = "exact" if isinstance(expected, bool | str) else number(np.max(reference.allowance(key)), 2)
            differences.append(Difference("moved", key, expected, records[key].value, bound))
    differences += _verdicts_moved(reference.verdicts, words(ledger, records, profile, reference))
    differences += [Difference("figure", *what) for what in moved(reference.figures, figures)]
    return differences + ([] if draw.number() else rules_changed(ledger, reference))


def _verdicts_moved(before: Mapping[str, str], now: Mapping[str, str]) -> list[Difference]:
    pairs = {claim_id: (before.get(claim_id), now.get(claim_id)) for claim_id in [*before, *now]}
    return [Difference("verdict", claim_id, *pair) for claim_id, pair in pairs.items() if pair[0] != pair[1]]


def rules_changed(ledger: Ledger, reference: Reference) -> list[Difference]:
    """Parts whose rule is not that of the claim's reference and that do not say ``late: true``: a bound that was moved after the run was seen."""
    return [
        Difference("rule", f"{claim.id}, {part.full_name}", "as in the reference", part.rule.text)
        for claim in ledger.claims
        for part in claim.parts
        if claim.id in reference.rules and not part.late and part.digest not in reference.rules[claim.id].split()
    ]


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


#: What a chapter recorded and drew.
Run = tuple[Mapping[str, Value], Mapping[str, Digest]]


def _on_other_machines(
    names: Sequence[str], machines: Sequence[str], profile: str, root: Path, jobs: int | None
) -> dict[str, list[Run | UserError]]:
    """Runs of chapters on each of these machines, or why one stopped."""
    runs: dict[str, list[Run | UserError]] = {name: [] for name in names}
    for machine in machines:
        with _elsewhere(root) as copy:
            for name, done, _ in run_chapters(names, profile, "cpu", copy, jobs, machine):
                runs[name].append(
                    UserError(f"{machine}: {done.problem}", done.hint)
                    if isinstance(done, UserError)
                    else ({key: record.value for key, record in read_records(done).items()}, read_figures(done))
                )
        say(f"{machine}: {', '.join(names)}")
    return runs


def with_spread(reference: Reference, others: Sequence[Run | UserError]) -> Reference:
    """A reference with the largest deviation of each value, and of each series of its figures, over runs on other machines; a run that stopped and a value of another
    shape are a UserError."""
    for problem in (other for other in others if isinstance(other, UserError)):
        raise problem
    spread: dict[str, Spread] = {}
    for key, value in reference.records.items():
        try:
            spread[key] = spread_of(value, [records[key] for records, _ in others])
        except (KeyError, ValueError):
            hint = "Record something that does not depend on rounding."
            raise UserError(f"{key} is not of one shape on all machines", hint) from None
    figures = {
        name: spread_of_figure(series, [drawn.get(name, {}) for _, drawn in others])
        for name, series in reference.figures.items()
    }
    return replace(reference, spread=spread, figures=figures)


# -- the results, for a terminal and as JSON -------------------------------------------------------------------------------


def table(results: Sequence[ChapterCheck]) -> str:
    """Table of differences for a terminal, with a closing line for each chapter."""
    lines = []
    for result in results:
        shown = [
            (d.kind, one_line(d.name), _short(d.reference), _short(d.measured), d.tolerance) for d in result.differences
        ]
        if shown:
            rows = [("what", "name", "reference", "measured", "tolerance"), *shown]
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        count, compared = len(shown), result.compared
        closing = f"MOVED, {count} difference{'' if count == 1 else 's'}, {compared} values recorded"
        if result.error:
            closing = f"FAILED. {result.error}"
        elif result.first:
            closing = f"first reference written, {compared} values: verdicts have margins now, which changed {count}"
        elif result.updated:
            closing = f"reference written, {compared} values, {count} differences to the old one"
        elif not count:
            closing = f"ok, {compared} values agree"
        lines.append(f"{result.chapter} ({result.profile}, {number(result.seconds, form='.0f')} CPU s): {closing}")
        if result.seconds > BUDGET[result.profile]:
            slow = "; ".join(f"{number(s, form='.0f')} s at {cell!r}" for s, cell in result.slowest)
            lines.append(f"that is more than {BUDGET[result.profile]} s. By the clock: {slow}")
    return "\n".join(lines)


def _short(value: Value | None) -> str:
    text = number(value, 10) if isinstance(value, float) else "-" if value is None else one_line(value)
    return text if len(text) <= 40 else text[:39] + "\u2026"


def write_json(path: Path, results: Sequence[ChapterCheck]) -> None:
    """The results as JSON."""
    body = {"ok": all(r.ok for r in results), "chapters": [asdict(r) | {"ok": r.ok} for r in results]}
    write_whole(path, json.dumps(body, indent=1) + "\n")
