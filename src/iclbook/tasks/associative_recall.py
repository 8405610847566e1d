"""In-context associative recall over permutations (recall2025, Section 2.1): sequences, and exact enumeration of all of them."""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from .. import random
from .batch import Batch


def _lexicographic(order: int, device: torch.device) -> Tensor:
    """Permutations ``(order!, order)`` in lexicographic order, from the factorial digits of their numbers: a captured step copies nothing from the host."""
    number = torch.arange(math.factorial(order), device=device)
    digits = [number // math.factorial(order - 1 - k) % (order - k) for k in range(order)]
    for k in reversed(range(order)):  # a digit counts the symbols that are left: those from its own on move up
        digits[k + 1 :] = [later + (later >= digits[k]) for later in digits[k + 1 :]]
    return torch.stack(digits, -1)


@dataclass(frozen=True)
class AssociativeRecall:
    """A sequence shows every permutation of ``order`` symbols followed by its response ``f(pi)``, then asks for one again.

    Tokens are numbers: symbols ``0 .. order - 1``, then responses ``order .. order + n_responses - 1``.

    Args:
        order: length of the permutations, at least 2.
        n_responses: size of the response set R, at least 2.
    """

    order: int = 4
    n_responses: int = 4

    @property
    def n_permutations(self) -> int:
        """``order!``, the number of pairs that a sequence shows."""
        return math.factorial(self.order)

    @property
    def length(self) -> int:
        """Tokens of a sequence without the missing one: ``(order + 1)! + order``."""
        return self.n_permutations * (self.order + 1) + self.order

    @property
    def vocabulary(self) -> int:
        """Symbols and responses."""
        return self.order + self.n_responses

    @cached_property
    def permutations(self) -> np.ndarray:
        """Permutations ``(order!, order)`` in the order in which a sequence shows them."""
        return np.array(list(itertools.permutations(range(self.order))))

    @cached_property
    def response_positions(self) -> np.ndarray:
        """Places of the responses in a sequence, ``(order!,)``."""
        return np.arange(self.n_permutations) * (self.order + 1) + self.order

    def sequences(self, queries: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """Sequences of tokens ``(B, length)``; the answer is ``order + responses[b, queries[b]]``.

        Args:
            queries: ``(B,)`` number of the permutation that is asked for.
            responses: ``(B, order!)`` response of every permutation, ``0 .. n_responses - 1``.
        """
        queries, responses = np.asarray(queries), np.asarray(responses)
        shown = np.broadcast_to(self.permutations, (*responses.shape, self.order))
        pairs = np.concatenate([shown, self.order + responses[..., None]], axis=-1)
        return np.concatenate([pairs.reshape(len(queries), -1), self.permutations[queries]], axis=1)

    def sample(self, batch: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Queries ``(batch,)`` and responses ``(batch, order!)``, uniform and independent."""
        queries = rng.integers(self.n_permutations, size=batch)
        return queries, rng.integers(self.n_responses, size=(batch, self.n_permutations))

    @property
    def words(self) -> int:
        """Random words that a sequence takes: its query, and the response of every permutation."""
        return 1 + self.n_permutations

    def batch(self, normals: Tensor, words: Tensor) -> Batch:
        """Turn words ``(..., 1 + order!, B)`` into a batch; pure. ``context (..., length, B)`` holds tokens, ``query`` nothing, and ``target (..., 1, B)`` the
        token that answers."""
        shown = _lexicographic(self.order, words.device)  # (n!, order)
        queries = random.below(self.n_permutations, words[..., :1, :])  # (..., 1, B)
        answers = self.order + random.below(self.n_responses, words[..., 1:, :])  # (..., n!, B)
        pairs = torch.cat(
            [shown[..., None].expand(*answers.shape[:-2], *shown.shape, answers.shape[-1]), answers[..., None, :]], -2
        )  # (..., n!, order + 1, B)
        asked = shown[queries[..., 0, :]].movedim(-1, -2)  # (..., order, B)
        context = torch.cat([pairs.flatten(-3, -2), asked], -2)
        return Batch(context, words[..., :0, :], answers.gather(-2, queries))

    def enumerate(self) -> tuple[np.ndarray, np.ndarray]:
        """Queries with all maps f: ``(N,)`` and ``(N, order!)`` with ``N = order! |R|^(order!)``."""
        maps = np.array(list(itertools.product(range(self.n_responses), repeat=self.n_permutations)))
        queries = np.repeat(np.arange(self.n_permutations), len(maps))
        return queries, np.tile(maps, (self.n_permutations, 1))

    def plateau_dp(self, matched: int) -> float:
        """Dot-product loss of a model that answers with the frequencies among the ``(order - matched)!`` permutations it cannot tell apart."""
        return (1 - 1 / self.n_responses) * (1 - 1 / self._left(matched))

    def plateau_ce(self, matched: int) -> float:
        """Cross-entropy of the same model: ``log N - E log(1 + Bin(N - 1, 1/|R|))`` with ``N = (order - matched)!``."""
        n, p = self._left(matched), 1 / self.n_responses
        mean = sum(math.comb(n - 1, j) * p**j * (1 - p) ** (n - 1 - j) * math.log(1 + j) for j in range(n))
        return math.log(n) - mean

    def _left(self, matched: int) -> int:
        """Permutations that share ``matched`` given tokens."""
        return math.factorial(self.order - matched)
