"""Wang et al., "On Understanding Attention-Based In-Context Learning for Categorical Data": the trained runs behind figures 3 to 11."""

from __future__ import annotations

from ..catalogue import Catalogue
from ..study import Study
from .image_kernels import linear_studies
from .images import image_studies
from .studies import studies as synthetic_studies

__all__ = ["results", "studies", "train"]


def studies(profile: str) -> dict[str, Study]:
    """All studies of the document at a profile, by name: synthetic data, then images."""
    return {**synthetic_studies(profile), **image_studies(profile), **linear_studies(profile)}


_catalogue = Catalogue("wang2025", studies)
results, train = _catalogue.results, _catalogue.train
