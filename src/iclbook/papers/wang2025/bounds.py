"""The "mean max probability" (appendix F): the accuracy of an oracle that knows W_e and f, how far W_e moves it, which readings of the data it rules out."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from ...claims import printed
from ...draw import numpy_rng, torch_rng
from ...drawing import style
from ...numbers import number
from ...statistics import Estimate
from ...tasks.categorical import Anchors, Categorical, Quadrants
from .contexts import BLOCK, PublishedAnchors, numbers

#: Readings of appendix E's data: how x is drawn, and whether the kernel squares the distance.
READINGS = tuple(itertools.product(("uniform", "normal"), (True, False)))
#: Widths of embeddings whose bounds are compared.
WIDTHS = (2, 3, 5, 8, 12)
#: Of the contexts, and of the many draws of W_e.
SEED = 11


def oracle(task: Categorical, contexts: int) -> tuple[Estimate, Estimate]:
    """Mean maximum probability (the best possible accuracy) and mean entropy (the best possible NLL, nats) at the query, with errors over contexts."""
    every = [task.truth(*numbers(task, block, SEED)) for block in range(math.ceil(contexts / BLOCK))]
    p = torch.cat(every, dim=-1)[..., :contexts].double()  # p(y_{N+1}) (C, contexts)
    return Estimate.mean(p.amax(0).numpy()), Estimate.mean(torch.special.entr(p).sum(0).numpy())


def quadrant_bounds(draws: int, width: int = 5, n_classes: int = 20) -> np.ndarray:
    """Mean maximum probability of the quadrants for draws of ``W_e`` ``(draws,)``, exactly: ``1/C sum_c max_c' softmax_c'(w_c'^T w_c)``."""
    w = torch.randn(draws, width, n_classes, generator=torch_rng(SEED), dtype=torch.float64)
    return torch.softmax(w.mT @ w, dim=1).amax(1).mean(1).numpy()


def quadrant_bound(w: torch.Tensor) -> float:
    """The same of one ``W_e`` ``(d', C)``."""
    return float(torch.softmax(w.double().T @ w.double(), dim=0).amax(0).mean())


def records(draws: int, few: int, contexts: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Values for the ledger, from many draws of W_e, and best accuracies for a few, words -> ``(few,)``, for the figure."""
    tasks: dict[str, Categorical] = {"quadrants": Quadrants(N=1)}
    distance = ("distance $r$", "squared, $r^2$")
    for inputs, squared in READINGS:
        tasks[f"$x$ {inputs},\n{distance[squared]}"] = Anchors(inputs=inputs, squared=squared)
    samples = {  # the draws of W_e share their contexts
        words: np.array([oracle(replace(task, embed_seed=seed), contexts)[0].value for seed in range(few)])
        for words, task in tasks.items()
    }
    q, below = quadrant_bounds(draws), printed("wang2025")["section6/bound"]
    sd = Estimate.of(lambda drawn: float(drawn.std(ddof=1)), q)
    widths = [quadrant_bounds(max(draws // 10, 2), width) for width in WIDTHS]
    theirs = [PublishedAnchors(inputs=inputs, squared=squared) for inputs, squared in READINGS]
    uniform_squared, uniform, *normal = (oracle(task, 4 * contexts)[0] for task in theirs)
    return {
        "we-draw/draws": draws,
        "we-draw/quadrants_range": [float(q.min()), float(q.max())],
        "we-draw/quadrants_sd": sd,
        "we-draw/share_below": Estimate.share(q < below),
        "fig8/bound_widths": [float(each.mean()) for each in widths],
        "fig8/bound_wide": Estimate.mean(widths[-1]),
        "q-published/oracle_squared": uniform_squared,
        "q-published/oracle_printed": uniform,
        "q-published/oracle_normal": [best.value for best in normal],
    }, samples


def plot_bounds(samples: Mapping[str, np.ndarray], own: float) -> Figure:
    """Mean maximum probability over draws of W_e: quadrants, and four readings of appendix E."""
    fig, ax = style.figure(height=3.7)
    rng, says, colour = numpy_rng(0), printed("wang2025"), style.COLOURS["paper"]
    for i, values in enumerate(samples.values()):
        y = -i + rng.uniform(-0.18, 0.18, len(values))
        ax.plot(values, y, "o", ms=4, alpha=0.6, color=style.PALETTE[3 if i == 0 else 0])
    ax.plot([own], [0], "D", ms=6, color=style.INK, zorder=4)
    ax.annotate("used here ", (own, 0), (own, 0.4), fontsize=9, ha="right")
    best = max(says["authors/accuracy"])
    for value, low, high, at, side in (
        (says["section6/bound"], -0.4, 0.55, 0.55, "left"),
        (best, -4.4, -0.62, -0.5, "left"),
    ):
        ax.plot([value] * 2, [low, high], color=colour, ls="--", label="paper")
        ax.annotate(f" printed: {number(value)} ", (value, at), color=colour, fontsize=9, ha=side, va="center")
    ax.set_yticks(-np.arange(len(samples)), list(samples))
    ax.set(xlabel="best possible accuracy (a dot: one draw of $W_e$)", ylim=(-4.6, 0.9))
    ax.grid(axis="y", visible=False)
    return fig
