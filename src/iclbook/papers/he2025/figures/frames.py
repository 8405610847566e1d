"""Frames of the chapter's sliders: each function returns one that draws a figure of a fixed size for any value of its slider."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from .. import theory
from ..measures import census
from ..measures.noise import Valley
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
