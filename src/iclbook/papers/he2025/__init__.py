"""He et al. (2025), "In-Context Linear Regression Demystified": the runs behind every figure."""

from ...training import Catalogue
from .runs import studies

_catalogue = Catalogue("he2025", studies)
results, train = _catalogue.results, _catalogue.train
