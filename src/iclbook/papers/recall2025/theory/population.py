"""Exact population loss and gradient of the simplified model (recall2025, equations 2 and 9), with A2 kept and lifted.

The scores do not depend on the map f, and relabelling the symbols turns any query into any other. One query and the ``order!`` permutations of the
context are therefore enough. The mean over f is closed for the dot-product loss, and one integral for cross-entropy. Parameters are vectors
``theta = (w^1, ..., w^K, beta)``. Leading axes are an ensemble; internally its members are the last axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from ....tasks.associative_recall import AssociativeRecall

Array = np.ndarray

#: The trapezoidal rule for ``E log X = int (e^-u - E e^-uX) du/u`` in x, with ``log u = x - e^-x``: below x = 0 u falls so fast that a few points reach
#: down to where it is under rounding, x = -3.6. The rule's error falls like ``e^(-pi^2 / spacing)``.
_SPACING = 0.25
_X = np.arange(-3.6, 45.0, _SPACING)
_LOG_U, _WEIGHT = _X - np.exp(-_X), _SPACING * (1 + np.exp(-_X))
_U = np.exp(_LOG_U)


@dataclass(frozen=True)
class Population:
    """The simplified model (A0 to A3) on the whole distribution of the task.

    Args:
        task: order n and response set.
        n_heads: heads of the first layer, K; head h matches at offset h, so K <= window.
        window: offsets ``1 .. window`` that a head can attend to, W <= n (simplification A0).
        gamma: of the second layer's matrix.
        matrix: ``"printed"`` for ``I - gamma 11^T`` (A.2), ``"lemma"`` for ``(1 + gamma) I - gamma 11^T`` (proof of lemma C.1). The term
            ``gamma 11^T`` moves all scores alike, so only the factor of the identity counts.
        loss: ``"dp"`` (dot product) or ``"ce"`` (cross-entropy).
    """

    task: AssociativeRecall
    n_heads: int
    window: int
    gamma: float = 0.0
    matrix: str = "lemma"
    loss: str = "dp"

    def __post_init__(self) -> None:
        assert 1 <= self.n_heads <= self.window <= self.task.order, "heads <= window <= order"
        assert (self.matrix, self.loss) in product(("printed", "lemma"), ("dp", "ce")), self

    @property
    def kappa(self) -> float:
        """Factor of the identity in the second layer's matrix: ``1`` or ``1 + gamma``."""
        return 1.0 + self.gamma if self.matrix == "lemma" else 1.0

    @cached_property
    def match(self) -> Array:
        """``1{q_{n-h} = pi_{t, n-i}}``, ``(n!, K, W)``; the query is the first permutation."""
        back = self.task.permutations[:, ::-1]  # (n!, n): offsets 1 .. n
        return (back[:, None, : self.window] == back[0, : self.n_heads, None]).astype(float)

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
        a = self._attention(self._parts(_columns(theta))[0])
        return _rows(a.reshape(-1, *a.shape[2:]), theta).reshape(*theta.shape[:-1], *a.shape[:2])

    def weights(self, theta: Array) -> Array:
        """Second-layer attention on the responses, ``(..., n!)``; the first is the correct one."""
        w, beta = self._parts(_columns(theta))
        return _rows(self._weights(self._attention(w), beta), theta)

    def advantage(self, theta: Array) -> Array:
        """``gamma_h = kappa beta_h^2 (a_hh - mean of the other a_hi)``, ``(..., K)``: equation 13 for any w."""
        w, beta = self._parts(_columns(theta))
        heads = np.arange(self.n_heads)
        own = self._attention(w)[heads, heads]
        others = (1 - own) / (self.window - 1) if self.window > 1 else 0.0
        return _rows(self.kappa * beta**2 * (own - others), theta)

    def value(self, theta: Array) -> Array:
        """Population loss ``(...)``."""
        w, beta = self._parts(_columns(theta))
        return self._value(self._weights(self._attention(w), beta)).reshape(theta.shape[:-1])

    def gradient(self, theta: Array) -> Array:
        """Its gradient ``(..., size)``."""
        w, beta = self._parts(_columns(theta))
        a = self._attention(w)
        return _rows(self._pull_back(a, beta, self._score_gradient(self._weights(a, beta))), theta)

    def counted_gradient(self, theta: Array, share: Array) -> tuple[Array, Array]:
        """Gradient ``(..., size)`` and dot-product loss ``(...)`` of a batch of random sequences.

        Both are linear in ``1{r_t = r}``, so the ``share (..., n!)`` of sequences in which response t equals the right one is all that counts. The right
        response itself has share 1, whatever is given.
        """
        assert self.loss == "dp", "cross-entropy is not linear in the share"
        w, beta = self._parts(_columns(theta))
        a, share = self._attention(w), _columns(share).copy()
        share[0] = 1
        s = self._weights(a, beta)
        right = (s * share).sum(0)
        gradient = self._pull_back(a, beta, s * (right - share))
        return _rows(gradient, theta), (1 - right).reshape(theta.shape[:-1])

    def _parts(self, x: Array) -> tuple[Array, Array]:
        """``w (K, W, M)`` and ``beta (K, M)`` of M members ``x (size, M)``; of a single theta without the last axis."""
        cut = self.n_heads * self.window
        return x[:cut].reshape(self.n_heads, self.window, *x.shape[1:]), x[cut:]

    def _attention(self, w: Array) -> Array:
        """First-layer attention ``(K, W, M)``."""
        return _softmax(w, 1)

    def _weights(self, a: Array, beta: Array) -> Array:
        """Second-layer attention ``(n!, M)``."""
        u = (self.kappa * beta**2)[:, None] * a  # (K, W, M)
        return _softmax(self.match.reshape(len(self.match), -1) @ u.reshape(-1, *beta.shape[1:]), 0)

    def _pull_back(self, a: Array, beta: Array, by_score: Array) -> Array:
        """Gradient in theta ``(size, M)`` from the gradient in the scores ``(n!, M)`` (Lemma C.1 for the matrix in use)."""
        by_match = (self.match.reshape(len(self.match), -1).T @ by_score).reshape(a.shape)
        mean = np.add.reduce(a * by_match, 1)  # (K, M)
        by_w = (self.kappa * beta**2)[:, None] * a * (by_match - mean[:, None])
        return np.concatenate([by_w.reshape(-1, *beta.shape[1:]), 2 * self.kappa * beta * mean])

    def _value(self, s: Array) -> Array:
        """The loss ``(M,)`` of second-layer attention ``(n!, M)``."""
        if self.loss == "dp":
            return (1 - 1 / self.task.n_responses) * (1 - s[0])
        u, weight, phi, _ = self._laplace(s)
        return -((np.exp(-u) - phi) * weight).sum(-1)

    def _score_gradient(self, s: Array) -> Array:
        """Its gradient in the scores, ``(n!, M)``."""
        if self.loss == "dp":
            right = (1 - 1 / self.task.n_responses) * s[0]
            by_score = right * s
            by_score[0] -= right
            return by_score
        by_weight = self._cross_entropy_slope(s)
        # what all weights share moves no score; without it, less is rounded away where they are nearly alike
        by_weight -= by_weight[-1]
        return s * (by_weight - np.add.reduce(s * by_weight, 0))

    def _cross_entropy_slope(self, s: Array) -> Array:
        u, weight, phi, factor = self._laplace(s)
        return -np.einsum("t...u,...u->t...", factor, u * weight * phi)

    def _laplace(self, s: Array) -> tuple[Array, Array, Array, Array]:
        """``u (U,)`` and the rule's weights, ``E e^{-u p} (M, U)`` and minus its relative derivative in ``u s_t``, ``(n!, M, U)``."""
        # e^-u - E e^-up is about u (E p - 1) below and E e^-up above, where p >= s_0: both ends lie under rounding
        last = min(45.0, np.log(40.0 / max(float(s[0].min()), 1e-18)))
        end, chance = np.searchsorted(_LOG_U, last) + 1, 1 / self.task.n_responses
        u = _U[:end]
        e = np.exp(-u * s[..., None])  # (n!, M, U)
        factor = chance * e
        mixed = 1 - chance + factor
        mixed[0] = e[0]
        phi = np.multiply.reduce(mixed, 0)
        factor[1:] /= mixed[1:]
        factor[0] = 1
        return u, _WEIGHT[:end], phi, factor


def _columns(rows: Array) -> Array:
    """Members ``(..., n)`` as ``(n, M)``; a single one as it is."""
    return rows if rows.ndim == 1 else np.ascontiguousarray(rows.reshape(-1, rows.shape[-1]).T)


def _rows(columns: Array, theta: Array) -> Array:
    """The inverse, ``(n, M) -> (..., n)`` with the leading axes of theta."""
    return columns if theta.ndim == 1 else columns.T.reshape(*theta.shape[:-1], -1)


def _softmax(scores: Array, axis: int) -> Array:
    e = np.exp(scores - np.maximum.reduce(scores, axis, keepdims=True))
    e /= np.add.reduce(e, axis, keepdims=True)
    return e


@dataclass(frozen=True)
class OwnQueries(Population):
    """The simplified model with A2 lifted: head 1 asks with the last token, head h with what head h - 1 attends to from there.

    The attention ``a^{h-1}`` of the last token reaches one offset further back. Offsets beyond the query's permutation reach a response, which the second
    layer does not read. Keys attend to symbols only, so ``gamma 11^T`` still moves all scores alike.
    """

    @cached_property
    def flat_meetings(self) -> Array:
        """``1{q_{n-j} = pi_{t, n-i}}`` as a matrix ``(n!, n W)``."""
        back = self.task.permutations[:, ::-1]  # (n!, n)
        return (back[:, None, : self.window] == back[0, :, None]).reshape(len(back), -1).astype(float)

    def _queries(self, a: Array) -> Array:
        """Weights ``(K, n, M)`` of the query's tokens, counted from its end, in each head's query, from attention ``(K, W, M)``."""
        reach = min(self.window, self.task.order - 1)
        found = np.zeros((self.n_heads, self.task.order, *a.shape[2:]))
        found[0, 0] = 1.0
        found[1:, 1 : reach + 1] = a[:-1, :reach]
        return found

    def _weights(self, a: Array, beta: Array) -> Array:
        asked = (self.kappa * beta**2)[:, None] * self._queries(a)  # (K, n, M)
        met = np.add.reduce(asked[:, :, None] * a[:, None], 0)  # (n, W, M)
        return _softmax(self.flat_meetings @ met.reshape(-1, *beta.shape[1:]), 0)

    def _pull_back(self, a: Array, beta: Array, by_score: Array) -> Array:
        """Through the keys and through the queries."""
        by_meeting = (self.flat_meetings.T @ by_score).reshape(self.task.order, *a.shape[1:])  # (n, W, M)
        strength = (self.kappa * beta**2)[:, None]
        by_key = np.add.reduce(self._queries(a)[:, :, None] * by_meeting, 1)  # (K, W, M)
        by_query = np.add.reduce(a[:, None] * by_meeting, 2)  # (K, n, M)
        by_attention = strength * by_key
        reach = min(self.window, self.task.order - 1)
        by_attention[:-1, :reach] += strength[1:] * by_query[1:, 1 : reach + 1]
        by_w = a * (by_attention - np.add.reduce(a * by_attention, 1, keepdims=True))
        by_beta = 2 * self.kappa * beta * np.add.reduce(a * by_key, 1)
        return np.concatenate([by_w.reshape(-1, *beta.shape[1:]), by_beta])
