"""The studies of one paper: load them, train them, verify them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from .. import store
from ..errors import UserError
from ..profiles import check_profile
from .computed import Computation, compute, verify_computation
from .study import Study, train_study
from .verify import verify_study


@contextmanager
def threads_of(provenance: Mapping[str, Any]) -> Iterator[None]:
    """As many threads as results were made with: others round sums otherwise, which Adam's first steps from tiny weights magnify."""
    before = torch.get_num_threads()
    torch.set_num_threads(provenance["threads"])
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _says(verified: Mapping[str, Any], made: Mapping[str, Any]) -> str:
    """What was derived again, and which versions are not those of the results."""
    now = {"torch": torch.__version__, "numpy": np.__version__}
    parts = [f"{verified['trajectory']}; measures: {verified['measures']}"]
    parts.append(f"largest deviation {verified['share']:.2g} of what rounding explains")
    parts += [f"made with {k} {made[k]}, here {v}" for k, v in now.items() if made.get(k, v) != v]
    return "; ".join(parts)


@dataclass(frozen=True)
class Catalogue:
    """What ``iclbook train`` and the notebooks ask of a paper.

    Attributes:
        paper: its key.
        studies: ``studies(profile) -> {name: study}``, trainings and computations.
    """

    paper: str
    studies: Callable[[str], dict[str, Any]]

    def results(self, name: str, profile: str, device: str = "auto") -> store.Results:
        """Results of a study: at ``paper`` the committed ones, at ``smoke`` trained now.

        Raises:
            UserError: unknown study, or results that are missing, damaged or stale.
        """
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

        Args:
            only: names of studies; all of them when ``None``.
            profile: ``smoke`` or ``paper``.
            device: ``auto``, ``cpu`` or ``cuda``.
            fresh: train again what already has results. An interrupted training of today's code goes on where it was, fresh or not.
            verify: train nothing; replay the first steps of a stored run of every group (of every run with ``ICLBOOK_FULL=1``), take measures again, stamp
                what agrees.
            executor, parts: where to train each study, and in how many parts, see :func:`iclbook.training.study.train_study`.

        Raises:
            UserError: unknown study, results that are damaged or stale (with ``fresh`` they are made anew), a replay that deviates.
        """
        for name in only or list(self.studies(profile)):
            study = self._named(name, profile)
            if verify:
                made = store.load(self.paper, profile, name, study.describe()).provenance
                with threads_of(made):
                    every = os.environ.get("ICLBOOK_FULL") == "1"
                    found = _verify(study, profile, "cpu" if device == "auto" else device, every)
                print(f"{name}: replay agrees ({_says(found, made)})", flush=True)
                continue
            if not fresh and (store.folder(self.paper, profile) / f"{name}.json").exists():
                self._load(study, profile)  # damaged or stale ones are never overwritten unasked
                print(f"{name}: results are there already (train them again with --fresh)", flush=True)
                continue
            print(f"{name}: {_asked(study)}", flush=True)
            about = _make(study, profile, device, fresh, executor=executor, parts=parts).provenance
            print(f"{name}: done in {about['seconds']:.0f} s on {about['device']}", flush=True)

    def _load(self, study: Study | Computation, profile: str) -> store.Results:
        return store.load(
            self.paper, profile, study.name, study.describe(), study.source(), may_diverge=study.may_diverge
        )

    def _named(self, name: str, profile: str) -> Study | Computation:
        known = _all(self.studies, check_profile(profile))
        if name not in known:
            raise UserError(f"unknown study {name!r} of {self.paper}", f"Choose one of: {', '.join(known)}.")
        return known[name]


def _asked(study: Study | Computation) -> str:
    """How much there is to do."""
    if isinstance(study, Computation):
        return f"{study.count} members of {len(study.groups)} groups"
    return f"{study.steps:,} steps of {sum(len(g.runs) for g in study.groups)} runs"


def _make(
    study: Study | Computation, profile: str, device: str, fresh: bool, progress: bool = True, **where: Any
) -> store.Results:
    """Train a study or make a computation, and keep the results."""
    if isinstance(study, Computation):
        return compute(study, profile, progress, **where)
    return train_study(study, profile, device, fresh, progress, **where)


def _verify(study: Study | Computation, profile: str, device: str, every: bool) -> dict[str, Any]:
    """Derive results again in part, and stamp what agrees."""
    if isinstance(study, Computation):
        return verify_computation(study, profile, every)
    return verify_study(study, profile, device, every)


@cache
def _all(studies: Callable[[str], dict[str, Any]], profile: str) -> dict[str, Any]:
    """The studies of a paper, put together once: a chapter asks for results a hundred times."""
    return studies(profile)
