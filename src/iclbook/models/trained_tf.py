"""Trained TF: the architectures of wang2025, appendices C and D, with all attention matrices free."""

import math
from typing import Any

import torch
from torch import Tensor

from .kernels import KERNELS, embedded, kernel_values, key_factor, relate
from .module import Model

#: Published code: entries of the attention matrices start from this over the number of layers, times N(0, 1).
CODE_SCALE = 0.002
#: Deviation of a standard normal that is cut at two deviations.
CUT_DEVIATION = 0.87962566103423978


class _Trained(Model):
    """Base of both: embeddings ``W_e``, which start from N(0, 1) or at those of ``known``, and matrices, which start from ``0.002 / layers * N(0, 1)`` (code)
    or from Glorot and Bengio's uniform (text, appendix F)."""

    def __init__(self, n_classes: int, width: int, kernel: str, init: str, layers: int, known: Any) -> None:
        super().__init__()
        assert init in ("code", "glorot"), init
        self.kernel, self.init, self.layers, self.known = kernel, init, layers, known
        self.n_classes, self.width = n_classes, width
        self._add("embed", width, n_classes, sd=1.0)

    def _matrix(self, name: str, *shape: int) -> None:
        start = {"sd": CODE_SCALE / self.layers} if self.init == "code" else {"fan_in": (shape[-1] + shape[-2]) / 6}
        self._add(name, *shape, **start)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator, scale: float = 1.0) -> None:
        """Draw all parameters; ``scale`` multiplies every deviation and bound. Then set ``W_e`` to the known embedding, if there is one."""
        super().initialise(generator, scale)
        if self.known is not None:
            self.embed.copy_(self.known.embedding)


class TrainedStep(_Trained):
    """One attention layer on ``e_i = (x_i, w_{y_i} - mean w, 0)`` and ``e_{N+1} = (x_{N+1}, 0, 0)``: ``W_Q, W_K, W_V, P`` are free.

    ``f_{N+1} = [P sum_i kappa(W_K e_i, W_Q e_{N+1}) W_V e_i]`` in its last d' entries; keys and values are ``1..N``. Only the query's column is
    computed, and entries of ``e`` that are zero are not multiplied.

    Some entries can never move: columns of ``W_Q`` beyond the first d (the query is zero there), columns of ``W_K`` and ``W_V`` beyond the first
    d + d', rows of ``P`` before the last d' (nobody reads them). They keep their initial values whatever the data say (:meth:`inert`).

    Args:
        d: of the covariates.
        n_classes, width: C and d'.
        kernel: a key of :data:`iclbook.models.kernels.KERNELS`; its gamma is 1 (1/2 for RBF), since W_Q and W_K carry the scale; inner products
            are divided by ``sqrt(d + 2 d')`` as in the published code.
        init: ``code`` or ``glorot``.
        known: a task whose ``embedding`` ``(width, n_classes)`` W_e starts from; a rate factor of 0 then holds it there.
    """

    def __init__(
        self, d: int, n_classes: int, width: int, kernel: str = "softmax", init: str = "code", known: Any = None
    ) -> None:
        super().__init__(n_classes, width, kernel, init, 1, known)
        self.d, self.size = d, d + 2 * width
        for name in ("W_Q", "W_K", "W_V", "P"):
            self._matrix(name, self.size, self.size)

    def forward(self, context: Tensor, query: Tensor) -> Tensor:
        """Logits ``(C, B)`` for tokens ``(N, d + 1, B)`` and queries ``(d, B)``."""
        d, seen = self.d, self.d + self.width
        tokens = context.movedim(-1, 0)  # (B, N, d + 1)
        x, labels = tokens[..., :d], tokens[..., -1].long().expand(query.shape[1], -1)
        w = self.embed - self.embed.mean(1, keepdim=True)  # (d', C)
        q = query.T @ self.W_Q[:, :d].T  # (B, D)
        # W_K e_i and the weighted sum of W_V e_i need each category's embedding once, not once for each example.
        if KERNELS[self.kernel] == "inner":  # W_K folded into the query
            folded = q @ self.W_K[:, :seen]  # (B, d + d')
            relation = (x @ folded[:, :d, None])[..., 0] + (folded[:, d:] @ w).gather(-1, labels)  # (B, N)
            relation, gamma = relation / math.sqrt(self.size), 1.0
        else:
            relation = self._distances(x, labels, q, w)  # (B, N)
            gamma = 0.5 if self.kernel == "rbf" else 1.0
        weights = kernel_values(self.kernel, relation, gamma) * key_factor(self.kernel, context.shape[0])
        sums = torch.zeros_like(q[:, :1]).expand(-1, self.n_classes).scatter_add(-1, labels, weights)  # (B, C)
        mixed = torch.cat([(weights[:, None] @ x)[:, 0], sums @ w.T], dim=-1)  # (B, d + d')
        f = mixed @ (self.P[-self.width :] @ self.W_V[:, :seen]).T  # (B, d')
        return (f @ self.embed).transpose(0, 1)

    def _distances(self, x: Tensor, labels: Tensor, q: Tensor, w: Tensor) -> Tensor:
        """Distances ``(B, N)``, squared or l1, of ``W_K e_i`` from queries ``q (B, D)``: squared ones of what a query and a category give, without keys."""
        of_x, of_labels = self.W_K[:, : self.d], (self.W_K[:, self.d : self.d + self.width] @ w).T  # (D, d), (C, D)
        if self.kernel == "laplacian":
            return relate("absolute", q[:, None], x @ of_x.T + of_labels[labels])[:, 0]
        apart = q[:, None] - of_labels  # (B, C, D)
        square = ((x @ (of_x.T @ of_x)) * x).sum(-1) + (apart**2).sum(-1).gather(-1, labels)
        for column, along in zip(x.unbind(-1), (apart @ of_x).unbind(-1), strict=True):
            square = square - 2 * column * along.gather(-1, labels)
        return square.clamp_min(0)

    def inert(self) -> dict[str, Tensor]:
        """Masks of the entries whose gradient is zero for every prompt."""
        seen, column = self.d + self.width, torch.arange(self.size).expand(self.size, -1)
        from_seen = column >= seen
        return {"W_Q": column >= self.d, "W_K": from_seen, "W_V": from_seen, "P": self.size - self.width > column.T}


class TrainedBlocks(_Trained):
    """K blocks on ``e_i = (x_i, w_{y_i}, E_i, f_i)``: two self-attention heads and one cross-attention head a block, all matrices free.

    The first head has the chosen kernel, the second (whose counterpart erases) softmax; keys and values are ``1..N``. Keys and values of the
    cross-attention are the columns of ``W_e``. In the last block only the query is computed. Arguments as for :class:`TrainedStep`; ``n_blocks`` is K.
    """

    def __init__(
        self, d: int, n_classes: int, width: int, n_blocks: int, kernel: str = "softmax", init: str = "code"
    ) -> None:
        super().__init__(n_classes, width, kernel, init, n_blocks, None)
        self.d, self.n_blocks = d, n_blocks
        self.size = size = d + 3 * width
        for name in ("W_Q", "W_K", "W_V", "P"):
            self._matrix(name, n_blocks, 2, size, size)
        for name, columns in {"cross_Q": size, "cross_K": width, "cross_V": width, "cross_P": size}.items():
            self._matrix(name, n_blocks, size, columns)

    def forward(self, context: Tensor, query: Tensor) -> Tensor:
        """Logits ``(C, B)`` for tokens ``(N, d + 1, B)`` and queries ``(d, B)``."""
        d, n, w = self.d, context.shape[0], self.width
        tokens = context.movedim(-1, 0)  # (B, N, d + 1)
        x = torch.cat([tokens[..., :d], query.T[:, None]], dim=1)  # (B, N + 1, d)
        values = embedded(self.embed, tokens[..., -1].long())  # (B, N, d')
        values = torch.cat([values, torch.zeros_like(values[:, :1])], dim=1)
        mean = self.embed.mean(1).expand(*values.shape[:2], w)
        e = torch.cat([x, values, mean, torch.zeros_like(mean)], dim=-1)  # (B, N + 1, D)
        for k in range(self.n_blocks):
            keys = e[:, :n]
            if k == self.n_blocks - 1:
                e = e[:, n:]
            e = e + self._self_attention(k, e, keys)
            e = e + self._cross_attention(k, e)
        return (e[:, 0, -w:] @ self.embed).transpose(0, 1)

    def _self_attention(self, k: int, e: Tensor, keys: Tensor) -> Tensor:
        """Update ``(B, T, D)`` of positions ``e (B, T, D)`` from ``keys (B, N, D)``; W_K is folded into W_Q and P into W_V where that is exact."""
        update, root = 0.0, math.sqrt(self.size)
        for head, kernel in enumerate((self.kernel, "softmax")):
            w_q, w_k = self.W_Q[k, head], self.W_K[k, head]
            gamma = 0.5 if kernel == "rbf" else 1.0
            if KERNELS[kernel] == "inner":
                relation = (e @ (w_q.T @ w_k / root)) @ keys.mT  # (B, T, N)
            else:
                relation = relate(KERNELS[kernel], e @ w_q.T, keys @ w_k.T)
            weights = kernel_values(kernel, relation, gamma) * key_factor(kernel, keys.shape[1])
            update = update + weights @ (keys @ (self.P[k, head] @ self.W_V[k, head]).T)
        return update

    def _cross_attention(self, k: int, e: Tensor) -> Tensor:
        scores = e @ (self.cross_Q[k].T @ self.cross_K[k] @ self.embed)  # (B, T, C)
        return torch.softmax(scores, dim=-1) @ (self.cross_P[k] @ self.cross_V[k] @ self.embed).T


class ProgramBlocks(TrainedBlocks):
    """:class:`TrainedBlocks` with softmax attention as the published JAX program has them: scores are not divided by ``sqrt(D)``, ``E_i`` starts from embeddings
    of its own, and entries start from normals cut at two deviations, of variance ``0.002 / layers`` over the number of inputs (``hk.initializers.VarianceScaling``)
    and for embeddings of deviation ``(d + 2 C + d')**-0.5`` before the cut (``hk.Linear``'s own)."""

    def __init__(self, d: int, n_classes: int, width: int, n_blocks: int) -> None:
        super().__init__(d, n_classes, width, n_blocks)
        self._add("expected", width, n_classes)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator, scale: float = 1.0) -> None:
        """Draw all parameters; ``scale`` multiplies every deviation."""
        for name, p in self.named_parameters():
            if name in ("embed", "expected"):
                sd = (self.d + 2 * self.n_classes + self.width) ** -0.5
            else:
                inputs = p.shape[-1] * (2 if name == "P" else 1)  # of two heads, one after the other
                sd = math.sqrt(CODE_SCALE / self.layers / inputs) / CUT_DEVIATION
            torch.nn.init.trunc_normal_(p, 0.0, sd * scale, -2 * sd * scale, 2 * sd * scale, generator=generator)

    def forward(self, context: Tensor, query: Tensor) -> Tensor:
        """Logits ``(C, B)`` for tokens ``(N, d + 1, B)`` and queries ``(d, B)``."""
        d, n = self.d, context.shape[0]
        tokens = context.movedim(-1, 0)  # (B, N, d + 1)
        x = torch.cat([tokens[..., :d], query.T[:, None]], dim=1)  # (B, N + 1, d)
        values = embedded(self.embed, tokens[..., -1].long())  # (B, N, d')
        values = torch.nn.functional.pad(values, (0, 0, 0, 1))
        mean = self.expected.mean(1).expand_as(values)
        e = torch.cat([x, values, mean, torch.zeros_like(values)], dim=-1)  # (B, N + 1, D)
        for k in range(self.n_blocks):
            keys = e[:, :n]
            if k == self.n_blocks - 1:
                e = e[:, n:]
            e = e + self._self_attention(k, e, keys)
            e = e + self._cross_attention(k, e)
        return (e[:, 0, -self.width :] @ self.embed).transpose(0, 1)

    def _self_attention(self, k: int, e: Tensor, keys: Tensor) -> Tensor:
        heads = zip(self.W_Q[k], self.W_K[k], self.W_V[k], self.P[k], strict=True)
        return sum(torch.softmax((e @ (q.T @ key)) @ keys.mT, -1) @ (keys @ (out @ v).T) for q, key, v, out in heads)
