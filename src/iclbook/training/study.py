"""A study: runs that share a task, trained together, measured, and kept as one set of results."""

import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import store
from ..draw import outputs
from ..files import file_lock
from ..machines import is_pinned
from ..project import find_root
from ..sources import short, source_of
from .groups import Group
from .history import History, joined, pack
from .trainer import COMPILE_FROM_STEPS, Trainer


@dataclass(frozen=True)
class Study:
    """Everything that decides the numbers of a study, as plain data.

    Attributes:
        paper, name: where the results are kept.
        data: a kind of :mod:`iclbook.training.data`, or a task, of which every step draws a fresh batch.
        groups: the runs.
        steps, batch_size: of the training.
        record: recorded steps, or ``None`` for the trainer's own choice.
        measure: ``measure(study, histories) -> {"group/name": array}`` on the trained runs, or ``None``; what it gives for a group depends on that group only.
        compile_from: number of steps from which torch's compiler pays; ``None`` for never.
        dtype: ``float32`` or ``float64``, of parameters and data.
    """

    paper: str
    name: str
    data: Any
    groups: tuple[Group, ...]
    steps: int
    batch_size: int = 256
    record: tuple[int, ...] | None = None
    measure: "Callable[[Study, dict[str, History]], dict[str, np.ndarray]] | None" = None
    compile_from: int | None = field(default=COMPILE_FROM_STEPS, compare=False)
    dtype: str = "float32"

    def describe(self) -> dict[str, Any]:
        """The configuration as JSON holds it; equal ones mean equal numbers."""
        return store.plain(self)

    def source(self) -> dict[str, str]:
        """Digests of the code that can change these numbers."""
        return source_of(self, train_study)

    def of_groups(self, names: Sequence[str]) -> "Study":
        """The study of some of its groups alone."""
        return dataclasses.replace(self, groups=tuple(g for g in self.groups if g.name in names))

    @property
    def group_names(self) -> tuple[str, ...]:
        return tuple(group.name for group in self.groups)

    def trainer(self, device: str = "auto", compile: bool | None = None) -> Trainer:
        """A trainer at step 0."""
        sizes, label = (self.steps, self.batch_size, self.record), f"{self.paper}/{self.name}"
        how = {"dtype": getattr(torch, self.dtype), "label": label, "compile_from": self.compile_from}
        return Trainer(self.data, self.groups, *sizes, device, compile, **how)

    @property
    def may_diverge(self) -> tuple[str, ...]:
        """Groups whose numbers need not be finite."""
        return tuple(g.name for g in self.groups if g.may_diverge)


def _train(study: Study, path: Path, device: str, progress: bool, fresh: bool) -> tuple[dict[str, Any], ...]:
    """Train a study (or a part of one), resuming from ``path``, where that can be reached from this machine: histories, states kept on the way, what the
    provenance says of the process, and its processor time (s), in which the work of others on this machine does not count."""
    start = time.process_time()
    trainer = study.trainer(device)
    # what a checkpoint must have been made from to be resumed
    about = f"{json.dumps(study.describe())} {short(study.source())} torch {torch.__version__}"
    checkpoint = path if path.parent.is_dir() else None
    histories = trainer.train(checkpoint, progress=progress, about=about, fresh=fresh)
    process = {"compiled": trainer.compiled, "threads": torch.get_num_threads(), "pinned": is_pinned()}
    states = {key: state.numpy() for key, state in trainer.states.items()}
    return histories, states, {"device": trainer.device.type} | process, time.process_time() - start


def train_study(
    study: Study,
    profile: str,
    device: str = "auto",
    fresh: bool = False,
    progress: bool = True,
    executor: Executor | None = None,
    parts: int = 1,
    missing: Sequence[str] = (),
) -> store.Results:
    """Train a study (resuming an interrupted one), measure it and keep the results. A checkpoint that is damaged or of another configuration or
    source, or a training under way elsewhere, is a UserError.

    Args:
        fresh: begin again where the checkpoint of an interrupted training was made from other code or is damaged (otherwise it is refused).
        executor: train parts of the study as tasks there: those of :mod:`iclbook.workers` or any other. A run depends on its own seed only.
        parts: how many parts of about as many runs each the executor is given: groups of a part share their data, which are drawn once. Equal parts give
            equal numbers wherever they are trained; other parts may round otherwise.
        missing: train these groups alone, and keep them beside the others, which have results.
    """
    folder = outputs(find_root()) / ".cache" / "checkpoints"  # another draw never goes on from this one's
    stem = f"{study.paper}-{profile}-{study.name}"
    todo = study.of_groups(missing) if missing else study
    shares = [todo.groups] if executor is None else shared_out(todo.groups, parts)
    parts = len(shares)
    paths = [folder / (f"{stem}-{i + 1}of{parts}.pt" if parts > 1 else f"{stem}.pt") for i in range(parts)]
    what = f"the training of {study.paper}/{study.name} at {profile}"
    with file_lock(folder / f"{stem}.lock", what, wait=profile == "smoke"):
        beside = store.others(study, profile, missing)
        source = study.source()  # of the code that runs, whatever is edited meanwhile
        jobs = [(dataclasses.replace(study, groups=share), path) for share, path in zip(shares, paths, strict=True)]
        if executor is None:
            trained = [_train(*job, device, progress, fresh) for job in jobs]
        else:
            tasks = [executor.submit(_train, *job, device, False, fresh) for job in jobs]
            trained = [task.result() for task in tasks]
        every, kept, abouts, seconds = zip(*trained, strict=True)
        start = time.process_time()
        names = [g.name for g in todo.groups]
        histories = {name: joined([piece[name] for piece in every if name in piece], axis=1) for name in names}
        # of a group in pieces, states are kept of the first
        states = {key: state for piece in reversed(kept) for key, state in piece.items()}
        arrays = pack(histories)
        if study.measure is not None:
            arrays |= study.measure(todo, histories)
        cost = sum(seconds) + time.process_time() - start
        about = store.provenance(study.describe(), source, cost, **abouts[0], parts=parts, clock="processor")
        results = store.keep(study, profile, arrays, about, beside, states)
        for path in paths:
            path.unlink(missing_ok=True)
        return results


def shared_out(groups: Sequence[Group], parts: int) -> list[tuple[Group, ...]]:
    """Groups in at most so many parts of about as many runs each, in their own order within a part; what divides is cut between runs.

    The runs stand in a line, largest groups first, which is cut into equal lengths, or beside that, between two groups, where this is near.
    """
    line = sorted(groups, key=lambda g: -len(g.runs))
    starts = [0, *accumulate(len(g.runs) for g in line)]
    length = starts[-1] / parts
    near = {i: min(starts, key=lambda s, at=i * length: abs(s - at)) for i in range(parts + 1)}
    cuts = sorted({s if abs(s - i * length) <= length / 8 else int(i * length) for i, s in near.items()})
    place = {group.name: i for i, group in enumerate(groups)}
    shares = []
    for first, last in pairwise(cuts):
        inside = [(g, max(first - s, 0), last - s) for g, s in zip(line, starts, strict=False)]
        share = [dataclasses.replace(g, runs=g.runs[a:b]) for g, a, b in inside if b > 0 and g.runs[a:b]]
        shares.append(tuple(sorted(share, key=lambda g: place[g.name])))
    return shares
