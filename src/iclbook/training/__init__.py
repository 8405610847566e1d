"""Many independent runs at once: stacked parameters, one data stream per seed, one optimiser step for all."""

from .devices import pick_device
from .flow import Flow, gradient_flow
from .groups import Group, Run
from .optimisers import Adam, Momentum, Sgd
from .trainer import History, Trainer, log_and_linear_steps

__all__ = [
    "Adam",
    "Flow",
    "Group",
    "History",
    "Momentum",
    "Run",
    "Sgd",
    "Trainer",
    "gradient_flow",
    "log_and_linear_steps",
    "pick_device",
]
