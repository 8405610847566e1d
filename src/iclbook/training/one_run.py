"""One run in one call, for a reader's own experiments: ``train(Attention, LinearRegression(), n_heads=4, steps=3_000)``."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UserError, nearest
from ..tasks import Batch
from . import trainer as unchecked
from .checks import check
from .groups import Group, Run, squared_error
from .history import History


class Trainer(unchecked.Trainer):
    """The trainer, for direct use: what would go wrong without a word is refused first (:mod:`iclbook.training.checks`), as it is of a study."""

    def __init__(self, data: Any, groups: Sequence[Group], *sizes: Any, **how: Any) -> None:
        check(data, tuple(groups))
        super().__init__(data, groups, *sizes, **how)


@dataclass(repr=False)
class Trained(History):
    """The history of one run, with its model as training left it."""

    model: nn.Module | None = None

    def __repr__(self) -> str:
        falls = f"loss {self.loss[1, 0]:.3g} at the start, {self.loss[-1, 0]:.3g} after {self.steps[-1]:,} steps"
        return f"{type(self.model).__name__}: {falls} (.steps, .loss, .circuits, .model)"


def train(
    model: type[nn.Module],
    task: Any,
    steps: int,
    seed: int = 0,
    learning_rate: float = 1e-3,
    batch_size: int = 256,
    loss: Callable[[nn.Module, Batch], Tensor] = squared_error,
    record: Sequence[int] | None = None,
    **sizes: Any,
) -> Trained:
    """Train one model by Adam on fresh prompts of a task; from one seed the run is that of any other :class:`.Trainer`. A wrong size is a UserError.

    Args:
        sizes: arguments of the model; those that the task has as well, such as ``d``, follow from it.
        record: steps at which the loss is kept; many by default.
    """
    named, name = inspect.signature(model).parameters, model.__name__
    for key, size in {"steps": steps, "batch_size": batch_size, **sizes}.items():
        if type(size) is int and size < 1:
            raise UserError(f"{key} is {size}", "Give at least 1.")
        if key in sizes and key not in named:
            raise UserError(f"{name} has no {key!r}", nearest(key, named) or f"It has: {', '.join(named)}.")
        if key in sizes and size != (own := getattr(task, key, size)):
            raise UserError(
                f"{name} has {key} = {size}, and the task has {own}", f"Leave out {key}, or change the task."
            )
    follow = {key: getattr(task, key) for key in named if hasattr(task, key)}
    group = Group("run", model, follow | sizes, (Run(seed, rate=learning_rate),), loss=loss)
    trainer = Trainer(task, [group], steps, batch_size, record, device="cpu")
    history, built = trainer.train(progress=False)["run"], group.build()
    built.load_state_dict({key: torch.as_tensor(of[0]) for key, of in trainer.parameters()["run"].items()})
    return Trained(**vars(history), model=built.requires_grad_(False))
