"""Runs and groups of runs as plain data, and their losses: everything that decides the numbers of an ensemble, beside its data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ..errors import UserError
from ..tasks import Batch
from .optimisers import Adam, Optimiser, Schedule, Tensors


def squared_error(model: nn.Module, batch: Batch) -> Tensor:
    """Mean over the batch of ``|y_q - yhat|^2`` summed over tasks (he2025, population loss)."""
    return ((model(batch.context, batch.query) - batch.target) ** 2).sum(0).mean()


def cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """Mean negative log-likelihood (nats) of the query's category; the model gives logits ``(C, B)``, ``batch.target`` ``(1, B)`` holds its index."""
    logits = model(batch.context, batch.query)
    return torch.nn.functional.cross_entropy(logits.transpose(0, 1), batch.target[0].long())


def next_token(model: nn.Module, batch: Batch) -> Tensor:
    """Mean negative log-likelihood (nats) of the tokens that follow; logits ``(T, B, V)``, ``batch.target (T, B)`` is negative where nothing follows."""
    logits = model(batch.context)
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.target.flatten(), ignore_index=-1)


@dataclass(frozen=True)
class Run:
    """One training run. Its trajectory depends on these numbers only, not on the runs beside it.

    Attributes:
        seed: seeds the initial parameters, and the data unless ``stream`` is given.
        rate: learning rate.
        init_scale: factor on the initial parameters.
        stream: seed of the data; runs with the same stream see the same batches (common random numbers, drawn once).
        factors: factors on the rate of named parameters; 0 freezes one.
    """

    seed: int
    rate: float = 1e-3
    init_scale: float = 1.0
    stream: int | None = None
    factors: tuple[tuple[str, float], ...] = ()

    @property
    def data_seed(self) -> int:
        """Seed of the run's data."""
        return self.seed if self.stream is None else self.stream


class Observation(Protocol):
    """What is measured of a run at the recorded steps; a frozen dataclass, for it is part of the description.

    One with a method ``of_runs(ensemble, params, seen, held_out)`` is asked for all runs of a group at once instead.
    """

    def held_out(self) -> Any:
        """Data to measure on, drawn once: tensors in tuples and dicts, or nothing."""
        ...

    def __call__(self, model: nn.Module, held_out: Any) -> Tensors:
        """Measurements of one run by name, each of a fixed shape."""
        ...


@dataclass(frozen=True)
class Circuits:
    """The model's own observations, its method ``circuits()``; nothing, if it has none."""

    def held_out(self) -> None:
        """Nothing."""

    def __call__(self, model: nn.Module, held_out: Any) -> Tensors:
        """The model's circuits."""
        return model.circuits() if hasattr(model, "circuits") else {}


@dataclass(frozen=True)
class Group:
    """Runs of one architecture that train side by side.

    Args:
        name: key of the group's arrays in results.
        model: a class of modules, each written for one run, with a method ``initialise(generator, scale)``.
        kwargs: the arguments it is made with; a mapping is kept as sorted pairs.
        runs: at least one.
        optimiser: Adam by default.
        loss: ``loss(model, batch) -> scalar`` of one run.
        schedule: factor on all rates over the steps; constant by default.
        observe: what is recorded.
        keep: names of parameters that are recorded beside it, at every record.
        keep_at: recorded steps at which they are kept instead, see :attr:`iclbook.training.History.kept`.
        gradient: closed form ``gradient(params, batch) -> (gradients, loss)`` of one run, taken run after run in place of autograd on the loss of all runs;
            for data that fill a core by themselves.
        blocks: sets of parameters that step one after the other, each with gradients computed anew; all at once by default.
        may_diverge: whether numbers that are not finite are a result; otherwise the trainer refuses them. It decides no number, so descriptions leave
            it out.
    """

    name: str
    model: type[nn.Module]
    kwargs: tuple[tuple[str, Any], ...] | Mapping[str, Any]
    runs: tuple[Run, ...]
    optimiser: Optimiser = field(default_factory=Adam)
    loss: Callable[[nn.Module, Batch], Tensor] = squared_error
    schedule: Schedule | None = None
    observe: Observation = field(default_factory=Circuits)
    keep: tuple[str, ...] = ()
    keep_at: tuple[int, ...] = field(default=(), kw_only=True)
    gradient: Callable[[Tensors, Batch], tuple[Tensors, Tensor]] | None = None
    blocks: tuple[tuple[str, ...], ...] = ()
    may_diverge: bool = field(default=False, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        kwargs = self.kwargs.items() if isinstance(self.kwargs, Mapping) else self.kwargs
        object.__setattr__(self, "kwargs", tuple(sorted(kwargs)))
        object.__setattr__(self, "runs", tuple(self.runs))
        assert self.runs, f"group {self.name!r} has no runs"

    def build(self) -> nn.Module:
        """A module of this group.

        Raises:
            UserError: factors, blocks or kept names of parameters that it does not have.
        """
        model = self.model(**dict(self.kwargs))
        names = [name for name, _ in model.named_parameters()]
        asked = {name for run in self.runs for name, _ in run.factors} | {*self.keep, *sum(self.blocks, ())}
        if unknown := asked - set(names):
            raise UserError(
                f"group {self.name!r} has no parameter {sorted(unknown)}", f"Choose among: {', '.join(names)}."
            )
        return model
