"""Figures of the chapter on wang2025; each function draws one."""

from .architecture import architecture, matrices
from .erasure import drift, erasure
from .frames import blocks_frame, heads_frame, kernel_frame
from .in_page import label_square
from .square import accuracy_courses, learned_matrices, probability_maps, products
from .sweeps import bounds, courses, fits, sweep, two_blocks
from .theorem import gradients

__all__ = [
    "accuracy_courses",
    "architecture",
    "blocks_frame",
    "bounds",
    "courses",
    "drift",
    "erasure",
    "fits",
    "gradients",
    "heads_frame",
    "kernel_frame",
    "label_square",
    "learned_matrices",
    "matrices",
    "probability_maps",
    "products",
    "sweep",
    "two_blocks",
]
