"""Data generators: each task is a pure function from standard normals to a batch, so the trainer alone owns randomness."""

from .linear_regression import Batch, LinearRegression
from .multitask import MultiTaskRegression

__all__ = ["Batch", "LinearRegression", "MultiTaskRegression"]
