"""The two-layer disentangled transformer of recall2025 (Section 2.2), each simplification of its appendix A.2 switchable."""

import math

import torch
from torch import Tensor, nn

from .module import Model


class RecallTransformer(Model):
    """K positional heads, then one head that matches the last token's history with that of every earlier token.

    Args:
        order: length n of the permutations; a sequence holds n! of them, each followed by its response, and a query.
        n_responses: size of the response set.
        n_heads: heads K of the first layer.
        gamma, matrix: second-layer matrix on the symbols: ``"printed"`` ``I - gamma 11^T`` or ``"lemma"`` ``(1 + gamma) I - gamma 11^T``.
        a0: heads attend to offsets ``1 .. K`` only; lifted, to every offset ``0 .. length - 1``.
        a1: ``Q^T K = diag(beta^2)`` times that matrix; lifted, a free matrix.
        a2: the query side uses the tokens ``x_{l-h}`` themselves; lifted, what head h - 1 puts out at the last token.
        a3: the second softmax runs over the responses only; lifted, over all tokens.
        diagonal: +1 or -1: whether ``beta`` stands above the diagonal (query block h - 1 with key block h) or below it.
    """

    def __init__(
        self,
        order: int,
        n_responses: int,
        n_heads: int,
        gamma: float = 0.0,
        matrix: str = "lemma",
        a0: bool = True,
        a1: bool = True,
        a2: bool = True,
        a3: bool = True,
        diagonal: int = 1,
    ) -> None:
        super().__init__()
        assert not a2 or (a1 and diagonal == 1), "A2 replaces what A1's superdiagonal reads"
        self.order, self.n_responses, self.n_heads = order, n_responses, n_heads
        self.a0, self.a1, self.a2, self.a3, self.diagonal = a0, a1, a2, a3, diagonal
        self.vocabulary = order + n_responses
        self.length = math.factorial(order) * (order + 1) + order
        self.register_buffer("responses", torch.arange(order, self.length - order, order + 1))
        block = torch.zeros(self.vocabulary, self.vocabulary, dtype=torch.float64)
        own = 1 + gamma if matrix == "lemma" else 1.0
        block[:order, :order] = own * torch.eye(order, dtype=torch.float64) - gamma
        self.register_buffer("block", block)
        self._add("w", n_heads, n_heads if a0 else self.length, sd=1.0)
        width = (n_heads + 1) * self.vocabulary
        self._add("beta", *((n_heads,) if a1 else (width, width)), sd=1.0)
        self.double()

    def circuits(self) -> dict[str, Tensor]:
        """First-layer attention over offsets ``(K, W)`` and ``beta``."""
        return {"attention": torch.softmax(self.w, -1), "beta": self.beta}

    def own(self, head: int) -> int:
        """Column of ``w`` that holds the offset ``head + 1``, the one that this head (from 0) is to match."""
        return head if self.a0 else head + 1

    def construct(self, c: float) -> None:
        """The solution of appendix A.2: ``w^i = c e_i`` and ``beta^2 = c``, or ``Q^T K = c (B x I~)`` where the matrix is free."""
        with torch.no_grad():
            self.w.zero_()
            for h in range(self.n_heads):
                self.w[h, self.own(h)] = c
            if self.a1:
                self.beta.fill_(math.sqrt(c))
            else:
                self.beta.copy_(self._blocks(torch.full((self.n_heads,), float(c), dtype=self.beta.dtype)))

    def matrix(self) -> Tensor:
        """``Q^T K`` of the second layer, ``((K+1) S, (K+1) S)``; rows belong to the query."""
        return self._blocks(self.beta**2) if self.a1 else self.beta

    def _blocks(self, strength: Tensor) -> Tensor:
        """``strength (K,)`` times the symbols' matrix: query block h - 1 with key block h, or the other way round."""
        blocks = torch.diag(strength, self.diagonal)  # (K+1, K+1)
        return torch.kron(blocks, self.block)

    def advantage(self) -> Tensor:
        """Score that a match at each head's own offset adds to a score, over the mean of the other offsets that reach the same permutation ``(K,)``."""
        assert self.a1
        attention, first = torch.softmax(self.w, -1), 0 if self.a0 else 1
        near = attention[:, first : first + self.order]  # (K, W): offsets 1 .. W
        own = torch.stack([attention[h, self.own(h)] for h in range(self.n_heads)])
        others = (near.sum(-1) - own) / max(near.shape[1] - 1, 1)
        return self.block[0, 0].sub(self.block[0, 1]) * self.beta**2 * (own - others)

    def first_layer(self) -> Tensor:
        """Attention of every head from every token ``(K, l, l)`` (equation 1)."""
        place = torch.arange(self.length)
        offset = place[:, None] - place[None, :]  # (l, l)
        low, width = (1, self.n_heads) if self.a0 else (0, self.length)
        seen = (offset >= low) & (offset < low + width)
        scores = self.w[:, (offset - low).clamp(0, width - 1)]  # (K, l, l)
        weights = torch.softmax(scores.masked_fill(~seen, -1e300), -1)
        return weights * seen.any(-1)[:, None]  # the first token of a window of earlier tokens sees nothing

    def scores(self, tokens: Tensor) -> Tensor:
        """Pre-softmax scores ``(B, keys)`` of the last token for ``tokens (B, l)``; keys are the responses under A3, else all tokens."""
        x = torch.eye(self.vocabulary, dtype=self.w.dtype, device=tokens.device)[tokens]  # (B, l, S)
        attention = self.first_layer()
        keys = self.responses if self.a3 else torch.arange(self.length)
        last = torch.einsum("hs,bsd->bhd", attention[:, -1], x)  # (B, K, S)
        skip = x[:, -1:]  # (B, 1, S): block 0
        if not self.a1:
            query = torch.cat([skip, last], 1).flatten(1)  # (B, (K+1) S)
            asked = (query @ self.beta).unflatten(1, (self.n_heads + 1, self.vocabulary))  # (B, K+1, S)
        else:
            if self.a2:
                back = [x[:, self.length - h] for h in range(1, self.n_heads + 1)]
                query = torch.stack(back, 1)  # (B, K, S)
            elif self.diagonal == 1:
                query = torch.cat([skip, last[:, :-1]], 1)  # query block h - 1 for key block h
            else:
                query = last  # h for h - 1
            asked = self.beta[:, None] ** 2 * (query @ self.block)  # (B, K, S)
        # what each token is worth to each block of the query, before heads average it: histories are never formed
        worth = asked.gather(2, tokens[:, None].expand(-1, asked.shape[1], -1))  # (B, blocks, l)
        if self.a1 and (self.a2 or self.diagonal == 1):
            return torch.einsum("hts,bhs->bt", attention[:, keys], worth)
        heads = worth.shape[1] - 1
        return worth[:, 0, keys] + torch.einsum("hts,bhs->bt", attention[:heads, keys], worth[:, 1:])

    def response_weights(self, tokens: Tensor) -> Tensor:
        """Second-layer attention on the n! responses, ``(B, n!)``; it sums to 1 under A3."""
        s = torch.softmax(self.scores(tokens), -1)
        return s if self.a3 else s[:, self.responses]

    def forward(self, tokens: Tensor) -> Tensor:
        """Output ``p (B, vocabulary)`` for ``tokens (B, l)``: a distribution over the vocabulary (equation 9)."""
        x = nn.functional.one_hot(tokens, self.vocabulary).to(self.w.dtype)
        s = torch.softmax(self.scores(tokens), -1)  # (B, keys)
        return torch.einsum("bk,bkd->bd", s, x[:, self.responses] if self.a3 else x)
