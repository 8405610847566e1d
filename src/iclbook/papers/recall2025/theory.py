"""Exact population loss and gradient of the simplified model (recall2025, equations 2 and 9), with A2 kept and lifted; closed forms of its jumps.

The scores do not depend on the map f, and relabelling the symbols turns any query into any other. One query and the ``order!`` permutations of the
context are therefore enough. The mean over f is closed for the dot-product loss, and one integral for cross-entropy. Parameters are vectors
``theta = (w^1, ..., w^K, beta)``. Leading axes are an ensemble; internally its members are the last axis.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...tasks.associative_recall import AssociativeRecall

Array = np.ndarray

#: The trapezoidal rule for ``E log X = int (e^-u - E e^-uX) du/u`` in x, with ``log u = x - e^-x``: below x = 0 u falls so fast that a few points reach
#: down to where it is under rounding, x = -3.6. The rule's error falls like ``e^(-pi^2 / spacing)``.
_SPACING = 0.25
_X = np.arange(-3.6, 45.0, _SPACING)
_LOG_U, _WEIGHT = _X - np.exp(-_X), _SPACING * (1 + np.exp(-_X))
_U = np.exp(_LOG_U)


@dataclass(frozen=True)
class Population:
    """The simplified model (A0 to A3) on the whole distribution of a task of order n: K heads of the first layer, head h for offset h, and a window of W offsets.

    Args:
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
        assert self.matrix in ("printed", "lemma"), f"unknown matrix {self.matrix!r}: choose 'printed' or 'lemma'"
        assert self.loss in ("dp", "ce"), f"unknown loss {self.loss!r}: choose 'dp' or 'ce'"

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
        return _softmax(self.split(theta)[0], -1)

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
        """Gradient and dot-product loss of a batch, linear in the ``share (..., n!)`` of its sequences with the right response at t; the right one's own is 1."""
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
    """The simplified model with A2 lifted: head 1 asks with the last token, head h with what head h - 1 attends to from there, one offset further back."""

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


# -- closed forms of the jumps: Theorem 3.1, lemma C.3, equations 3 and 4, appendix A.6, as printed and as they hold -------------
#
# ``k`` is the order of the task and the window; ``kappa = 1 + gamma``. In the first jump one head has ``w = alpha e_1 + delta 1`` and strength beta.
#
# All jumps, in the limit of small beta: on plateau m, with ``n = k - m`` offsets left, every waiting head sits near the origin, where
# ``w' = -kappa beta^2 D / k`` and ``beta' = -2 kappa beta (w . D) / k``. The vector D is constant: ``-E`` at the head's own offset, ``E / (n - 1)`` at the
# other offsets that are left, 0 at those that are learned, and ``E`` is the size of ``E Delta_{h,h}`` among ``n!`` orderings that cannot be told apart.
# With y the part of w along ``-D``, ``beta^2 - 2 y^2 = C`` is conserved and ``y' = kappa |D| (2 y^2 + C) / k``: y is a tangent of time.


def score_weight(alpha: Array, beta: Array, k: int, kappa: float = 1.0) -> Array:
    """``gamma_1 = kappa beta^2 (e^alpha - 1) / (e^alpha + k - 1)`` (equation 13): what a match at the head's offset adds to a score."""
    return kappa * beta**2 * np.expm1(alpha) / (np.expm1(alpha) + k)


def mean_delta(gamma_1: Array, k: int, n_responses: int) -> tuple[Array, Array]:
    """``E Delta_{1,1}`` and ``E Delta_{1,i}`` for i other than 1 (lemma C.3)."""
    e = np.exp(-np.abs(gamma_1))
    square = np.where(gamma_1 >= 0, e / (1 + (k - 1) * e) ** 2, e / (e + k - 1) ** 2)  # e^g / (e^g + k - 1)^2
    other = square * (n_responses - 1) / (math.factorial(k - 1) * n_responses)
    return -(k - 1) * other, other


def xi(gamma_1: Array, k: int, n_responses: int, kappa: float = 1.0, printed: bool = True) -> Array:
    """``Xi`` of equation 4, ``-2 kappa E Delta_{1,1}``; the ODE needs half of it (``printed=False``)."""
    return -(2 if printed else 1) * kappa * mean_delta(gamma_1, k, n_responses)[0]


def ode(state: Array, k: int, n_responses: int, kappa: float = 1.0, printed: bool = True) -> Array:
    """Time derivatives of ``(alpha, beta)``, ``(..., 2)`` (Theorem 3.1 c)."""
    alpha, beta = state[..., 0], state[..., 1]
    clock = xi(score_weight(alpha, beta, k, kappa), k, n_responses, kappa, printed)
    total = np.expm1(alpha) + k
    d_alpha = beta**2 * np.exp(alpha) / total**2 * k**2 / (k - 1) * clock
    return np.stack([d_alpha, 2 * beta * np.expm1(alpha) / total * clock], -1)


def potential(alpha: Array, k: int, sign: int) -> Array:
    """``f(alpha)`` of Theorem 3.1 d; ``sign`` of its second term: -1 in the statement, +1 in the proof."""
    first = 2 * (k - 1) / k**2 * (np.sinh(alpha) - alpha)
    return first + sign * (k - 1) / k * (np.exp(-alpha) + alpha - 1)


def local_coefficient(k: int) -> float:
    """``c`` in ``beta^2 = c s^2 + eps^2`` near the start, from expanding the conserved quantity: ``2 (k - 1) / k`` (printed: 4)."""
    return 2 * (k - 1) / k


def jump_limit(k: int, n_responses: int, kappa: float = 1.0) -> float:
    """Limit of ``eps T`` for the first jump as eps -> 0: ``pi / (2 E) sqrt(k (k - 1) / 2)`` with ``E = -kappa E Delta_{1,1}`` at the start."""
    e0 = float(xi(np.zeros(()), k, n_responses, kappa, printed=False))
    return math.pi / (2 * e0) * math.sqrt(k * (k - 1) / 2)


def late_rate(k: int, kappa: float = 1.0) -> float:
    """``lambda`` in the late law ``ds/dT = b s e^{-lambda s}``, ``s = e^alpha - 1``: ``4 kappa (k - 1) / k^2`` (equation 3 prints 1)."""
    return 4 * kappa * (k - 1) / k**2


def cross_entropy_speed(orderings: int, n_responses: int) -> float:
    """``(R (1 - (1 - 1/R)^N) - 1) / ((1 - 1/R)(1 - 1/N))``: ``E Delta_{h,h}`` under cross-entropy over that under the dot product, at even attention on N orderings."""
    chance = 1 / n_responses
    inverse = n_responses * (1 - (1 - chance) ** orderings)
    return (inverse - 1) / ((1 - chance) * (1 - 1 / orderings))


def pull(left: int, n_responses: int, loss: str = "dp") -> float:
    """``E``, the size of ``E Delta_{h,h}`` at even attention with ``left`` offsets not yet learned (lemma C.3 at ``gamma_1 = 0`` for that order)."""
    dot = (n_responses - 1) / (n_responses * left**2 * math.factorial(left - 2))
    return dot * (cross_entropy_speed(math.factorial(left), n_responses) if loss == "ce" else 1.0)


def chained_times(
    betas: tuple[float, ...], order: int, n_responses: int, loss: str = "dp", kappa: float = 1.0, carried: bool = True
) -> Array:
    """Times ``(K,)`` of the jumps from ``w = 0`` and falling, small beta; heads are ``carried`` on from where the jumps before have left them, or begin each jump afresh."""
    w, square = np.zeros((len(betas), order)), np.square(betas)  # of the heads that wait: (K - m, k), (K - m,)
    waits: list[float] = []
    for m in range(len(betas)):
        left = order - m
        towards = np.zeros_like(w)  # -D / |D|
        towards[:, m:] = np.where(np.eye(*towards[:, m:].shape, dtype=bool), 1.0, -1 / (left - 1))
        size = np.linalg.norm(towards[0])
        towards /= size
        y = (w * towards).sum(1)
        kept = square - 2 * y**2
        speed = np.sqrt(2 * kept) * kappa * pull(left, n_responses, loss) * size / order
        phase = np.arctan(y * np.sqrt(2 / kept))
        waits.append((math.pi / 2 - phase[0]) / speed[0])
        if carried:
            later = np.sqrt(kept / 2) * np.tan(phase + speed * waits[m])
            w = w + (later - y)[:, None] * towards
            square = kept + 2 * later**2
        w, square = w[1:], square[1:]
    return np.cumsum(waits)
