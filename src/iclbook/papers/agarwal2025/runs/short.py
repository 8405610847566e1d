"""A short sticky chain, trained in a fraction of a second, for sliders."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ....models.single_head import SingleHead
from ....tasks.sticky_chain import StickyChain
from ....training import FullBatch, Group, Run, Sgd, Trainer
from .full_batch import INIT_SCALE, OwnSequences, closed_gradient, data, mean_cross_entropy


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
    runs = (
        Run(seed, rate, INIT_SCALE, factors=(("W_V", ratio),)),
        Run(seed, rate, INIT_SCALE),
        Run(seed, rate * ratio, INIT_SCALE),
    )
    sizes = {"d_x": chain.d, "n_classes": chain.n}
    group = Group(
        "race", SingleHead, sizes, runs, Sgd(), mean_cross_entropy, gradient=closed_gradient, may_diverge=True
    )
    trainer = Trainer(FullBatch(OwnSequences(chain)), [group], steps, 1, range(steps), "cpu", compile=False)
    loss = trainer.train(progress=False)["race"].loss[1:]  # before each step
    return Race(*loss.T, chain.bayes_loss(data(chain, seed).train))
