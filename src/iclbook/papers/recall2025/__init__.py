"""Incremental learning in associative recall: the trainings of the whole model; all else is computed when the chapter runs."""

from __future__ import annotations

from ...training.catalogue import Catalogue
from .runs.free_model import studies

__all__ = ["results", "studies", "train"]

_catalogue = Catalogue("recall2025", studies)
results, train = _catalogue.results, _catalogue.train
