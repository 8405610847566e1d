"""Mistakes in a task or model that a training would carry out without a word, each found on four prompts before it starts."""

from typing import Any

import torch
from torch import nn

from .. import random
from ..errors import UserError
from ..models.module import Model
from ..tasks import Batch
from .groups import Group, cross_entropy, squared_error

LAST = "The batch is the last axis: context (L, D, B), query (d, B), target and predictions (N, B)."


def check(data: Any, groups: tuple[Group, ...]) -> None:
    """Refuse two groups of one name, parameters that the run's seed does not draw, a task that draws numbers of its own and shapes that broadcast."""
    names = [group.name for group in groups]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UserError(f"two groups are called {min(twice)!r}", "Results are kept by this name: give each its own.")
    batch = None if hasattr(data, "fixed") else _batch(data)
    for group in groups:
        model, kind = group.build(), group.model.__name__
        if not hasattr(model, "initialise"):
            hint = "Derive it from iclbook.models.Model, and add each parameter with self.add(...)."
            raise UserError(f"{kind} has no initialise()", hint)
        drawn = getattr(model, "_starts", {})
        strays = [name for name, _ in model.named_parameters() if name not in drawn]
        if type(model).initialise is Model.initialise and strays:
            hint = "Add each parameter with self.add(...)."
            raise UserError(f"{kind}.{strays[0]} does not start from the run's seed", hint)
        if batch is not None and group.loss in (squared_error, cross_entropy):
            _check_shapes(model, batch, type(data).__name__, group.loss is squared_error)


def _batch(task: Any) -> Batch:
    """Four prompts; a task that gives others for the same numbers is a UserError."""
    numbers, name = random.drawn(task, 0, random.DATA, (4,)), type(task).__name__
    try:
        batch, again = (task.batch(*numbers) for _ in range(2))
    except (RuntimeError, IndexError) as problem:
        hint = "Normals come as (normals, B) and words as (words, B), the batch last, perhaps with axes before."
        raise UserError(f"{name}.batch fails on four prompts: {str(problem).splitlines()[0]}", hint) from problem
    for part, other in zip(batch, again, strict=True):
        if not torch.equal(part.nan_to_num(), other.nan_to_num()):
            hint = "Make them from the normals and words that batch is given; count these in normals and words."
            raise UserError(f"{name}.batch draws random numbers of its own", hint)
    return batch


def _check_shapes(model: nn.Module, batch: Batch, task: str, squared: bool) -> None:
    kind, target = type(model).__name__, tuple(batch.target.shape)
    try:
        with torch.no_grad():
            shape = tuple(model(batch.context, batch.query).shape)
    except (RuntimeError, IndexError) as problem:
        raise UserError(f"{kind} fails on four prompts of {task}: {str(problem).splitlines()[0]}", LAST) from problem
    if shape != target if squared else shape[-1:] != target[-1:]:
        raise UserError(f"{kind} gives predictions {shape} where {task} has targets {target}", LAST)
