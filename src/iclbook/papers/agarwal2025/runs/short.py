"""A short sticky chain, trained in a fraction of a second, for sliders."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ....random import INIT, generator
from ....tasks.sticky_chain import StickyChain
from ..measures.cases import random_weights
from ..theory.causal import step
from .full_batch import INIT_SCALE, MATRICES, data


@dataclass(frozen=True)
class Race:
    """Loss in nats at every step of the schedule, of SGD at the base rate and of the schedule's value rate for everything; and the Bayes floor."""

    schedule: np.ndarray
    sgd: np.ndarray
    uniform: np.ndarray
    floor: float


@lru_cache(maxsize=64)
def losses(
    chain: StickyChain,
    seed: int,
    steps: int,
    rates: tuple[float, float, float, float],
    scale: float = INIT_SCALE,
) -> np.ndarray:
    """Loss ``(steps,)`` along gradient descent with these rates for W_Q, W_K, W_V and W_O."""
    own = data(chain, seed)
    drawn = random_weights(generator(seed, INIT), chain.d, 10, 15, chain.n, scale)[:4]
    weights, found = [p.float() for p in drawn], []
    for _ in range(steps):
        got = step(own.train.x, own.target, *weights)
        found.append(float(got.loss))
        weights = [p - r * getattr(got, n) for p, r, n in zip(weights, rates, MATRICES, strict=True)]
    return np.array(found)


def race(
    ratio: float, stay: float, T: int = 150, steps: int = 300, rate: float = 0.02, seed: int = 42
) -> Race:
    """The EM-like schedule with this ratio of rates against SGD on a chain that stays with this chance."""
    chain = StickyChain("nearer", stay, T)
    value = rate * ratio
    found = [
        losses(chain, seed, steps, rates) for rates in ((rate, rate, value, rate), (rate,) * 4, (value,) * 4)
    ]
    return Race(*found, chain.bayes_loss(data(chain, seed).train))
