"""A causal language model with the options in which GPT-2, GPT-NeoX (Pythia) and OLMo 2 differ.

Shapes: B prompts of T tokens, width w, L layers, H heads of dh numbers, V tokens in the vocabulary. Layers are stacked along the first axis of every parameter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

#: ``heads(layer, values)``: what replaces the heads' outputs ``(B, H, T, dh)`` of a layer before they are joined.
Edit = Callable[[int, Tensor], Tensor]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


class Trace(NamedTuple):
    """What a forward pass leaves behind.

    Attributes:
        hidden: ``(L + 1, B, T, w)`` embedding and residual stream after every block, before the final norm.
        attention: ``(L, B, H, T, T)`` weights of every token (second to last axis) on every token.
    """

    hidden: Tensor
    attention: Tensor


class LanguageModel(nn.Module):
    """Tokens to logits of the next token.

    Args:
        vocabulary, width, n_layers, n_heads, hidden: V, w, L, H and the width of the feed-forward part.
        n_kv_heads: heads of keys and values, each shared by ``n_heads / n_kv_heads`` heads; as many as heads by default.
        positions: length of a learned table of positions (GPT-2); 0 for rotary positions (Su et al. 2021).
        rotary: share of a head's numbers that are turned (GPT-NeoX: 0.25).
        theta: base of the rotary frequencies.
        parallel: attention and feed-forward part read the same stream (GPT-NeoX); otherwise one after the other.
        post_norm: norms stand after attention and feed-forward part (OLMo 2), not before.
        rms: root-mean-square norms without shift (OLMo 2); otherwise layer norms.
        qk_norm: norms of all queries and of all keys (OLMo 2).
        gated: a gated feed-forward part, ``activation(gate x) * up x`` (OLMo 2).
        activation: a name of :data:`ACTIVATIONS`.
        biases: whether linear maps have biases.
        tied: the unembedding is the embedding.
        eps: of the norms.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        n_layers: int,
        n_heads: int,
        hidden: int,
        n_kv_heads: int | None = None,
        positions: int = 0,
        rotary: float = 1.0,
        theta: float = 10_000.0,
        parallel: bool = False,
        post_norm: bool = False,
        rms: bool = False,
        qk_norm: bool = False,
        gated: bool = False,
        activation: str = "gelu",
        biases: bool = True,
        tied: bool = False,
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        kv = n_heads if n_kv_heads is None else n_kv_heads
        assert min(vocabulary, width, n_layers, n_heads, hidden, kv) >= 1
        assert width % n_heads == 0, (width, n_heads)
        assert n_heads % kv == 0, (n_heads, kv)
        self.vocabulary, self.width, self.n_layers, self.n_heads = vocabulary, width, n_layers, n_heads
        self.kv, self.theta, self.eps = kv, theta, eps
        self.turned = 0 if positions else 2 * (int(rotary * width // n_heads) // 2)
        self.parallel, self.post_norm, self.rms = parallel, post_norm, rms
        self.gated, self.activation = gated, ACTIVATIONS[activation]
        self._add_layers(hidden, biases, not rms, qk_norm)
        self._add("norm", (width,), not rms)
        self._add("embed", (vocabulary, width))
        if positions:
            self._add("positions", (positions, width))
        if not tied:
            self._add("unembed", (vocabulary, width))

    def _add_layers(self, hidden: int, biases: bool, shifts: bool, qk_norm: bool) -> None:
        """The parameters of all layers, stacked; ``shifts``: whether norms have biases."""
        n, width, dh = self.n_layers, self.width, self.width // self.n_heads
        sizes = {"qkv": ((self.n_heads + 2 * self.kv) * dh, width), "out": (width, width)}
        sizes |= {"up": (hidden * (2 if self.gated else 1), width), "down": (width, hidden)}
        for name, size in sizes.items():
            self._add(name, (n, *size), biases)
        for name in ("norm1", "norm2"):
            self._add(name, (n, width), shifts)
        if qk_norm:
            self._add("q_norm", (n, self.n_heads * dh))
            self._add("k_norm", (n, self.kv * dh))

    def _add(self, name: str, shape: tuple[int, ...], bias: bool = False) -> None:
        self.register_parameter(name, nn.Parameter(torch.zeros(shape)))
        if bias:
            size = shape if name.startswith("norm") else shape[:-1]
            self.register_parameter(f"{name}_bias", nn.Parameter(torch.zeros(size)))

    @torch.no_grad()
    def initialise(self, generator: torch.Generator, scale: float = 1.0) -> None:
        """Normal weights of deviation ``scale sqrt(2 / 5 w)`` (Nguyen and Salazar 2019), of maps that write into the stream ``2 scale / (L sqrt(w))`` (Wang and
        Komatsuzaki 2021), as Pythia was initialised; gains 1, biases 0."""
        for name, p in self.named_parameters():
            if name.endswith("bias"):
                p.zero_()
            elif "norm" in name:
                p.fill_(1.0)
            else:
                p.normal_(generator=generator)
                writes = name in ("out", "down")
                p *= scale * (2 / (self.n_layers * math.sqrt(self.width)) if writes else math.sqrt(0.4 / self.width))

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _of(self, name: str, layer: int | None = None) -> tuple[Tensor, Tensor | None]:
        """A weight and its bias, if there is one."""
        pair = getattr(self, name), getattr(self, f"{name}_bias", None)
        return pair if layer is None else (pair[0][layer], None if pair[1] is None else pair[1][layer])

    def _normed(self, x: Tensor, name: str, layer: int | None = None) -> Tensor:
        gain, shift = self._of(name, layer)
        if self.rms:
            return gain * (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.eps))
        return F.layer_norm(x, (x.shape[-1],), gain, shift, self.eps)

    def _turn(self, x: Tensor) -> Tensor:
        """Rotary positions on the first ``turned`` numbers of ``x (B, heads, T, dh)``: pairs ``(i, i + turned / 2)`` turn by ``t theta^(-2i / turned)``."""
        if not self.turned:
            return x
        half = self.turned // 2
        rate = self.theta ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
        angle = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)[:, None] * rate  # (T, half)
        cos, sin = angle.cos().to(x), angle.sin().to(x)
        a, b, rest = x.split((half, half, x.shape[-1] - self.turned), -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)

    def _attend(self, layer: int, x: Tensor, heads: Edit | None) -> tuple[Tensor, Tensor]:
        """What attention writes ``(B, T, w)`` for its input, and its weights ``(B, H, T, T)``."""
        dh = self.width // self.n_heads
        sizes = (self.n_heads * dh, self.kv * dh, self.kv * dh)
        q, k, v = F.linear(x, *self._of("qkv", layer)).split(sizes, -1)
        if hasattr(self, "q_norm"):
            q, k = self._normed(q, "q_norm", layer), self._normed(k, "k_norm", layer)
        q, k, v = (y.unflatten(-1, (-1, dh)).transpose(1, 2) for y in (q, k, v))  # (B, heads, T, dh)
        q, k = self._turn(q), self._turn(k)
        if self.kv < self.n_heads:
            k, v = (y.repeat_interleave(self.n_heads // self.kv, 1) for y in (k, v))
        T = x.shape[1]
        later = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        weights = torch.softmax((q @ k.transpose(-1, -2) / math.sqrt(dh)).masked_fill(later, -torch.inf), -1)
        values = weights @ v
        if heads is not None:
            values = heads(layer, values)
        return F.linear(values.transpose(1, 2).flatten(2), *self._of("out", layer)), weights

    def _feed(self, layer: int, x: Tensor) -> Tensor:
        """What the feed-forward part writes ``(B, T, w)``."""
        inner = F.linear(x, *self._of("up", layer))
        if self.gated:
            gate, inner = inner.chunk(2, -1)
            inner = self.activation(gate) * inner
        else:
            inner = self.activation(inner)
        return F.linear(inner, *self._of("down", layer))

    def _block(self, layer: int, x: Tensor, heads: Edit | None) -> tuple[Tensor, Tensor]:
        """The stream after a block, and the attention in it."""
        if self.post_norm:
            mixed, weights = self._attend(layer, x, heads)
            x = x + self._normed(mixed, "norm1", layer)
            return x + self._normed(self._feed(layer, x), "norm2", layer), weights
        mixed, weights = self._attend(layer, self._normed(x, "norm1", layer), heads)
        fed = self._feed(layer, self._normed(x if self.parallel else x + mixed, "norm2", layer))
        return x + mixed + fed, weights

    # -- the model -----------------------------------------------------------------------------------------------------

    def embedded(self, tokens: Tensor, embed: Tensor | None = None) -> Tensor:
        """The stream ``(B, T, w)`` before the first block; ``embed (V, w)`` may stand in for the embedding."""
        x = F.embedding(tokens, self.embed if embed is None else embed)
        if hasattr(self, "positions"):
            assert tokens.shape[-1] <= len(self.positions), tokens.shape
            x = x + self.positions[: tokens.shape[-1]]
        return x

    def lens(self, hidden: Tensor, unembed: Tensor | None = None) -> Tensor:
        """Logits ``(..., V)`` of a stream ``(..., w)`` at any depth: final norm and unembedding (the logit lens)."""
        table = getattr(self, "unembed", self.embed) if unembed is None else unembed
        return F.linear(self._normed(hidden, "norm"), table)

    def trace(self, tokens: Tensor) -> Trace:
        """Streams and attention of prompts ``(B, T)``."""
        x = self.embedded(tokens)
        hidden, attention = [x], []
        for layer in range(self.n_layers):
            x, weights = self._block(layer, x, None)
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
