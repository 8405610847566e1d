"""The erasure head (section 3.2.2): how near its attention is to the identity that it stands for, and what its errors do to deep models."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ...draw import torch_rng
from ...drawing import style
from ...models.functional_gd import FunctionalGD, HardErasureGD
from ...models.literal_blocks import LiteralBlocks
from ...statistics import standard_error
from ...store import Results
from ...tasks.categorical import Anchors, Categorical, Quadrants
from .construction import eight_contexts, off, paired, steps_of
from .contexts import sample_contexts, scores, seen_as
from .figures_3_5 import estimate

LAMBDAS = (1.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e5)
#: Settings of the paper's data: (d, N).
SETTINGS = ((10, 10), (10, 125), (2, 10), (2, 100))
#: Lambda of the published code.
CODE_LAMBDA = 1e5


def softmax_weights(x: Tensor, lam: float, size: int) -> Tensor:
    """``softmax_i(lam^2 x_j^T x_i / sqrt(size))`` ``(..., N, N)`` from covariates ``(..., N, d)``; ``size`` is the width of the encoding."""
    return torch.softmax(lam**2 * (x @ x.mT) / size**0.5, dim=-1)


def rbf_weights(x: Tensor, lam: float) -> Tensor:
    """``exp(-lam^2 |x_j - x_i|^2 / 2)`` ``(..., N, N)``."""
    power = -(lam**2) * torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist") ** 2 / 2
    return torch.exp(power)


def quality(weights: Tensor) -> tuple[float, float]:
    """How well attention weights ``(..., N, N)`` erase: the share of positions at which the largest weight is the position's own, and the mean over positions of
    ``sum_i |a_ji - delta_ji| / 2``, for softmax the mass on wrong positions."""
    n = weights.shape[-1]
    off = (weights - torch.eye(n, dtype=weights.dtype)).abs().sum(-1) / 2  # (..., N)
    own = weights.argmax(-1) == torch.arange(n)
    return float(own.double().mean()), float(off.mean())


def head_quality(x: Tensor, kind: str, lam: float) -> tuple[float, float]:
    """:func:`quality` of a head on covariates ``(contexts, N, d)``; ``d + 15`` is the width of the encoding."""
    return quality(softmax_weights(x, lam, x.shape[-1] + 15) if kind == "softmax" else rbf_weights(x, lam))


def curves(contexts: int = 200) -> dict[str, dict[tuple[int, int], np.ndarray]]:
    """Quality against lambda, ``[kind][d, N] (len(LAMBDAS), 2)``; covariates uniform on the cube."""
    found: dict[str, dict[tuple[int, int], np.ndarray]] = {"softmax": {}, "rbf": {}}
    for d, n in SETTINGS:
        source = torch_rng(17)
        x = 2 * torch.rand(contexts, n, d, generator=source, dtype=torch.float64) - 1
        for kind in found:
            found[kind][d, n] = np.array([head_quality(x, kind, lam) for lam in LAMBDAS])
    return found


def records(found: dict[str, dict[tuple[int, int], np.ndarray]], contexts: int) -> dict[str, Any]:
    """Quality at the published code's lambda; ``contexts`` as for :func:`curves`."""
    own = {f"erasure/softmax_own_d{d}_N{n}": float(c[-1, 0]) for (d, n), c in found["softmax"].items()}
    del own["erasure/softmax_own_d2_N10"]
    astray = max(float(c[-1, 1]) for c in found["rbf"].values())
    return {**own, "erasure/rbf_left_code": astray, **on_the_sphere(contexts), **with_duplicates()}


def on_the_sphere(contexts: int = 200) -> dict[str, Any]:
    """The softmax head where all covariates have length 1, lambda of the published code: share of positions that attend to themselves, all settings."""
    shares = []
    for d, n in SETTINGS:
        source = torch_rng(17)
        x = torch.randn(contexts, n, d, generator=source, dtype=torch.float64)
        shares.append(head_quality(x / x.norm(dim=-1, keepdim=True), "softmax", CODE_LAMBDA)[0])
    return {"erasure/unit_own": shares}


@torch.no_grad()
def with_duplicates(contexts: int = 8, blocks: int = 4) -> dict[str, Any]:
    """Blocks of appendix D on covariates of length 1 of which two are equal: f of the query against exact steps, relative, for both erasure heads.

    Two equal positions have one expectation. Softmax shares its weight between them and erases it; an RBF head gives each the whole weight and
    erases it twice.
    """
    task, (context, query) = Anchors(), eight_contexts(contexts)
    x = context[:, :-1] / context[:, :-1].norm(dim=1, keepdim=True)
    context[:, :-1] = torch.cat([x[:1], x[:-1]])
    exact = FunctionalGD(task.n_classes, task.width, blocks, "softmax", rate=2.0).double()
    exact.initialise(torch_rng(0))
    literal = {kind: paired(exact, LiteralBlocks, erasure=kind) for kind in ("softmax", "rbf")}
    truth = exact(context, query)
    return {f"erasure/duplicates_{kind}": off(model(context, query), truth) for kind, model in literal.items()}


@torch.no_grad()
def drift(task: Categorical, n_contexts: int, blocks: int = 6, rate: float = 2.0, gamma: float = 3.0) -> np.ndarray:
    """Relative difference of f between softmax erasure and exact GD after each block, at the task's own W_e and a common step, ``(n_contexts, blocks)``."""
    relations = seen_as(sample_contexts(task, n_contexts, 5), "inner", True).context.double()
    exact = FunctionalGD(task.n_classes, task.width, blocks, "softmax", gamma=gamma, rate=rate).double()
    exact.embed.copy_(task.embedding)
    a, b = (steps_of(model, relations) for model in (exact, paired(exact, HardErasureGD)))  # (B, K, d')
    return ((a - b).norm(dim=-1) / a.norm(dim=-1)).numpy()


def drift_records(contexts: int = 128) -> dict[str, Any]:
    """Drift by block in both data sets."""
    low, high = drift(Quadrants(), contexts), drift(Anchors(), contexts)
    found = {"deep-erasure/first_two": float(max(low.mean(0)[:2].max(), high.mean(0)[:2].max()))}
    for name, each in (("quadrants", low), ("anchors", high)):
        found[f"deep-erasure/{name}"] = each.mean(0)[2:].tolist()
        found[f"deep-erasure/{name}_se"] = standard_error(each.T)[2:].tolist()
    return found


def trained_records(results: Results) -> dict[str, Any]:
    """Three blocks trained with the exact and with the softmax erasure head: mean test NLL, and their difference."""
    nll = {kind: scores(results, f"{kind}-3").stopped("nll") for kind in ("exact", "astray")}
    return {
        **{f"deep-erasure/{kind}_nll": [float(each.mean())] for kind, each in nll.items()},
        "deep-erasure/trained_gap": estimate(nll["astray"] - nll["exact"]),
    }


def plot_erasure(found: dict[str, dict[tuple[int, int], np.ndarray]]) -> Figure:
    """Distance from exact erasure against lambda, one curve for each (d, N); left the softmax head, right the RBF head; 1e-12 stands for less."""
    fig, axes = style.figure(2, height=3.1)
    for (d, n), colour, marker in zip(found["softmax"], style.PALETTE, style.MARKERS.values(), strict=False):
        for ax, kind in zip(axes, ("softmax", "rbf"), strict=True):
            left = np.maximum(found[kind][d, n][:, 1], 1e-12)
            ax.plot(LAMBDAS, left, marker=marker, ms=4, color=colour, label=f"d = {d}, N = {n}")
    for ax, title in zip(axes, ("softmax head", "RBF head"), strict=True):
        ax.set(xscale="log", yscale="log", xlabel=r"$\lambda$", title=title, ylim=(5e-13, 100))
    axes[0].set_ylabel("distance from exact erasure")
    axes[0].legend(fontsize=8, loc="lower left")
    return fig


def plot_drift(low: list[float], high: list[float]) -> Figure:
    """Relative difference of f between softmax erasure and exact steps, by block from the third on."""
    fig, ax = style.figure(height=2.7)
    blocks = np.arange(3, 3 + len(low))
    ax.plot(blocks, low, marker="o", color=style.PALETTE[3], label="quadrants (d = 2, N = 100)")
    ax.plot(blocks, high, marker="s", color=style.PALETTE[0], label="appendix E (d = 10, N = 10)")
    ax.set(yscale="log", xlabel="block", ylabel="relative error of f", xticks=blocks, ylim=(1e-4, 3))
    ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(0.01, 0.58))
    return fig
