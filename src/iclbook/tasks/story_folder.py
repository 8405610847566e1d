"""A folder of stories as a kind of data of the trainer: real text in place of :mod:`iclbook.tasks.stories` (wang2025, section 6.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .. import random
from ..errors import UserError
from .batch import Batch
from .byte_pairs import BytePairs, FrequentWords, has_byte_pairs, read_byte_pairs
from .fields import check_fields
from .stories import NOTHING
from .story_files import ONE_IN, SPLITS, Shelf, shelf

#: Words are counted in so many stories at most: the first ones for training.
COUNTED = 200_000


@lru_cache(maxsize=4)
def _coding(folder: str, coding: str | None, words: int) -> BytePairs | FrequentWords:
    """Byte pairs where their files are named or lie beside the stories, else the most frequent words."""
    if coding is not None or has_byte_pairs(Path(folder)):
        return read_byte_pairs(Path(folder if coding is None else coding))
    stories = shelf(folder)
    return FrequentWords.of((stories[row] for row in stories.split("train")[:COUNTED]), words)


@dataclass(frozen=True)
class StoryFolder:
    """Stories of a folder, drawn with replacement from those for training, cut behind ``context + 1`` tokens; a pure function of data seed and step.

    A batch is that of :class:`iclbook.tasks.stories.Stories`; token 0 ends a story (byte pairs have their end and the token 0 exchanged for that).

    Args:
        folder: the stories, see :mod:`iclbook.tasks.story_files`.
        context: S, the most tokens that are read.
        words: V, where there are no byte pairs.
        coding: folder of ``vocab.json`` and ``merges.txt``; by default the stories' own, where they lie there.

    Attributes:
        content: digest of the stories and of their encoding, which stands for the folder in descriptions.

    Raises:
        UserError: sizes that are too small, or what the folder's readers refuse.
    """

    folder: str = field(compare=False)
    context: int = 256
    words: int = 10_000
    coding: str | None = field(default=None, compare=False)
    content: str = field(init=False, default="")

    def __post_init__(self) -> None:
        check_fields(self)
        if self.context < 2 or self.words < 3:
            raise UserError(f"context={self.context}, words={self.words}", "Take 2 and 3 or more.")
        object.__setattr__(self, "content", f"{self.shelf.digest()} {self.encoding.digest()}")

    @property
    def shelf(self) -> Shelf:
        """All stories."""
        return shelf(self.folder)

    @property
    def encoding(self) -> BytePairs | FrequentWords:
        """How they become numbers."""
        return _coding(self.folder, self.coding, self.words)

    @property
    def vocabulary(self) -> int:
        """V."""
        return self.encoding.size

    def split(self, name: str) -> np.ndarray:
        """Rows of the stories of a split.

        Raises:
            UserError: none.
        """
        rows = self.shelf.split(name)
        if not len(rows):
            says = f"none of the {len(self.shelf)} stories of {self.folder} is for {name}"
            raise UserError(says, f"Add stories: of {ONE_IN} about one is held out for each purpose.")
        return rows

    def fixed(self, seeds: Sequence[int]) -> tuple[Tensor, ...]:
        """Nothing."""
        return ()

    def draw(self, keys: Tensor, steps: Tensor, batch_size: int, dtype: torch.dtype) -> tuple[Tensor]:
        """Stories ``(seeds, steps, S + 1, batch_size)`` as token numbers, :data:`NOTHING` behind their ends."""
        rows = self.split("train")
        drawn = random.below(len(rows), random.words(keys, steps, random.CHOICE, (batch_size,))).cpu()
        tokens = self.tokens(rows[drawn.flatten().numpy()]).unflatten(1, drawn.shape)
        return (tokens.movedim(0, 2).to(keys.device),)

    def batch(self, numbers: tuple[Tensor, ...], fixed: tuple[Tensor, ...]) -> Batch:
        """The stories' tokens and what follows each."""
        (tokens,) = numbers
        here = tokens[..., :-1, :]
        return Batch(here.clamp_min(0), here[..., :0, :], tokens[..., 1:, :])

    def tokens(self, rows: Sequence[int] | np.ndarray) -> Tensor:
        """The beginnings ``(S + 1, n)`` of the stories of these rows; whole ones with their ends."""
        size = self.context + 1
        found = np.full((len(rows), size), NOTHING)
        for own, row in zip(found, rows, strict=True):
            numbers = [*self.encoding.encode(self.shelf[row]), self.encoding.end][:size]
            own[: len(numbers)] = numbers
        return torch.from_numpy(self._exchanged(found)).T

    def held_out(self, n: int, seed: int = 0) -> Tensor:
        """The first ``n`` stories ``(S + 1, n)`` for validation (seed 0) or for the test (seed 1), fewer where there are no more."""
        return self.tokens(self.split(SPLITS[seed])[:n])

    def text(self, tokens: Tensor | np.ndarray) -> str:
        """The text of one row of numbers, up to its end."""
        said = []
        for number in self._exchanged(np.asarray(tokens)).tolist():
            if number in (NOTHING, self.encoding.end):
                break
            said.append(number)
        return self.encoding.decode(said)

    def lengths(self, n: int) -> np.ndarray:
        """Tokens of ``n`` stories, their ends included, not cut: evenly spaced ones of all in the order of their hashes."""
        rows = np.unique(np.linspace(0, len(self.shelf) - 1, n).astype(int))
        return np.array([len(self.encoding.encode(self.shelf[row])) + 1 for row in rows])

    def _exchanged(self, numbers: np.ndarray) -> np.ndarray:
        """The end of a story and token 0, each as the other; done twice, nothing."""
        end = self.encoding.end
        return np.where(numbers == end, 0, np.where(numbers == 0, end, numbers))
