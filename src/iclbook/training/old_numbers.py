"""Random numbers of results that were trained before numbers came by counter; goes when the last of these is trained anew.

One torch generator per data seed, read on at every step: its state belongs to checkpoints and kept stretches.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..random import DATA, generator
from .data import Stream


class OldNumbers:
    """The standard normals of a stream for all data seeds, one step after another."""

    def __init__(
        self, data: Stream, seeds: Sequence[int], batch_size: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.generators = [generator(seed, DATA, device) for seed in seeds]
        self._normals = torch.empty((len(seeds), data.task.normals, batch_size), device=device, dtype=dtype)

    def draw(self) -> tuple[Tensor, ...]:
        """The numbers of the next step, ``(S, 1, normals, B)``, as :meth:`Data.draw` gives them."""
        for s, g in enumerate(self.generators):
            self._normals[s].normal_(generator=g)
        return (self._normals[:, None],)
