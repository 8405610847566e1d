"""A short sticky chain, trained in a fraction of a second, for sliders."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ....models.single_head import SingleHead
from ....random import INIT, generator
from ....tasks.sticky_chain import StickyChain
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
def race(
    ratio: float, stay: float, T: int = 150, steps: int = 300, rate: float = 0.02, seed: int = 42
) -> Race:
    """The EM-like schedule with this ratio of rates against SGD on a chain that stays with this chance."""
    chain = StickyChain("nearer", stay, T)
    sgd = losses(chain, steps, rate, 1.0, seed)
    uniform = losses(chain, steps, rate * ratio, 1.0, seed)
    schedule = losses(chain, steps, rate, ratio, seed)
    return Race(schedule, sgd, uniform, chain.bayes_loss(data(chain, seed).train))


@lru_cache(maxsize=256)
def losses(chain: StickyChain, steps: int, rate: float, ratio: float, seed: int) -> np.ndarray:
    """Loss ``(steps,)`` before each step at this rate, that of values ``ratio`` times as large."""
    own, model = data(chain, seed), SingleHead(d_x=chain.d, n_classes=chain.n)
    model.initialise(generator(seed, INIT), INIT_SCALE)
    weights = [getattr(model, name).detach() for name in MATRICES]
    rates = [rate * (ratio if name == "W_V" else 1.0) for name in MATRICES]
    found = []
    for _ in range(steps):
        got = step(own.train.x, own.target, *weights)
        found.append(float(got.loss))
        weights = [w - r * getattr(got, n) for w, r, n in zip(weights, rates, MATRICES, strict=True)]
    return np.array(found)
