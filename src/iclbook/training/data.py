"""Data of a training at each step: fresh prompts, prompts of a fixed set, or all of a run's own data.

Each kind draws its numbers by counter (:mod:`iclbook.random`), so that what a run sees at step k depends on its data seed and on k only.
Shapes: S data seeds, K steps drawn at once, B prompts a step (always the last axis).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from .. import random
from ..random import replica_number
from ..tasks import Batch

Tensors = tuple[Tensor, ...]


@dataclass(frozen=True)
class Stream:
    """A fresh batch at each step.

    Attributes:
        task: counts what a prompt consumes, ``normals`` (standard normals) and perhaps ``words`` (random whole numbers below 2**32), and turns them
            into a batch: ``batch(normals)`` of ``(..., normals, B)``, or ``batch(normals, words)`` if it asks for words.
    """

    task: Any

    def fixed(self, seeds: Sequence[int]) -> Tensors:
        """Data that stays the same at all steps: nothing."""
        return ()

    def draw(self, keys: Tensor, steps: Tensor, batch_size: int, dtype: torch.dtype) -> Tensors:
        """Random numbers of steps ``(K,)`` and data seeds with keys ``(S, 2)``: standard normals ``(S, K, normals, B)`` and perhaps words ``(S, K, words, B)``."""
        return random.numbers(self.task, keys, steps, random.DATA, (batch_size,), dtype)

    def batch(self, numbers: Tensors, fixed: Tensors) -> Batch:
        """The batch of one step, ``(S, ...)``, from its numbers ``(S, ...)``; pure."""
        return self.task.batch(*numbers)


@dataclass(frozen=True)
class FixedSet:
    """``n`` prompts drawn once, which training meets again and again; all runs have the same set.

    Args:
        prompts: where they come from, a frozen dataclass, for it is part of the description. ``draw(n, seed)`` gives ``n`` prompts as tensors ``(..., n)``, on
            the CPU, the first of a larger set; ``batch(parts, normals, *words)`` makes a batch from chosen prompts ``(..., B)``, standard normals
            ``(..., normals, B)`` and words, if it counts any that a prompt takes anew each time that it is seen; pure.
        n: how many.
        seed: of the set.
        epochs: walk through the set in an order shuffled anew each time, leaving what does not fill a batch for the next; otherwise every batch draws
            from it with replacement.
    """

    prompts: Any
    n: int
    seed: int = 0
    epochs: bool = False

    def fixed(self, seeds: Sequence[int]) -> Tensors:
        """The prompts, ``(n, ...)`` each, so that choosing one reads contiguous memory."""
        return _rows(self.prompts, self.n, self.seed, replica_number())

    def draw(self, keys: Tensor, steps: Tensor, batch_size: int, dtype: torch.dtype) -> Tensors:
        """Which prompts ``(S, K, B)``, and what they take anew, as :func:`iclbook.random.numbers` says."""
        anew = random.numbers(self.prompts, keys, steps, random.DATA, (batch_size,), dtype)
        if not self.epochs:
            return random.below(self.n, random.words(keys, steps, random.CHOICE, (batch_size,))), *anew
        a_walk = self.n // batch_size
        assert a_walk, f"{self.n} prompts in batches of {batch_size}"
        before = steps - 1  # the first step is 1
        orders = random.order(random.words(keys, before // a_walk, random.CHOICE, (self.n,)), -1)  # (S, K, n)
        place = (before % a_walk)[:, None] * batch_size + torch.arange(batch_size, device=steps.device)
        return orders.gather(-1, place.expand(len(keys), -1, -1)), *anew

    def batch(self, numbers: Tensors, fixed: Tensors) -> Batch:
        """The chosen prompts."""
        index, *anew = numbers
        return self.prompts.batch(tuple(part[index].movedim(index.dim() - 1, -1) for part in fixed), *anew)


@lru_cache(maxsize=2)
def _rows(prompts: Any, n: int, seed: int, replica: int | None) -> Tensors:
    """The set with the prompts as first axis; each ``replica`` (:mod:`iclbook.random`) has its own."""
    return tuple(part.movedim(-1, 0).contiguous() for part in prompts.draw(n, seed))


@dataclass(frozen=True)
class FullBatch:
    """Full batches: all data of a run at every step, drawn once from its data seed: ``task.dataset(seed)`` gives them as a batch, on the CPU."""

    task: Any

    def fixed(self, seeds: Sequence[int]) -> Tensors:
        """The data of all seeds, ``(S, ...)``."""
        every = [self.task.dataset(seed) for seed in seeds]
        return tuple(torch.stack(parts) for parts in zip(*every, strict=True))

    def draw(self, keys: Tensor, steps: Tensor, batch_size: int, dtype: torch.dtype) -> Tensors:
        """Nothing."""
        return ()

    def batch(self, numbers: Tensors, fixed: Tensors) -> Batch:
        """The full batch."""
        return Batch(*fixed)
