"""The regression check: run chapters headless under pinned code paths and compare every recorded value with its stored reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from .. import draw, replication
from ..claims import Ledger, Record, all_ledgers, judge, load_ledger, read_records
from ..errors import UserError
from ..machines import environment
from ..numbers import number
from ..project import check_profile, find_root
from ..references import (
    Reference,
    agrees,
    is_regression_value,
    is_small,
    load_reference,
    read_reference,
    reference_path,
    tolerance,
    write_reference,
)
from .figures import Digest, moved, read_figures
from .reports import ChapterCheck, Difference, table, write_json

__all__ = [
    "ChapterCheck",
    "Difference",
    "check",
    "check_executed",
    "compare",
    "known_chapters",
    "ledger_of",
    "require_chapter",
    "table",
    "write_json",
]

#: ``runner(name, profile, device)`` runs a chapter and returns its executed copy.
Runner = Callable[[str, str, str], Path]


def check(
    names: Sequence[str] = (),
    profile: str = "smoke",
    device: str = "auto",
    update: bool = False,
    root: Path | None = None,
    runner: Runner | None = None,
    jobs: int | None = None,
    spread: bool = False,
    machine: str = "pinned",
) -> list[ChapterCheck]:
    """Run the chapters and compare what they record with the references.

    A chapter that fails counts as an error of that chapter; the others are still checked.

    Args:
        names: chapter names; all chapters of the book when empty.
        update: write the references instead of comparing; the differences to the old ones are still reported.
        runner: how to run a chapter; papermill unless a test says otherwise.
        jobs: chapters to run at once; default: one for each core.
        spread: write the references with the spread of every value, measured anew over the emulated machines.
        machine: ``pinned``, or an emulated one, which runs in a copy of the book and leaves nothing here.

    Raises:
        UserError: unknown chapter or profile, missing or damaged reference, malformed ledger.
    """
    check_profile(profile)
    root = root or find_root()
    ledgers = _ledgers_of(names, root)
    if draw.number():
        replication.require_frozen(ledgers.values(), root)
    chosen = list(ledgers)
    for name in [] if update or spread else chosen:  # before minutes of running
        read_reference(reference_path(name, profile, root), root)
    if machine != "pinned":
        return _check_elsewhere(ledgers, profile, device, root, jobs, machine)
    if runner:
        runs = _run_in_turn(runner, chosen, profile, device)
    else:
        runs = run_chapters(chosen, profile, device, root, jobs, machine)
    found = _judged(ledgers, profile, update or spread, root, runs)
    if spread:
        from .spreads import measure_spreads

        measure_spreads([ledgers[result.chapter] for result in found if result.updated], profile, root, jobs)
    return found


def _check_elsewhere(
    ledgers: Mapping[str, Ledger], profile: str, device: str, root: Path, jobs: int | None, machine: str
) -> list[ChapterCheck]:
    """:func:`check` on an emulated machine, in a copy of the book."""
    from .spreads import elsewhere

    with elsewhere(root) as copy:
        runs = list(run_chapters(list(ledgers), profile, device, copy, jobs, machine))
        return _judged(ledgers, profile, False, root, runs, figures=False)


def _ledgers_of(chapters: Sequence[str], root: Path) -> dict[str, Ledger]:
    """Chapter -> its ledger, of these chapters or of all of the book.

    Raises:
        UserError: unknown chapter, or one that no ledger names.
    """
    known = known_chapters(root)
    for name in chapters:
        require_chapter(name, known)
    ledgers = {ledger.chapter_name: ledger for ledger in all_ledgers(root)}
    for name in chapters or known:
        if name not in ledgers:
            raise UserError(f"no ledger names notebooks/{name}.py", "Set chapter: in its claims.yaml.")
    return {name: ledgers[name] for name in chapters or known}


def _judged(
    ledgers: Mapping[str, Ledger],
    profile: str,
    update: bool,
    root: Path,
    runs: Iterable[tuple[str, Path | UserError, float]],
    figures: bool = True,
) -> list[ChapterCheck]:
    found = {
        name: _check_one(ledgers[name], profile, update, root, result, seconds, figures)
        for name, result, seconds in runs
    }
    return [found[name] for name in ledgers]


def check_executed(name: str, profile: str, root: Path | None = None, figures: bool = True) -> ChapterCheck:
    """Compare an executed copy that is there already with its reference.

    Args:
        figures: compare the figures too, whose numbers agree under pinned code paths only.

    Raises:
        UserError: unknown chapter or profile, malformed ledger.
    """
    from ..inputs import executed_path

    root = root or find_root()
    require_chapter(name, known_chapters(root))
    ledger, path = ledger_of(name, root), executed_path(name, profile, root)
    return _check_one(ledger, profile, False, root, path, 0.0, figures)


def known_chapters(root: Path) -> list[str]:
    """Chapters that the book lists, in reading order."""
    from ..inputs import chapters

    return chapters(root)


def require_chapter(name: str, known: Sequence[str]) -> None:
    """Refuse an unknown chapter, naming the known ones.

    Raises:
        UserError: not a chapter of the book.
    """
    if name not in known:
        raise UserError(f"unknown chapter {name!r}", f"Choose one of: {', '.join(known) or '(none yet)'}.")


def run_chapters(
    names: Sequence[str], profile: str, device: str, root: Path, jobs: int | None, machine: str
) -> Iterable[tuple[str, Path | UserError, float]]:
    """Run chapters by papermill on a machine, several at once; one at a time where a chapter has two threads."""
    from ..execution import run_notebooks

    jobs = 1 if machine.endswith("-2") else jobs
    return run_notebooks(names, profile, device, root.resolve(), jobs, environment(machine))


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
    ledger: Ledger, profile: str, update: bool, root: Path, executed: Path | UserError, seconds: float, figures: bool
) -> ChapterCheck:
    name = ledger.chapter_name
    result = ChapterCheck(name, ledger.paper, profile, seconds)
    path = reference_path(name, profile, root)
    try:
        if isinstance(executed, UserError):
            raise executed
        records, drawn = read_records(executed), {} if draw.number() else read_figures(executed)
        reference = _old_reference(path, root) if update else read_reference(path, root)
        if reference is not None:
            result.differences = compare(ledger, records, reference, profile, drawn if figures else reference.figures)
    except UserError as problem:
        result.error = str(problem)
        return result
    result.compared = len(records)
    if update:
        spreads_of = load_reference(name, profile, root) if draw.number() else reference
        rules = {claim.id: claim.rules_digest for claim in ledger.claims} if draw.number() else {}
        new = replace(renewed(ledger, records, spreads_of, profile), figures=drawn, rules=rules)
        write_reference(path, ledger.paper, new)
        if draw.number():
            replication.keep_provenance(ledger.paper, profile, root)
        result.updated = True
    return result


def _old_reference(path: Path, root: Path) -> Reference | None:
    """The reference that is about to be replaced; None where there is none to compare with, or a damaged one."""
    try:
        return read_reference(path, root)
    except UserError:
        return None


def renewed(ledger: Ledger, records: Mapping[str, Record], old: Reference | None, profile: str) -> Reference:
    """A reference with new values; spreads are kept where the value is of the same shape, and are as old as they were."""
    values = {key: record.value for key, record in records.items()}
    old = old or Reference({})
    spread = {k: s for k, s in old.spread.items() if k in values and _shape(values[k]) == _shape(s)}
    new = Reference(values, spread, {}, old.machines)
    return replace(new, verdicts=words(ledger, records, profile, new))


def _shape(value: object) -> int:
    return len(value) if isinstance(value, list) else -1


def words(ledger: Ledger, records: Mapping[str, Record], profile: str, reference: Reference | None) -> dict[str, str]:
    """The verdict of every claim in a word."""
    return {claim_id: found.word for claim_id, found in judge(ledger, records, profile, reference).items()}


def compare(
    ledger: Ledger, records: Mapping[str, Record], reference: Reference, profile: str, figures: Mapping[str, Digest]
) -> list[Difference]:
    """Every difference between an executed chapter and its reference: values first, then verdicts, then figures.

    A key whose tolerance is ``none`` must still be there; its value may be anything. A value whose tolerance is as large as itself must only stay as small;
    its size is left to the rules that judge it.
    """
    differences = []
    for key, expected in reference.records.items():
        spread = reference.spread.get(key, _none(expected))
        same = agrees if is_regression_value(expected, spread) else is_small
        if key not in records:
            differences.append(Difference("missing", key, expected, None))
        elif key not in ledger.uncompared and not same(records[key].value, expected, spread):
            bound = _bound(expected, spread)
            differences.append(Difference("moved", key, expected, records[key].value, bound))
    for key, record in records.items():
        if key not in reference.records:
            differences.append(Difference("new", key, None, record.value))
    now = words(ledger, records, profile, reference)
    for claim_id in dict.fromkeys([*reference.verdicts, *now]):
        before, after = reference.verdicts.get(claim_id), now.get(claim_id)
        if before != after:
            differences.append(Difference("verdict", claim_id, before, after))
    differences += [Difference("figure", *what) for what in moved(reference.figures, figures)]
    return differences


def _none(value: object) -> float | list:
    """No spread, in the shape of the value."""
    return [0.0] * len(value) if isinstance(value, list) else 0.0


def _bound(value: object, spread: float | list) -> str:
    """The tolerance in words; of a list the largest."""
    if isinstance(value, bool | str):
        return "exact"
    sizes = tolerance(value, spread)
    return number(max(sizes) if isinstance(sizes, list) else sizes, 2)


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
