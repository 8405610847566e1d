"""Incremental learning in associative recall: the trainings of the whole model, and the flows that take long; all else is computed when the chapter runs."""

from __future__ import annotations

from ...training.catalogue import Catalogue
from ...training.computation import Computation
from ...training.study import Study
from .runs import free_model
from .runs.census import census_computations
from .runs.lifted import lifted_computations
from .runs.plateaus import plateau_computations

__all__ = ["results", "studies", "train"]


def studies(profile: str) -> dict[str, Study | Computation]:
    """All studies at a profile, by name."""
    computed = {**plateau_computations(), **census_computations(profile), **lifted_computations()}
    return {**free_model.studies(profile), **computed}


_catalogue = Catalogue("recall2025", studies)
results, train = _catalogue.results, _catalogue.train
