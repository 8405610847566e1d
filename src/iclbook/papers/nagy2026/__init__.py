"""Nagy, "When In-Context Learning Implements Gradient Descent": the runs behind the controlled experiments of section 9."""

from __future__ import annotations

from collections.abc import Callable

from ...store import Results, folder
from ...training.catalogue import Catalogue
from ...training.study import Study
from .probes.ladder import ladder_studies
from .runs.studies import studies

__all__ = ["ladder", "results", "studies", "train"]


def _every(profile: str) -> dict[str, Study]:
    """The controlled experiments, and the ladder that stands in for pretrained models (sections 8 and 9.3)."""
    return studies(profile) | {study.name: study for study in ladder_studies(profile)}


_catalogue = Catalogue("nagy2026", _every)
results, train = _catalogue.results, _catalogue.train


def ladder(profile: str, device: str = "auto") -> Callable[[str], Results] | None:
    """What gives the results of the ladder's studies by name; None where they are not stored, as before they are trained and at the smoke profile."""
    names = [study.name for study in ladder_studies(profile)]
    if not all((folder("nagy2026", profile) / f"{name}.json").is_file() for name in names):
        return None
    return {name: results(name, profile, device) for name in names}.__getitem__
