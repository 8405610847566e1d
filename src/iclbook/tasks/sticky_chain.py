"""The tasks of agarwal2025, section 7: a handful of random labels (7.1), and a Markov chain that likes to stay, seen through noise (7.2)."""

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import random

#: How the chances of leaving a symbol depend on the distance, see :attr:`StickyChain.leaving`.
LEAVING = ("code", "nearer", "farther", "modulo")


class Sequence(NamedTuple):
    """One sequence: inputs ``x`` ``(T - 1, d)``, targets ``y`` ``(T - 1,)`` and the symbols' mean embeddings ``means`` ``(n, d)``.

    ``x[t]`` shows the symbol before ``y[t]``: the first symbol is never a target.
    """

    x: Tensor
    y: Tensor
    means: Tensor


@lru_cache(maxsize=4)
def _edges(chain: "StickyChain", device: torch.device) -> Tensor:
    """:attr:`StickyChain.edges`, kept on their device."""
    return torch.from_numpy(chain.edges).to(device)


@dataclass(frozen=True)
class StickyChain:
    """Symbols on a circle; the next one is the same with a fixed chance, else another by its distance.

    Args:
        leaving: which other symbol follows.
            ``nearer``: weight 1 / circular distance, the text's "the nearby symbol gets higher probability";
            ``farther``: weight = circular distance, its "probability proportional to the distance";
            ``modulo``: weight 1 / distance on a circle of ``n - 1``, its "modulo distance of 7" (symbols at distance 0 count as neighbours);
            ``code``: as ``nearer``, but normalised together with the self weight and the self chance added once more, which is what the
            published program does: the chain then stays more often than ``stay`` says.
        stay: self-transition probability P(y_{t+1} = y_t).
        T: symbols of a sequence; there are ``T - 1`` predictions.
        n, d: symbols, and dimensions of an input.
        noise: standard deviation of each input coordinate around its symbol's mean.
    """

    leaving: str = "code"
    stay: float = 0.3
    T: int = 2000
    n: int = 8
    d: int = 20
    noise: float = 1.0

    # -- the chain ----------------------------------------------------------------------------------------------------

    def _weights(self) -> list[list[Fraction]]:
        """Weights ``(n, n)`` of the symbols that may follow, exact and symmetric."""

        def weight(i: int, j: int) -> Fraction:
            if i == j:
                return Fraction(self.stay) if self.leaving == "code" else Fraction(0)
            circle = self.n - 1 if self.leaving == "modulo" else self.n
            distance = max(min(abs(i - j), circle - abs(i - j)), 1)
            return Fraction(distance) if self.leaving == "farther" else Fraction(1, distance)

        return [[weight(i, j) for j in range(self.n)] for i in range(self.n)]

    def _chances(self) -> list[list[Fraction]]:
        """``P(next | current)``, exact; the last row is of the first symbol, the long-run frequencies: those of a chain with symmetric weights are
        proportional to the sums of its rows."""
        weights, stay = self._weights(), Fraction(self.stay)
        sums = [sum(row) for row in weights]
        rows = [
            [(1 - stay) * w / total + (stay if i == j else 0) for j, w in enumerate(row)]
            for i, (row, total) in enumerate(zip(weights, sums, strict=True))
        ]
        return [*rows, [total / sum(sums) for total in sums]]

    @property
    def transition(self) -> np.ndarray:
        """``P(next | current)``, ``(n, n)``, rows sum to 1."""
        return np.array(self._chances()[:-1], dtype=float)

    @property
    def stationary(self) -> np.ndarray:
        """Long-run frequencies ``(n,)``."""
        return np.array(self._chances()[-1], dtype=float)

    @property
    def edges(self) -> np.ndarray:
        """Random words from which on the next symbol follows: ``(n + 1, n - 1)`` whole numbers, the last row for the first symbol."""
        return np.array([[round(2**32 * c) for c in accumulate(row[:-1])] for row in self._chances()])

    @property
    def entropy_rate(self) -> float:
        """Nats a symbol, when the state is seen."""
        p = self.transition
        logs = np.log(p, out=np.zeros_like(p), where=p > 0)
        return float(-(self.stationary[:, None] * p * logs).sum())

    # -- sequences ----------------------------------------------------------------------------------------------------

    @property
    def normals(self) -> int:
        """Standard normals of a sequence: means, then noise."""
        return self.n * self.d + (self.T - 1) * self.d

    @property
    def words(self) -> int:
        """Random words of a sequence: one for each symbol."""
        return self.T

    def sequence(self, normals: Tensor, words: Tensor, means: Tensor | None = None) -> Sequence:
        """A sequence from standard normals ``(self.normals,)`` and words ``(self.words,)``; pure. With ``means`` given, those drawn are ignored."""
        own, noise = normals[: self.n * self.d], normals[self.n * self.d :]
        means = own.reshape(self.n, self.d) if means is None else means
        y = self._symbols(words)
        x = means[y[:-1]] + self.noise * noise.reshape(self.T - 1, self.d)
        return Sequence(x, y[1:], means)

    def _symbols(self, words: Tensor) -> Tensor:
        """Symbols ``(T,)``, each the number of edges of the one before that its word has reached."""
        if words.device.type != "cpu":
            return self._walk(words)
        edges, states, state = self.edges.tolist(), [], self.n  # before the first symbol
        for word in words.tolist():
            state = bisect_right(edges[state], word)
            states.append(state)
        return torch.tensor(states)

    def _walk(self, words: Tensor) -> Tensor:
        """Walk on a GPU, with nothing read back: slow on a CPU."""
        edges, y = _edges(self, words.device), [words.new_full((1,), self.n)]
        for word in words.split(1):
            y.append((edges.index_select(0, y[-1]) <= word).sum(1))
        return torch.cat(y[1:])

    # -- the best possible prediction ---------------------------------------------------------------------------------

    def bayes_predictive(self, seq: Sequence) -> np.ndarray:
        """``p(y_t | x_1 .. x_t)`` ``(T - 1, n)`` by forward filtering with Gaussian emissions; chain and means are known to the filter."""
        x, means = seq.x.double().cpu().numpy(), seq.means.double().cpu().numpy()
        distances = ((x[:, None] - means) ** 2).sum(-1)  # (T - 1, n)
        if self.noise == 0:
            likelihood = (distances == distances.min(1, keepdims=True)).astype(float)
        else:
            likelihood = np.exp(-(distances - distances.min(1, keepdims=True)) / (2 * self.noise**2))
        p, prior = self.transition, self.stationary
        predictive = np.empty_like(likelihood)
        for t, seen in enumerate(likelihood):
            posterior = prior * seen
            prior = (posterior / posterior.sum()) @ p
            predictive[t] = prior
        return predictive

    def bayes_loss(self, seq: Sequence) -> float:
        """Mean negative log-likelihood, in nats, of the best prediction from the inputs so far."""
        predictive = self.bayes_predictive(seq)
        return float(-np.log(predictive[np.arange(len(predictive)), seq.y.cpu().numpy()]).mean())


@dataclass(frozen=True)
class RandomTargets:
    """``x_j ~ N(0, I)`` in d dimensions and ``y_i`` uniform over n classes, independent of everything, at T positions."""

    T: int = 5
    d: int = 3
    n: int = 3

    @property
    def normals(self) -> int:
        """Standard normals of one data set."""
        return self.T * self.d

    @property
    def words(self) -> int:
        """Random words of one data set."""
        return self.T

    def dataset(self, normals: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs ``(..., T, d)`` and targets ``(..., T)`` from standard normals ``(..., self.normals)`` and words ``(..., self.words)``; pure."""
        return normals.unflatten(-1, (self.T, self.d)), random.below(self.n, words)
