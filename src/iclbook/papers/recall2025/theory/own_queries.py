"""The population with simplification A2 lifted: the query side is what the heads themselves find before the last token (recall2025, A.2, A.6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .population import Population

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

    def queries(self, attention: Array) -> Array:
        """Weights ``(..., K, n)`` of the query's tokens, from its end, in what each head meets the context with, from ``attention (..., K, W)``."""
        order = self.task.order
        found = np.zeros((*attention.shape[:-1], order))
        found[..., 0, 0] = 1.0
        reach = min(self.window, order - 1)
        found[..., 1:, 1 : reach + 1] = attention[..., :-1, :reach]
        return found

    def weights(self, theta: Array, attention: Array | None = None) -> Array:
        """Second-layer attention on the responses, ``(..., n!)``; the first is the correct one."""
        _, beta = self.split(theta)
        a = self.attention(theta) if attention is None else attention
        asked = self.kappa * beta[..., None] ** 2 * self.queries(a)  # (..., K, n)
        met = np.swapaxes(asked, -1, -2) @ a  # (..., n, W)
        scores = met.reshape(*met.shape[:-2], -1) @ self.flat_meetings.T
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def pull_back(self, theta: Array, by_score: Array, attention: Array | None = None) -> Array:
        """Gradient in theta from the gradient in the scores ``(..., n!)``: through the keys and through the queries."""
        _, beta = self.split(theta)
        a = self.attention(theta) if attention is None else attention
        asked = self.queries(a)  # (..., K, n)
        by_meeting = by_score @ self.flat_meetings  # (..., n W)
        by_meeting = by_meeting.reshape(*by_score.shape[:-1], self.task.order, self.window)
        strength = self.kappa * beta[..., None] ** 2
        by_key = asked @ by_meeting  # (..., K, W)
        by_query = strength * (a @ np.swapaxes(by_meeting, -1, -2))  # (..., K, n)
        by_attention = strength * by_key
        reach = min(self.window, self.task.order - 1)
        by_attention[..., :-1, :reach] += by_query[..., 1:, 1 : reach + 1]
        by_w = a * (by_attention - (a * by_attention).sum(-1, keepdims=True))
        return self.join(by_w, 2 * self.kappa * beta * (a * by_key).sum(-1))
