"""The quadrants of appendix F (figures 8 and 9): five kernels, maps over the square."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....models.functional_gd import FunctionalGD
from ....models.kernels import KERNELS, kernel_values, relate
from ....models.trained_tf import TrainedStep
from ....tasks.batch import Batch
from ....tasks.categorical import Quadrants
from ..runs.contexts import draw, numbers
from ..runs.specs import Scores, scores, stopped_parameters
from ..runs.studies import SIZES
from .learned import Get, error_of_runs, t_of_runs

#: Points along each side of the maps.
GRID = 41


def compare(get: Get) -> dict[str, dict[str, Scores]]:
    """Figure 8: ``[kernel]["GD" or "TF"]``."""
    return {
        k: {"GD": scores(get(f"quad_gd_{KERNELS[k]}"), k), "TF": scores(get("quad_tf"), k)} for k in KERNELS
    }


def figure8(found: dict[str, dict[str, Scores]], bound: float) -> dict[str, Any]:
    """What decides figure 8; ``bound`` is the mean maximum probability of this draw of W_e."""
    runs = {k: {m: s.stopped("accuracy") for m, s in by.items()} for k, by in found.items()}
    accuracy = {k: {m: a.mean() for m, a in by.items()} for k, by in runs.items()}
    curved = [k for k in KERNELS if k != "linear"]
    gaps = [runs[k]["GD"] - runs[k]["TF"] for k in curved]
    least = min(("rbf", "softmax", "laplacian"), key=lambda k: accuracy[k]["GD"])
    exponential, linear = (runs[k]["GD"] for k in ("exponential", "linear"))
    return {
        "fig8/gd": [float(accuracy[k]["GD"]) for k in curved],
        "fig8/tf": [float(accuracy[k]["TF"]) for k in curved],
        "fig8/gaps": [float(abs(accuracy[k]["GD"] - accuracy[k]["TF"])) for k in curved],
        "fig8/gaps_t": [t_of_runs(gap) for gap in gaps],
        "fig8/gaps_se": [error_of_runs(gap) for gap in gaps],
        "fig8/exponential_behind": float(accuracy[least]["GD"] - exponential.mean()),
        "fig8/exponential_behind_se": error_of_runs(runs[least]["GD"] - exponential),
        "fig8/linear_behind": float(exponential.mean() - linear.mean()),
        "fig8/linear_behind_se": error_of_runs(exponential - linear),
        "fig8/linear": float(linear.mean()),
        "fig8/bound": float(bound),
        "fig8/seeds": found["rbf"]["GD"].accuracy.shape[1],
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


@torch.no_grad()
def maps(get: Get, profile: str, kernel: str = "rbf", pick: int = 0) -> Maps:
    """Figure 9 for the ``pick``-th test context whose quadrants have three different most probable categories or more."""
    task = Quadrants(N=SIZES[profile].quad_N)
    w = task.embedding.double()
    context, _, _ = draw(task, 64, 21)
    chosen = task.chosen(numbers(task, 0, 21)[1])[:, :64]  # (4, 64)
    tops = (w.T @ w)[chosen].argmax(-1)  # (4, 64): which category is most probable where f = w_c
    several = [b for b in range(64) if len(set(tops[:, b].tolist())) >= 3]
    b = several[pick]
    points = grid()
    tokens = context[..., b : b + 1].double().expand(-1, -1, len(points))
    each: dict[str, list[np.ndarray]] = {"GD": [], "TF": []}
    for kind, study in (("GD", f"quad_gd_{KERNELS[kernel]}"), ("TF", "quad_tf")):
        stored = stopped_parameters(get(study), kernel)
        for r in range(len(next(iter(stored.values())))):
            model = model_of_run(kind, kernel, task, {n: p[r] for n, p in stored.items()})
            each[kind].append(torch.softmax(model(tokens, points.T), dim=0).reshape(-1, GRID, GRID).numpy())
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


def figure9(found: list[Maps]) -> dict[str, Any]:
    """What decides figure 9, one number for each context: distance and correlation of GD's and Trained TF's maps, run by run and then averaged.

    Values as well: the share of the square where the most probable category is the right one.
    """
    values: dict[str, list[float]] = {
        "fig9/difference": [],
        "fig9/difference_se": [],
        "fig9/correlation": [],
        "fig9/correlation_se": [],
        "fig9/right_gd": [],
        "fig9/right_tf": [],
    }
    for m in found:
        shown = list(m.shown)
        pairs = [(g[shown], t[shown]) for g, t in zip(m.gd_runs, m.tf_runs, strict=True)]
        difference = np.array([np.abs(g - t).mean() for g, t in pairs])
        correlation = np.array([np.corrcoef(g.ravel(), t.ravel())[0, 1] for g, t in pairs])
        values["fig9/difference"].append(float(difference.mean()))
        values["fig9/difference_se"].append(error_of_runs(difference))
        values["fig9/correlation"].append(float(correlation.mean()))
        values["fig9/correlation_se"].append(error_of_runs(correlation))
        right = np.array(m.top)[_quadrants()]
        values["fig9/right_gd"].append(float((m.gd_runs.argmax(1) == right).mean()))
        values["fig9/right_tf"].append(float((m.tf_runs.argmax(1) == right).mean()))
    return values


def _quadrants() -> np.ndarray:
    """Quadrant of every grid point, ``(GRID, GRID)``."""
    p = grid().numpy()
    return np.where(p[:, 1] >= 0, (p[:, 0] < 0).astype(int), 2 + (p[:, 0] >= 0).astype(int)).reshape(
        GRID, GRID
    )


@lru_cache(maxsize=16)
def _contexts(n: int, embed_seed: int) -> Batch:
    """A few contexts of ``n`` points, batch last; a slider asks for the same ones at every position."""
    return draw(Quadrants(N=n, embed_seed=embed_seed), 8, 31)


@torch.no_grad()
def free_map(
    kernel: str,
    gamma: float,
    n: int,
    blocks: int,
    rate: float,
    task: Quadrants,
    index: int = 0,
    heads: int = 1,
) -> tuple[np.ndarray, Batch]:
    """Functional GD with the task's own W_e on one context (no training): ``p (C, GRID, GRID)`` and the context.

    Several heads have kernels of precision ``gamma * 4^m`` and equal weights.
    """
    batch = _contexts(n, task.embed_seed)
    points, w = grid(), task.embedding.double()
    x, y = batch.context[:, :2, index].double(), batch.context[:, 2, index].long()
    everything = torch.cat([x, points])
    relation = relate(KERNELS[kernel], everything, x)
    weights = sum(kernel_values(kernel, relation, gamma * 4.0**m) for m in range(heads)) / heads
    if kernel != "softmax":
        weights = weights / n
    f = torch.zeros(len(everything), task.width, dtype=torch.float64)
    for _ in range(blocks):
        residual = w[:, y].T - torch.softmax(f[:n] @ w, dim=-1) @ w.T
        f = f + rate * weights @ residual
    p = torch.softmax(f[n:] @ w, dim=-1).T.reshape(-1, GRID, GRID).numpy()
    return p, Batch(batch.context[..., index], batch.query[..., index], batch.target[..., index])
