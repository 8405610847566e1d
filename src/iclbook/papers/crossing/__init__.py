"""Five Papers Examine Each Other."""

from __future__ import annotations

from ...training.catalogue import Catalogue
from ...training.computation import Computation
from ...training.study import Study
from .measures.heads_as_steps import pair_studies
from .measures.rates import rate_studies
from .measures.second_jump import second_jump
from .measures.time_scales import lead_computations
from .measures.waits import sgd_computation, wait_computations

__all__ = ["results", "studies", "train"]


def studies(profile: str) -> dict[str, Study | Computation]:
    """All studies of the crossing at a profile, by name."""
    computed = {**wait_computations(profile), **sgd_computation(profile), **lead_computations(profile)}
    second = second_jump(profile)
    return {**pair_studies(profile), **rate_studies(profile), **computed, second.name: second}


_catalogue = Catalogue("crossing", studies)
results, train = _catalogue.results, _catalogue.train
