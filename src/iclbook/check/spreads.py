"""How far rounding alone carries each recorded value: chapters run again on emulated machines, in a copy of the book."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ..claims import Ledger, Record, read_records
from ..errors import UserError
from ..machines import emulated
from ..references import Reference, Spread, Value, read_reference, reference_path, spread_of, write_reference

#: Not part of the copy: what a run makes anew (caches hide differences between machines), and what it does not read.
LEFT_OUT = (".git", ".venv", ".cache", "_build", "executed", "__pycache__", ".*_cache")


@contextmanager
def elsewhere(root: Path) -> Iterator[Path]:
    """A copy of the book's folder without caches and outputs, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="iclbook-") as folder:
        copy = Path(folder) / "book"
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=False)
        yield copy


def measure_spreads(
    ledgers: Sequence[Ledger], profile: str, root: Path, jobs: int | None = None, machines: Sequence[str] | None = None
) -> None:
    """Run chapters on emulated machines and write the spread of each value into their references.

    They are written after every machine, and name those that the spread was measured on: an interrupt loses one machine's runs.

    Args:
        machines: all of :func:`iclbook.machines.emulated` by default.

    Raises:
        UserError: a chapter that fails on a machine, or records other keys there.
    """
    from . import words

    seen: dict[str, list[Mapping[str, Value]]] = {ledger.chapter_name: [] for ledger in ledgers}
    machines = tuple(machines or emulated())
    for number, machine in enumerate(machines, start=1):
        for name, values in _values_on(machine, list(seen), profile, root, jobs):
            seen[name].append(values)
        for ledger in ledgers:
            path = reference_path(ledger.chapter_name, profile, root)
            reference = with_spread(read_reference(path, root), seen[ledger.chapter_name], machines[:number])
            records = {key: Record.make(key, value) for key, value in reference.records.items()}
            reference = replace(reference, verdicts=words(ledger, records, profile, reference))
            write_reference(path, ledger.paper, reference)
        print(f"{machine}: {', '.join(seen)}", flush=True)


def with_spread(reference: Reference, others: Sequence[Mapping[str, Value]], machines: tuple[str, ...]) -> Reference:
    """The reference with the largest deviation of each value over ``others``, those of ``machines``.

    Raises:
        UserError: a key that is not recorded on every machine, or a list whose length differs between machines.
    """
    spread: dict[str, Spread] = {}
    for key, value in reference.records.items():
        try:
            spread[key] = spread_of(value, [values[key] for values in others])
        except (KeyError, ValueError):
            raise UserError(
                f"{key} is not of one shape on all machines", "Record something that does not depend on rounding."
            ) from None
    return replace(reference, spread=spread, machines=machines)


def _values_on(
    machine: str, names: Sequence[str], profile: str, root: Path, jobs: int | None
) -> Iterator[tuple[str, dict[str, Value]]]:
    from . import run_chapters

    with elsewhere(root) as copy:
        for name, result, _ in run_chapters(names, profile, "cpu", copy, jobs, machine):
            if isinstance(result, UserError):
                raise UserError(f"{name} on {machine}: {result.problem}", result.mend)
            yield name, {key: record.value for key, record in read_records(result).items()}
