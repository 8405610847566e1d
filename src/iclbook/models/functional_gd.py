"""K steps of functional gradient descent for categories, computed without the matrices that are mostly zeros (wang2025, equations 2, 3)."""

import math

import torch
from torch import Tensor, nn

from .kernels import KERNELS, embedded, kernel_values, key_factor, relate
from .module import Model


class FunctionalGD(Model):
    """The GD transformer: ``n_blocks`` attention blocks whose only parameters are ``W_e``, the steps ``alpha_k`` and the kernel's ``gamma``.

    Each block is one step of equation 3 for all positions,

        f_j <- f_j + alpha_k / N sum_i [w_{y_i} - E(w_e | f_i)] kappa(x_i, x_j),    E(w_e | f) = W_e softmax(W_e^T f),    f_0 = 0,

    with keys ``i = 1..N`` (never the query), and the prediction is ``softmax(W_e^T f_{N+1})``. It equals
    :class:`iclbook.models.literal_blocks.LiteralBlocks` with an exact erasure, at a fraction of its work: the last block (the only one, for
    ``n_blocks = 1``) updates the query alone; at ``f = 0`` every expectation is the mean of the embeddings, so one block needs
    only the kernel's sum for each category; the relations between covariates are taken as given, so a fixed set of contexts computes them once.

    :meth:`forward` takes tokens, ``context (N, d + 1, B)`` with rows ``x_i, y_i`` and ``query (d, B)``; or cached relations (:meth:`cache`), ``context
    (N, 2, B)`` (``n_blocks = 1``) or ``(N, 2 + N, B)`` with rows ``relation(x_q, x_i), y_i, relation(x_1, x_i) .. relation(x_N, x_i)`` and an empty
    ``query (0, B)``. The labels ``y_i``, which are ``context[:, 1]`` of cached relations, and the target ``(1, B)`` are indices of categories.

    Args:
        n_classes, width, n_blocks: C, d', K.
        kernel: a key of :data:`iclbook.models.kernels.KERNELS`.
        vector_rate: alpha_k is a vector of length d' (the published code) rather than a number (equation 3).
        gamma: the kernel parameter at the start; it is learned as ``log_gamma``.
        rate: what alpha_k starts from; ``W_e`` starts from N(0, 1).
    """

    def __init__(
        self,
        n_classes: int,
        width: int,
        n_blocks: int = 1,
        kernel: str = "rbf",
        vector_rate: bool = False,
        gamma: float = 0.5,
        rate: float = 1.0,
    ) -> None:
        super().__init__()
        assert kernel in KERNELS, kernel
        self.kernel, self.n_blocks, self.n_classes, self.width = kernel, n_blocks, n_classes, width
        self._add("embed", width, n_classes, sd=1.0)
        self._add("rate", n_blocks, width if vector_rate else 1, value=rate)
        self._add("log_gamma", value=math.log(gamma))

    # -- forward ------------------------------------------------------------------------------------------------------

    def forward(self, context: Tensor, query: Tensor) -> Tensor:
        """Logits ``(C, B)``; see the class for the two forms of the arguments."""
        if query.shape[0]:
            context = self.cache(context, query)
        parts = context.movedim(-1, 0)  # (B, N, 2 or 2 + N)
        between = parts[..., 2:] if self.n_blocks > 1 else None  # symmetric, so rows and columns are alike
        return (self.descend(parts[..., 0], parts[..., 1].long(), between)[:, -1] @ self.embed).transpose(0, 1)

    def cache(self, context: Tensor, query: Tensor) -> Tensor:
        """Relations ``(N, 2, B)`` or ``(N, 2 + N, B)`` of tokens ``(N, d + 1, B)`` and a query ``(d, B)``: what training reads."""
        return cached_relations(KERNELS[self.kernel], context, query, self.n_blocks > 1)

    def descend(self, to_query: Tensor, labels: Tensor, between: Tensor | None = None) -> Tensor:
        """The query's function after each block, ``(B, K, d')``, from relations of the keys to the query ``(B, N)``, labels ``(B, N)``, relations among keys
        ``(B, N, N)``."""
        assert self.n_blocks == 1 or between is not None, "several blocks need the relations among keys"
        n, gamma, embed = to_query.shape[-1], self.log_gamma.exp(), self.embed
        factor = key_factor(self.kernel, n)
        mean = embed.mean(1)  # (d',), the expectation at f = 0
        to_query = kernel_values(self.kernel, to_query, gamma)  # (B, N)
        # Block 1: all residuals of one category are equal, so the kernel is summed over each category first.
        sums = to_query.new_zeros(*to_query.shape[:-1], self.n_classes).scatter_add(-1, labels, to_query)  # (B, C)
        f = factor * self.rate[0] * (sums @ (embed - mean[:, None]).T)  # (B, d')
        if self.n_blocks == 1:
            return f[:, None]
        weights = kernel_values(self.kernel, between, gamma)  # (B, N, N)
        values = embedded(embed, labels)  # (B, N, d'), w_{y_i}
        expected, at_keys, steps = mean.expand_as(values), 0.0, [f]
        for k in range(1, self.n_blocks):
            at_keys = at_keys + factor * self.rate[k - 1] * (weights @ (values - expected))  # (B, N, d')
            expected = self.remaining(expected, between) + torch.softmax(at_keys @ embed, dim=-1) @ embed.T
            f = f + factor * self.rate[k] * (to_query[:, None] @ (values - expected))[:, 0]
            steps.append(f)
        return torch.stack(steps, dim=1)

    def remaining(self, expected: Tensor, between: Tensor) -> Tensor | float:
        """Expectations of the keys ``(B, N, d')`` after erasure: 0."""
        return 0.0


def cached_relations(relation: str, context: Tensor, query: Tensor, among_keys: bool) -> Tensor:
    """Tokens ``(N, d + 1, B)`` (rows ``x_i, y_i``) and queries ``(d, B)`` as relations ``(N, 2, B)``, or ``(N, 2 + N, B)`` with ``among_keys``."""
    keys = context[:, :-1].movedim(-1, 0)  # (B, N, d)
    to_query = relate(relation, query.T[:, None], keys)[:, 0]  # (B, N)
    parts = [to_query[..., None], context[:, -1].T[..., None]]
    if among_keys:
        parts.append(relate(relation, keys, keys))
    return torch.cat(parts, dim=-1).movedim(0, -1)


class HardErasureGD(FunctionalGD):
    """:class:`FunctionalGD` with the limit ``lambda -> infinity`` of the softmax erasure head (wang2025, section 3.2.2).

    That head attends to ``argmax_i x_i^T x_j``, not to j itself, so the slot of j becomes ``E_j - E_{argmax} + E(w | f_j)``. Where every position is its
    own maximum this is :class:`FunctionalGD`. It equals ``LiteralBlocks(erasure="softmax")``. Softmax update kernel only, whose cached
    relations are the inner products that the erasure needs.
    """

    def remaining(self, expected: Tensor, between: Tensor) -> Tensor:
        """That of the position itself: the expectation of another one is erased."""
        return expected - expected.gather(-2, between.argmax(-1)[..., None].expand_as(expected))


class MultiKernelGD(nn.Module):
    """``f = sum_m P_m f_m`` with one functional step per block and head, kernel ``kappa(Lambda_m x, Lambda_m x')``.

        f_m(x_j) <- f_m(x_j) + alpha_{m,k} / N sum_i [w_{y_i} - E(w_e | f(x_i))] kappa(Lambda_m x_i, Lambda_m x_j)

    ``n_heads = 1`` with ``Lambda = sqrt(gamma) I`` and without mixing is :class:`FunctionalGD`.

    Args:
        d, n_classes, width, n_heads, n_blocks: d, C, d', M, K.
        kernel: a key of :data:`iclbook.models.kernels.KERNELS`, its gamma being 1: ``Lambda_m`` carries the scale.
        mixing: with matrices ``P_m``, otherwise the identity.
    """

    def __init__(
        self,
        d: int,
        n_classes: int,
        width: int,
        n_heads: int = 2,
        n_blocks: int = 1,
        kernel: str = "rbf",
        mixing: bool = False,
    ) -> None:
        super().__init__()
        assert kernel in KERNELS, kernel
        self.kernel, self.n_heads, self.n_blocks, self.d, self.mixing = kernel, n_heads, n_blocks, d, mixing
        self.embed = nn.Parameter(torch.zeros(width, n_classes))
        self.rate = nn.Parameter(torch.ones(n_blocks, n_heads))
        self.scales = nn.Parameter(torch.ones(n_heads, d))
        if mixing:
            self.mix = nn.Parameter(torch.eye(width).repeat(n_heads, 1, 1))

    def forward(self, context: Tensor, query: Tensor) -> Tensor:
        """Logits ``(C, B)`` for tokens ``(N, d + 1, B)`` and queries ``(d, B)``."""
        return (self.descend(context, query)[:, -1] @ self.embed).transpose(0, 1)

    def descend(self, context: Tensor, query: Tensor) -> Tensor:
        """The total function at the query after each block, ``(B, K, d')``."""
        n, tokens = context.shape[0], context.movedim(-1, 0)  # (B, N, d + 1)
        keys, factor = tokens[..., : self.d], key_factor(self.kernel, context.shape[0])
        points = torch.cat([keys, query.T[:, None]], dim=1) if self.n_blocks > 1 else query.T[:, None]
        weights = []
        for m in range(self.n_heads):
            relation = relate(KERNELS[self.kernel], points * self.scales[m], keys * self.scales[m])
            weights.append(kernel_values(self.kernel, relation, 1.0))  # (B, T, N)
        values = embedded(self.embed, tokens[..., -1].long())  # (B, N, d')
        f, steps = torch.zeros_like(values[:, :1]), []
        for k in range(self.n_blocks):
            at_keys = f[:, :n] if k else torch.zeros_like(values)
            residual = values - torch.softmax(at_keys @ self.embed, dim=-1) @ self.embed.T
            update = 0.0
            for m in range(self.n_heads):
                step = factor * self.rate[k, m] * (weights[m] @ residual)  # (B, T, d')
                update = update + (step @ self.mix[m].T if self.mixing else step)
            f = f + update
            steps.append(f[:, -1])
        return torch.stack(steps, dim=1)
