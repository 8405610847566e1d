"""Five Papers Examine Each Other."""

from __future__ import annotations

from ...training.catalogue import Catalogue
from .runs.pairs import studies

__all__ = ["results", "studies", "train"]

_catalogue = Catalogue("crossing", studies)
results, train = _catalogue.results, _catalogue.train
