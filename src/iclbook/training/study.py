"""A study: runs that share a task, trained together, measured, and kept as one set of results."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from .. import store
from ..files import held
from ..machines import is_pinned
from ..project import find_root
from ..sources import modules_of, source_digest
from .description import plain
from .groups import Group
from .history import History, joined, pack, pack_kept
from .replay import REPLAY_STEPS, replay
from .trainer import COMPILE_FROM_STEPS, Trainer

__all__ = ["REPLAY_STEPS", "Group", "Study", "pack", "replay", "train_study"]


@dataclass(frozen=True)
class Study:
    """Everything that decides the numbers of a study, as plain data.

    Attributes:
        paper, name: where the results are kept.
        data: a kind of :mod:`iclbook.training.data`, or a task, of which every step draws a fresh batch.
        groups: the runs.
        steps, batch_size: of the training.
        record: recorded steps, or ``None`` for the trainer's own choice.
        measure: ``measure(study, histories) -> {"group/name": array}`` on the trained runs, or ``None``.
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
    measure: Callable[[Study, dict[str, History]], dict[str, np.ndarray]] | None = None
    compile_from: int | None = field(default=COMPILE_FROM_STEPS, compare=False)
    dtype: str = "float32"

    def describe(self) -> dict[str, Any]:
        """The configuration as JSON holds it; equal ones mean equal numbers."""
        return plain(self)

    def source(self) -> str:
        """Digest of the code that can change these numbers."""
        parts = [type(self), type(self.data), *_nested(self.data), self.measure]
        for group in self.groups:
            parts += [group.model, group.loss, group.gradient, type(group.optimiser), type(group.schedule)]
            parts += [type(group.observe), *_nested(group.observe)]
        return source_digest({__name__, "iclbook.store", *(m for part in parts for m in modules_of(part))})

    def trainer(self, device: str = "auto", compile: bool | None = None, **kwargs: Any) -> Trainer:
        """A trainer at step 0."""
        return Trainer(
            self.data,
            self.groups,
            self.steps,
            self.batch_size,
            self.record,
            device,
            compile,
            compile_from=self.compile_from,
            label=f"{self.paper}/{self.name}: ",
            **{"dtype": getattr(torch, self.dtype)} | kwargs,
        )

    @property
    def may_diverge(self) -> tuple[str, ...]:
        """Groups whose numbers need not be finite."""
        return tuple(g.name for g in self.groups if g.may_diverge)


def _nested(value: Any) -> list[type]:
    """Classes of the dataclasses within a dataclass, which may lie in other modules."""
    if isinstance(value, tuple):
        return [kind for part in value for kind in _nested(part)]
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return []
    inner = [getattr(value, f.name) for f in dataclasses.fields(value)]
    return [type(value), *(kind for part in inner for kind in _nested(part))]


def _made_from(study: Study) -> str:
    """What a checkpoint must have been made from to be resumed."""
    return f"{json.dumps(study.describe())} {study.source()} torch {torch.__version__}"


class _Done(NamedTuple):
    """A trained study, or a part of one: histories, states kept on the way, and what the provenance says of the process."""

    histories: dict[str, History]
    states: dict[str, np.ndarray]
    device: str
    about: dict[str, Any]


def _train(study: Study, path: Path, device: str, progress: bool, fresh: bool) -> _Done:
    """Train a study (or a part of one), resuming from ``path``."""
    trainer = study.trainer(device)
    histories = trainer.train(path, progress=progress, about=_made_from(study), fresh=fresh)
    about = {"compiled": trainer.compiled, "threads": torch.get_num_threads(), "pinned": is_pinned()}
    return _Done(histories, trainer.states, trainer.device.type, about)


def train_study(
    study: Study,
    profile: str,
    device: str = "auto",
    fresh: bool = False,
    progress: bool = True,
    executor: Executor | None = None,
    parts: int = 1,
) -> store.Results:
    """Train a study (resuming an interrupted one), measure it and keep the results.

    Args:
        study: what to train.
        profile: where the results are kept.
        device: ``auto``, ``cpu`` or ``cuda``.
        fresh: begin again where the checkpoint of an interrupted training was made from other code or is damaged (otherwise it is refused).
        progress: show a bar.
        executor: train parts of the study as tasks there: :class:`iclbook.workers.Local`, :class:`iclbook.cluster.Cluster` or any other. A run depends on
            its own seed only.
        parts: how many parts of about as many runs each the executor is given: groups of a part share their data, which are drawn once. Equal parts give
            equal numbers wherever they are trained; other parts may round otherwise.

    Raises:
        UserError: what :class:`Trainer` and :mod:`iclbook.store` refuse.
    """
    folder = find_root() / ".cache" / "checkpoints"
    stem = f"{study.paper}-{profile}-{study.name}"
    shares = [study.groups] if executor is None else shared_out(study.groups, parts)
    whole = len(shares) == 1
    trained = {
        folder / (f"{stem}.pt" if whole else f"{stem}-{i + 1}of{len(shares)}.pt"): dataclasses.replace(
            study, groups=groups
        )
        for i, groups in enumerate(shares)
    }
    what = f"the training of {study.paper}/{study.name} at {profile}"
    with held(folder / f"{stem}.lock", what, wait=profile == "smoke"):
        return _train_parts(study, profile, trained, device, fresh, progress, executor)


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


def _train_parts(
    study: Study,
    profile: str,
    parts: dict[Path, Study],
    device: str,
    fresh: bool,
    progress: bool,
    executor: Executor | None,
) -> store.Results:
    """Train the parts of a study, each with its checkpoint; measure the whole and keep it."""
    source = study.source()  # of the code that runs, whatever is edited meanwhile
    start = time.perf_counter()
    if executor is None:
        done = [_train(part, path, device, progress, fresh) for path, part in parts.items()]
    else:
        tasks = [executor.submit(_train, part, path, device, False, fresh) for path, part in parts.items()]
        done = [task.result() for task in tasks]
    histories = {
        g.name: joined([part.histories[g.name] for part in done if g.name in part.histories])
        for g in study.groups
    }
    # of a group in pieces, states are kept of the first
    states = {key: state for part in reversed(done) for key, state in part.states.items()}
    arrays = pack(histories) | pack_kept(histories)
    if study.measure is not None:
        arrays |= study.measure(study, histories)
    about = store.provenance(
        study.describe(),
        source,
        time.perf_counter() - start,
        done[0].device,
        **done[0].about,
        parts=len(parts),
    )
    store.save(study.paper, profile, study.name, arrays, about, may_diverge=study.may_diverge, states=states)
    for path in parts:
        path.unlink(missing_ok=True)
    return store.Results(arrays, about)
