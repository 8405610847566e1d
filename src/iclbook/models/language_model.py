"""A causal language model of the shape of Pythia (GPT-NeoX): rotary positions on whole heads (Pythia: a quarter), layer norms, embedding and unembedding apart.

Shapes: B prompts of T tokens, width w, L layers, H heads of dh numbers, V tokens in the vocabulary. Layers are stacked along the first axis of every parameter.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from .module import Model

#: ``heads(layer, values)``: what replaces the heads' outputs ``(B, H, T, dh)`` of a layer before they are joined.
Edit = Callable[[int, Tensor], Tensor]
#: Base of the rotary frequencies.
THETA = 10_000.0


class Trace(NamedTuple):
    """Intermediate values of a forward pass.

    Attributes:
        hidden: ``(L + 1, B, T, w)`` embedding and residual stream after every block, before the final norm.
        attention: ``(L, B, H, T, T)`` weights of every token (second to last axis) on every token.
    """

    hidden: Tensor
    attention: Tensor


class LanguageModel(Model):
    """Tokens to logits of the next token.

    Args:
        vocabulary, width, n_layers, n_heads, hidden: V, w, L, H and the width of the feed-forward part.
        parallel: attention and feed-forward part read the same stream, as in Pythia; otherwise one after the other.
    """

    def __init__(
        self, vocabulary: int, width: int, n_layers: int, n_heads: int, hidden: int, parallel: bool = True
    ) -> None:
        super().__init__()
        assert width % (2 * n_heads) == 0, (width, n_heads)
        self.vocabulary, self.width, self.n_layers, self.n_heads = vocabulary, width, n_layers, n_heads
        self.parallel = parallel
        # as Pythia: Nguyen and Salazar (2019), and for maps that write into the stream Wang and Komatsuzaki (2021)
        small, writing = math.sqrt(2 / (5 * width)), 2 / (n_layers * math.sqrt(width))
        for name, rows, columns, sd in (
            ("qkv", 3 * width, width, small),
            ("out", width, width, writing),
            ("up", hidden, width, small),
            ("down", width, hidden, writing),
        ):
            self._add(name, n_layers, rows, columns, sd=sd)
            self._add(f"{name}_bias", n_layers, rows)
        for name, layers in (("norm1", (n_layers,)), ("norm2", (n_layers,)), ("norm", ())):
            self._add(name, *layers, width, value=1.0)
            self._add(f"{name}_bias", *layers, width)
        self._add("embed", vocabulary, width, sd=small)
        self._add("unembed", vocabulary, width, sd=small)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _mapped(self, x: Tensor, name: str, layer: int) -> Tensor:
        return F.linear(x, getattr(self, name)[layer], getattr(self, f"{name}_bias")[layer])

    def _normed(self, x: Tensor, name: str, layer: int) -> Tensor:
        return F.layer_norm(x, (self.width,), getattr(self, name)[layer], getattr(self, f"{name}_bias")[layer])

    def _turn(self, x: Tensor) -> Tensor:
        """Rotary positions (Su et al. 2021) on ``x (B, H, T, dh)``: pairs ``(i, i + dh / 2)`` turn by ``t theta^(-2i / dh)``."""
        half = x.shape[-1] // 2
        rate = THETA ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
        angle = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)[:, None] * rate  # (T, half)
        cos, sin = angle.cos().to(x), angle.sin().to(x)
        a, b = x.split(half, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def _attend(self, layer: int, x: Tensor, heads: Edit | None) -> tuple[Tensor, Tensor]:
        """Output of attention ``(B, T, w)`` for its input, and its weights ``(B, H, T, T)``."""
        parts = self._mapped(x, "qkv", layer).chunk(3, -1)
        q, k, v = (y.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for y in parts)  # (B, H, T, dh)
        q, k = self._turn(q), self._turn(k)
        T = x.shape[1]
        later = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        weights = torch.softmax(scores.masked_fill(later, -torch.inf), -1)
        values = weights @ v
        if heads is not None:
            values = heads(layer, values)
        return self._mapped(values.transpose(1, 2).flatten(2), "out", layer), weights

    def _block(self, layer: int, x: Tensor, heads: Edit | None = None) -> tuple[Tensor, Tensor]:
        """The stream after a block, and the attention in it."""
        mixed, weights = self._attend(layer, self._normed(x, "norm1", layer), heads)
        inner = self._normed(x if self.parallel else x + mixed, "norm2", layer)
        fed = self._mapped(F.gelu(self._mapped(inner, "up", layer)), "down", layer)
        return x + mixed + fed, weights

    # -- the model -----------------------------------------------------------------------------------------------------

    def embedded(self, tokens: Tensor, embed: Tensor | None = None) -> Tensor:
        """The stream ``(B, T, w)`` before the first block; ``embed (V, w)`` may stand in for the embedding."""
        return F.embedding(tokens, self.embed if embed is None else embed)

    def lens(self, hidden: Tensor) -> Tensor:
        """Logits ``(..., V)`` of a stream ``(..., w)`` at any depth: final norm and unembedding (the logit lens)."""
        normed = F.layer_norm(hidden, (self.width,), self.norm, self.norm_bias)
        return F.linear(normed, self.unembed)

    def trace(self, tokens: Tensor) -> Trace:
        """Streams and attention of prompts ``(B, T)``."""
        x = self.embedded(tokens)
        hidden, attention = [x], []
        for layer in range(self.n_layers):
            x, weights = self._block(layer, x)
            hidden.append(x)
            attention.append(weights)
        return Trace(torch.stack(hidden), torch.stack(attention))

    def stream(self, tokens: Tensor, heads: Edit | None = None, embed: Tensor | None = None) -> Tensor:
        """The stream ``(B, T, w)`` after the last block; ``heads`` may replace what heads give, ``embed`` the embedding."""
        x = self.embedded(tokens, embed)
        for layer in range(self.n_layers):
            x, _ = self._block(layer, x, heads)
        return x

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits ``(B, T, V)`` of the token after each of ``(B, T)``."""
        return self.lens(self.stream(tokens))
