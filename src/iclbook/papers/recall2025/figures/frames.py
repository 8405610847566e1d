"""The chapter's sliders over exact flows: initial scale, gamma, and the order of beta."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ....sliders import Slider, show
from ....tasks import AssociativeRecall
from ....training import gradient_flow
from .. import theory
from ..measures import first_jump as measure
from ..measures.stages import small
from ..theory import Population
from .first_jump import slider_gamma, slider_scale
from .training import slider_frame

#: Initial orders of the three beta: the rank of each.
ORDERS = {
    "β₁ > β₂ > β₃": (0, 1, 2),
    "β₁ > β₃ > β₂": (0, 2, 1),
    "β₂ > β₁ > β₃": (1, 0, 2),
    "β₂ > β₃ > β₁": (2, 0, 1),
    "β₃ > β₁ > β₂": (1, 2, 0),
    "β₃ > β₂ > β₁": (2, 1, 0),
}


def show_scale(few: bool) -> None:
    """The first jump in time scaled by epsilon, for each order; the small profile draws two places of each slider."""
    epsilons = (0.1, 0.001) if few else (0.5, 0.1, 0.02, 0.001)
    orders = measure.ORDERS[:2] if few else measure.ORDERS

    def frame(order: int, eps: float) -> Figure:
        pop, flow = measure.run(order, eps, periods=2.0)
        return slider_scale(pop, flow, theory.jump_limit(order, measure.R), eps)

    show(
        frame,
        [
            Slider("order", "task order k", orders),
            Slider("eps", "initial scale ε", epsilons, live=(0.001, 0.5, 0.1), log=True),
        ],
        title="The first jump in time scaled by ε",
        description="The smaller ε, the sharper the jump and the closer to its limit.",
        alt=lambda order, eps: (
            f"Loss and score weight against scaled time at order {order} and initial scale {eps}."
        ),
    )


def show_gamma(few: bool) -> None:
    """The loss along the first jump against gamma, with the matrix as printed and with the lemma's."""
    until = 2 * theory.jump_limit(3, measure.R) / 0.1

    def frame(gamma: float) -> Figure:
        runs = {}
        for matrix in ("printed", "lemma"):
            pop = Population(AssociativeRecall(3, measure.R), 3, 3, gamma, matrix)
            runs[matrix] = pop, gradient_flow(pop.gradient, measure.start(pop, 0.1), until, rtol=1e-8)
        return slider_gamma(runs, until)

    def alt(gamma: float) -> str:
        when = "at the same time" if gamma == 0 else "earlier"
        return f"At gamma {gamma:g} the loss drops at the time {until / 2:.0f} with the printed matrix and {when} with the lemma's."

    show(
        frame,
        [
            Slider(
                "gamma",
                "γ of the second layer",
                (0.0, 1.0) if few else (0.0, 0.25, 0.5, 1.0, 2.0),
                live=(0.0, 3.0, 0.05),
            )
        ],
        start={"gamma": 1.0},
        title="What γ does: nothing as printed, a faster clock in the lemma",
        alt=alt,
    )


def show_orders(pop: Population, until: float, few: bool) -> None:
    """A flow from every order of three beta, followed until a time; the small profile draws the first and the last order."""
    names = list(ORDERS)[::5] if few else list(ORDERS)
    times = np.linspace(0, until, 201)
    starts = {name: small(pop, tuple(0.02 / 4.0 ** np.array(ORDERS[name]))) for name in names}
    flows = {
        name: gradient_flow(pop.gradient, start, until, times, rtol=1e-8) for name, start in starts.items()
    }

    def frame(order: str, place: float) -> Figure:
        return slider_frame(pop, flows[order], round(place * (len(times) - 1)), order)

    places = (0.3, 0.8) if few else (0.02, 0.3, 0.5, 0.8, 1.0)
    show(
        frame,
        [
            Slider("order", "initial order", tuple(names)),
            Slider("place", "training step (share of the run)", places, live=(0.0, 1.0, 0.01)),
        ],
        title="The initial order of β decides the order of learning",
        alt=lambda order, place: (
            f"Loss and attention of the three heads at {place:.0%} of a run that starts with {order}."
        ),
        play="place",
    )
