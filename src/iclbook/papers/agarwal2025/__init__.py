"""Agarwal, Dalal and Misra, "Gradient Dynamics of Attention": the trainings behind section 7 and the measurements of every section."""

from __future__ import annotations

from ...training.catalogue import Catalogue
from ...training.computation import Computation
from ...training.study import Study
from .runs.studies import studies as trainings
from .runs.toy import toy_computations

__all__ = ["results", "studies", "train"]


def studies(profile: str) -> dict[str, Study | Computation]:
    """All studies of the paper at a profile, by name."""
    return {**trainings(profile), **toy_computations(profile)}


_catalogue = Catalogue("agarwal2025", studies)
results, train = _catalogue.results, _catalogue.train
