"""Nagy, "When In-Context Learning Implements Gradient Descent": the runs behind the controlled experiments of section 9."""

from __future__ import annotations

from ...training.catalogue import Catalogue
from .runs.studies import studies

__all__ = ["results", "studies", "train"]

_catalogue = Catalogue("nagy2026", studies)
results, train = _catalogue.results, _catalogue.train
