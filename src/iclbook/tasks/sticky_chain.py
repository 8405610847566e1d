"""A Markov chain that likes to stay, seen through noise (agarwal2025, section 7.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import UserError
from .fields import check_fields

#: How the chances of leaving a symbol depend on the distance, see :attr:`StickyChain.leaving`.
LEAVING = ("code", "nearer", "farther", "modulo")


class Sequence(NamedTuple):
    """One sequence: inputs ``x`` ``(T - 1, d)``, targets ``y`` ``(T - 1,)`` and the symbols' mean embeddings ``means`` ``(n, d)``.

    ``x[t]`` shows the symbol before ``y[t]``: the first symbol is never a target.
    """

    x: Tensor
    y: Tensor
    means: Tensor


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

    Raises:
        UserError: sizes or chances that define no chain.
    """

    leaving: str = "code"
    stay: float = 0.3
    T: int = 2000
    n: int = 8
    d: int = 20
    noise: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.leaving not in LEAVING:
            raise UserError(
                f"unknown rule of leaving {self.leaving!r}", f"Choose one of: {', '.join(LEAVING)}."
            )
        if not 0 <= self.stay < 1 or self.T < 2 or self.n < 3 or self.d < 1 or self.noise < 0:
            raise UserError(
                f"stay={self.stay}, T={self.T}, n={self.n}, d={self.d}, noise={self.noise}",
                "Take 0 <= stay < 1, T >= 2, n >= 3, d >= 1 and noise >= 0.",
            )

    # -- the chain ----------------------------------------------------------------------------------------------------

    @property
    def transition(self) -> np.ndarray:
        """``P(next | current)``, ``(n, n)``, rows sum to 1."""
        gap = np.abs(np.arange(self.n)[:, None] - np.arange(self.n))
        circle = self.n - 1 if self.leaving == "modulo" else self.n
        distance = np.minimum(gap, circle - gap)
        distance[(distance <= 0) & (gap > 0)] = 1
        other = gap > 0
        weight = np.zeros((self.n, self.n))
        weight[other] = distance[other] if self.leaving == "farther" else 1 / distance[other]
        if self.leaving == "code":
            np.fill_diagonal(weight, self.stay)
        moves = (1 - self.stay) * weight / weight.sum(1, keepdims=True)
        return moves + self.stay * np.eye(self.n)

    @property
    def stationary(self) -> np.ndarray:
        """Long-run frequencies ``(n,)``."""
        p = self.transition
        system = np.vstack([p.T - np.eye(self.n), np.ones(self.n)])
        return np.linalg.lstsq(system, np.append(np.zeros(self.n), 1.0), rcond=None)[0]

    @property
    def entropy_rate(self) -> float:
        """Nats a symbol, when the state is seen."""
        p = self.transition
        logs = np.log(p, out=np.zeros_like(p), where=p > 0)
        return float(-(self.stationary[:, None] * p * logs).sum())

    # -- sequences ----------------------------------------------------------------------------------------------------

    @property
    def normals(self) -> int:
        """Standard normals of a sequence: one for each symbol's choice, then means, then noise."""
        return self.T + self.n * self.d + (self.T - 1) * self.d

    def sequence(self, normals: Tensor, means: Tensor | None = None) -> Sequence:
        """A sequence from standard normals ``(self.normals,)``; pure. With ``means`` given, those drawn are ignored."""
        choose, rest = normals[: self.T], normals[self.T :]
        own, noise = rest[: self.n * self.d], rest[self.n * self.d :]
        means = own.reshape(self.n, self.d) if means is None else means
        uniform = ((1 + torch.erf(choose.double() / math.sqrt(2))) / 2).cpu().numpy()
        steps = self.transition.cumsum(1)
        states = np.empty(self.T, dtype=np.int64)
        states[0] = min(int(np.searchsorted(self.stationary.cumsum(), uniform[0])), self.n - 1)
        for t in range(1, self.T):
            states[t] = min(int(np.searchsorted(steps[states[t - 1]], uniform[t])), self.n - 1)
        y = torch.from_numpy(states).to(normals.device)
        x = means[y[:-1]] + self.noise * noise.reshape(self.T - 1, self.d)
        return Sequence(x, y[1:], means)

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
