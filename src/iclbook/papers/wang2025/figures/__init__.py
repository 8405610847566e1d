"""Figures of the chapter on wang2025; each function draws one."""

from . import images, language
from .architecture import architecture, matrices
from .erasure import drift, erasure
from .frames import show_blocks, show_heads, show_kernels
from .in_page import label_square
from .square import accuracy_courses, learned_matrices, probability_maps, products
from .sweeps import bounds, courses, fits, sweep, two_blocks
from .theorem import gradients

__all__ = [
    "accuracy_courses",
    "architecture",
    "bounds",
    "courses",
    "drift",
    "erasure",
    "fits",
    "gradients",
    "images",
    "label_square",
    "language",
    "learned_matrices",
    "matrices",
    "probability_maps",
    "products",
    "show_blocks",
    "show_heads",
    "show_kernels",
    "sweep",
    "two_blocks",
]
