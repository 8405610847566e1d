"""The race of three heads that runs in the page: the exact flow of the simplified model from any beta."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ....drawing import style
from ....sliders import PageModel
from ....training import gradient_flow
from .. import theory
from ..measures.stages import ACTIVE, activations, patience, small
from ..theory import Population
from .marks import DASHES, HEAD, plateau_lines

#: Where the betas start at first, how far a reader may move one, and the range of the slider that moves all.
BETAS, RANGE, LARGEST = (0.02, 0.005, 0.00125), (1e-4, 0.5), (0.003, 0.3)


def race(pop: Population) -> PageModel:
    """Everything that the flow of the dot-product loss needs: who matches whom in each permutation, the plateaus, and when a head counts as active."""
    task = pop.task
    data = {
        "heads": pop.n_heads,
        "window": pop.window,
        "kappa": pop.kappa,
        "chance": 1 / task.n_responses,
        "match": pop.flat_match.astype(int).ravel(),
        "plateaus": [task.plateau_dp(m) for m in range(pop.n_heads + 1)],
        "limit": theory.jump_limit(task.order, task.n_responses, pop.kappa),
        "active": ACTIVE,
        "betas": BETAS[: pop.n_heads],
        "range": RANGE,
        "largest": LARGEST,
    }

    def still() -> Figure:
        start = small(pop, data["betas"])
        end = 3 * float(activations(pop, start[None], patience(pop, np.array([data["betas"]]))).max())
        times = np.geomspace(data["limit"] / max(BETAS) / 30, end, 200)
        states = gradient_flow(pop.gradient, start, end, times, rtol=1e-8).states
        fig, (left, right) = style.figure(2, height=2.8)
        for h in range(pop.n_heads):
            left.loglog(times, pop.split(states)[1][:, h], color=HEAD[h], ls=DASHES[h], label=f"head {h + 1}")
        plateau_lines(right, task, pop.n_heads, "plateaus")
        right.plot(times, pop.value(states), color=style.INK)
        right.set(xscale="log", xlabel="flow time", ylabel="dot-product loss")
        left.set(xlabel="flow time", ylabel=r"$\beta$")
        left.legend()
        right.legend()
        return fig

    alt = "Three beta against time, the largest jumping first, and the loss that falls to the next plateau at each jump."
    return PageModel("recall_race", data, still, alt)
