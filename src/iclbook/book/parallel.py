"""Run several chapters at once, each in a process of its own: a chapter computes on one core."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter

from ..errors import UserError
from ..machines import usable_cores
from . import execute, orphans
from .kernels import kernel_environment
from .nursery import Nursery


def run_notebooks(
    names: Sequence[str],
    profile: str,
    device: str,
    root: Path,
    jobs: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, Path | UserError, float]]:
    """Run chapters and hand each on as it finishes.

    One chapter, or ``jobs=1``, runs in this process. A chapter that fails does not stop the others. An interrupt reaches every running
    chapter, which then leaves nothing behind.

    Args:
        names: chapter names.
        profile, device, root, environment: as in :func:`~iclbook.book.execute.run_notebook`.
        jobs: chapters at once; default: one for each core.

    Yields:
        Name, executed copy or what went wrong, and seconds.
    """
    jobs = min(jobs or usable_cores(), len(names))
    # elsewhere than on Linux a process may not be forked that has loaded torch
    forking = len(names) > jobs and sys.platform.startswith("linux")
    around = kernel_environment(root, environment) if forking else None
    if jobs <= 1:
        with _forking(around, root) as nursery:
            for name in names:
                yield _timed(name, profile, device, root, environment, nursery)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, _begin, (os.getpid(), around, root)) as pool:
        futures = {
            pool.submit(_timed_here, name, profile, device, root, environment): name
            for name in longest_first(names, profile, root)
        }
        try:
            for future in as_completed(futures):
                try:
                    yield future.result()
                except BrokenProcessPool:
                    yield futures[future], _killed(futures[future]), 0.0
        except BaseException:  # an interrupt, or a reader who stops early: the chapters must not go on alone
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGINT)
            raise


#: In a process that runs several chapters: what their kernels are forked from.
_nursery: list[Nursery] = []


def _begin(parent: int, around: Mapping[str, str] | None, root: Path) -> None:
    """Begin a process that runs chapters, with a nursery where it runs several, under the kernels' environment."""
    orphans.die_with(parent)
    if around is not None:
        _nursery.append(Nursery(around, root / "notebooks"))


def _timed_here(
    name: str, profile: str, device: str, root: Path, environment: Mapping[str, str] | None
) -> tuple[str, Path | UserError, float]:
    return _timed(name, profile, device, root, environment, _nursery[0] if _nursery else None)


@contextmanager
def _forking(around: Mapping[str, str] | None, root: Path) -> Iterator[Nursery | None]:
    """A nursery for as long as the block runs; none where there is no environment."""
    if around is None:
        yield None
        return
    nursery = Nursery(around, root / "notebooks")
    try:
        yield nursery
    finally:
        nursery.close()


def _killed(name: str) -> UserError:
    cause = "its process died (killed, or out of memory)"
    return execute.NotebookError(name, "", cause, "Free memory, or run one chapter at a time with --jobs 1.")


def longest_first(names: Sequence[str], profile: str, root: Path) -> list[str]:
    """Chapters by the seconds that they took last: a long one that began last would leave the other cores idle. Those that never ran come first, from
    the end of the book."""

    def seconds(name: str) -> float:
        try:
            copy = json.loads(execute.executed_path(name, profile, root).read_text(encoding="utf-8"))
            return float(copy["metadata"]["papermill"]["duration"])
        except (OSError, ValueError, KeyError, TypeError):
            return math.inf

    return sorted(names, key=lambda name: (seconds(name), names.index(name)), reverse=True)


def _timed(
    name: str,
    profile: str,
    device: str,
    root: Path,
    environment: Mapping[str, str] | None,
    nursery: Nursery | None,
) -> tuple[str, Path | UserError, float]:
    began = perf_counter()
    try:
        result: Path | UserError = execute.run_notebook(
            name, profile, device, root=root, environment=environment, nursery=nursery
        )
    except UserError as problem:
        result = problem
    return name, result, perf_counter() - began
