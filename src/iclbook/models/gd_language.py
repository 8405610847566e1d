"""The GD language model (wang2025, section 6.3 and appendix H; figure 7): functional gradient descent whose covariates are positions."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .language import START, LanguageModel, normed

KERNELS = ("softmax", "linear", "rbf")


class GDLanguage(LanguageModel):
    """K steps of functional gradient descent on a story: token ``y_i`` is an example ``(p_i, w_{y_i})``, and ``p_{t+1}`` asks for the next.

    ``f`` starts from zero; block k adds ``sum_m P_{m,k}^T (1/t) sum_{i<=t} A_m(t, i) [LN(w_{y_i}) - E_i]`` to ``f_{t+1}``. The weights
    ``A_m`` depend on positions alone. The expectation ``E_i = W_e softmax(W_e^T f_i)`` takes the embeddings as they are and the token's own
    embedding normalised, as the published code does.

    Args:
        vocabulary, context, width, n_heads, n_blocks, feed_forward, hidden: as in :class:`LanguageModel`.
        kernel: ``softmax``, ``linear`` or ``rbf``, of ``Lambda_m p``, ``Lambda_m`` diagonal.
        mixing: with matrices ``P_m``; without, each head has a number.
    """

    def __init__(
        self,
        vocabulary: int,
        context: int,
        width: int,
        kernel: str = "softmax",
        mixing: bool = True,
        **sizes: int | bool | None,
    ) -> None:
        super().__init__(vocabulary, context, width, **sizes)
        assert kernel in KERNELS, kernel
        self.kernel, self.mixing = kernel, mixing
        inner = START / math.sqrt(2 * self.n_blocks)
        self._add("positions", START, context + 1, width)
        self._add("gain_positions", 1.0, width)
        self._add("lam", START, self.n_heads, width)  # diagonals of Lambda_m
        if kernel == "rbf":
            self._add("gain_gamma", 1.0, self.n_heads)
        if mixing:
            self._add("mix", inner, self.n_blocks, self.n_heads, width, width)  # P_m, from v to f
        else:
            self._add("gain_mix", 1.0, self.n_blocks, self.n_heads)

    def attention(self) -> Tensor:
        """``A_m(t, i)`` ``(M, S, S)``, row t - 1 of the query ``p_{t+1}``, divided by t (equation 3's 1/N; the published code does so for softmax weights too): no token enters."""
        p = normed(self.positions, self.gain_positions)
        keys = self.lam[:, None] * p[:-1]  # (M, S, d')
        queries = self.lam[:, None] * p[1:]
        inner = queries @ keys.transpose(-1, -2) / math.sqrt(self.width)
        if self.kernel == "rbf":
            squares = ((queries**2).sum(-1)[:, :, None] + (keys**2).sum(-1)[:, None]) / math.sqrt(self.width)
            inner = torch.exp(-self.gain_gamma[:, None, None] * (squares - 2 * inner))
        before = torch.ones(self.context, self.context, dtype=torch.bool, device=p.device).tril()
        if self.kernel == "softmax":
            weights = torch.softmax(inner.masked_fill(~before, -torch.inf), -1)
        else:
            weights = inner.masked_fill(~before, 0.0)
        return weights / torch.arange(1, self.context + 1, device=p.device).to(p)[None, :, None]

    def _expected(self, f: Tensor, first: bool) -> Tensor:
        """``E(w | f)`` (equation 7): at the start the mean embedding, for every f is zero."""
        return self.embed.mean(0) if first else torch.softmax(f @ self.embed.T, -1) @ self.embed

    def _step(self, mixed: Tensor, k: int) -> Tensor:
        """What weighted sums ``(M, ..., d')`` of values add to f."""
        if self.mixing:
            return torch.einsum("m...d,mdc->...c", mixed, self.mix[k])
        return torch.einsum("m...d,m->...d", mixed, self.gain_mix[k])

    def _read(self, f: Tensor) -> Tensor:
        """Logits of f."""
        return normed(f, self.gain_out) @ normed(self.embed, self.gain_embed).T

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits ``(T, B, V)`` of the tokens after each of ``(T, B)``, T <= S."""
        n = len(tokens)
        weights = self.attention()[:, :n, :n]
        e = normed(self.embed, self.gain_embed)[tokens]  # (T, B, d')
        f = torch.zeros_like(e)
        for k in range(self.n_blocks):
            own = torch.cat([torch.zeros_like(f[:1]), f[:-1]])  # f_i, asked before y_i is seen
            v = e - self._expected(own, k == 0)
            f = f + self._step((weights @ v.flatten(1)).unflatten(-1, v.shape[1:]), k)
            f = self._fed(f, k)
        return self._read(f)
