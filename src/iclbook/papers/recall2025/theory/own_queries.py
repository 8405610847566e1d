"""The population with simplification A2 lifted: the query side is what the heads themselves find before the last token (recall2025, A.2, A.6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .population import Population, _softmax

Array = np.ndarray


@dataclass(frozen=True)
class OwnQueries(Population):
    """The simplified model without A2.

    Head h meets the context with the last token itself (h = 1), or with what head h - 1 finds before the last token: the attention ``a^{h-1}``, one
    offset further back. Offsets beyond the query's permutation reach a response, which the second layer does not read. With the window as long as the
    permutations, every key attends to symbols only, so that ``gamma 11^T`` still moves all scores alike.
    """

    @cached_property
    def flat_meetings(self) -> Array:
        """``(n!, n W)``: whether the query's token j from the end equals token i from the end of permutation t; the query is the first."""
        tokens = self.task.permutations[:, ::-1]  # (n!, n)
        same = tokens[:, None, : self.window] == tokens[0][None, :, None]  # (n!, n, W)
        return same.reshape(len(tokens), -1).astype(float)

    def _queries(self, a: Array) -> Array:
        """Weights ``(K, n, M)`` of the query's tokens, from its end, in what each head meets the context with, from attention ``(K, W, M)``."""
        reach = self._reach
        found = np.zeros((self.n_heads, self.task.order, *a.shape[2:]))
        found[0, 0] = 1.0
        found[1:, 1 : reach + 1] = a[:-1, :reach]
        return found

    @property
    def _reach(self) -> int:
        """How far before the last token what a head has found can be read."""
        return min(self.window, self.task.order - 1)

    def _weights(self, a: Array, beta: Array) -> Array:
        asked = (self.kappa * beta**2)[:, None] * self._queries(a)  # (K, n, M)
        met = np.add.reduce(asked[:, :, None] * a[:, None], 0)  # (n, W, M)
        return _softmax(self.flat_meetings @ met.reshape(-1, *beta.shape[1:]), 0)

    def _pull_back(self, a: Array, beta: Array, by_score: Array) -> Array:
        """Through the keys and through the queries."""
        by_meeting = (self.flat_meetings.T @ by_score).reshape(self.task.order, *a.shape[1:])  # (n, W, M)
        strength = (self.kappa * beta**2)[:, None]
        by_key = np.add.reduce(self._queries(a)[:, :, None] * by_meeting, 1)  # (K, W, M)
        by_query = np.add.reduce(a[:, None] * by_meeting, 2)  # (K, n, M)
        by_attention = strength * by_key
        reach = self._reach
        by_attention[:-1, :reach] += strength[1:] * by_query[1:, 1 : reach + 1]
        by_w = a * (by_attention - np.add.reduce(a * by_attention, 1, keepdims=True))
        by_beta = 2 * self.kappa * beta * np.add.reduce(a * by_key, 1)
        return np.concatenate([by_w.reshape(-1, *beta.shape[1:]), by_beta])
