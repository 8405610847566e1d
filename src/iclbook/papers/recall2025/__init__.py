"""Incremental learning in associative recall (recall2025): trainings of the whole model, and flows that take long."""

from ...training import Catalogue, Computation, Study
from . import end_to_end, simplifications, stages


def studies(profile: str) -> dict[str, Study | Computation]:
    """Studies at a profile, by name."""
    computed = (stages.PLATEAUS, stages.census_computation(profile), simplifications.LIFTED)
    return end_to_end.studies(profile) | {each.name: each for each in computed}


_catalogue = Catalogue("recall2025", studies)
results, train = _catalogue.results, _catalogue.train
