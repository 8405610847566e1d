"""The matrices that Trained TF learns on the quadrants (figures 10 and 11), and what they mean when W_e is learned too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ....models.trained_tf import TrainedStep
from ....statistics import bootstrap_error
from ....tasks.categorical import Quadrants
from ..runs.contexts import draw
from ..runs.sizes import SIZES
from ..runs.specs import stopped_parameters
from .learned import Get
from .square import model_of_run


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


def neglect(read: np.ndarray, ignored: np.ndarray) -> np.ndarray:
    """Root mean square entry of the columns that should be zero over that of the columns that are read, ``(R, n, k)`` each; run by run ``(R,)``."""
    return np.sqrt((ignored**2).mean((1, 2))) / np.sqrt((read**2).mean((1, 2)))


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
    code, glorot = found["code"], found["glorot"]
    transpose, transpose_glorot = from_transpose(code), from_transpose(glorot)
    return {
        **per_seed(anisotropy(code.Q), "fig10/code_Q", "fig10/code_Q_se"),
        **per_seed(anisotropy(glorot.Q), "fig10/glorot_Q", "fig10/glorot_Q_se"),
        **per_seed(neglected_labels(code, task), "fig10/code_keys", "fig10/code_keys_se"),
        **per_seed(neglected_labels(glorot, task), "fig10/glorot_keys", "fig10/glorot_keys_se"),
        **per_seed(neglected_covariates(code, task), "fig10/code_values", "fig10/code_values_se"),
        **per_seed(neglected_covariates(glorot, task), "fig10/glorot_values", "fig10/glorot_values_se"),
        "fig10/code_ED": anisotropy(code.ED).tolist(),
        "fig10/true_ED": anisotropy(found["true"].ED).tolist(),
        "fig10/glorot_ED": anisotropy(glorot.ED).tolist(),
        "fig10/code_transpose": transpose.tolist(),
        "fig10/glorot_transpose": transpose_glorot.tolist(),
        "fig10/code_transpose_se": float(np.std(transpose - transpose_glorot, ddof=1)),
        "fig10/inert_moved": inert_moved(get, task),
        "fig10/inert_share": _inert_share(task),
        "fig10/seeds": len(code.Q),
        **gauge(code, task),
        **gauge_spreads(found),
    }, found


def per_seed(values: np.ndarray, key: str, error: str) -> dict[str, Any]:
    """One number for each seed ``(R,)``, every one of which is judged, and how far another seed's would lie: their standard deviation."""
    return {key: values.tolist(), error: float(np.std(values, ddof=1))}


def from_transpose(one: Learned) -> np.ndarray:
    """Distance of E from ``D^T`` relative to E's norm, ``(R,)``."""
    return np.linalg.norm(one.E - one.D.swapaxes(1, 2), axis=(1, 2)) / np.linalg.norm(one.E, axis=(1, 2))


def neglected_labels(one: Learned, task: Quadrants) -> np.ndarray:
    """``W_K``'s entries for w over those for x, ``(R,)``."""
    keys = one.matrices["W_K"]
    return neglect(keys[:, :, : task.d], keys[:, :, task.d : task.d + task.width])


def neglected_covariates(one: Learned, task: Quadrants) -> np.ndarray:
    """``W_V``'s entries for x over those for w, ``(R,)``."""
    read = one.matrices["W_V"]
    return neglect(read[:, :, task.d : task.d + task.width], read[:, :, : task.d])


def gauge_spreads(found: dict[str, Learned]) -> dict[str, float]:
    """How far E D strays with the true W_e held and with W_e learned, and the error over seeds of the difference."""

    def held(runs: np.ndarray) -> float:  # (R, 4, d', d'), each seed with all its four trainings
        return spread(np.concatenate([runs[:, 2], runs[:, 3]]))

    def free(runs: np.ndarray) -> float:
        return spread(np.concatenate([runs[:, 0], runs[:, 1]]))

    every = np.stack([found[name].ED for name in ("code", "glorot", "true", "true-glorot")], axis=1)
    return {
        "q-ed-gauge/true_spread": held(every),
        "q-ed-gauge/learned_spread": free(every),
        "q-ed-gauge/learned_spread_se": bootstrap_error(lambda runs: free(runs) - held(runs), every),
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
    model = model_of_run("TF", "softmax", task, {n: p[0] for n, p in one.matrices.items()})
    before = model(context, query)
    turned = model_of_run("TF", "softmax", task, {n: p[0] for n, p in one.matrices.items()})
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
