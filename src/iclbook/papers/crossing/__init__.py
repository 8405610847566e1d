"""Five Papers Examine Each Other."""

from __future__ import annotations

from ...training.catalogue import Catalogue
from ...training.computation import Computation
from ...training.study import Study
from .runs.language import position_studies
from .runs.leads import lead_computations
from .runs.pairs import pair_studies
from .runs.rates import rate_studies
from .runs.waits import wait_computations

__all__ = ["results", "studies", "train"]


def studies(profile: str) -> dict[str, Study | Computation]:
    """All studies of the crossing at a profile, by name."""
    trained = {**pair_studies(profile), **position_studies(profile), **rate_studies(profile)}
    return {**trained, **wait_computations(profile), **lead_computations(profile)}


_catalogue = Catalogue("crossing", studies)
results, train = _catalogue.results, _catalogue.train
