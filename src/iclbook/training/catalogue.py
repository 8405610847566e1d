"""The studies of one paper: load them, train them, verify them."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from .. import store
from ..errors import UserError, say
from ..project import check_profile
from ..workers import on_interrupt
from .checks import check
from .computation import Computation, compute, verify_computation
from .replay import verify_study
from .study import Study, train_study


@contextmanager
def threads_of(provenance: Mapping[str, Any]) -> Iterator[None]:
    """As many threads as results were made with: others round sums otherwise, which Adam's first steps from tiny weights magnify."""
    before = torch.get_num_threads()
    torch.set_num_threads(provenance.get("threads", before))
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class Catalogue:
    """Studies of a paper, for ``iclbook train`` and the notebooks: its key, and ``studies(profile) -> {name: study}``, trainings and computations."""

    paper: str
    studies: Callable[[str], dict[str, Any]]

    def results(self, name: str, profile: str, device: str = "auto") -> store.Results:
        """Results of a study: at ``paper`` the committed ones, at ``smoke`` trained now. A damaged file, another configuration or other source is a UserError."""
        study = self._named(name, profile)
        if profile == "smoke":
            return _make(study, profile, device, fresh=True, progress=False)
        return self._load(study, profile)

    def train(
        self,
        only: list[str] | None = None,
        profile: str = "paper",
        device: str = "auto",
        fresh: bool = False,
        verify: bool = False,
        executor: Executor | None = None,
        parts: int = 1,
    ) -> None:
        """Train (or with ``verify`` replay) the studies of this paper and keep their results.

        Where results lack groups that a study describes, all else equal, these groups are trained alone.

        Args:
            only: names of studies; all of them when ``None``.
            fresh: train again what already has results. An interrupted training of today's code goes on where it was, fresh or not.
            verify: train nothing; replay the first steps of a stored run of every group (of every run with ``ICLBOOK_FULL=1``), take measures again, stamp
                what agrees.
            executor, parts: where to train each study, and in how many parts, see :func:`iclbook.training.study.train_study`.
        """
        for name in only or list(self.studies(profile)):
            study = self._named(name, profile)
            missing: tuple[str, ...] = ()
            if verify or (not fresh and (store.folder(self.paper, profile) / f"{name}.json").exists()):
                # damaged or stale ones are never overwritten unasked
                missing = store.missing_groups(self.paper, profile, name, study.describe())
                there = study.of_groups([g for g in study.group_names if g not in missing])
                if verify:
                    say(f"{name}: replay agrees ({self._verify(there, profile, device)})")
                    continue
                self._load(there, profile)
                if not missing:
                    say(f"{name}: results are there already (train them again with --fresh)")
                    continue
            todo = study.of_groups(missing) if missing else study
            added = f" ({', '.join(missing)} beside the groups that are there)" if missing else ""
            say(f"{name}: {_size(todo)}{added}")
            where = {"executor": executor, "parts": parts, "missing": missing}
            on = store.read_provenance(self.paper, profile, name)["device"] if missing else device
            start = time.perf_counter()
            with on_interrupt(signal.default_int_handler):  # SIGTERM, too, ends with checkpoints
                about = _make(study, profile, on, fresh, **where).provenance
            say(f"{name}: done in {time.perf_counter() - start:.0f} s on {about['device']}")

    def _verify(self, study: Study | Computation, profile: str, device: str) -> str:
        """Derive results again in part, and stamp what agrees; what was derived, and which versions are not those of the results."""
        made = store.load(self.paper, profile, study.name, study.describe()).provenance
        every = os.environ.get("ICLBOOK_FULL") == "1"
        with threads_of(made):
            if isinstance(study, Computation):
                verified = verify_computation(study, profile, every)
            else:
                verified = verify_study(study, profile, "cpu" if device == "auto" else device, every)
        parts = [f"{verified['trajectory']}; measures: {verified['measures']}"]
        parts.append(f"largest deviation {verified['share']:.2g} of what rounding explains")
        now = {"torch": torch.__version__, "numpy": np.__version__}
        parts += [f"made with {k} {made[k]}, here {v}" for k, v in now.items() if made.get(k, v) != v]
        return "; ".join(parts)

    def _load(self, study: Study | Computation, profile: str) -> store.Results:
        return store.load(self.paper, profile, study.name, study.describe(), study.source())

    def _named(self, name: str, profile: str) -> Study | Computation:
        known = _all(self.studies, check_profile(profile))
        if name not in known:
            raise UserError(f"unknown study {name!r} of {self.paper}", f"Choose one of: {', '.join(known)}.")
        return known[name]


def _size(study: Study | Computation) -> str:
    """Size of the work."""
    if isinstance(study, Computation):
        return f"{study.count} members of {len(study.groups)} groups"
    return f"{study.steps:,} steps of {sum(len(g.runs) for g in study.groups)} runs"


def _make(
    study: Study | Computation, profile: str, device: str, fresh: bool, progress: bool = True, **where: Any
) -> store.Results:
    """Train a study or make a computation, and keep the results."""
    if isinstance(study, Computation):
        return compute(study, profile, progress, **where)
    check(study.data, study.groups)
    return train_study(study, profile, device, fresh, progress, **where)


@cache
def _all(studies: Callable[[str], dict[str, Any]], profile: str) -> dict[str, Any]:
    """The studies of a paper, put together once: a chapter asks for results a hundred times."""
    return studies(profile)
