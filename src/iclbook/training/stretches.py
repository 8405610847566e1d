"""Short stretches in the midst of a training that can be trained again: states of the first run of every group, kept some steps before a record."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

from .history import History

if TYPE_CHECKING:
    from .trainer import Trainer

#: Steps from a kept state to the record that it must lead to.
STRETCH = 24
#: Stretches of a training, evenly spread over its records, the last one included.
STRETCHES = 3
#: Largest size of a group's kept states, bytes; fewer stretches are kept of larger models.
LARGEST = 100_000


def ends(record: Sequence[int]) -> list[int]:
    """The records, at most :data:`STRETCHES`, that lie at least :data:`STRETCH` steps behind the one before."""
    able = [now for before, now in pairwise(record) if before and now - before >= STRETCH]
    places = np.linspace(0, len(able), STRETCHES + 1)[1:].astype(int) - 1
    return sorted({able[i] for i in places if i >= 0})


def states(trainer: Trainer) -> dict[str, np.ndarray]:
    """The present state of the first run of every group that is not too large, ``"group/step/part" -> array``."""
    found = {}
    for i, group in enumerate(e.group for e in trainer.ensembles):
        parts = [x[:1].cpu().numpy().copy() for x in trainer.leaves(i)]
        kept = LARGEST // sum(part.nbytes for part in parts)
        if trainer.done + STRETCH in ends(trainer.record)[-kept:] and kept:
            found |= {f"{group.name}/{trainer.done}/{j}": part for j, part in enumerate(parts)}
    return found


def train_stretch(trainer: Trainer, kept: dict[str, np.ndarray], end: int) -> dict[str, History]:
    """Train a new trainer of the first run of each group from the kept states to the record at step ``end``; the record alone."""
    start = end - STRETCH
    with torch.no_grad():
        for i, group in enumerate(e.group for e in trainer.ensembles):
            for j, target in enumerate(trainer.leaves(i)):
                target.copy_(torch.from_numpy(kept[f"{group.name}/{start}/{j}"]))
    before = max(step for step in trainer.record if step <= start)
    return trainer.run_on(start, end, end - before)
