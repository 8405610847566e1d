"""How exact the erasure head is, and what its errors do to deep models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....models.functional_gd import FunctionalGD
from ....models.inexact_gd import HardErasureGD
from ....models.literal_blocks import LiteralBlocks
from ....statistics import standard_error
from ....store import Results
from ....tasks.categorical import Anchors, Categorical, Quadrants
from ..runs.contexts import draw, seen_as
from ..runs.specs import scores
from ..theory import erasure
from .learned import error_of_runs

LAMBDAS = (1.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e5)
#: Settings of the paper's data: (d, N).
SETTINGS = ((10, 10), (10, 125), (2, 10), (2, 100))
#: Contexts whose attention weights are computed at once.
CONTEXTS = 8
#: Lambda of the published code.
CODE_LAMBDA = 1e5


@dataclass(frozen=True)
class Curves:
    """``own[kind][(d, N)]`` and ``left[kind][(d, N)]``: one number for each of :data:`LAMBDAS`."""

    own: dict[str, dict[tuple[int, int], np.ndarray]]
    left: dict[str, dict[tuple[int, int], np.ndarray]]


def curves(contexts: int = 200) -> Curves:
    """Share of positions that attend to themselves, and attention that goes astray, against lambda; covariates uniform on the cube."""
    own: dict = {"softmax": {}, "rbf": {}}
    left: dict = {"softmax": {}, "rbf": {}}
    for d, n in SETTINGS:
        source = torch.Generator().manual_seed(17)
        x = 2 * torch.rand(contexts, n, d, generator=source, dtype=torch.float64) - 1
        for kind in own:
            found = np.array([_quality(x, kind, lam) for lam in LAMBDAS])
            own[kind][d, n], left[kind][d, n] = found.T
    return Curves(own, left)


def _quality(x: Tensor, kind: str, lam: float) -> tuple[float, float]:
    """``own`` and ``left`` of a head's attention weights on covariates ``(contexts, N, d)``, a few contexts at a time, whose weights fit a processor's
    cache; ``d + 15`` is the width of the encoding."""
    parts = x.split(CONTEXTS)
    each = [
        erasure.quality(
            erasure.softmax_weights(part, lam, x.shape[-1] + 15)
            if kind == "softmax"
            else erasure.rbf_weights(part, lam)
        )
        for part in parts
    ]
    own, left = np.average([(q.own, q.left) for q in each], axis=0, weights=[len(part) for part in parts])
    return float(own), float(left)


def records(c: Curves, contexts: int) -> dict[str, Any]:
    """What decides the questions on the erasure head; ``contexts`` as for :func:`curves`."""
    return curve_records(c) | on_the_sphere(contexts) | with_duplicates()


def curve_records(c: Curves) -> dict[str, Any]:
    """What decides the erasure question; softmax shares at the largest lambda."""
    own = {setting: float(shares[-1]) for setting, shares in c.own["softmax"].items()}
    return {
        "erasure/softmax_own_d10_N10": own[10, 10],
        "erasure/softmax_own_d10_N125": own[10, 125],
        "erasure/softmax_own_d2_N100": own[2, 100],
        "erasure/rbf_left_code": max(float(curve[-1]) for curve in c.left["rbf"].values()),
    }


def on_the_sphere(contexts: int = 200) -> dict[str, Any]:
    """The softmax head where all covariates have length 1, lambda of the published code: share of positions that attend to themselves, all settings."""
    shares = []
    for d, n in SETTINGS:
        source = torch.Generator().manual_seed(17)
        x = torch.randn(contexts, n, d, generator=source, dtype=torch.float64)
        shares.append(_quality(x / x.norm(dim=-1, keepdim=True), "softmax", CODE_LAMBDA)[0])
    return {"erasure/unit_own": shares}


@torch.no_grad()
def with_duplicates(contexts: int = 8, blocks: int = 4) -> dict[str, Any]:
    """Blocks of appendix D on covariates of length 1 of which two are equal: f of the query against exact steps, relative, for both erasure heads.

    Two equal positions have one expectation. Softmax shares its weight between them and erases it; an RBF head gives each the whole weight and
    erases it twice.
    """
    task = Anchors()
    batch = draw(task, contexts, 3)
    context, query = batch.context.double(), batch.query.double()
    x = context[:, :-1] / context[:, :-1].norm(dim=1, keepdim=True)
    context[:, :-1] = torch.cat([x[:1], x[:-1]])
    exact = FunctionalGD(task.n_classes, task.width, blocks, "softmax", rate=2.0).double()
    exact.initialise(torch.Generator().manual_seed(0))

    def off(kind: str) -> float:
        literal = LiteralBlocks(task.n_classes, task.width, blocks, "softmax", erasure=kind).double()
        literal.load_state_dict(exact.state_dict())
        truth = exact(context, query)
        return float((literal(context, query) - truth).abs().max() / truth.abs().max())

    return {"erasure/duplicates_softmax": off("softmax"), "erasure/duplicates_rbf": off("rbf")}


@torch.no_grad()
def drift(
    task: Categorical, n_contexts: int, blocks: int, rate: float, gamma: float, seed: int = 0
) -> np.ndarray:
    """Relative difference of f between softmax erasure and exact GD after each block, at the task's own W_e and a common step, ``(n_contexts, blocks)``."""
    batch = seen_as(draw(task, n_contexts, 5), "inner", True)
    exact = FunctionalGD(task.n_classes, task.width, blocks, "softmax", gamma=gamma, rate=rate).double()
    exact.embed.copy_(task.embedding)
    astray = HardErasureGD(task.n_classes, task.width, blocks, "softmax", gamma=gamma, rate=rate).double()
    astray.load_state_dict(exact.state_dict())
    parts = batch.context.double().movedim(-1, 0)
    arguments = (parts[..., 0], parts[..., 1].long(), parts[..., 2:])
    a, b = exact.descend(*arguments), astray.descend(*arguments)  # (B, K, d')
    return ((a - b).norm(dim=-1) / a.norm(dim=-1)).numpy()


def drift_records(blocks: int = 6, contexts: int = 128) -> dict[str, Any]:
    """Drift by block in both data sets (alpha = 2, gamma = 3)."""
    low = drift(Quadrants(), contexts, blocks, 2.0, 3.0)
    high = drift(Anchors(), contexts, blocks, 2.0, 3.0)
    return {
        "deep-erasure/first_two": float(max(low.mean(0)[:2].max(), high.mean(0)[:2].max())),
        "deep-erasure/quadrants": low.mean(0)[2:].tolist(),
        "deep-erasure/quadrants_se": standard_error(low.T)[2:].tolist(),
        "deep-erasure/anchors": high.mean(0)[2:].tolist(),
        "deep-erasure/anchors_se": standard_error(high.T)[2:].tolist(),
    }


def trained_records(results: Results, depths: tuple[int, ...]) -> dict[str, Any]:
    """Models trained with the exact and with the softmax erasure head: mean test NLL at each depth, and their difference."""
    nll = {
        (kind, k): scores(results, f"{kind}-{k}").stopped("nll")
        for kind in ("exact", "astray")
        for k in depths
    }
    differences = [nll["astray", k] - nll["exact", k] for k in depths]
    largest = max(differences, key=np.mean)
    return {
        "deep-erasure/exact_nll": [float(nll["exact", k].mean()) for k in depths],
        "deep-erasure/astray_nll": [float(nll["astray", k].mean()) for k in depths],
        "deep-erasure/trained_gap": float(largest.mean()),
        "deep-erasure/trained_gap_se": error_of_runs(largest),
    }
