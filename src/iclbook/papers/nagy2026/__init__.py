"""Nagy, "When In-Context Learning Implements Gradient Descent": the runs behind the controlled experiments of section 9."""

from __future__ import annotations

from ...training.catalogue import Catalogue
from ...training.study import Study
from .probes.ladder import ladder_studies
from .runs.studies import studies

__all__ = ["results", "studies", "train"]


def _every(profile: str) -> dict[str, Study]:
    """The controlled experiments, and the ladder that stands in for pretrained models (sections 8 and 9.3)."""
    return studies(profile) | {study.name: study for study in ladder_studies(profile)}


_catalogue = Catalogue("nagy2026", _every)
results, train = _catalogue.results, _catalogue.train
