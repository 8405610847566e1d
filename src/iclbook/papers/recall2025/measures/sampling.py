"""What the stochastic trainings record, and how sure it is over seeds (recall2025, Figures 1 and 4)."""

from __future__ import annotations

import numpy as np

from ....statistics import share_error
from ..runs.trainings import Setting, Training, choose, matching_settings, sgd, staged_share
from ..theory import Population
from .stages import SNAPSHOTS, Values

MOMENTUM, BATCH = 0.9, 64

#: Keys of a setting's learning rate and its admissible range, its largest beta and their ratio, by the reading of the window.
SETTING_KEYS = {
    "order": ("fig1/rate", "fig1/rate_low", "fig1/rate_high", "fig1/scale", "fig1/ratio"),
    "k": ("fig1/k/rate", "fig1/k/rate_low", "fig1/k/rate_high", "fig1/k/scale", "fig1/k/ratio"),
}
#: Keys of the shares of seeds with the printed stages and with the order of beta, each before its standard error, by figure and reading.
SHARE_KEYS = {
    ("fig1", "order"): (
        "fig1/order/staged",
        "fig1/order/staged_se",
        "fig1/order/ordered",
        "fig1/order/ordered_se",
    ),
    ("fig1", "k"): ("fig1/k/staged", "fig1/k/staged_se", "fig1/k/ordered", "fig1/k/ordered_se"),
    ("fig4", "order"): (
        "fig4/order/staged",
        "fig4/order/staged_se",
        "fig4/order/ordered",
        "fig4/order/ordered_se",
    ),
    ("fig4", "k"): ("fig4/k/staged", "fig4/k/staged_se", "fig4/k/ordered", "fig4/k/ordered_se"),
}


def fitting(settings: dict[str, list[Setting]]) -> dict[str, int]:
    """How many settings were tried, and how many of them fit with each window."""
    return {
        "fig1/tried": len(settings["order"]),
        "fig1/order/settings": sum(s.fits for s in settings["order"]),
        "fig1/k/settings": sum(s.fits for s in settings["k"]),
    }


def setting_values(reading: str, chosen: Setting, momentum: float) -> dict[str, float]:
    """Learning rates and initial beta of the setting that is trained."""
    rates = (r * (1 - momentum) for r in (chosen.effective, chosen.low, chosen.high))
    return dict(zip(SETTING_KEYS[reading], (*rates, chosen.scale, chosen.ratio), strict=True))


def share_values(figure: str, reading: str, shares: dict[str, float], seeds: int) -> dict[str, float]:
    """Shares of independent seeds and their standard errors."""
    staged, staged_se, ordered, ordered_se = SHARE_KEYS[figure, reading]
    return {
        staged: shares["staged"],
        staged_se: share_error(round(shares["staged"] * seeds), seeds),
        ordered: shares["ordered"],
        ordered_se: share_error(round(shares["ordered"] * seeds), seeds),
    }


def trained(readings: dict[str, Population], seeds: int) -> tuple[Values, dict[tuple[str, str], Training]]:
    """SGD at the setting that fits the printed steps best, for each reading of the window, with the order of beta as in Figure 1 and reversed as in Figure 4.

    Returns:
        what is recorded, and the trainings by figure and reading; a reading that no setting fits has none.
    """
    settings = {name: matching_settings(pop) for name, pop in readings.items()}
    values: Values = {"fig1/seeds": seeds, **fitting(settings)}
    runs = {}
    for name, pop in readings.items():
        chosen = choose(settings[name])
        if chosen is None:
            continue
        rate = chosen.effective * (1 - MOMENTUM)
        values |= setting_values(name, chosen, MOMENTUM)
        starts = np.array([chosen.betas(), chosen.betas()[::-1]])
        both = sgd(pop, starts, rate, MOMENTUM, max(SNAPSHOTS) + 500, BATCH, seeds).each()
        for figure, start, run in zip(("fig1", "fig4"), starts, both, strict=True):
            runs[figure, name] = run
            values |= share_values(figure, name, staged_share(pop, run, start), seeds)
    return values, runs
