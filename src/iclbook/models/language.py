"""The language models of wang2025 (section 6.3 and appendix H; figure 7): functional gradient descent whose covariates are positions, and the Transformer that it is
compared with.

Shapes: S positions, B stories, V tokens, d' width. ``forward(tokens (S, B))`` gives logits ``(S, B, V)``: those at place t predict token t + 1.
"""

import math

import torch
from torch import Tensor, nn

from .module import Model

#: Standard deviation of initial weights; what writes into the stream has it divided by sqrt(2 K) (Radford et al. 2019).
START = 0.02


def normed(x: Tensor, gain: Tensor) -> Tensor:
    """Layer norm over the last axis with a gain and without bias."""
    return nn.functional.layer_norm(x, x.shape[-1:], gain)


class LanguageModel(Model):
    """Embeddings of tokens and positions, K feed-forward steps if asked for, and the gains of all layer norms.

    Args:
        vocabulary, context, width, n_heads, n_blocks: V, S, d', M, K.
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
        self.context, self.width, self.n_heads, self.n_blocks = context, width, n_heads, n_blocks
        self.feed_forward = feed_forward
        self.inner = START / math.sqrt(2 * n_blocks)
        self._add("embed", vocabulary, width, sd=START)
        self._add("gain_embed", width, value=1.0)
        self._add("gain_out", width, value=1.0)
        if feed_forward:
            self._add("gain_hidden", n_blocks, width, value=1.0)
            self._add("W_1", n_blocks, hidden, width, sd=START)
            self._add("W_2", n_blocks, width, hidden, sd=self.inner)

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
        """Number of parameters."""
        return sum(p.numel() for p in self.parameters())


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
        self._add("positions", context + 1, width, sd=START)
        self._add("gain_positions", width, value=1.0)
        self._add("lam", self.n_heads, width, sd=START)  # diagonals of Lambda_m
        if kernel == "rbf":
            self._add("gain_gamma", self.n_heads, value=1.0)
        if mixing:
            self._add("mix", self.n_blocks, self.n_heads, width, width, sd=self.inner)  # P_m, from v to f
        else:
            self._add("gain_mix", self.n_blocks, self.n_heads, value=1.0)

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
        """Change of f from weighted sums ``(M, ..., d')`` of values add to f."""
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
        self._add("positions", context, width, sd=START)
        self._add("gain_attention", self.n_blocks, width, value=1.0)
        for name in ("W_Q", "W_K", "W_V"):
            self._add(name, self.n_blocks, self.n_heads, self.head_width, width, sd=START)
        self._add("W_O", self.n_blocks, self.n_heads, self.head_width, width, sd=self.inner)

    def _read(self, h: Tensor) -> Tensor:
        """Logits of the stream."""
        return normed(h, self.gain_out) @ self.embed.T

    def _attended(self, x: Tensor, k: int) -> Tensor:
        """Output of attention in block k for normalised inputs ``(T, B, d')``; queries, keys and values of all heads are one product."""
        stacked = torch.cat([w[k].flatten(0, 1) for w in (self.W_Q, self.W_K, self.W_V)])  # (3 M dh, d')
        q, key, v = (x @ stacked.T).unflatten(-1, (3, self.n_heads, -1)).permute(2, 1, 3, 0, 4)  # (B, M, T, dh)
        scores = q @ key.mT / math.sqrt(self.head_width)
        after = torch.ones(len(x), len(x), dtype=torch.bool, device=x.device).triu(1)
        mixed = torch.softmax(scores.masked_fill(after, -torch.inf), -1) @ v
        return mixed.permute(2, 0, 1, 3).flatten(2) @ self.W_O[k].flatten(0, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits ``(T, B, V)`` of the tokens after each of ``(T, B)``, T <= S."""
        h = normed(self.embed[tokens] + self.positions[: len(tokens), None], self.gain_embed)
        for k in range(self.n_blocks):
            h = h + self._attended(normed(h, self.gain_attention[k]), k)
            h = self._fed(h, k)
        return self._read(h)
