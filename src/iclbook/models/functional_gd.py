"""K steps of functional gradient descent for categories, computed without the matrices that are mostly zeros (wang2025, equations 2, 3)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .kernels import KERNELS, check_kernel, kernel_values, key_factor, relate


class FunctionalGD(nn.Module):
    """The GD transformer: ``n_blocks`` attention blocks whose only parameters are ``W_e``, the steps ``alpha_k`` and the kernel's ``gamma``.

    Each block is one step of equation 3 for all positions,

        f_j <- f_j + alpha_k / N sum_i [w_{y_i} - E(w_e | f_i)] kappa(x_i, x_j),    E(w_e | f) = W_e softmax(W_e^T f),    f_0 = 0,

    with keys ``i = 1..N`` (never the query), and the prediction is ``softmax(W_e^T f_{N+1})``. It equals
    :class:`iclbook.models.literal_blocks.LiteralBlocks` with an exact erasure, at a fraction of its work: the last block (the only one, for
    ``n_blocks = 1``) updates the query alone; at ``f = 0`` every expectation is the mean of the embeddings, so one block needs
    only the kernel's sum for each category; the relations between covariates are taken as given, so a fixed set of contexts computes them once.

    Interface, for one run (the trainer stacks runs):

    * ``model(context, query)`` -> logits ``(C, B)``. Either tokens, ``context (N, d + 1, B)`` with rows ``x_i, y_i`` and ``query (d, B)``; or
      cached relations, ``context (N, 2, B)`` (``n_blocks = 1``) or ``(N, 2 + N, B)`` with rows ``relation(x_q, x_i), y_i,
      relation(x_1, x_i) .. relation(x_N, x_i)`` and an empty ``query (0, B)``. Which relation: ``KERNELS[kernel]``; :meth:`cache` makes them.
    * ``model.logits(to_query (B, N), labels (B, N) long, between (B, N, N) or None)`` -> ``(B, C)``: the same, batch first.
    * ``model.descend(...)`` with the same arguments -> ``f (B, n_blocks, d')``: the query's function after each block.
    * Loss: :func:`iclbook.training.groups.cross_entropy`; ``batch.target (1, B)`` is the category's index.

    Args:
        n_classes: number of categories C.
        width: of an embedding, d'.
        n_blocks: K.
        kernel: a key of :data:`iclbook.models.kernels.KERNELS`.
        vector_rate: alpha_k is a vector of length d' (the published code) rather than a number (equation 3).
        gamma: the kernel parameter at the start; it is learned as ``log_gamma``.
        rate: what alpha_k starts from.
        random_rate: alpha_k starts from ``rate * N(0, 1)``, as in the published code.
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
        random_rate: bool = False,
    ) -> None:
        super().__init__()
        assert n_classes >= 2, n_classes
        assert min(width, n_blocks) >= 1, (width, n_blocks)
        assert gamma > 0, gamma
        self.kernel, self.n_blocks, self.n_classes, self.width = (check_kernel(kernel), n_blocks, n_classes, width)
        self.gamma0, self.rate0, self.random_rate = gamma, rate, random_rate
        self.embed = nn.Parameter(torch.zeros(width, n_classes))
        self.rate = nn.Parameter(torch.full((n_blocks, width if vector_rate else 1), float(rate)))
        self.log_gamma = nn.Parameter(torch.tensor(math.log(gamma)))

    def initialise(self, generator: torch.Generator, scale: float = 1.0) -> None:
        """``W_e ~ scale * N(0, 1)``; alpha and gamma at their starting values."""
        with torch.no_grad():
            self.embed.normal_(0.0, scale, generator=generator)
            self.rate.fill_(self.rate0)
            if self.random_rate:
                self.rate.normal_(0.0, self.rate0, generator=generator)
            self.log_gamma.fill_(math.log(self.gamma0))

    # -- forward ------------------------------------------------------------------------------------------------------

    def forward(self, context: Tensor, query: Tensor) -> Tensor:
        """Logits ``(C, B)``; see the class for the two forms of the arguments."""
        if query.shape[0]:
            context = self.cache(context, query)
        parts = context.movedim(-1, 0)  # (B, N, 2 or 2 + N)
        between = parts[..., 2:] if self.n_blocks > 1 else None  # symmetric, so rows and columns are alike
        return self.logits(parts[..., 0], parts[..., 1].long(), between).transpose(0, 1)

    def cache(self, context: Tensor, query: Tensor) -> Tensor:
        """Relations ``(N, 2, B)`` or ``(N, 2 + N, B)`` of tokens ``(N, d + 1, B)`` and a query ``(d, B)``: what training reads."""
        return cached_relations(KERNELS[self.kernel], context, query, self.n_blocks > 1)

    def logits(self, to_query: Tensor, labels: Tensor, between: Tensor | None = None) -> Tensor:
        """Logits ``(B, C)`` from relations of the keys to the query ``(B, N)``, labels ``(B, N)``, relations among keys ``(B, N, N)``."""
        return self.descend(to_query, labels, between)[:, -1] @ self.embed

    def descend(self, to_query: Tensor, labels: Tensor, between: Tensor | None = None) -> Tensor:
        """The query's function after each block, ``(B, K, d')``."""
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
        categories = torch.arange(self.n_classes, device=labels.device)
        values = (labels[..., None] == categories).to(embed) @ embed.T  # (B, N, d'), w_{y_i}
        residual, at_keys, steps = values - mean, 0.0, [f]
        for k in range(1, self.n_blocks):
            at_keys = at_keys + factor * self.rate[k - 1] * (weights @ residual)  # (B, N, d')
            residual = values - torch.softmax(at_keys @ embed, dim=-1) @ embed.T
            f = f + factor * self.rate[k] * (to_query[:, None] @ residual)[:, 0]
            steps.append(f)
        return torch.stack(steps, dim=1)


def cached_relations(relation: str, context: Tensor, query: Tensor, among_keys: bool) -> Tensor:
    """Tokens ``(N, d + 1, B)`` (rows ``x_i, y_i``) and queries ``(d, B)`` as relations ``(N, 2, B)``, or ``(N, 2 + N, B)`` with ``among_keys``."""
    keys = context[:, :-1].movedim(-1, 0)  # (B, N, d)
    to_query = relate(relation, query.T[:, None], keys)[:, 0]  # (B, N)
    parts = [to_query[..., None], context[:, -1].T[..., None]]
    if among_keys:
        parts.append(relate(relation, keys, keys))
    return torch.cat(parts, dim=-1).movedim(0, -1)
