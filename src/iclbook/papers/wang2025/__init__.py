"""Wang et al., "On Understanding Attention-Based In-Context Learning for Categorical Data": the trained runs behind figures 3 to 11."""

import dataclasses

from ...training import Catalogue, Study
from .images import image_studies
from .studies import synthetic_studies


def studies(profile: str) -> dict[str, Study]:
    """Studies of the paper at a profile, by name: synthetic data, images.

    Those of the small profile are trained in double precision. Trained TF starts from entries of 0.002, where gradients are products of three of them: about as
    large as single precision's rounding errors and as the constant by which Adam guards its division. After a few dozen such steps no two processors agree on
    an accuracy. Long trainings forget it; those of the small profile end before.
    """
    every = {**synthetic_studies(profile), **image_studies(profile)}
    if profile == "paper":
        return every
    return {n: dataclasses.replace(s, dtype="float64") for n, s in every.items()}


_catalogue = Catalogue("wang2025", studies)
results, train = _catalogue.results, _catalogue.train
