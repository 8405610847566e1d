"""In-context classification with a hidden function of each context (wang2025, appendices E and F)."""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from .. import random
from ..draw import torch_rng
from .batch import Batch


@lru_cache(maxsize=64)
def draw_embedding(n_classes: int, width: int, seed: int) -> Tensor:
    """``W_e`` ``(d', C)``, entries N(0, 1), drawn once for each seed."""
    return torch.randn(width, n_classes, generator=torch_rng(10_000 + seed))


@dataclass(frozen=True)
class Categorical:
    """A category ``y`` of ``C`` with ``p(y = c | x) = softmax_c(w_c^T f(x))`` (equation 1), ``f`` new in each context, ``W_e`` shared by all.

    Subclasses say how covariates and ``f`` arise: :attr:`square`, :attr:`hidden`, :meth:`latent`, and ``present``, categories that make a context's function.

    Args:
        N: examples in a context.
        d: of the covariates.
        n_classes: C.
        width: of an embedding, d'.
        embed_seed: which draw of ``W_e``.
    """

    N: int = 10
    d: int = 10
    n_classes: int = 25
    width: int = 5
    embed_seed: int = 0

    #: Whether covariates are uniform on ``[-1, 1]^d``; otherwise they are standard normals.
    square = True
    #: Standard normals that the context's function consumes.
    hidden = 0

    @property
    def embedding(self) -> Tensor:
        """``W_e`` ``(d', C)``."""
        return draw_embedding(self.n_classes, self.width, self.embed_seed)

    @property
    def _inputs(self) -> int:
        return (self.N + 1) * self.d

    @property
    def normals(self) -> int:
        """Standard normals of one prompt: N + 1 covariates unless they are uniform, then the function."""
        return (0 if self.square else self._inputs) + self.hidden

    @property
    def words(self) -> int:
        """Random words of one prompt: N + 1 covariates if they are uniform, the categories present, N + 1 draws of a category."""
        return (self._inputs if self.square else 0) + self.n_classes + self.N + 1

    def latent(self, x: Tensor, normals: Tensor, chosen: Tensor) -> Tensor:
        """``f(x)`` ``(..., N + 1, d', B)`` at covariates ``(..., N + 1, d, B)``, from ``(..., hidden, B)`` normals and categories ``(..., present, B)``."""
        raise NotImplementedError

    def probabilities(self, f: Tensor) -> Tensor:
        """``(..., C, B)`` from ``f (..., d', B)`` (equation 1)."""
        return torch.softmax(torch.einsum("dc,...db->...cb", self.embedding.to(f), f), dim=-2)

    def chosen(self, words: Tensor) -> Tensor:
        """The categories of each context ``(..., present, B)``, without replacement, from ``(..., self.words, B)``."""
        draws = self.N + 1
        return random.order(words[..., -self.n_classes - draws : -draws, :], -2)[..., : self.present, :]

    def covariates(self, normals: Tensor, words: Tensor) -> Tensor:
        """Covariates ``(..., N + 1, d, B)``."""
        flat = (words if self.square else normals)[..., : self._inputs, :]
        flat = 2 * random.uniform(flat, normals.dtype) - 1 if self.square else flat
        return flat.unflatten(-2, (self.N + 1, self.d))

    def _parts(self, normals: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Covariates, and ``p(y | x)`` ``(..., N + 1, C, B)``."""
        x = self.covariates(normals, words)
        own = normals[..., normals.shape[-2] - self.hidden :, :]
        return x, self.probabilities(self.latent(x, own, self.chosen(words)))

    def batch(self, normals: Tensor, words: Tensor) -> Batch:
        """Turn standard normals ``(..., self.normals, B)`` and words ``(..., self.words, B)`` into a batch; pure. ``context`` ``(..., N, d + 1, B)`` has
        rows ``x_i, y_i``."""
        x, p = self._parts(normals, words)
        y = random.category(p, words[..., -self.N - 1 :, :]).to(x)[..., None, :]  # (..., N + 1, 1, B)
        tokens = torch.cat([x, y], dim=-2)
        return Batch(tokens[..., : self.N, :, :], x[..., self.N, :, :], y[..., self.N, :, :])

    def truth(self, normals: Tensor, words: Tensor) -> Tensor:
        """``p(y_{N+1} | x_{N+1})`` ``(..., C, B)`` of the same prompts: what an oracle predicts for the query."""
        return self._parts(normals, words)[1][..., self.N, :, :]


@dataclass(frozen=True)
class Anchors(Categorical):
    """Appendix E: ``f(x) = lam sum_m w_{c(m)} kappa(x - a_m)`` with 5 categories and 5 anchors ``a_m ~ N(0, I)`` chosen for each context.

    Each kernel is 0.1 at the anchor nearest to its own.

    Args:
        inputs: ``"uniform"`` on ``[-1, 1]^d`` (published code) or ``"normal"`` (the text gives only the anchors' distribution).
        squared: ``exp(-|x - a|^2 / s^2)`` (published code, and what "RBF" means) or the printed ``exp(-s^2 |x - a|)`` (equation 46).
        lam: lambda.
        n_anchors: categories present in a context.
    """

    inputs: str = "uniform"
    squared: bool = True
    lam: float = 10.0
    n_anchors: int = 5

    @property
    def square(self) -> bool:
        """As ``inputs`` says."""
        return self.inputs == "uniform"

    @property
    def present(self) -> int:
        """One category for each anchor."""
        return self.n_anchors

    @property
    def hidden(self) -> int:
        """Anchors."""
        return self.n_anchors * self.d

    def latent(self, x: Tensor, normals: Tensor, chosen: Tensor) -> Tensor:
        """Equation 46."""
        anchors = normals.unflatten(-2, (self.n_anchors, self.d))  # (..., M, d, B)
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

    present = 4

    def latent(self, x: Tensor, normals: Tensor, chosen: Tensor) -> Tensor:
        """``w_{c_q}``; quadrants 0 to 3 run counter-clockwise from the top right."""
        right, top = x[..., 0, :] >= 0, x[..., 1, :] >= 0  # (..., N + 1, B)
        quadrant = torch.where(top, (~right).long(), 2 + right.long())
        category = torch.gather(chosen, -2, quadrant)  # (..., N + 1, B)
        return self.embedding.to(x)[:, category].movedim(0, -2)  # (..., N + 1, d', B)
