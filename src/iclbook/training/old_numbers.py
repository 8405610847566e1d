"""Random numbers of results that were trained before numbers came by counter; goes when the last of these is trained anew.

One torch generator per data seed, read on at every step: its state belongs to checkpoints and kept stretches. A prompt of a fixed set is chosen through
the normal distribution function, whose rounding differs between processors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..random import DATA, generator
from ..rounding import CHOOSING, FARTHER, SEARCHING, jittered, number
from .data import Data, FixedSet, FullBatch


class OldNumbers:
    """The numbers of all data seeds, one step after another."""

    def __init__(
        self, data: Data, seeds: Sequence[int], batch_size: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.generators = [generator(seed, DATA, device) for seed in seeds]
        self.data = data
        if isinstance(data, FullBatch):
            rows = 1
        else:
            rows = 1 + data.prompts.noise if isinstance(data, FixedSet) else data.task.normals
        self._normals = torch.empty((len(seeds), rows, batch_size), device=device, dtype=dtype)

    def draw(self, jitter: torch.Generator | None) -> tuple[Tensor, ...]:
        """The numbers of the next step, ``(S, 1, ...)``, as :meth:`Data.draw` gives them; of a twin, a prompt near an edge may be another."""
        for s, g in enumerate(self.generators):
            self._normals[s].normal_(generator=g)
        if isinstance(self.data, FullBatch):
            return ()
        if not isinstance(self.data, FixedSet):
            return (self._normals[:, None],)
        choose, noise = self._normals[:, 0], self._normals[:, 1:]
        if jitter is not None:
            choose = jittered(choose, jitter, FARTHER if (number() or 0) >= SEARCHING else CHOOSING)
        uniform = (1 + torch.erf(choose / math.sqrt(2))) / 2
        return (uniform * self.data.n).long().clamp(0, self.data.n - 1)[:, None], noise[:, None]
