"""Elimination of hypotheses about a bijection (agarwal2025, section 9, after Paper I), with exact posteriors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from .. import random
from .batch import Batch


@dataclass(frozen=True)
class BijectionElimination:
    """A random bijection of V symbols is shown pair by pair, ``x_1 y_1 x_2 y_2 ...``; at each ``x_k`` its image is asked for.

    With ``distinct`` keys each ``x_k`` is new, and all that can be known is which images are left: ``1 / (V - k + 1)`` each. Otherwise keys are
    drawn with replacement; the image of one that was seen is certain, which takes looking it up ("random-access binding").

    A token carries V indicators for a key and V for an image.

    Args:
        symbols: V.
        length: K, pairs; at most V if they are distinct.
        distinct: keys without replacement.
    """

    symbols: int = 8
    length: int = 8
    distinct: bool = True

    def __post_init__(self) -> None:
        assert self.symbols >= 2, self
        assert self.length >= 1, self
        assert not self.distinct or self.length <= self.symbols, self

    first = 0
    stride = 2

    @property
    def tokens(self) -> int:
        """Tokens of a sequence: the last key has no image after it."""
        return 2 * self.length - 1

    @property
    def token_width(self) -> int:
        """Numbers in a token."""
        return 2 * self.symbols

    @property
    def classes(self) -> int:
        """Outcomes that are predicted."""
        return self.symbols

    @property
    def words(self) -> int:
        """Random words for one sequence: their order is the bijection, and those of the keys their order or their values."""
        return self.symbols + (self.symbols if self.distinct else self.length)

    def draw(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and their images as indices, each ``(..., K, B)``; pure."""
        bijection = random.order(words[..., : self.symbols, :], -2)  # (..., V, B)
        rest = words[..., self.symbols :, :]
        if self.distinct:
            keys = random.order(rest, -2)[..., : self.length, :]
        else:
            keys = random.below(self.symbols, rest)
        return keys, bijection.gather(-2, keys)

    def encode(self, keys: Tensor, images: Tensor, dtype: torch.dtype) -> Tensor:
        """Tokens ``(..., T, D, B)``."""
        x = one_hot(keys, 2 * self.symbols)  # (..., K, B, D)
        y = one_hot(images + self.symbols, 2 * self.symbols)
        both = torch.stack([x, y], -3).flatten(-4, -3)  # x_1 y_1 x_2 ..., (..., 2K, B, D)
        return both[..., :-1, :, :].transpose(-1, -2).to(dtype)

    def batch(self, normals: Tensor, words: Tensor) -> Batch:
        """From no normals, whose type the result has, and words: tokens ``(..., T, D, B)``, nothing as the query, and the images ``(..., K, V, B)``, one-hot, as the target."""
        keys, images = self.draw(words)
        target = one_hot(images, self.symbols).transpose(-1, -2).to(normals.dtype)
        return Batch(self.encode(keys, images, normals.dtype), target[..., 0, :0, :], target)

    def exact(self, normals: Tensor, words: Tensor) -> Tensor:
        """The exact predictive distribution at every key, ``(..., K, V, B)``."""
        return predictive(*self.draw(words), self.symbols, normals.dtype)


def predictive(keys: Tensor, images: Tensor, symbols: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """``p(pi(x_k) = y | x_1 y_1 .. x_k)`` under a uniform bijection: certain for a key that was seen, else uniform over the images not seen.

    Args:
        keys, images: ``(..., K, B)`` indices.
        symbols: V.

    Returns:
        ``(..., K, V, B)``.
    """
    x = one_hot(keys, symbols).transpose(-1, -2).to(dtype)  # (..., K, V, B)
    y = one_hot(images, symbols).transpose(-1, -2).to(dtype)
    seen = ((y.cumsum(-3) - y) > 0).to(dtype)  # images before the k-th, (..., K, V, B)
    left = (1 - seen) / (1 - seen).sum(-2, keepdim=True).clamp(min=1)
    known = (((x.cumsum(-3) - x) * x).sum(-2, keepdim=True) > 0).to(dtype)  # (..., K, 1, B)
    return known * y + (1 - known) * left
