"""Few-shot episodes: which images make a context, with which labels, and which is the query (wang2025, section 6.2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .. import random

#: How the query's label comes about: at random (the text), or always the last one (a slip in one version of the published code, whose
#: loader always numbers the query's class last).
QUERY_LABELS = ("random", "last")


@dataclass(frozen=True)
class FewShot:
    """``ways`` classes, ``shots`` images of each in random order, and one more image of one of the classes as the query.

    The images of one class within an episode are of different kinds (typefaces), so the query is never a jittered copy of a context image.
    Labels say nothing about the class: they are dealt anew in each episode, so they carry over to classes that training never saw.

    Attributes:
        ways, shots: the paper's 5 and 10, N = 50.
        query_label: one of :data:`QUERY_LABELS`.
    """

    ways: int = 5
    shots: int = 10
    query_label: str = "random"

    def __post_init__(self) -> None:
        assert self.ways >= 2, self
        assert self.shots >= 1, self
        assert self.query_label in QUERY_LABELS, self

    @property
    def N(self) -> int:
        """Examples in the context."""
        return self.ways * self.shots

    def words(self, n_classes: int, kinds: int) -> int:
        """Random words of one episode: they choose classes, kinds, copies, the order and the query's label."""
        assert n_classes >= self.ways, self
        assert kinds >= self.shots + 1, self
        return n_classes + self.ways * (kinds + self.shots + 1) + self.N + 1

    def choose(self, words: Tensor, n_classes: int, kinds: int, copies: int = 1) -> tuple[Tensor, Tensor]:
        """Episodes over images ``(n_classes, kinds, copies)`` from random words ``(self.words(...), B)``; pure.

        Returns:
            Index of each image, row-major, ``(N + 1, B)``, and its label ``0 .. ways - 1``, ``(N + 1, B)``; the query is last.
        """
        B, taken = words.shape[-1], self.shots + 1
        sizes = (n_classes, self.ways * kinds, self.ways * taken, self.N, 1)
        for_class, for_kind, for_copy, for_order, for_query = words.split(sizes)
        classes = random.order(for_class, 0)[: self.ways]  # (ways, B); label l stands for classes[l]
        kind = random.order(for_kind.reshape(self.ways, kinds, B), 1)[:, :taken]  # (ways, taken, B)
        copy = random.below(copies, for_copy).reshape(self.ways, taken, B)
        image = (classes[:, None] * kinds + kind) * copies + copy  # (ways, taken, B)
        asked = random.below(self.ways, for_query)[0]  # (B,)
        if self.query_label == "last":
            asked = torch.full_like(asked, self.ways - 1)
        order = random.order(for_order, 0)  # (N, B)
        context = image[:, : self.shots].reshape(self.N, B).gather(0, order)
        query = image[:, self.shots].gather(0, asked[None])
        labels = order // self.shots  # place p of the ordered context belongs to class p // shots
        return torch.cat([context, query]), torch.cat([labels, asked[None]])
