"""The Transformer that the GD language model is compared with (wang2025, section 6.3): pre-norm, after Radford et al. (2019)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .language import START, LanguageModel, normed


class TransformerLanguage(LanguageModel):
    """``h = LN(w + p)``; each block adds ``W_O concat_m softmax(Q_m K_m^T / sqrt(width of a head)) V_m`` of ``LN(h)``, then feeds forward.

    Args:
        vocabulary, context, width, n_heads, n_blocks, feed_forward, hidden: as in :class:`LanguageModel`.
        split: heads of width d'/M, the standard ones; otherwise of full width d', as in the published code.
    """

    def __init__(
        self,
        vocabulary: int,
        context: int,
        width: int,
        split: bool = True,
        feed_forward: bool = True,
        **sizes: int | None,
    ) -> None:
        super().__init__(vocabulary, context, width, feed_forward=feed_forward, **sizes)
        assert not split or width % self.n_heads == 0, width
        self.head_width = width // self.n_heads if split else width
        inner = START / math.sqrt(2 * self.n_blocks)
        self._add("positions", START, context, width)
        self._add("gain_attention", 1.0, self.n_blocks, width)
        for name in ("W_Q", "W_K", "W_V"):
            self._add(name, START, self.n_blocks, self.n_heads, self.head_width, width)
        self._add("W_O", inner, self.n_blocks, self.n_heads, self.head_width, width)

    def _read(self, h: Tensor) -> Tensor:
        """Logits of the stream."""
        return normed(h, self.gain_out) @ self.embed.T

    def scores(self, x: Tensor, k: int) -> Tensor:
        """Scores of the heads of block k ``(B, M, T, T)``, asking place first, for normalised inputs ``(T, B, d')``."""
        x = x.transpose(0, 1)[:, None]  # (B, 1, T, d')
        q, key = (x @ w[k].transpose(-1, -2) for w in (self.W_Q, self.W_K))  # (B, M, T, dh)
        return q @ key.transpose(-1, -2) / math.sqrt(self.head_width)

    def _attended(self, x: Tensor, k: int) -> Tensor:
        """What attention of block k adds for normalised inputs ``(T, B, d')``."""
        v = x.transpose(0, 1)[:, None] @ self.W_V[k].transpose(-1, -2)  # (B, M, T, dh)
        after = torch.ones(len(x), len(x), dtype=torch.bool, device=x.device).triu(1)
        mixed = torch.softmax(self.scores(x, k).masked_fill(after, -torch.inf), -1) @ v
        return mixed.permute(2, 0, 1, 3).flatten(2) @ self.W_O[k].flatten(0, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits ``(T, B, V)`` of the tokens after each of ``(T, B)``, T <= S."""
        h = normed(self.embed[tokens] + self.positions[: len(tokens), None], self.gain_embed)
        for k in range(self.n_blocks):
            h = h + self._attended(normed(h, self.gain_attention[k]), k)
            h = self._fed(h, k)
        return self._read(h)
