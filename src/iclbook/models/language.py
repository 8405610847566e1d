"""What the language models of wang2025 (section 6.3) share: layer norms without bias, the feed-forward step, and how parameters start.

Shapes: S positions, B stories, V tokens, d' width. ``forward(tokens (S, B))`` gives logits ``(S, B, V)``: those at place t predict token t + 1.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

#: Standard deviation of initial weights; what writes into the stream has it divided by sqrt(2 K) (Radford et al. 2019).
START = 0.02


def normed(x: Tensor, gain: Tensor) -> Tensor:
    """Layer norm over the last axis with a gain and without bias."""
    return nn.functional.layer_norm(x, x.shape[-1:], gain)


class LanguageModel(nn.Module):
    """Embeddings of tokens and positions, K feed-forward steps if asked for, and the gains of all layer norms.

    Args:
        vocabulary, context, width: V, S, d'.
        n_heads, n_blocks: M, K.
        feed_forward: whether each block ends with ``h + W_2 GELU(W_1 LN(h))``.
        hidden: of the feed-forward step; 4 d' by default.
    """

    def __init__(
        self,
        vocabulary: int,
        context: int,
        width: int,
        n_heads: int = 8,
        n_blocks: int = 1,
        feed_forward: bool = False,
        hidden: int | None = None,
    ) -> None:
        super().__init__()
        hidden = 4 * width if hidden is None else hidden
        assert min(vocabulary, context, width, n_heads, n_blocks, hidden) >= 1
        self.context, self.width, self.n_heads, self.n_blocks = context, width, n_heads, n_blocks
        self.feed_forward = feed_forward
        self._starts: dict[str, float] = {}
        inner = START / math.sqrt(2 * n_blocks)
        self._add("embed", START, vocabulary, width)
        self._add("gain_embed", 1.0, width)
        self._add("gain_out", 1.0, width)
        if feed_forward:
            self._add("gain_hidden", 1.0, n_blocks, width)
            self._add("W_1", START, n_blocks, hidden, width)
            self._add("W_2", inner, n_blocks, width, hidden)

    def _add(self, name: str, start: float, *shape: int) -> None:
        """A parameter: a gain (or another number that starts as a constant) of value ``start``, else normal with that standard deviation."""
        self.register_parameter(name, nn.Parameter(torch.zeros(shape)))
        self._starts[name] = start

    @torch.no_grad()
    def initialise(self, generator: torch.Generator, scale: float = 1.0) -> None:
        """Draw all weights; ``scale`` multiplies every standard deviation."""
        for name, p in self.named_parameters():
            if name.startswith("gain"):
                p.fill_(self._starts[name])
            else:
                p.normal_(0.0, scale * self._starts[name], generator=generator)

    def _fed(self, h: Tensor, k: int) -> Tensor:
        """``h (..., d')`` after the feed-forward step of block k, if there is one."""
        if not self.feed_forward:
            return h
        x = normed(h, self.gain_hidden[k])
        return h + nn.functional.gelu(x @ self.W_1[k].T) @ self.W_2[k].T

    def embedding_count(self) -> int:
        """Parameters that grow with the vocabulary or the context."""
        return self.embed.numel() + self.positions.numel()

    def count(self) -> int:
        """All parameters."""
        return sum(p.numel() for p in self.parameters())
