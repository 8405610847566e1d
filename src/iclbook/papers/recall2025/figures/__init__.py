"""Figures of the chapter on recall2025; each function draws one and shows what its caption in the chapter says."""

from .first_jump import conservation, first_jump, time_scales
from .frames import show_gamma, show_orders, show_scale
from .in_page import race
from .order import census, later
from .relaxed import free, lifted, own_queries, without_a3
from .task import construction, illustration
from .training import losses, training

__all__ = [
    "census",
    "conservation",
    "construction",
    "first_jump",
    "free",
    "illustration",
    "later",
    "lifted",
    "losses",
    "own_queries",
    "race",
    "show_gamma",
    "show_orders",
    "show_scale",
    "time_scales",
    "training",
    "without_a3",
]
