"""Many independent runs at once: stacked parameters, one data stream per seed, one optimiser step for all."""

from .data import FixedSet, FullBatch, Stream
from .devices import pick_device
from .flow import Flow, gradient_flow
from .groups import Group, Run
from .history import History
from .optimisers import Adam, Momentum, Sgd
from .trainer import Trainer, log_and_linear_steps

__all__ = [
    "Adam",
    "FixedSet",
    "Flow",
    "FullBatch",
    "Group",
    "History",
    "Momentum",
    "Run",
    "Sgd",
    "Stream",
    "Trainer",
    "gradient_flow",
    "log_and_linear_steps",
    "pick_device",
]
