"""The regression check: run chapters headless under pinned code paths and compare every recorded value with its stored reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from .. import draw, replication
from ..claims import Ledger, Record, all_ledgers, judge, load_ledger, read_records
from ..errors import UserError
from ..inputs import chosen, executed_path
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

__all__ = ["ChapterCheck", "Difference", "check", "check_executed", "compare", "ledger_of", "table", "write_json"]


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

    Raises:
        UserError: unknown chapter or profile, missing or damaged reference, malformed ledger.
    """
    from .spreads import elsewhere, measure_spreads

    check_profile(profile)
    root = root or find_root()
    known = {ledger.chapter_name: ledger for ledger in all_ledgers(root)}
    ledgers: dict[str, Ledger] = {}
    for name in chosen(names, root):
        if name not in known:
            raise UserError(f"no ledger names notebooks/{name}.py", "Set chapter: in its claims.yaml.")
        ledgers[name] = known[name]
    if draw.number():
        replication.require_frozen(ledgers.values(), root)
    for name in [] if update or spread else ledgers:  # before minutes of running
        read_reference(reference_path(name, profile, root), root)
    pinned = machine == "pinned"
    with nullcontext(root) if pinned else elsewhere(root) as book:
        found = {
            name: _check_one(ledgers[name], profile, (update or spread) and pinned, root, result, seconds, pinned)
            for name, result, seconds in run_chapters(list(ledgers), profile, device, book, jobs, machine)
        }
    if spread and pinned:
        measure_spreads([ledgers[name] for name, result in found.items() if result.updated], profile, root, jobs)
    return [found[name] for name in ledgers]


def check_executed(name: str, profile: str, root: Path, figures: bool = True) -> ChapterCheck:
    """Compare an executed copy that is there already with its reference.

    Args:
        figures: compare the figures too, whose numbers agree under pinned code paths only.

    Raises:
        UserError: unknown profile, malformed ledger.
    """
    return _check_one(ledger_of(name, root), profile, False, root, executed_path(name, profile, root), 0.0, figures)


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
        reference = _old_reference(path, root) if update else read_reference(path, root)
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


def _old_reference(path: Path, root: Path) -> Reference | None:
    """The reference that is about to be replaced; None where there is none to compare with, or a damaged one."""
    try:
        return read_reference(path, root)
    except UserError:
        return None


def _renewed(ledger: Ledger, records: Mapping[str, Record], old: Reference | None, profile: str) -> Reference:
    """A reference with new values; spreads are kept where the value is of the same shape, and are as old as they were."""
    values = {key: record.value for key, record in records.items()}
    old = old or Reference({})
    spread = {key: size for key, size in old.spread.items() if key in values and _shape(values[key]) == _shape(size)}
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
        spread = reference.spread.get(key, [0.0] * len(expected) if isinstance(expected, list) else 0.0)
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


def _bound(value: object, spread: float | list) -> str:
    """The tolerance in words; of a list the largest."""
    if isinstance(value, bool | str):
        return "exact"
    sizes = tolerance(value, spread)
    return number(max(sizes) if isinstance(sizes, list) else sizes, 2)


def ledger_of(name: str, root: Path) -> Ledger:
    """A ledger by its paper key or by its chapter's name.

    Raises:
        UserError: neither.
    """
    for ledger in all_ledgers(root):
        if name in (ledger.paper, ledger.chapter_name):
            return ledger
    return load_ledger(name, root)
