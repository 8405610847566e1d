"""Figures of the crossing."""

from .cells import matrix
from .in_page import waiting_time
from .laws import areas, kernels, leads, path, signed_pairs, waits

__all__ = ["areas", "kernels", "leads", "matrix", "path", "signed_pairs", "waiting_time", "waits"]
