"""Wang et al., "On Understanding Attention-Based In-Context Learning for Categorical Data": the trained runs behind figures 3 to 11."""

from __future__ import annotations

from ...training.catalogue import Catalogue
from ...training.study import Study
from .measures.precise import in_double
from .runs.image_kernels import linear_studies
from .runs.images import image_studies
from .runs.networks import NetworkStudy
from .runs.studies import studies as synthetic_studies

__all__ = ["results", "studies", "train"]


def studies(profile: str) -> dict[str, Study]:
    """All studies of the document at a profile, by name: synthetic data, then images.

    Those of the small profile are trained in double precision: see :mod:`.precise`.
    """
    every = {**synthetic_studies(profile), **image_studies(profile), **linear_studies(profile)}
    if profile == "paper":
        return every
    return {n: s if isinstance(s, NetworkStudy) else in_double(s) for n, s in every.items()}


_catalogue = Catalogue("wang2025", studies)
results, train = _catalogue.results, _catalogue.train
