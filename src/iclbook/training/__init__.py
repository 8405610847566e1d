"""Many independent runs at once: stacked parameters, one data stream per seed, one optimiser step for all."""

from .data import FixedSet, FullBatch, Stream
from .ensemble import pick_device
from .flow import Flow, first_crossings, gradient_flow
from .groups import Adam, Group, Momentum, Run, Sgd
from .history import History, log_and_linear_steps
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
