"""Agarwal, Dalal and Misra, "Gradient Dynamics of Attention": the trainings behind section 7 and the measurements of every section."""

from ...training import Catalogue
from .runs import studies

_catalogue = Catalogue("agarwal2025", studies)
results, train = _catalogue.results, _catalogue.train
