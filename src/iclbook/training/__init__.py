"""Many independent runs at once: stacked parameters, one data stream per seed, one optimiser step for all."""

from .backends import pick_device
from .data import FixedSet, FullBatch, Stream
from .flow import Flow, first_crossings, gradient_flow
from .groups import Group, Run
from .history import History, log_and_linear_steps
from .optimisers import Adam, Momentum, Sgd
from .trainer import Trainer

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
    "first_crossings",
    "gradient_flow",
    "log_and_linear_steps",
    "pick_device",
]
