"""A handful of random inputs with random labels (agarwal2025, section 7.1)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from .. import random


@dataclass(frozen=True)
class RandomTargets:
    """``x_j ~ N(0, I)`` and ``y_i`` uniform over classes, independent of everything.

    Args:
        T, d, n: positions, input dimensions, classes.
    """

    T: int = 5
    d: int = 3
    n: int = 3

    def __post_init__(self) -> None:
        assert self.T >= 1, self
        assert self.d >= 1, self
        assert self.n >= 2, self

    @property
    def normals(self) -> int:
        """Standard normals of one data set."""
        return self.T * self.d

    @property
    def words(self) -> int:
        """Random words of one data set."""
        return self.T

    def dataset(self, normals: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs ``(..., T, d)`` and targets ``(..., T)`` from standard normals ``(..., self.normals)`` and words ``(..., self.words)``; pure."""
        return normals.unflatten(-1, (self.T, self.d)), random.below(self.n, words)
