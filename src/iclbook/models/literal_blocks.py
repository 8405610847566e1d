"""The GD transformer with every matrix of wang2025, appendices C and D, written out: what :class:`FunctionalGD` must equal."""

import math

import torch
from torch import Tensor, nn

from .functional_gd import FunctionalGD
from .kernels import KERNELS, kernel_values, key_factor, relate


def block_matrix(sizes: tuple[int, ...], entries: dict[tuple[int, int], Tensor]) -> Tensor:
    """A square matrix of blocks; blocks that are not named are zero."""
    some = next(iter(entries.values()))
    every = [[entries.get((r, c), some.new_zeros(m, n)) for c, n in enumerate(sizes)] for r, m in enumerate(sizes)]
    return torch.cat([torch.cat(row, dim=1) for row in every])


def columns(context: Tensor, query: Tensor, n_classes: int) -> tuple[Tensor, Tensor]:
    """Covariates ``(B, d, N + 1)``, the query's last, and one-hot labels ``(B, C, N)``."""
    tokens = context.movedim(-1, 0)  # (B, N, d + 1)
    x = torch.cat([tokens[..., :-1].mT, query.T[..., None]], dim=-1)
    return x, nn.functional.one_hot(tokens[..., -1].long(), n_classes).to(x).mT


class LiteralStep(FunctionalGD):
    """Appendix C: one step, encoding ``e_i = (x_i, w_{y_i} - mean w, 0)``, one head, all ``(d + 2 d')``-matrices formed and applied.

    Takes tokens only. Every output column is computed, also those that nobody reads.
    """

    def matrices(self, d: int, n: int) -> dict[str, Tensor]:
        """``W_Q = W_K`` (21), ``W_V`` (22), ``P`` (23) and the readout ``(0 0 I)``."""
        w = self.width
        sizes, eye = (d, w, w), torch.eye(w).to(self.embed)
        rate = torch.diag(self.rate[0].expand(w)) * key_factor(self.kernel, n)
        first = block_matrix(sizes, {(0, 0): torch.eye(d).to(self.embed)})
        return {
            "W_Q": first,
            "W_K": first,
            "W_V": block_matrix(sizes, {(1, 1): rate}),
            "P": block_matrix(sizes, {(2, 1): eye}),
            "R": torch.cat([eye.new_zeros(w, d + w), eye], dim=1),
        }

    def encode(self, context: Tensor, query: Tensor) -> Tensor:
        """Input ``e`` ``(B, d + 2 d', N + 1)``: one-hot columns (18), (19) times matrix (20)."""
        x, hot = columns(context, query, self.n_classes)
        hot = nn.functional.pad(hot - 1 / self.n_classes, (0, 1))  # (B, C, N + 1)
        raw = torch.cat([x, hot, x.new_zeros(x.shape[0], self.width, x.shape[-1])], dim=1)
        first, last = (torch.eye(size).to(x) for size in (x.shape[1], self.width))
        return torch.block_diag(first, self.embed, last) @ raw

    def forward(self, context: Tensor, query: Tensor) -> Tensor:
        """Logits ``(C, B)`` for tokens ``(N, d + 1, B)`` and queries ``(d, B)``."""
        d, n = query.shape[0], context.shape[0]
        m, e = self.matrices(d, n), self.encode(context, query)
        keys, queries = m["W_K"] @ e[..., :n], m["W_Q"] @ e  # (B, D, N), (B, D, N + 1)
        scores = relate(KERNELS[self.kernel], queries.mT, keys.mT)
        weights = kernel_values(self.kernel, scores, self.log_gamma.exp())  # (B, N + 1, N)
        e = e + m["P"] @ (m["W_V"] @ e[..., :n]) @ weights.mT
        return ((m["R"] @ e)[..., n] @ self.embed).transpose(0, 1)


class LiteralBlocks(FunctionalGD):
    """Appendix D: blocks of self-attention (two heads) and cross-attention, encoding ``e_i = (x_i, w_{y_i}, E_i, f_i)``.

    Takes tokens only. All positions of all blocks are computed, as the paper and its code do. The erasure head has ``W_K = W_Q = lam (I 0 0 0)``.

    Args:
        erasure: attention of the erasure head: ``softmax`` (published code), ``rbf``, ``exact`` (the identity it stands for), or ``none``: no
            erasure at all.
        lam: lambda of the erasure head (published code: 1e5).
        erase_query: let the query attend to itself in the erasure head, as the last column of equation 36 needs; else its keys are
            ``1..N``, as section 3.2.1 says of the other head.
        query_among_keys: let the query be a key of the update as well, with ``w = 0`` (wrong; for tests).
        others: of :class:`FunctionalGD`.
    """

    def __init__(
        self,
        *args,
        erasure: str = "softmax",
        lam: float = 1e5,
        erase_query: bool = False,
        query_among_keys: bool = False,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs)
        assert erasure in ("softmax", "rbf", "exact", "none"), erasure
        self.erasure, self.lam = erasure, lam
        self.erase_query, self.query_among_keys = erase_query, query_among_keys

    def matrices(self, d: int, n: int, block: int) -> dict[str, Tensor]:
        """Matrices of a block: heads 1 and 2 (equations 27 to 37), cross-attention (41 to 43), readout R."""
        w = self.width
        sizes, eye = (d, w, w, w), torch.eye(w).to(self.embed)
        identity = torch.eye(d).to(self.embed)
        rate = torch.diag(self.rate[block].expand(w)) * key_factor(self.kernel, n)
        first = block_matrix(sizes, {(0, 0): identity})
        return {
            "W_Q1": first,
            "W_K1": first,
            "W_V1": block_matrix(sizes, {(3, 1): rate, (3, 2): -rate}),
            "P1": torch.eye(d + 3 * w).to(self.embed),
            "W_Q2": self.lam * first,
            "W_K2": self.lam * first,
            "W_V2": block_matrix(sizes, {(2, 2): eye}),
            "P2": -torch.eye(d + 3 * w).to(self.embed),  # equation 37's sign
            "W_Qc": block_matrix(sizes, {(3, 3): eye}),
            "W_Kc": torch.cat([eye.new_zeros(d + 2 * w, w), eye]),
            "W_Vc": torch.cat([eye.new_zeros(d + w, w), eye, eye.new_zeros(w, w)]),
            "R": torch.cat([eye.new_zeros(w, d + 2 * w), eye], dim=1),
        }

    def encode(self, context: Tensor, query: Tensor) -> Tensor:
        """Input ``e`` ``(B, d + 3 d', N + 1)``; the query has ``w = 0`` and the expectation at ``f = 0`` (equation 24)."""
        x, hot = columns(context, query, self.n_classes)
        w = nn.functional.pad(self.embed @ hot, (0, 1))  # (B, d', N + 1)
        mean = self.embed.mean(1)[:, None].expand_as(w)
        return torch.cat([x, w, mean, torch.zeros_like(mean)], dim=1)

    def block(self, e: Tensor, d: int, block: int) -> Tensor:
        """One block: self-attention with two heads, skip, cross-attention, skip; ``e`` ``(B, D, N + 1)``."""
        n = e.shape[-1] - 1
        m = self.matrices(d, n, block)
        keys = e if self.query_among_keys else e[..., :n]
        scores = relate(KERNELS[self.kernel], (m["W_Q1"] @ e).mT, (m["W_K1"] @ keys).mT)
        weights = kernel_values(self.kernel, scores, self.log_gamma.exp())
        update = m["P1"] @ (m["W_V1"] @ keys) @ weights.mT
        t = e + update + m["P2"] @ self.erased(e, m)
        attention = torch.softmax((m["W_Qc"] @ t).mT @ (m["W_Kc"] @ self.embed), dim=-1)  # (B, N + 1, C)
        return t + (m["W_Vc"] @ self.embed) @ attention.mT

    def erased(self, e: Tensor, m: dict[str, Tensor]) -> Tensor:
        """Output of the erasure head ``(B, D, N + 1)`` (equation 36)."""
        seen = e if self.erase_query else e[..., :-1]
        queries, keys = (m["W_Q2"] @ e).mT, (m["W_K2"] @ seen).mT
        if self.erasure == "none":
            return torch.zeros_like(e)
        if self.erasure == "exact":
            weights = torch.eye(queries.shape[1], keys.shape[1]).to(e)
        elif self.erasure == "softmax":
            weights = torch.softmax(queries @ keys.mT / math.sqrt(queries.shape[-1]), dim=-1)
        else:  # differences, not |q|^2 + |k|^2 - 2 q.k: at lambda = 1e5 rounding of the squares would swamp a zero distance
            weights = torch.exp(-((queries[:, :, None] - keys[:, None]) ** 2).sum(-1) / 2)
        return (m["W_V2"] @ seen) @ weights.mT

    def forward(self, context: Tensor, query: Tensor) -> Tensor:
        """Logits ``(C, B)`` for tokens ``(N, d + 1, B)`` and queries ``(d, B)``."""
        return (self.run(context, query)[-1][:, -self.width :, -1] @ self.embed).transpose(0, 1)

    def run(self, context: Tensor, query: Tensor) -> list[Tensor]:
        """The stream ``e`` ``(B, D, N + 1)`` at the input and after each block."""
        stream = [self.encode(context, query)]
        for k in range(self.n_blocks):
            stream.append(self.block(stream[-1], query.shape[0], k))
        return stream
