"""The erasure head (section 3.2.2): how near its attention is to the identity that it stands for, and what its errors do to deep models."""

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ...draw import torch_rng
from ...drawing import style
from ...models.functional_gd import FunctionalGD, HardErasureGD
from ...models.literal_blocks import LiteralBlocks
from ...statistics import Estimate
from ...store import Results
from ...tasks.categorical import Anchors, Quadrants
from .construction import eight_contexts, off, paired, steps_of
from .contexts import sample_contexts, seen_as, stopped

#: The last is that of the published code.
LAMBDAS = (1.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e5)
#: Settings of the paper's data: (d, N).
SETTINGS = ((10, 10), (10, 125), (2, 10), (2, 100))
#: Kind of head, d and N -> quality at every lambda, ``(len(LAMBDAS), 2)``.
Curves = dict[tuple[str, int, int], np.ndarray]


def softmax_weights(x: Tensor, lam: float, size: int) -> Tensor:
    """``softmax_i(lam^2 x_j^T x_i / sqrt(size))`` ``(..., N, N)`` from covariates ``(..., N, d)``; ``size`` is the width of the encoding."""
    return torch.softmax(lam**2 * (x @ x.mT) / size**0.5, dim=-1)


def quality(weights: Tensor) -> tuple[float, float]:
    """Share of positions whose largest weight ``(..., N, N)`` is their own, and mean over positions of ``sum_i |a_ji - delta_ji| / 2``."""
    n = weights.shape[-1]
    off = (weights - torch.eye(n, dtype=weights.dtype)).abs().sum(-1) / 2  # (..., N)
    own = weights.argmax(-1) == torch.arange(n)
    return float(own.double().mean()), float(off.mean())


def head_quality(x: Tensor, kind: str, lam: float) -> tuple[float, float]:
    """:func:`quality` of a softmax head (encoding of width ``d + 15``) or of ``exp(-lam^2 |x_j - x_i|^2 / 2)``, covariates ``(contexts, N, d)``."""
    if kind == "softmax":
        return quality(softmax_weights(x, lam, x.shape[-1] + 15))
    return quality(torch.exp(-(lam**2) * torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist") ** 2 / 2))


def curves(contexts: int = 200) -> Curves:
    """Quality against lambda; covariates uniform on the cube."""
    found = {}
    for d, n in SETTINGS:
        x = 2 * torch.rand(contexts, n, d, generator=torch_rng(17), dtype=torch.float64) - 1
        for kind in ("softmax", "rbf"):
            found[kind, d, n] = np.array([head_quality(x, kind, lam) for lam in LAMBDAS])
    return found


def records(found: Curves, contexts: int) -> dict[str, Any]:
    """Quality at the published code's lambda; the softmax head where all covariates have length 1 as well (``contexts`` as for :func:`curves`)."""
    settings = ((10, 10), (10, 125), (2, 100))
    own = {f"erasure/softmax_own_d{d}_N{n}": float(found["softmax", d, n][-1, 0]) for d, n in settings}
    normals = [torch.randn(contexts, n, d, generator=torch_rng(17), dtype=torch.float64) for d, n in SETTINGS]
    on_sphere = [head_quality(x / x.norm(dim=-1, keepdim=True), "softmax", LAMBDAS[-1])[0] for x in normals]
    astray = max(float(found["rbf", d, n][-1, 1]) for d, n in SETTINGS)
    return own | {"erasure/rbf_left_code": astray, "erasure/unit_own": on_sphere} | with_duplicates()


@torch.no_grad()
def with_duplicates(contexts: int = 8, blocks: int = 4) -> dict[str, Any]:
    """f of the query against exact steps, relative, where two covariates are equal: softmax shares its weight between them, RBF erases twice."""
    task, (context, query) = Anchors(), eight_contexts(contexts)
    x = context[:, :-1] / context[:, :-1].norm(dim=1, keepdim=True)
    context[:, :-1] = torch.cat([x[:1], x[:-1]])
    exact = FunctionalGD(task.n_classes, task.width, blocks, "softmax", rate=2.0).double()
    exact.initialise(torch_rng(0))
    literal = {kind: paired(exact, LiteralBlocks, erasure=kind) for kind in ("softmax", "rbf")}
    truth = exact(context, query)
    return {f"erasure/duplicates_{kind}": off(model(context, query), truth) for kind, model in literal.items()}


@torch.no_grad()
def drift_records(contexts: int = 128) -> dict[str, Any]:
    """Relative difference of f between softmax erasure and exact GD after each of six blocks, at the task's own W_e and a common step, in both data sets."""
    found, first = {}, []
    for name, task in (("quadrants", Quadrants()), ("anchors", Anchors())):
        relations = seen_as(sample_contexts(task, contexts, 5), "inner", True).context.double()
        exact = FunctionalGD(task.n_classes, task.width, 6, "softmax", gamma=3.0, rate=2.0).double()
        exact.embed.copy_(task.embedding)
        a, b = (steps_of(model, relations) for model in (exact, paired(exact, HardErasureGD)))  # (B, K, d')
        apart = ((a - b).norm(dim=-1) / a.norm(dim=-1)).numpy()  # (B, K)
        found[f"deep-erasure/{name}"] = Estimate.mean(apart[:, 2:].T)
        first.append(apart[:, :2].mean(0).max())
    return found | {"deep-erasure/first_two": float(max(first))}


def trained_records(results: Results) -> dict[str, Any]:
    """Three blocks trained with the exact and with the softmax erasure head: mean test NLL, and their difference."""
    exact, astray = (stopped(results.group(f"{kind}-3"), "nll_test") for kind in ("exact", "astray"))
    return {
        "deep-erasure/exact_nll": [float(exact.mean())],
        "deep-erasure/astray_nll": [float(astray.mean())],
        "deep-erasure/trained_gap": Estimate.runs(astray - exact),
    }


def plot_erasure(found: Curves) -> Figure:
    """Distance from exact erasure against lambda, one curve for each (d, N); of the softmax and of the RBF head; 1e-12 stands for less."""
    fig, axes = style.figure(2, height=3.1, sharey=True)
    for ax, kind, title in zip(axes, ("softmax", "rbf"), ("softmax head", "RBF head"), strict=True):
        for (d, n), colour, marker in zip(SETTINGS, style.PALETTE, style.MARKERS.values(), strict=False):
            left = np.maximum(found[kind, d, n][:, 1], 1e-12)
            ax.plot(LAMBDAS, left, marker=marker, ms=4, color=colour, label=f"d = {d}, N = {n}")
        ax.set(xscale="log", yscale="log", xlabel=r"$\lambda$", title=title, ylim=(5e-13, 100))
        ax.xaxis.minorticks_off()
    axes[0].set_ylabel("distance from exact erasure")
    axes[0].set_yticks((1e-12, 1e-9, 1e-6, 1e-3, 1), ("0", "$10^{-9}$", "$10^{-6}$", "$10^{-3}$", "1"))
    axes[0].yaxis.minorticks_off()
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return fig


def plot_drift(found: dict[str, Any]) -> Figure:
    """Relative difference of f between softmax erasure and exact steps, by block from the third on (:func:`drift_records`)."""
    fig, ax = style.figure(height=2.7)
    names = {"quadrants": "quadrants\n(d = 2, N = 100)", "anchors": "appendix E\n(d = 10, N = 10)"}
    for (name, label), marker, colour in zip(names.items(), "os", (style.PALETTE[3], style.PALETTE[0]), strict=True):
        values = found[f"deep-erasure/{name}"].value
        ax.plot(range(3, 3 + len(values)), values, marker=marker, color=colour, label=label)
    ax.set(yscale="log", xlabel="block", ylabel="relative error of f", xticks=range(3, 7), ylim=(1e-5, 8))
    style.name_ends(ax)
    return fig
