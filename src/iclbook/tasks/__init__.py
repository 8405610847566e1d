"""Data generators: each task is a pure function from standard normals and random words to a batch, so the trainer alone owns randomness."""

from .associative_recall import AssociativeRecall
from .batch import Batch
from .linear_regression import LinearRegression, MultiTaskRegression
