"""A multilayer perceptron for the wind tunnel: it sees all tokens so far side by side, without attention or recurrence."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .sequence import SequenceModel, affine


class PrefixMlp(SequenceModel):
    """The prefix stands in a row of ``length`` places, those to come being zero; a matrix over all places, then residual feed-forward layers.

    Such a network cannot read longer sequences. (One that reads a single token can do no better than the prior: it needs no training.)

    Args:
        length: tokens of the longest sequence.
        sizes: as in :class:`SequenceModel`; layers are feed-forward only.
    """

    def __init__(self, token_width: int, classes: int, length: int, **sizes: Any) -> None:
        super().__init__(token_width, classes, **sizes)
        assert length >= 1, length
        self.length = length
        self._add("prefix", (self.width, length, token_width), length * token_width)
        self._add("start", (self.width, length), length)

    def _mix(self, layer: int, x: Tensor) -> Tensor:
        return torch.zeros_like(x)

    def stream(self, tokens: Tensor) -> list[Tensor]:
        """As in :class:`SequenceModel`; the embedding adds a matrix over all places so far, summed up along the sequence."""
        n = tokens.shape[0]
        assert self.reads(n), n
        each = torch.einsum("wtd,tdb->wtb", self.prefix[:, :n], tokens)
        place = self.start[:, :n, None]  # which place is asked for
        return self._layers(affine(self.embed, tokens.transpose(0, 1)) + each.cumsum(1) + place)

    def reads(self, length: int) -> bool:
        """Whether the model can read sequences of this many tokens."""
        return 1 <= length <= self.length
