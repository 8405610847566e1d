"""Recall in context (recall2025): exact population losses, and the closed forms of the first jump."""

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
from .population import Population

__all__ = [
    "Population",
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
