"""Recall in context (recall2025): exact population losses, and the closed forms of the first jump and of the chain of jumps."""

from .chain import chained_times, cross_entropy_speed
from .first_jump import (
    jump_limit,
    late_rate,
    lemma_c2,
    local_coefficient,
    mean_delta,
    ode,
    potential,
    score_weight,
    xi,
)
from .own_queries import OwnQueries
from .population import Population

__all__ = [
    "OwnQueries",
    "Population",
    "chained_times",
    "cross_entropy_speed",
    "jump_limit",
    "late_rate",
    "lemma_c2",
    "local_coefficient",
    "mean_delta",
    "ode",
    "potential",
    "score_weight",
    "xi",
]
