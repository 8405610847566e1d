"""Figures 8 and 9, the quadrants of appendix F: GD against Trained TF with five kernels, and their maps over the square."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, permutations
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ...drawing import style
from ...models.functional_gd import FunctionalGD
from ...models.kernels import KERNELS, relate
from ...models.trained_tf import TrainedStep
from ...rounding import number
from ...tasks.categorical import Quadrants
from .contexts import TEST, Scores, numbers, sample_contexts, scores, stopped_parameters
from .figures_3_5 import Get, estimate, t_of_runs
from .studies import SIZES

#: Points along each side of the maps.
GRID = 41
NAMES = {
    "rbf": "RBF",
    "softmax": "softmax",
    "laplacian": "Laplacian",
    "exponential": "exponential",
    "linear": "linear",
}
#: Scores of runs ``(R,)`` by kernel and model ("GD", "TF").
Scored = Mapping[str, Mapping[str, np.ndarray]]


def compare(get: Get) -> dict[str, dict[str, Scores]]:
    """Figure 8: ``[kernel]["GD" or "TF"]``."""
    return {
        k: {"GD": scores(get(f"quad_gd_{KERNELS[k]}"), k), "TF": scores(get("quad_tf"), k)} for k in KERNELS
    }


def figure8(found: dict[str, dict[str, Scores]], bound: float) -> dict[str, Any]:
    """What decides figure 8; ``bound`` is the mean maximum probability of this draw of W_e.

    Agreement is judged kernel by kernel, in units of what sets two kernels apart, and a Trained TF with one kernel beside GD with another is the control.
    """
    accuracy = {k: {m: s.stopped("accuracy") for m, s in by.items()} for k, by in found.items()}
    nll = {k: {m: s.stopped("nll") for m, s in by.items()} for k, by in found.items()}
    curved = [k for k in KERNELS if k != "linear"]
    least = min(("rbf", "softmax", "laplacian"), key=lambda k: accuracy[k]["GD"].mean())
    exponential, linear = (accuracy[k]["GD"] for k in ("exponential", "linear"))
    off, loss = agreement(accuracy, curved), agreement(nll, curved)
    return {
        "fig8/gd": [float(accuracy[k]["GD"].mean()) for k in curved],
        "fig8/tf": [float(accuracy[k]["TF"].mean()) for k in curved],
        "fig8/gaps": off.gaps,
        "fig8/gaps_t": [t_of_runs(accuracy[k]["GD"] - accuracy[k]["TF"]) for k in curved],
        "fig8/gaps_se": off.errors,
        "fig8/half_distance": off.half,
        "fig8/crossed_gap": off.crossed,
        "fig8/nll_gaps": loss.gaps,
        "fig8/nll_gaps_se": loss.errors,
        "fig8/nll_half_distance": loss.half,
        "fig8/nll_crossed_gap": loss.crossed,
        **linear_agreement(accuracy),
        "fig8/exponential_behind": float(accuracy[least]["GD"].mean() - exponential.mean()),
        "fig8/exponential_behind_se": estimate(accuracy[least]["GD"] - exponential).error,
        "fig8/linear_behind": float(exponential.mean() - linear.mean()),
        "fig8/linear_behind_se": estimate(exponential - linear).error,
        "fig8/linear": float(linear.mean()),
        "fig8/bound": float(bound),
        "fig8/seeds": len(linear),
    }


class Agreement(NamedTuple):
    """GD against Trained TF over kernels.

    Attributes:
        gaps: distance of the two with one kernel, for each kernel; ``errors`` over runs of its difference to ``half``.
        half: half of the smallest distance between GD with two kernels: nearer than that, the two kinds of model are nearer than any two kernels.
        crossed: smallest distance of a Trained TF from GD with another kernel.
    """

    gaps: list[float]
    errors: list[float]
    half: float
    crossed: float


def agreement(scores_of: Scored, kernels: list[str]) -> Agreement:
    """How far GD and Trained TF are apart with each kernel, and how far kernels are, from scores ``[kernel][model] (R,)``."""
    gd, tf = ({k: scores_of[k][m] for k in kernels} for m in ("GD", "TF"))

    def apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """``|mean(a) - mean(b)|`` run by run, with the sign of the means."""
        return (a - b) * (1 if a.mean() >= b.mean() else -1)

    nearest = min((apart(gd[k], gd[j]) for k, j in combinations(kernels, 2)), key=np.mean) / 2
    gaps = [apart(gd[k], tf[k]) for k in kernels]
    return Agreement(
        [float(gap.mean()) for gap in gaps],
        [estimate(gap - nearest).error for gap in gaps],
        float(nearest.mean()),
        min(float(apart(tf[k], gd[j]).mean()) for k, j in permutations(kernels, 2)),
    )


def linear_agreement(accuracy: Scored) -> dict[str, float]:
    """The same for linear attention; its nearest kernel is the exponential one, the worst of the others."""
    gd, tf, next_best = accuracy["linear"]["GD"], accuracy["linear"]["TF"], accuracy["exponential"]["GD"]
    sign = 1 if gd.mean() >= tf.mean() else -1
    return {
        "fig8/linear_gap": float(abs(gd.mean() - tf.mean())),
        "fig8/linear_gap_se": estimate(sign * (gd - tf) - (next_best - gd) / 2).error,
        "fig8/linear_half_distance": float((next_best - gd).mean() / 2),
        "fig8/linear_crossed_gap": float(abs(tf.mean() - next_best.mean())),
    }


def grid() -> Tensor:
    """Points of the square ``(GRID^2, 2)``; reshape to ``(GRID, GRID)`` with the second covariate first.

    The middle is 0 exactly: ``linspace`` leaves it on one side of the quadrants' border on some processors and on the other on others.
    """
    half = GRID // 2
    side = torch.arange(-half, half + 1, dtype=torch.float64) / half
    second, first = torch.meshgrid(side, side, indexing="ij")
    return torch.stack([first.flatten(), second.flatten()], dim=-1)


def model_of_run(
    kind: str, kernel: str, task: Quadrants, parameters: dict[str, np.ndarray]
) -> torch.nn.Module:
    """A model of one run, float64, with its stored parameters."""
    if kind == "GD":
        model = FunctionalGD(task.n_classes, task.width, 1, kernel, vector_rate=True).double()
    else:
        model = TrainedStep(task.d, task.n_classes, task.width, kernel).double()
    model.load_state_dict({k: torch.from_numpy(np.asarray(v)) for k, v in parameters.items()})
    return model


def logits_over(model: FunctionalGD | TrainedStep, tokens: Tensor, points: Tensor) -> Tensor:
    """Logits ``(C, P)`` of a model of one step for queries ``points (P, d)`` that share the context ``tokens (N, d + 1)``."""
    if isinstance(model, TrainedStep):
        return model(tokens[..., None], points.T)  # a batch of one context broadcasts
    to_query = relate(KERNELS[model.kernel], points, tokens[:, :-1])  # (P, N)
    return model.logits(to_query, tokens[:, -1].long().expand(len(points), -1)).T


@dataclass(frozen=True)
class Maps:
    """Probabilities over the square for one context.

    Attributes:
        gd_runs, tf_runs: ``(R, C, GRID, GRID)``, run by run; ``truth`` ``(C, GRID, GRID)``, by the data's law.
        points, labels: the context, ``(N, 2)`` and ``(N,)``.
        shown: three categories, the most probable ones of the quadrants.
        top: most probable category of each quadrant, counter-clockwise from the top right.
    """

    gd_runs: np.ndarray
    tf_runs: np.ndarray
    truth: np.ndarray
    points: np.ndarray
    labels: np.ndarray
    shown: tuple[int, ...]
    top: tuple[int, ...]

    @property
    def gd(self) -> np.ndarray:
        """Mean over runs ``(C, GRID, GRID)``."""
        return self.gd_runs.mean(0)

    @property
    def tf(self) -> np.ndarray:
        """Mean over runs ``(C, GRID, GRID)``."""
        return self.tf_runs.mean(0)


@lru_cache(maxsize=2)
def _test_contexts(task: Quadrants, twin: int | None) -> tuple[Tensor, Tensor]:
    """Test contexts ``(N, 3, 64)`` for maps, which every kernel shares, of a twin or none, and the categories of their quadrants ``(4, 64)``."""
    return sample_contexts(task, 64, 21).context, task.chosen(numbers(task, 0, 21)[1])[:, :64]


@torch.no_grad()
def maps(get: Get, profile: str, kernel: str = "rbf", pick: int = 0) -> Maps:
    """Figure 9 for the ``pick``-th test context whose quadrants have three different most probable categories or more."""
    task = Quadrants(N=SIZES[profile].quad_N)
    w = task.embedding.double()
    context, chosen = _test_contexts(task, number())
    tops = (w.T @ w)[chosen].argmax(-1)  # (4, 64): which category is most probable where f = w_c
    several = [b for b in range(64) if len(set(tops[:, b].tolist())) >= 3]
    b = several[pick]
    points, tokens = grid(), context[..., b].double()
    each: dict[str, list[np.ndarray]] = {"GD": [], "TF": []}
    for kind, study in (("GD", f"quad_gd_{KERNELS[kernel]}"), ("TF", "quad_tf")):
        stored = stopped_parameters(get(study), kernel)
        for r in range(len(next(iter(stored.values())))):
            model = model_of_run(kind, kernel, task, {n: p[r] for n, p in stored.items()})
            logits = logits_over(model, tokens, points)
            each[kind].append(torch.softmax(logits, dim=0).reshape(-1, GRID, GRID).numpy())
    quadrant = torch.from_numpy(_quadrants().ravel())
    truth = torch.softmax(w.T @ w[:, chosen[:, b]], dim=0)[:, quadrant].reshape(-1, GRID, GRID)
    top = tuple(int(c) for c in tops[:, b])
    shown = tuple(dict.fromkeys(top))[:3]
    return Maps(
        np.stack(each["GD"]),
        np.stack(each["TF"]),
        truth.numpy(),
        context[:, :2, b].numpy(),
        context[:, 2, b].numpy().astype(int),
        shown,
        top,
    )


def every_map(get: Get, profile: str, contexts: int) -> dict[str, list[Maps]]:
    """Maps of every kernel on each of the first ``contexts`` test contexts that :func:`maps` picks."""
    return {k: [maps(get, profile, k, pick) for pick in range(contexts)] for k in KERNELS}


def figure9(maps: Mapping[str, list[Maps]]) -> dict[str, Any]:
    """What decides figure 9, one number for each context: distance and correlation of GD's and Trained TF's maps, run by run and then averaged.

    Controls: the same Trained TF beside GD with each other kernel, of which the one that comes nearest over all contexts counts, and GD beside GD from
    the next initialisation. Values as well: the share of the square where the most probable category is the right one.

    Args:
        maps: kernel -> its maps, context by context, of the same contexts; the figure shows ``rbf``.
    """
    found, others = maps["rbf"], [one for kernel, one in maps.items() if kernel != "rbf"]
    own = [compared(m.gd_runs, m.tf_runs, m.shown) for m in found]
    seeds = [compared(m.gd_runs, np.roll(m.gd_runs, 1, axis=0), m.shown) for m in found]
    crossed = [
        [compared(o.gd_runs, m.tf_runs, m.shown) for m, o in zip(found, one, strict=True)] for one in others
    ]
    right = [np.array(m.top)[_quadrants()] for m in found]
    return {
        "fig9/difference": [float(a.mean()) for a, _ in own],
        "fig9/difference_se": [estimate(a).error for a, _ in own],
        "fig9/correlation": [float(c.mean()) for _, c in own],
        "fig9/correlation_se": [estimate(c).error for _, c in own],
        "fig9/crossed_difference": min(([float(a.mean()) for a, _ in one] for one in crossed), key=max),
        "fig9/crossed_correlation": max(([float(c.mean()) for _, c in one] for one in crossed), key=min),
        "fig9/seeds_difference": [float(a.mean()) for a, _ in seeds],
        "fig9/right_gd": [
            float((m.gd_runs.argmax(1) == r).mean()) for m, r in zip(found, right, strict=True)
        ],
        "fig9/right_tf": [
            float((m.tf_runs.argmax(1) == r).mean()) for m, r in zip(found, right, strict=True)
        ],
    }


def compared(a: np.ndarray, b: np.ndarray, shown: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Mean absolute difference and correlation of two maps of the categories shown, run by run: ``(R,)`` each, from ``(R, C, GRID, GRID)``."""
    pairs = [(x[list(shown)], y[list(shown)]) for x, y in zip(a, b, strict=True)]
    difference = np.array([np.abs(x - y).mean() for x, y in pairs])
    return difference, np.array([np.corrcoef(x.ravel(), y.ravel())[0, 1] for x, y in pairs])


@torch.no_grad()
def own_kernel(get: Get, profile: str, contexts: int = 512) -> dict[str, Any]:
    """Predictions for the queries of test contexts, all probabilities: distance of Trained TF with each kernel from GD with the same kernel and from the
    nearest GD with another, run by run."""
    task = Quadrants(N=SIZES[profile].quad_N)
    context, query, _ = (part.double() for part in sample_contexts(task, contexts, TEST))
    predicted: dict[str, dict[str, np.ndarray]] = {"GD": {}, "TF": {}}
    for kernel in KERNELS:
        for kind, study in (("GD", f"quad_gd_{KERNELS[kernel]}"), ("TF", "quad_tf")):
            stored = stopped_parameters(get(study), kernel)
            models = (
                model_of_run(kind, kernel, task, {n: p[r] for n, p in stored.items()})
                for r in range(len(next(iter(stored.values()))))
            )
            predicted[kind][kernel] = np.stack([torch.softmax(m(context, query), 0).numpy() for m in models])
    distance = {
        (k, j): np.abs(predicted["TF"][k] - predicted["GD"][j]).sum(1).mean(-1) / 2  # (R,), total variation
        for k in KERNELS
        for j in KERNELS
    }
    nearest = {k: min((distance[k, j] for j in KERNELS if j != k), key=np.mean) for k in KERNELS}
    return {
        "q-own-kernel/own": [float(distance[k, k].mean()) for k in KERNELS],
        "q-own-kernel/own_se": [estimate(distance[k, k] - nearest[k]).error for k in KERNELS],
        "q-own-kernel/nearest": [float(nearest[k].mean()) for k in KERNELS],
    }


def _quadrants() -> np.ndarray:
    """Quadrant of every grid point, ``(GRID, GRID)``."""
    p = grid().numpy()
    return np.where(p[:, 1] >= 0, (p[:, 0] < 0).astype(int), 2 + (p[:, 0] >= 0).astype(int)).reshape(
        GRID, GRID
    )


# -- figures ----------------------------------------------------------------------------------------------------------


def plot_training(found: Mapping[str, Mapping[str, Scores]], bound: float) -> Figure:
    """Figure 8 (and linear attention): test accuracy along training, every seed and their mean; dashes: mean maximum probability."""
    fig, axes = style.figure(len(NAMES), height=2.6, sharey=True)
    for ax, (kernel, name) in zip(axes, NAMES.items(), strict=True):
        for model, colour in (("GD", style.PALETTE[0]), ("TF", style.PALETTE[1])):
            s = found[kernel][model]
            ax.plot(s.steps[1:], s.accuracy[1:], color=colour, lw=0.6, alpha=0.5)
            label = "GD" if model == "GD" else "Trained TF"
            ax.plot(s.steps[1:], s.accuracy[1:].mean(1), color=colour, lw=2, label=label)
        ax.axhline(bound, color=style.COLOURS["theory"], ls=":", lw=1.3)
        ax.set(xscale="log", title=name, ylim=(0, 0.65))
        ax.set_xticks([30, 100, 500], ["30", "100", "500"])
        ax.minorticks_off()
    axes[0].set_ylabel("test accuracy")
    axes[2].set_xlabel("minibatches")
    axes[0].legend(fontsize=7.5, loc="lower right")
    return fig


def _samples(ax: Axes, points: np.ndarray, labels: np.ndarray, shown: tuple[int, ...]) -> None:
    other = ~np.isin(labels, shown)
    ax.plot(*points[other].T, "o", ms=2.5, mfc="none", mec="white", mew=0.7)
    for c in shown:
        for x, y in points[labels == c]:
            ax.text(x, y, str(c), color="white", fontsize=6, ha="center", va="center", weight="bold")


def plot_maps(m: Maps) -> Figure:
    """Figure 9: rows the data's law, GD and Trained TF; columns three categories."""
    rows = {"true": m.truth, "GD": m.gd, "Trained TF": m.tf}
    fig, axes = style.figure(3, 3, width=6.2, height=5.4)
    for r, (name, maps) in enumerate(rows.items()):
        for c, category in enumerate(m.shown):
            ax = axes[r, c]
            image = ax.imshow(
                maps[category], origin="lower", extent=(-1, 1, -1, 1), cmap="viridis", vmin=0, vmax=1
            )
            _samples(ax, m.points, m.labels, m.shown)
            ax.axhline(0, color="white", lw=0.5)
            ax.axvline(0, color="white", lw=0.5)
            ax.set(xticks=[], yticks=[])
            ax.grid(False)
            if r == 0:
                ax.set_title(f"c = {category}")
        axes[r, 0].set_ylabel(name)
    fig.colorbar(image, ax=axes, shrink=0.7, label="p(Y = c | x)")
    return fig
