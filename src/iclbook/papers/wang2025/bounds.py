"""The "mean max probability" (appendix F): the accuracy of an oracle that knows W_e and f, how far it moves with W_e, which readings of the data it rules out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ...claims import printed
from ...draw import numpy_rng, torch_rng
from ...drawing import style
from ...numbers import number
from ...statistics import Estimate, bootstrap_error, standard_error
from ...tasks.categorical import Anchors, Categorical, Quadrants, draw_embedding
from .contexts import BLOCK, PublishedAnchors, numbers, truths

#: Readings of appendix E's data: key -> (inputs, squared distance in the kernel).
READINGS = {
    "uniform_squared": ("uniform", True),
    "uniform_printed": ("uniform", False),
    "normal_squared": ("normal", True),
    "normal_printed": ("normal", False),
}
#: Widths of embeddings whose bounds are compared.
WIDTHS = (2, 3, 5, 8, 12)
#: Of the contexts, and of the many draws of W_e.
SEED = 11


def oracle(task: Categorical, contexts: int) -> tuple[float, float]:
    """Mean maximum probability (the best possible accuracy) and mean entropy (the best possible NLL, nats) at the query."""
    return _scores(truths(task, contexts, SEED))


def _scores(p: Tensor) -> tuple[float, float]:
    """Mean maximum and mean entropy of probabilities ``(C, n)``."""
    p = p.double()
    return float(p.amax(0).mean()), float(torch.special.entr(p).sum(0).mean())


def bound_error(task: Categorical, contexts: int) -> float:
    """Standard error over contexts of the mean maximum probability of :func:`oracle`."""
    return float(standard_error(truths(task, contexts, SEED).double().amax(0).flatten().numpy()))


class _Bare:
    """A task whose ``W_e`` is the identity: its ``f (..., C, B)`` says with which weight each embedding enters, as f is linear in ``W_e``."""

    @property
    def embedding(self) -> Tensor:
        """``(C, C)``."""
        return torch.eye(self.n_classes)


class BareAnchors(_Bare, Anchors):
    """:class:`Anchors` without ``W_e``."""


class BareQuadrants(_Bare, Quadrants):
    """:class:`Quadrants` without ``W_e``."""


def over_embeddings(task: BareAnchors | BareQuadrants, draws: int, contexts: int) -> np.ndarray:
    """:func:`oracle` of each draw of W_e (``embed_seed`` 0, 1, ...), ``(draws, 2)``: accuracy and NLL. The draws share their contexts."""
    weights = torch.cat([_query(task, block) for block in range(math.ceil(contexts / BLOCK))], dim=-1)
    found = []
    for seed in range(draws):
        w = draw_embedding(task.n_classes, task.width, seed)
        p = torch.softmax(w.T @ (w @ weights[:, :contexts]), dim=0)  # (C, contexts)
        found.append(_scores(p))
    return np.array(found)


def _query(task: BareAnchors | BareQuadrants, block: int) -> Tensor:
    """Weights of the embeddings in the query's f ``(C, BLOCK)`` in a block of contexts."""
    normals, words = numbers(task, block, SEED)
    x = task.covariates(normals, words)[-1:]
    return task.latent(x, normals[len(normals) - task.hidden :], task.chosen(words))[0]


def quadrant_bounds(draws: int, width: int = 5, n_classes: int = 20) -> np.ndarray:
    """Mean maximum probability of the quadrants ``(draws,)`` for draws of ``W_e ~ N(0, 1)``, exact over the categories: f is the embedding of one of C equally
    likely categories, so the bound is ``1/C sum_c max_c' softmax_c'(w_c'^T w_c)``."""
    source, found = torch_rng(SEED), []
    for n in [1000] * (draws // 1000) + [draws % 1000] * (draws % 1000 > 0):
        w = torch.randn(n, width, n_classes, generator=source, dtype=torch.float64)
        found.append(torch.softmax(w.mT @ w, dim=1).amax(1).mean(1))
    return torch.cat(found).numpy()


def records(draws: int, few: int, contexts: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Values for the ledger, from many draws of W_e, and the samples of a few ``name -> (few, 2)`` for the figure."""
    samples = {
        name: over_embeddings(BareAnchors(inputs=inputs, squared=squared), few, contexts)
        for name, (inputs, squared) in READINGS.items()
    }
    samples["quadrants"] = over_embeddings(BareQuadrants(N=1), few, contexts)
    q, below = quadrant_bounds(draws), printed("wang2025")["section6/bound"]
    sd = Estimate(float(q.std(ddof=1)), bootstrap_error(lambda drawn: float(drawn.std(ddof=1)), q))
    widths = [quadrant_bounds(max(draws // 10, 2), width) for width in WIDTHS]
    authors = {
        name: oracle(PublishedAnchors(inputs=inputs, squared=squared), 4 * contexts)[0]
        for name, (inputs, squared) in READINGS.items()
    }
    return {
        "we-draw/draws": draws,
        "we-draw/quadrants_range": [float(q.min()), float(q.max())],
        "we-draw/quadrants_sd": sd,
        "we-draw/share_below": Estimate.share(int((q < below).sum()), draws),
        "fig8/bound_widths": [float(each.mean()) for each in widths],
        "fig8/bound_wide": Estimate.mean(widths[-1]),
        "q-published/oracle_squared": authors["uniform_squared"],
        "q-published/oracle_printed": authors["uniform_printed"],
        "q-published/oracle_normal": [authors["normal_squared"], authors["normal_printed"]],
    }, samples


def plot_bounds(samples: Mapping[str, np.ndarray], own: float) -> Figure:
    """Mean maximum probability over draws of W_e: quadrants, and four readings of appendix E."""
    names = {
        "quadrants": "quadrants",
        "uniform_squared": "$x$ uniform, $r^2$",
        "uniform_printed": "$x$ uniform, $r$",
        "normal_squared": "$x$ normal, $r^2$",
        "normal_printed": "$x$ normal, $r$",
    }
    fig, ax = style.figure(height=2.7)
    rng = numpy_rng(0)
    for i, name in enumerate(names):
        values = samples[name][:, 0]
        y = -i + rng.uniform(-0.18, 0.18, len(values))
        ax.plot(values, y, "o", ms=3, alpha=0.6, color=style.PALETTE[3 if i == 0 else 0])
    ax.plot([own], [0], "D", ms=6, color=style.INK, zorder=4)
    ax.annotate("drawn here ", (own, 0), (own, 0.45), fontsize=8, ha="right")
    says = printed("wang2025")
    best = max(says["authors/accuracy"])
    for value, low, high, side in ((says["section6/bound"], -0.4, 0.55, "left"), (best, -4.4, -0.5, "right")):
        ax.plot([value] * 2, [low, high], color=style.COLOURS["paper"], ls="--", label="paper")
        look = {"color": style.COLOURS["paper"], "fontsize": 8, "ha": side, "va": "center"}
        ax.annotate(f" printed: {number(value)} ", (value, high), **look)
    ax.set_yticks([-i for i in range(len(names))], names.values())
    ax.set(xlabel="best possible accuracy (mean of the largest probability)", ylim=(-4.6, 0.9))
    ax.grid(axis="y", visible=False)
    return fig
