"""Exact population losses of the simplified model (recall2025, Section 2.3 and equation 9), their gradients, without sampling.

The scores do not depend on the map f, and relabelling the symbols carries any query into any other, so one query and the ``order!``
permutations of the context say everything. The expectation over f is then closed for the dot-product loss and one integral for
cross-entropy. Parameters are vectors ``theta = (w^1, ..., w^K, beta)``; leading axes are an ensemble.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ....errors import UserError
from ....tasks.associative_recall import AssociativeRecall

Array = np.ndarray

#: Spacing in log u of the trapezoidal rule for ``E log X = int (e^-u - E e^-uX) du/u``; its error falls like ``e^(-pi^2 / spacing)``.
_SPACING = 0.25


@dataclass(frozen=True)
class Population:
    """The simplified model on the whole distribution of the task.

    Args:
        task: order n and response set.
        n_heads: heads of the first layer, K.
        window: offsets ``1 .. window`` that a head can attend to, W (simplification A0).
        gamma: of the matrix of the second layer.
        matrix: ``"printed"`` for ``I - gamma 11^T``, ``"lemma"`` for ``(1 + gamma) I - gamma 11^T``. Without the response tokens in reach the term
            ``gamma 11^T`` moves all scores alike, so only the factor of the identity counts.
        loss: ``"dp"`` or ``"ce"``.

    Raises:
        UserError: a longer window than the task has tokens, more heads than the window has offsets, an unknown matrix or loss.
    """

    task: AssociativeRecall
    n_heads: int
    window: int
    gamma: float = 0.0
    matrix: str = "lemma"
    loss: str = "dp"

    def __post_init__(self) -> None:
        if not 1 <= self.n_heads <= self.window <= self.task.order:  # head h matches at offset h
            raise UserError(
                f"{self.n_heads} heads with window {self.window} on a task of order {self.task.order}",
                "Use at most as many heads as offsets in the window, and a window of at most the order.",
            )
        if self.matrix not in ("printed", "lemma"):
            raise UserError(f"unknown matrix {self.matrix!r}", "Choose 'printed' or 'lemma'.")
        if self.loss not in ("dp", "ce"):
            raise UserError(f"unknown loss {self.loss!r}", "Choose 'dp' or 'ce'.")

    @property
    def kappa(self) -> float:
        """Factor of the identity: 1 or ``1 + gamma``."""
        return 1.0 + self.gamma if self.matrix == "lemma" else 1.0

    @cached_property
    def match(self) -> Array:
        """``(n!, K, W)``: whether the query's token ``h`` from the end equals token ``i`` from the end of permutation t; the query is the first."""
        perms = self.task.permutations
        query = perms[0]
        tokens = perms[:, ::-1][:, : self.window]  # (n!, W): offsets 1 .. W
        wanted = query[::-1][: self.n_heads]  # (K,): x_{l-h}
        return (tokens[:, None, :] == wanted[None, :, None]).astype(float)

    @cached_property
    def flat_match(self) -> Array:
        """``match`` as a matrix ``(n!, K W)``."""
        return self.match.reshape(len(self.match), -1)

    @property
    def size(self) -> int:
        """Length of theta."""
        return self.n_heads * (self.window + 1)

    def split(self, theta: Array) -> tuple[Array, Array]:
        """``w (..., K, W)`` and ``beta (..., K)`` of ``theta (..., size)``."""
        cut = self.n_heads * self.window
        return theta[..., :cut].reshape(*theta.shape[:-1], self.n_heads, self.window), theta[..., cut:]

    def join(self, w: Array, beta: Array) -> Array:
        """The inverse of ``split``."""
        return np.concatenate([np.reshape(w, (*np.shape(beta)[:-1], -1)), beta], axis=-1)

    def attention(self, theta: Array) -> Array:
        """First-layer attention ``(..., K, W)``."""
        w, _ = self.split(theta)
        e = np.exp(w - w.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def weights(self, theta: Array, attention: Array | None = None) -> Array:
        """Second-layer attention on the responses, ``(..., n!)``; the first is the correct one. ``attention`` of theta, where it is known already."""
        _, beta = self.split(theta)
        a = self.attention(theta) if attention is None else attention
        u = self.kappa * beta[..., None] ** 2 * a  # (..., K, W)
        scores = u.reshape(*u.shape[:-2], -1) @ self.flat_match.T
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def advantage(self, theta: Array) -> Array:
        """``gamma_h`` of equation 13 for any w, ``(..., K)``: score of a match at the head's own offset over the mean score of another."""
        a, (_, beta) = self.attention(theta), self.split(theta)
        own = np.diagonal(a, axis1=-2, axis2=-1)[..., : self.n_heads]
        others = (1 - own) / (self.window - 1) if self.window > 1 else 0.0
        return self.kappa * beta**2 * (own - others)

    def value(self, theta: Array) -> Array:
        """Population loss ``(...)``."""
        return self._value(self.weights(theta))

    def gradient(self, theta: Array) -> Array:
        """Its gradient ``(..., size)``."""
        a = self.attention(theta)
        return self.pull_back(theta, self._score_gradient(self.weights(theta, a)), a)

    def pull_back(self, theta: Array, by_score: Array, attention: Array | None = None) -> Array:
        """Gradient in theta from the gradient in the scores ``(..., n!)`` (Lemma C.1 for the matrix in use)."""
        _, beta = self.split(theta)
        a = self.attention(theta) if attention is None else attention
        by_match = (by_score @ self.flat_match).reshape(
            *by_score.shape[:-1], self.n_heads, self.window
        )  # (..., K, W)
        mean = (a * by_match).sum(-1)  # (..., K)
        grad_w = self.kappa * beta[..., None] ** 2 * a * (by_match - mean[..., None])
        return self.join(grad_w, 2 * self.kappa * beta * mean)

    def sampled_gradient(self, theta: Array, batch: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Gradient and loss of a batch of random sequences, of which a sequence shows only which responses equal the right one."""
        a = self.attention(theta)
        s = self.weights(theta, a)  # (..., n!)
        if self.loss == "dp":  # linear in the indicators, so that only their number in the batch counts
            share = rng.binomial(batch, 1 / self.task.n_responses, s.shape) / batch
            share[..., 0] = 1
            right = (s * share).sum(-1, keepdims=True)
            return self.pull_back(theta, -s * (share - right), a), 1 - right[..., 0]
        same = rng.random((*s.shape[:-1], batch, s.shape[-1])) < 1 / self.task.n_responses
        same[..., 0] = True
        p = (same * s[..., None, :]).sum(
            -1, keepdims=True
        )  # (..., batch, 1): probability of the right response
        by_score = -s[..., None, :] * (same - p) / p
        return self.pull_back(theta, by_score.mean(-2), a), -np.log(p).mean((-1, -2))

    def _value(self, s: Array) -> Array:
        chance = 1 / self.task.n_responses
        if self.loss == "dp":
            return (1 - chance) * (1 - s[..., 0])
        u, phi, _ = self._laplace(s)
        return -_trapezoid(np.exp(-u) - phi)

    def _score_gradient(self, s: Array) -> Array:
        if self.loss == "dp":
            by_right = -(1 - 1 / self.task.n_responses)
            by_score = -by_right * s[..., :1] * s
            by_score[..., 0] += by_right * s[..., 0]
            return by_score
        u, phi, factor = self._laplace(s)
        by_weight = -_trapezoid((u * phi)[..., None, :] * factor)
        return s * (by_weight - (s * by_weight).sum(-1, keepdims=True))

    def _laplace(self, s: Array) -> tuple[Array, Array, Array]:
        """``u (U,)``, ``E e^{-u p} (..., U)`` and minus its relative derivative in ``u s_t``, ``(..., n!, U)``."""
        # e^-u - E e^-up is about u (E p - 1) below and E e^-up above, where p >= s_0: both ends lie under rounding
        last = min(45.0, np.log(40.0 / max(float(s[..., 0].min()), 1e-18)))
        chance, u = 1 / self.task.n_responses, np.exp(np.arange(-40.0, last + _SPACING, _SPACING))
        e = np.exp(-u * s[..., None])  # (..., n!, U)
        mixed = 1 - chance + chance * e
        mixed[..., 0, :] = e[..., 0, :]
        factor = chance * e / np.where(mixed > 0, mixed, 1)
        factor[..., 0, :] = 1
        return u, mixed.prod(-2), factor


def _trapezoid(f: Array) -> Array:
    return f.sum(-1) * _SPACING
