"""The chapter's sliders, and their frames: functions that draw a figure of a fixed size for any value of the slider."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from ....sliders import Slider, show
from ....store import Results
from .. import theory
from ..measures import census
from ..measures.noise import Valley
from .circuits import circuits_at
from .closed_forms import pair, stages


def pair_frames(
    valley: Valley, prompts: theory.Prompts, d: int, L: int, noise_var: float, shown: int = 400
) -> Callable[[float], Figure]:
    """A pair of heads at gamma with its best weight: its predictions on the first prompts, and where it stands in the valley."""
    eta = theory.debiased_gd_best_eta(d, L, noise_var)
    few = prompts.x[:shown], prompts.y[:shown], prompts.x_q[:shown]
    gd, gd_loss = theory.debiased_gd(eta, *few), float(theory.debiased_gd_error(eta, d, L, noise_var))

    def frame(gamma: float) -> Figure:
        best = theory.pair_exact(gamma, d, L, noise_var)
        yhat = theory.softmax_predictor([gamma, -gamma], [best.mu, -best.mu], *few)
        return pair(gamma, gd, yhat, valley.gamma, valley.loss, best.loss, gd_loss)

    return frame


def stage_frames(scales: list[float], d: int, L: int, noise_var: float) -> Callable[[float], Figure]:
    """Gradient descent of four heads from an initial scale; those of ``scales`` are descended together, any other when it is asked for."""
    known = census.stage_paths(scales, d, L, noise_var)

    def frame(scale: float) -> Figure:
        paths = known if scale in known else census.stage_paths([scale], d, L, noise_var)
        return stages(paths[scale], census.RATE)

    return frame


def show_circuits(results: Results, few: bool) -> None:
    """Heat maps by number of heads, at the records nearest to some shares of the training; ``few`` of all, for a short run."""
    counts, shares = ([2, 4], (0, 1.0)) if few else ([1, 2, 3, 4], (0, 0.0005, 0.004, 0.03, 0.2, 1.0))
    steps = results["h2/steps"]
    shown = sorted({int(steps[np.argmin(np.abs(steps - share * steps[-1]))]) for share in shares})
    show(
        lambda n_heads, step: circuits_at(results.group(f"h{n_heads}"), step, columns=4),
        [
            Slider("n_heads", "heads H", counts),
            Slider("step", "step", shown, labels=[f"{s:,}" for s in shown]),
        ],
        start={"n_heads": 2, "step": max(shown)},
        title="KQ (first d columns) and OV (last row) along training, scores as printed, first seed",
        alt=lambda n_heads, step: f"Heat maps of KQ and OV of {n_heads} heads at training step {step}.",
    )


def show_pair(valley: Valley, prompts: theory.Prompts, d: int, L: int, noise_var: float, few: bool) -> None:
    """The pair at some gammas, or at any between 0.02 and 0.6 in a live notebook."""
    gammas = [0.13, 0.5] if few else [0.02, 0.05, 0.09, 0.13, 0.2, 0.3, 0.4, 0.5]
    show(
        pair_frames(valley, prompts, d, L, noise_var),
        [Slider("gamma", "γ", gammas, live=(0.02, 0.6, 0.01))],
        start={"gamma": 0.13},
        title="A pair of heads with its best weight",
        alt=lambda gamma: (
            f"Predictions of the pair at gamma {gamma} against debiased gradient descent, and its true loss."
        ),
    )


def show_stages(d: int, L: int, noise_var: float, few: bool) -> None:
    """Both stages from some initial scales."""
    scales = [0.03, 1.0] if few else [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0]
    show(
        stage_frames(scales, d, L, noise_var),
        [Slider("scale", "initial scale", scales, live=(0.001, 1.0, 0.1), log=True)],
        start={"scale": 0.03},
        title="Gradient descent on the approximate loss, four heads, one start direction",
        alt=lambda scale: f"omega and mu of four heads against time, from initial scale {scale}.",
    )
