"""Figures of the crossing."""

from .across import ACROSS, LAWS, law_on
from .cells import matrix
from .in_page import waiting_time
from .laws import areas, kernels, leads, path, signed_pairs, waits
from .rates import rates
from .rungs import rungs

__all__ = [
    "ACROSS",
    "LAWS",
    "areas",
    "kernels",
    "law_on",
    "leads",
    "matrix",
    "path",
    "rates",
    "rungs",
    "signed_pairs",
    "waiting_time",
    "waits",
]
