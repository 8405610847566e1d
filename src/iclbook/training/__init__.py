"""Many independent runs at once: stacked parameters, one data stream per seed, one optimiser step for all."""

from .data import FixedSet, FullBatch
from .flow import Flow, gradient_flow
from .groups import Adam, Group, Run, Sgd
from .history import History
from .trainer import Trainer

__all__ = ["Adam", "FixedSet", "Flow", "FullBatch", "Group", "History", "Run", "Sgd", "Trainer", "gradient_flow"]
