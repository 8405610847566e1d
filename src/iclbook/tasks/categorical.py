"""In-context classification with a hidden function of each context (wang2025, appendices E and F)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ..errors import UserError
from .batch import Batch
from .fields import check_fields


def _uniform(normals: Tensor) -> Tensor:
    """Standard normals as uniform numbers in (0, 1)."""
    return ((1 + torch.erf(normals / math.sqrt(2))) / 2).clamp(1e-7, 1 - 1e-7)


@lru_cache(maxsize=64)
def draw_embedding(n_classes: int, width: int, seed: int) -> Tensor:
    """``W_e`` ``(d', C)``, entries N(0, 1), drawn once for each seed."""
    return torch.randn(width, n_classes, generator=torch.Generator().manual_seed(10_000 + seed))


@dataclass(frozen=True)
class Categorical:
    """A category ``y`` of ``C`` with ``p(y = c | x) = softmax_c(w_c^T f(x))`` (equation 1), ``f`` new in each context, ``W_e`` shared by all.

    Subclasses say how covariates and ``f`` arise from standard normals.

    Args:
        N: examples in a context.
        d: of the covariates.
        n_classes: C.
        width: of an embedding, d'.
        embed_seed: which draw of ``W_e``.

    Raises:
        UserError: sizes that define no task.
    """

    N: int = 10
    d: int = 10
    n_classes: int = 25
    width: int = 5
    embed_seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if min(self.N, self.d, self.width) < 1 or self.n_classes < 5:
            raise UserError(
                f"N={self.N}, d={self.d}, n_classes={self.n_classes}, width={self.width}",
                "N, d and width are 1 or more, n_classes 5 or more.",
            )

    @property
    def embedding(self) -> Tensor:
        """``W_e`` ``(d', C)``."""
        return draw_embedding(self.n_classes, self.width, self.embed_seed)

    @property
    def hidden(self) -> int:
        """Standard normals that the context's function consumes."""
        raise NotImplementedError

    @property
    def normals(self) -> int:
        """Standard normals of one prompt: N + 1 covariates, the function, N + 1 draws of a category."""
        return (self.N + 1) * (self.d + 1) + self.hidden

    def covariates(self, normals: Tensor) -> Tensor:
        """Covariates ``(..., N + 1, d, B)`` from as many normals."""
        raise NotImplementedError

    def latent(self, x: Tensor, normals: Tensor) -> Tensor:
        """``f(x)`` ``(..., N + 1, d', B)`` at covariates ``(..., N + 1, d, B)``, from ``(..., hidden, B)`` normals."""
        raise NotImplementedError

    def probabilities(self, f: Tensor) -> Tensor:
        """``(..., C, B)`` from ``f (..., d', B)`` (equation 1)."""
        return torch.softmax(torch.einsum("dc,...db->...cb", self.embedding.to(f), f), dim=-2)

    def _parts(self, normals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Covariates, ``p(y | x)`` ``(..., N + 1, C, B)`` and the normals that choose the categories ``(..., N + 1, B)``."""
        rows = (self.N + 1) * self.d
        x = self.covariates(normals[..., :rows, :].unflatten(-2, (self.N + 1, self.d)))
        p = self.probabilities(self.latent(x, normals[..., rows : rows + self.hidden, :]))
        return x, p, normals[..., rows + self.hidden :, :]

    def batch(self, normals: Tensor) -> Batch:
        """Turn standard normals ``(..., self.normals, B)`` into a batch; pure. ``context`` ``(..., N, d + 1, B)`` has rows ``x_i, y_i``."""
        x, p, chosen = self._parts(normals)
        below = p.cumsum(-2) < _uniform(chosen)[..., None, :]  # (..., N + 1, C, B)
        y = below.sum(-2).clamp_max(self.n_classes - 1).to(x)[..., None, :]  # (..., N + 1, 1, B)
        tokens = torch.cat([x, y], dim=-2)
        return Batch(tokens[..., : self.N, :, :], x[..., self.N, :, :], y[..., self.N, :, :])

    def truth(self, normals: Tensor) -> Tensor:
        """``p(y_{N+1} | x_{N+1})`` ``(..., C, B)`` of the same prompts: what an oracle predicts for the query."""
        return self._parts(normals)[1][..., self.N, :, :]


@dataclass(frozen=True)
class Anchors(Categorical):
    """Appendix E: ``f(x) = lam sum_m w_{c(m)} kappa(x - a_m)`` with 5 categories and 5 anchors ``a_m ~ N(0, I)`` chosen for each context.

    Each kernel is 0.1 at the anchor nearest to its own.

    Args:
        inputs: ``"uniform"`` on ``[-1, 1]^d`` (published code) or ``"normal"`` (the text gives only the anchors' distribution).
        squared: ``exp(-|x - a|^2 / s^2)`` (published code, and what "RBF" means) or the printed ``exp(-s^2 |x - a|)`` (equation 46).
        lam: lambda.
        n_anchors: categories present in a context.

    Raises:
        UserError: what :class:`Categorical` refuses, unknown inputs, too few anchors.
    """

    inputs: str = "uniform"
    squared: bool = True
    lam: float = 10.0
    n_anchors: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inputs not in ("uniform", "normal"):
            raise UserError(f"unknown inputs {self.inputs!r}", "Choose uniform or normal.")
        if not 2 <= self.n_anchors <= self.n_classes:
            raise UserError(f"n_anchors={self.n_anchors}", "Take between 2 and n_classes anchors.")

    @property
    def hidden(self) -> int:
        """Anchors, and one number for each category: the largest are chosen."""
        return self.n_anchors * self.d + self.n_classes

    def covariates(self, normals: Tensor) -> Tensor:
        """Uniform or normal."""
        return 2 * _uniform(normals) - 1 if self.inputs == "uniform" else normals

    def latent(self, x: Tensor, normals: Tensor) -> Tensor:
        """Equation 46."""
        rows = self.n_anchors * self.d
        anchors = normals[..., :rows, :].unflatten(-2, (self.n_anchors, self.d))  # (..., M, d, B)
        chosen = normals[..., rows:, :].topk(self.n_anchors, dim=-2).indices  # (..., M, B)
        between = ((anchors[..., :, None, :, :] - anchors[..., None, :, :, :]) ** 2).sum(-2)  # (..., M, M, B)
        itself = torch.eye(self.n_anchors, dtype=torch.bool, device=x.device)[..., None]
        nearest = between.masked_fill(itself, torch.inf).amin(-2)  # (..., M, B), squared
        values = []
        for m in range(self.n_anchors):
            squared = ((x - anchors[..., m, None, :, :]) ** 2).sum(-2)  # (..., N + 1, B)
            ratio = squared / nearest[..., m, None, :]
            values.append(torch.exp(math.log(0.1) * (ratio if self.squared else ratio.sqrt())))
        kernel = torch.stack(values, dim=-2)  # (..., N + 1, M, B)
        w = self.embedding.to(x)[:, chosen]  # (d', ..., M, B)
        return self.lam * torch.einsum("d...mb,...nmb->...ndb", w, kernel)


@dataclass(frozen=True)
class Quadrants(Categorical):
    """Appendix F: covariates uniform on ``[-1, 1]^2``; in quadrant q of a context ``f(x) = w_{c_q}``, four categories without replacement."""

    N: int = 100
    d: int = 2
    n_classes: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d != 2:
            raise UserError(f"d={self.d}: quadrants need two covariates", "Leave d at 2.")

    @property
    def hidden(self) -> int:
        """One number for each category: the four largest are chosen."""
        return self.n_classes

    def covariates(self, normals: Tensor) -> Tensor:
        """Uniform on the square."""
        return 2 * _uniform(normals) - 1

    def latent(self, x: Tensor, normals: Tensor) -> Tensor:
        """``w_{c_q}``; quadrants 0 to 3 run counter-clockwise from the top right."""
        chosen = normals.topk(4, dim=-2).indices  # (..., 4, B)
        right, top = x[..., 0, :] >= 0, x[..., 1, :] >= 0  # (..., N + 1, B)
        quadrant = torch.where(top, (~right).long(), 2 + right.long())
        category = torch.gather(chosen, -2, quadrant)  # (..., N + 1, B)
        return self.embedding.to(x)[:, category].movedim(0, -2)  # (..., N + 1, d', B)
