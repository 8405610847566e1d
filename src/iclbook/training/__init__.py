"""Many independent runs at once: stacked parameters, one data stream per seed, one optimiser step for all."""

from .catalogue import Catalogue
from .computation import Computation
from .data import FixedSet, FullBatch
from .flow import Flow, first_crossings, gradient_flow
from .groups import (
    Adam,
    AdamW,
    Cosine,
    Group,
    Momentum,
    Observation,
    OneCycle,
    Run,
    Sgd,
    cross_entropy,
    next_token,
    squared_error,
)
from .history import History
from .one_run import Trainer, train
from .study import Study
