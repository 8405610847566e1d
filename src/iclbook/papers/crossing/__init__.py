"""Five Papers Examine Each Other."""

from ...training import Catalogue, Computation, Study
from . import chance, escape, heads_as_steps, rates, waits
from .models import FIRST


def studies(profile: str) -> dict[str, Study | Computation]:
    """Studies of the crossing at a profile, by name."""
    trained = heads_as_steps.pair_studies(profile) | rates.rate_studies(profile)
    # name -> what computes it, groups, draws at the paper profile, how far two machines may lie apart; in some a model may rest
    rows = {
        "waits": (waits.departures, tuple(waits.SIZES), 4, 10 * waits.ACCURACY),
        "leads": (waits.leads, tuple(waits.LEAD_SIZES), 400, 100 * waits.ACCURACY),  # small differences of two times
        "second_jump": (waits.second_plateaus, ("trained",), 24, 100 * waits.ACCURACY),
        "sgd_waits": (chance.sgd_waits, (chance.SGD_GROUPS[profile],), 8, 0.05),  # rounding grows with the noise
        "noisy_waits": (chance.noisy_waits, tuple(chance.NOISY)[: None if profile == "paper" else 2], 8, 0.05),
        "chance_waits": (chance.chance_waits, tuple(map(str, chance.COUNTS[profile])), 4, 100 * waits.ACCURACY),
        "escapes": (escape.escapes, escape.ESCAPED[profile], 4, 100 * waits.ACCURACY),
        "residual_waits": (escape.residual_escapes, tuple(escape.RESIDUAL), 4, 100 * waits.ACCURACY),
        "standard_starts": (escape.standard_starts, (profile,), 3, 0.02),
        "adam_waits": (escape.adam_waits, escape.ADAM[: None if profile == "paper" else 2], 4, 100 * waits.ACCURACY),
        "thresholds": (escape.thresholds, escape.DECAYED, 4, 100 * waits.ACCURACY),
    }
    for name, (compute, groups, draws, within) in rows.items():
        count = draws if profile == "paper" else 2
        resting = groups if name in ("leads", "second_jump", "sgd_waits", "noisy_waits") else ()
        trained[name] = Computation("crossing", name, compute, groups, FIRST, count, within, resting)
    return trained


_catalogue = Catalogue("crossing", studies)
results, train = _catalogue.results, _catalogue.train
