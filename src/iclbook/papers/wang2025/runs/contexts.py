"""Fixed sets of contexts, as tokens or as cached relations between covariates, and the prompts that runs are scored on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ....errors import UserError
from ....models.functional_gd import cached_relations
from ....models.kernels import RELATIONS
from ....random import generator
from ....rounding import current, moved_batch, number
from ....tasks import Batch
from ....tasks.categorical import Categorical

#: Purpose of the contexts' random numbers; 0 and 1 belong to a run's parameters and minibatches.
CONTEXTS = 7
#: Contexts are drawn in blocks of this many, so that a smaller set is the beginning of a larger one.
BLOCK = 1024
#: Seeds of the validation and test contexts (training contexts: 0).
VALIDATION, TEST = 1, 2


def draw(task: Categorical, n: int, seed: int) -> Batch:
    """The first ``n`` contexts of a seed, batch last; for a twin (:mod:`iclbook.rounding`) with rounding errors."""
    source, jitter = generator(seed, CONTEXTS), current()
    blocks = []
    for _ in range(math.ceil(n / BLOCK)):
        normals = torch.randn(task.normals, BLOCK, generator=source)
        blocks.append(task.batch(normals) if jitter is None else moved_batch(task.batch, normals, jitter))
    return Batch(*(torch.cat(parts, dim=-1)[..., :n] for parts in zip(*blocks, strict=True)))


def truths(task: Categorical, n: int, seed: int) -> Tensor:
    """``p(y_{N+1})`` ``(C, n)`` of the same contexts."""
    source = generator(seed, CONTEXTS)
    blocks = [
        task.truth(torch.randn(task.normals, BLOCK, generator=source)) for _ in range(math.ceil(n / BLOCK))
    ]
    return torch.cat(blocks, dim=-1)[..., :n]


def seen_as(batch: Batch, view: str, among_keys: bool = False) -> Batch:
    """Contexts as a model reads them: ``tokens``, or relations to the query (and ``among_keys``) with an empty query.

    Raises:
        UserError: unknown view.
    """
    if view == "tokens":
        return batch
    if view not in RELATIONS:
        raise UserError(f"unknown view {view!r}", f"Choose tokens or one of: {', '.join(RELATIONS)}.")
    parts = zip(*(part.split(BLOCK, dim=-1) for part in batch), strict=True)
    cached = torch.cat([cached_relations(view, c, q, among_keys) for c, q, _ in parts], dim=-1)
    return Batch(cached, batch.query[:0], batch.target)


@dataclass(frozen=True)
class ContextSet:
    """``L`` contexts drawn once; every minibatch draws from them with replacement (the published code walks through them in epochs).

    Args:
        task: where they come from.
        L: how many.
        view, among_keys: of :func:`seen_as`; relations are computed once for the whole set.
        seed: of their numbers; every run sees the same set.

    The rows lie behind a cache that a compiler would trace through and draw anew at every step: trainings here are too short to be compiled
    (``benchmarks/categorical.py`` holds its rows as attributes instead).

    Raises:
        UserError: no context.
    """

    task: Categorical
    L: int
    view: str = "tokens"
    among_keys: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.L < 1:
            raise UserError(f"L={self.L}: training needs contexts", "Set L to 1 or more.")

    @property
    def normals(self) -> int:
        """One standard normal chooses a context."""
        return 1

    def batch(self, normals: Tensor) -> Batch:
        """Turn standard normals ``(..., 1, B)`` into a batch; pure."""
        uniform = (1 + torch.erf(normals[..., 0, :] / math.sqrt(2))) / 2
        index = (uniform * self.L).long().clamp(0, self.L - 1)  # (..., B)
        return Batch(
            *(part.to(normals)[index].movedim(normals.dim() - 2, -1) for part in _rows(self, number()))
        )

    def probes(self, n: int) -> dict[str, Batch]:
        """Validation and test contexts, as this set shows its own."""
        return {
            name: seen_as(draw(self.task, n, seed), self.view, self.among_keys)
            for name, seed in (("validation", VALIDATION), ("test", TEST))
        }


@lru_cache(maxsize=2)
def _rows(chosen: ContextSet, twin: int | None) -> tuple[Tensor, ...]:
    """The parts of the set with the contexts as first axis, so that picking one reads contiguous memory; each ``twin`` has its own."""
    batch = seen_as(draw(chosen.task, chosen.L, chosen.seed), chosen.view, chosen.among_keys)
    return tuple(part.movedim(-1, 0).contiguous() for part in batch)
