"""Nagy, "When In-Context Learning Implements Gradient Descent": the controlled experiments of section 9, and the ladder that stands in for pretrained models."""

from ...training import Catalogue, Study
from .ladder_study import ladder_studies
from .studies import studies as controlled


def studies(profile: str) -> dict[str, Study]:
    """The controlled experiments (section 9), and the ladder (sections 8 and 9.3)."""
    return controlled(profile) | {study.name: study for study in ladder_studies(profile)}


_catalogue = Catalogue("nagy2026", studies)
results, train = _catalogue.results, _catalogue.train
