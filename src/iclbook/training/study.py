"""A study: runs that share a task, trained together, measured, and kept as one set of results."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from .. import store
from ..files import held
from ..project import find_root
from ..sources import modules_of, source_digest
from ..tasks import Batch
from . import Adam, Group, History, Run, Trainer
from .groups import squared_error
from .history import pack
from .optimisers import Optimiser
from .replay import REPLAY_STEPS, replay

__all__ = ["REPLAY_STEPS", "GroupSpec", "Study", "pack", "replay", "train_study"]


@dataclass(frozen=True)
class GroupSpec:
    """Runs of one architecture, described by plain values so that the description can be kept beside the results."""

    name: str
    model: type[nn.Module]
    kwargs: tuple[tuple[str, Any], ...]
    runs: tuple[Run, ...]
    optimiser: Optimiser = field(default_factory=Adam)
    rate_factors: tuple[tuple[str, float], ...] = ()
    loss: Callable[[nn.Module, Batch], Tensor] = squared_error
    #: Whether numbers that are not finite are a result. It decides no number, so descriptions leave it out.
    may_diverge: bool = field(default=False, kw_only=True)

    def build(self) -> Group:
        """The group itself."""
        model = self.model(**dict(self.kwargs))
        return Group(self.name, model, self.runs, self.optimiser, dict(self.rate_factors), self.loss)

    def describe(self) -> tuple:
        """The group as plain values; what is left at its default is not mentioned."""
        plain = (self.name, self.model.__name__, self.kwargs, self.runs, self.optimiser)
        extras = (("rate_factors", self.rate_factors),) if self.rate_factors else ()
        return plain + extras + ((("loss", self.loss.__name__),) if self.loss is not squared_error else ())


@dataclass(frozen=True)
class Study:
    """Everything that decides the numbers of a study.

    Attributes:
        paper, name: where the results are kept.
        task: the data generator.
        groups: the runs.
        steps, batch_size: of the training.
        record: recorded steps, or ``None`` for the trainer's own choice.
        measure: ``measure(study, histories) -> {"group/name": array}`` on the trained runs, or ``None``.
    """

    paper: str
    name: str
    task: Any
    groups: tuple[GroupSpec, ...]
    steps: int
    batch_size: int = 256
    record: tuple[int, ...] | None = None
    measure: Callable[[Study, dict[str, History]], dict[str, np.ndarray]] | None = None

    #: Whether ``measure`` needs no more than the histories, so that it can be taken again of stored ones.
    measures_circuits = True

    def describe(self) -> str:
        """The configuration as text; equal texts mean equal numbers."""
        groups = [g.describe() for g in self.groups]
        measure = None if self.measure is None else self.measure.__name__
        return repr(
            (self.paper, self.name, self.task, groups, self.steps, self.batch_size, self.record, measure)
        )

    def source(self) -> str:
        """Digest of the code that can change these numbers."""
        parts = [type(self), type(self.task), self.measure]
        for group in self.groups:
            parts += [type(group), group.model, group.loss, type(group.optimiser)]
        return source_digest({__name__, "iclbook.store", *(m for part in parts for m in modules_of(part))})

    def trainer(self, device: str = "auto", compile: bool | None = None, **kwargs: Any) -> Trainer:
        """A trainer at step 0."""
        groups = [g.build() for g in self.groups]
        for group, spec in zip(groups, self.groups, strict=True):
            group.may_diverge = spec.may_diverge
        label = f"{self.paper}/{self.name}: "
        return Trainer(
            self.task,
            groups,
            self.steps,
            self.batch_size,
            self.record,
            device,
            compile,
            label=label,
            **kwargs,
        )

    @property
    def may_diverge(self) -> tuple[str, ...]:
        """Groups whose numbers need not be finite."""
        return tuple(g.name for g in self.groups if g.may_diverge)


def _made_from(study: Study) -> str:
    """What a checkpoint must have been made from to be resumed."""
    return f"{study.describe()} {study.source()} torch {torch.__version__}"


class _Done(NamedTuple):
    """A trained study, or a part of one: histories, states kept on the way, kind of device, whether steps were compiled."""

    histories: dict[str, History]
    states: dict[str, np.ndarray]
    device: str
    compiled: bool


def _train(study: Study, path: Path, device: str, progress: bool, fresh: bool) -> _Done:
    """Train a study (or a part of one), resuming from ``path``."""
    trainer = study.trainer(device)
    histories = trainer.train(path, progress=progress, about=_made_from(study), fresh=fresh)
    return _Done(histories, trainer.states, trainer.device.type, trainer.compiled)


def train_study(
    study: Study,
    profile: str,
    device: str = "auto",
    fresh: bool = False,
    progress: bool = True,
    executor: Executor | None = None,
) -> store.Results:
    """Train a study (resuming an interrupted one), measure it and keep the results.

    Args:
        study: what to train.
        profile: where the results are kept.
        device: ``auto``, ``cpu`` or ``cuda``.
        fresh: begin again where the checkpoint of an interrupted training was made from other code or is damaged (otherwise it is refused).
        progress: show a bar.
        executor: train each group as a task of its own there: a process pool, or the executor that Dask, MPI or Slurm clients
            offer. The numbers are the same, because a run depends on its own seed only.

    Raises:
        UserError: what :class:`Trainer` and :mod:`iclbook.store` refuse.
    """
    folder = find_root() / ".cache" / "checkpoints"
    stem = f"{study.paper}-{profile}-{study.name}"
    parts = {folder / f"{stem}.pt": study}
    if executor is not None:
        parts = {
            folder / f"{stem}-{g.name}.pt": dataclasses.replace(study, groups=(g,)) for g in study.groups
        }
    what = f"the training of {study.paper}/{study.name} at {profile}"
    with held(folder / f"{stem}.lock", what, wait=profile == "smoke"):
        return _train_parts(study, profile, parts, device, fresh, progress, executor)


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
        done = [
            f.result()
            for f in [
                executor.submit(_train, part, path, device, False, fresh) for path, part in parts.items()
            ]
        ]
    histories = {name: history for part in done for name, history in part.histories.items()}
    states = {key: state for part in done for key, state in part.states.items()}
    arrays = pack(histories)
    if study.measure is not None:
        arrays |= study.measure(study, histories)
    about = store.provenance(
        study.describe(),
        source,
        time.perf_counter() - start,
        done[0].device,
        compiled=done[0].compiled,
        threads=torch.get_num_threads(),
    )
    store.save(study.paper, profile, study.name, arrays, about, may_diverge=study.may_diverge, states=states)
    for path in parts:
        path.unlink(missing_ok=True)
    return store.Results(arrays, about)
