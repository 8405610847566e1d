"""Five Papers Examine Each Other."""

from __future__ import annotations

from ...training.catalogue import Catalogue
from ...training.study import Study
from .runs.language import position_studies
from .runs.pairs import pair_studies
from .runs.rates import rate_studies

__all__ = ["results", "studies", "train"]


def studies(profile: str) -> dict[str, Study]:
    """All studies of the crossing at a profile, by name."""
    return {**pair_studies(profile), **position_studies(profile), **rate_studies(profile)}


_catalogue = Catalogue("crossing", studies)
results, train = _catalogue.results, _catalogue.train
