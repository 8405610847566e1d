"""Figures of the crossing."""

from .cells import matrix
from .laws import areas, kernels, leads, path, signed_pairs, waits

__all__ = ["areas", "kernels", "leads", "matrix", "path", "signed_pairs", "waits"]
