"""Fixed sets of contexts, as tokens or as cached relations between covariates, and the prompts that runs are scored on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .... import random
from ....errors import UserError
from ....models.functional_gd import cached_relations
from ....models.kernels import RELATIONS
from ....rounding import UNIT, choosing, chosen_anew, current, moved_batch, signs
from ....tasks import Batch
from ....tasks.categorical import Categorical

#: Purpose of the contexts' random numbers; 0 and 1 belong to a run's parameters and minibatches.
CONTEXTS = 7
#: Contexts are drawn in blocks of this many, so that a smaller set is the beginning of a larger one.
BLOCK = 1024
#: Seeds of the validation and test contexts (training contexts: 0).
VALIDATION, TEST = 1, 2


def numbers(task: Any, block: int, seed: int) -> tuple[Tensor, ...]:
    """What the contexts of a block are made of, as :func:`iclbook.random.drawn` gives it."""
    return random.drawn(task, seed, CONTEXTS, (BLOCK,), block)


def draw(task: Categorical, n: int, seed: int) -> Batch:
    """The first ``n`` contexts of a seed, batch last; for a twin (:mod:`iclbook.rounding`) with rounding errors."""
    jitter = current()
    blocks = []
    for block in range(math.ceil(n / BLOCK)):
        drawn = numbers(task, block, seed)
        blocks.append(task.batch(*drawn) if jitter is None else _of_a_twin(task, drawn, jitter))
    return Batch(*(torch.cat(parts, dim=-1)[..., :n] for parts in zip(*blocks, strict=True)))


def _of_a_twin(task: Categorical, drawn: tuple[Tensor, ...], jitter: torch.Generator) -> list[Tensor]:
    """Contexts with rounding errors. A category is chosen by a word and probabilities that each machine rounds in its own way, so words near an edge choose
    anew. Words that choose by whole numbers alone, such as the categories of a context or an episode, are exact."""
    normals, words = drawn
    beside = words.clone()
    if isinstance(task, Categorical):
        labels = beside[..., -task.N - 1 :, :]
        labels += (choosing() * UNIT * 2**32 * signs(labels, jitter)).long()
    pairs = zip(
        moved_batch(task.batch, drawn, jitter), task.batch(normals, beside.clamp_(0, 2**32 - 1)), strict=True
    )
    return [chosen_anew(*pair) for pair in pairs]


def truths(task: Categorical, n: int, seed: int) -> Tensor:
    """``p(y_{N+1})`` ``(C, n)`` of the same contexts."""
    blocks = [task.truth(*numbers(task, block, seed)) for block in range(math.ceil(n / BLOCK))]
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
class Contexts:
    """Contexts of a task for a :class:`iclbook.training.FixedSet`, which computes relations once for the whole set (the published code walks through
    its set in epochs).

    Attributes:
        task: where they come from.
        view, among_keys: of :func:`seen_as`.
    """

    task: Categorical
    view: str = "tokens"
    among_keys: bool = False

    def draw(self, n: int, seed: int) -> Batch:
        """The first ``n`` contexts of a seed, as a model reads them."""
        return seen_as(draw(self.task, n, seed), self.view, self.among_keys)

    def batch(self, parts: tuple[Tensor, ...], normals: Tensor) -> Batch:
        """Chosen contexts as they are."""
        return Batch(*parts)

    def probes(self, n: int) -> dict[str, Batch]:
        """Validation and test contexts, shown alike."""
        return {"validation": self.draw(n, VALIDATION), "test": self.draw(n, TEST)}
