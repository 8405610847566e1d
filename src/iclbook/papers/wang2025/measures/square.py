"""The quadrants of appendix F (figures 8 to 11): five kernels, maps over the square, the matrices that Trained TF learns."""

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
from ....statistics import bootstrap_error
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


def _model(kind: str, kernel: str, task: Quadrants, parameters: dict[str, np.ndarray]) -> torch.nn.Module:
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
            model = _model(kind, kernel, task, {n: p[r] for n, p in stored.items()})
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
    keys = ("difference", "difference_se", "correlation", "correlation_se", "right_gd", "right_tf")
    values: dict[str, list[float]] = {f"fig9/{k}": [] for k in keys}
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
        for key, runs in (("right_gd", m.gd_runs), ("right_tf", m.tf_runs)):
            values[f"fig9/{key}"].append(float((runs.argmax(1) == right).mean()))
    return values


def _quadrants() -> np.ndarray:
    """Quadrant of every grid point, ``(GRID, GRID)``."""
    p = grid().numpy()
    return np.where(p[:, 1] >= 0, (p[:, 0] < 0).astype(int), 2 + (p[:, 0] >= 0).astype(int)).reshape(
        GRID, GRID
    )


# -- figures 10 and 11 ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Learned:
    """Products of the matrices that Trained TF learned, run by run.

    Attributes:
        matrices: ``W_Q, W_K, W_V, P`` ``(R, D, D)``, ``embed`` ``(R, d', C)``.
        Q: ``A^T B`` ``(R, d, d)`` with A, B the first columns of W_K, W_Q.
        ED: ``(R, d', d')``; ``E`` ``(R, d', D)``, ``D`` ``(R, D, d')``.
    """

    matrices: dict[str, np.ndarray]
    Q: np.ndarray
    ED: np.ndarray
    E: np.ndarray
    D: np.ndarray


def learned(get: Get, study: str, group: str, task: Quadrants) -> Learned:
    """Figures 10 and 11 of a group, at the best validation record."""
    m = stopped_parameters(get(study), group)
    d, w = task.d, task.width
    a, b = m["W_K"][:, :, :d], m["W_Q"][:, :, :d]
    e, v = m["P"][:, -w:], m["W_V"][:, :, d : d + w]
    return Learned(m, np.einsum("rki,rkj->rij", a, b), e @ v, e, v)


def anisotropy(matrices: np.ndarray) -> np.ndarray:
    """Distance of each matrix ``(R, n, n)`` from the nearest multiple of I, relative to its norm: 0 for a multiple, at most 1."""
    n = matrices.shape[-1]
    scale = np.trace(matrices, axis1=1, axis2=2) / n
    rest = matrices - scale[:, None, None] * np.eye(n)
    return np.linalg.norm(rest, axis=(1, 2)) / np.linalg.norm(matrices, axis=(1, 2))


def neglect(read: np.ndarray, ignored: np.ndarray) -> list[float]:
    """Root mean square entry of the columns that should be zero over that of the columns that are read, ``(R, n, k)`` each; run by run."""
    return (np.sqrt((ignored**2).mean((1, 2))) / np.sqrt((read**2).mean((1, 2)))).tolist()


def spread(matrices: np.ndarray) -> float:
    """Largest distance of a matrix ``(R, n, n)`` from their mean, relative to the mean's norm."""
    mean = matrices.mean(0)
    return float((np.linalg.norm(matrices - mean, axis=(1, 2)) / np.linalg.norm(mean)).max())


def figures10_11(get: Get, profile: str) -> tuple[dict[str, Any], dict[str, Learned]]:
    """What decides figures 10 and 11 and the questions of gauge and initialisation."""
    task = Quadrants(N=SIZES[profile].quad_N)
    groups = {
        "code": ("quad_tf", "softmax"),
        "true": ("quad_gauge", "true"),
        "glorot": ("quad_gauge", "glorot"),
        "true-glorot": ("quad_gauge", "true-glorot"),
    }
    found = {name: learned(get, study, group, task) for name, (study, group) in groups.items()}
    values: dict[str, Any] = {}
    for name, one in found.items():
        values |= {
            f"fig10/{name}_Q": anisotropy(one.Q).tolist(),
            f"fig10/{name}_ED": anisotropy(one.ED).tolist(),
            f"fig10/{name}_transpose": (
                np.linalg.norm(one.E - one.D.swapaxes(1, 2), axis=(1, 2)) / np.linalg.norm(one.E, axis=(1, 2))
            ).tolist(),
        }
        d, w = task.d, task.width
        if not name.startswith("true"):
            keys, read = one.matrices["W_K"], one.matrices["W_V"]
            values[f"fig10/{name}_keys"] = neglect(keys[:, :, :d], keys[:, :, d : d + w])
            values[f"fig10/{name}_values"] = neglect(read[:, :, d : d + w], read[:, :, :d])
    values["fig10/inert_moved"] = inert_moved(get, task)
    values["fig10/inert_share"] = _inert_share(task)
    values |= gauge(found["code"], task)
    values["fig10/seeds"] = len(found["code"].Q)
    values["q-ed-gauge/true_spread"] = spread(np.concatenate([found["true"].ED, found["true-glorot"].ED]))
    values["q-ed-gauge/learned_spread"] = spread(np.concatenate([found["code"].ED, found["glorot"].ED]))
    return values | spreads_over_seeds(values, found), found


def spreads_over_seeds(values: dict[str, Any], found: dict[str, Learned]) -> dict[str, float]:
    """How far another seed's numbers lie: standard deviations over seeds, where every seed is judged; the error of the difference of the two spreads of E D."""

    def difference(runs: np.ndarray) -> float:  # (R, 4, d', d'), each seed with all its four trainings
        return spread(np.concatenate([runs[:, 0], runs[:, 1]])) - spread(
            np.concatenate([runs[:, 2], runs[:, 3]])
        )

    every = np.stack([found[name].ED for name in ("code", "glorot", "true", "true-glorot")], axis=1)
    keys = [f"fig10/{start}_{what}" for start in ("code", "glorot") for what in ("Q", "keys", "values")]
    transposes = np.subtract(values["fig10/code_transpose"], values["fig10/glorot_transpose"])
    return {f"{key}_se": float(np.std(values[key], ddof=1)) for key in keys} | {
        "fig10/code_transpose_se": float(np.std(transposes, ddof=1)),
        "q-ed-gauge/learned_spread_se": bootstrap_error(difference, every),
    }


def inert_moved(get: Get, task: Quadrants) -> float:
    """Largest change during training of the entries whose gradient is zero for every prompt (softmax, published initialisation)."""
    results = get("quad_tf").group("softmax")
    masks = TrainedStep(task.d, task.n_classes, task.width).inert()
    return max(
        float(np.abs(results[n][-1] - results[n][0])[:, mask.numpy()].max()) for n, mask in masks.items()
    )


def _inert_share(task: Quadrants) -> float:
    masks = TrainedStep(task.d, task.n_classes, task.width).inert().values()
    return float(torch.cat([m.flatten() for m in masks]).double().mean())


@torch.no_grad()
def gauge(one: Learned, task: Quadrants, seed: int = 0) -> dict[str, Any]:
    """``W_e -> G^-T W_e`` with ``E D -> G E D G^T`` leaves every prediction as it is: E D is a choice of coordinates when W_e is learned."""
    source = torch.Generator().manual_seed(seed)
    g = torch.randn(task.width, task.width, generator=source, dtype=torch.float64)
    batch = draw(task, 64, 22)
    context, query = batch.context.double(), batch.query.double()
    model = _model("TF", "softmax", task, {n: p[0] for n, p in one.matrices.items()})
    before = model(context, query)
    turned = _model("TF", "softmax", task, {n: p[0] for n, p in one.matrices.items()})
    d, w = task.d, task.width
    turned.embed.copy_(torch.linalg.inv(g).T @ model.embed)
    turned.P[-w:] = g @ model.P[-w:]
    turned.W_V[:, d : d + w] = model.W_V[:, d : d + w] @ g.T
    # The keys read w as well, by entries that training has left small: they change coordinates too.
    turned.W_K[:, d : d + w] = model.W_K[:, d : d + w] @ g.T
    after = turned(context, query)
    turned_ed = (turned.P[-w:] @ turned.W_V[:, d : d + w]).numpy()
    return {
        "q-ed-gauge/logits": float((after - before).abs().max() / before.abs().max()),
        "q-ed-gauge/turned": float(anisotropy(turned_ed[None])[0]),
    }


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
