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
from ...drawing import style
from ...statistics import Estimate, bootstrap_error, standard_error
from ...tasks.categorical import Anchors, Categorical, Quadrants, draw_embedding
from .contexts import BLOCK, numbers, truths

#: Readings of appendix E's data: key -> (inputs, squared distance in the kernel).
READINGS = {
    "uniform_squared": ("uniform", True),
    "uniform_printed": ("uniform", False),
    "normal_squared": ("normal", True),
    "normal_printed": ("normal", False),
}
#: Of the contexts.
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


def records(draws: int, contexts: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Values for the ledger, and the samples ``name -> (draws, 2)`` for the figure."""
    samples = {
        name: over_embeddings(BareAnchors(inputs=inputs, squared=squared), draws, contexts)
        for name, (inputs, squared) in READINGS.items()
    }
    samples["quadrants"] = over_embeddings(BareQuadrants(N=1), draws, contexts)
    q, says = samples["quadrants"][:, 0], printed("wang2025")
    best = max(says["authors/accuracy"])
    found = {
        "we-draw/draws": draws,
        "we-draw/quadrants_range": [float(q.min()), float(q.max())],
        "we-draw/quadrants_sd": Estimate(
            float(q.std(ddof=1)), bootstrap_error(lambda drawn: float(drawn.std(ddof=1)), q)
        ),
        "we-draw/share_below": _share(q < says["section6/bound"]),
    }
    for name in READINGS:
        found[f"q-kernel/{name}_possible"] = _share(samples[name][:, 0] > best)
    return found, samples


def _share(hits: np.ndarray) -> Estimate:
    """Share of the draws ``(n,)`` that are true."""
    return Estimate.share(int(hits.sum()), len(hits))


def plot_bounds(samples: Mapping[str, np.ndarray], own: float) -> Figure:
    """Mean maximum probability over draws of W_e: quadrants, and four readings of appendix E."""
    names = {
        "quadrants": "appendix F: quadrants",
        "uniform_squared": "E: x uniform, squared",
        "uniform_printed": "E: x uniform, as printed",
        "normal_squared": "E: x normal, squared",
        "normal_printed": "E: x normal, as printed",
    }
    fig, ax = style.figure(height=2.7)
    rng = np.random.default_rng(0)
    for i, name in enumerate(names):
        values = samples[name][:, 0]
        y = -i + rng.uniform(-0.18, 0.18, len(values))
        ax.plot(values, y, "o", ms=3, alpha=0.6, color=style.PALETTE[3 if i == 0 else 0])
    ax.plot([own], [0], "D", ms=6, color=style.INK, zorder=4)
    ax.annotate("the draw used here", (own, 0), (own, 0.45), fontsize=8, ha="center")
    says = printed("wang2025")
    ax.plot([says["section6/bound"]] * 2, [-0.4, 0.4], color=style.COLOURS["paper"], ls="--", label="paper")
    ax.plot([max(says["authors/accuracy"])] * 2, [-4.4, -0.6], color=style.COLOURS["paper"], ls="--")
    ax.set_yticks([-i for i in range(len(names))], names.values())
    ax.set(xlabel="mean maximum probability (oracle accuracy)", ylim=(-4.6, 0.9))
    ax.legend(loc="lower right", fontsize=8)
    ax.grid(axis="y", visible=False)
    return fig
