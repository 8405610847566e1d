"""What measures of trained models begin with: prompts that no training saw, and the model of a stored run."""

from typing import Any

import torch
from torch import nn

from .errors import UserError
from .random import PURPOSES, drawn
from .store import Results
from .tasks import Batch
from .training import Group


def prompts(task: Any, n: int, seed: int = 0) -> Batch:
    """``n`` prompts of a task, float64, that no run sees: their numbers have a purpose of their own."""
    return task.batch(*drawn(task, seed, PURPOSES["prompts"], (n,), dtype=torch.float64))


def model_at(group: Group, results: Results, run: int = 0, record: int = -1) -> nn.Module:
    """The model of a run at a record (the last by default), float64, from a group's recorded parameters ``(records, R, ...)``, all of which it must ``keep``."""
    model, own = group.build().double(), results.group(group.name)
    if absent := [name for name in model.state_dict() if name not in own]:
        names = tuple(model.state_dict())
        raise UserError(f"{group.name} was stored without {absent[0]}", f"Give the group keep={names}, train it again.")
    model.load_state_dict({name: torch.from_numpy(own[name][record, run]) for name in model.state_dict()})
    return model
