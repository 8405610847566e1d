"""The matrices that Trained TF learns on the quadrants (figures 10 and 11), and what they mean when W_e is learned too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ....models.trained_tf import TrainedStep
from ....statistics import widened_error
from ....tasks.categorical import Quadrants
from ..runs.contexts import draw
from ..runs.draws import FIRST, STARTS, UNITS
from ..runs.sizes import SIZES
from ..runs.specs import stopped_parameters
from .learned import Get
from .square import model_of_run


@dataclass(frozen=True)
class Learned:
    """What Trained TF learned, and the products that figures 10 and 11 show, run by run.

    Attributes:
        matrices: ``W_Q, W_K, W_V, P`` ``(R, D, D)``, ``embed`` ``(R, d', C)``.
        A, B: the first columns of W_K and W_Q, ``(R, D, d)``.
        Q: ``A^T B`` ``(R, d, d)``.
        E, D: ``(R, d', D)`` and ``(R, D, d')``.
        ED: ``(R, d', d')``.
    """

    matrices: dict[str, np.ndarray]
    A: np.ndarray
    B: np.ndarray
    Q: np.ndarray
    E: np.ndarray
    D: np.ndarray
    ED: np.ndarray


def products(m: dict[str, np.ndarray], task: Quadrants) -> Learned:
    """The products of matrices ``(R, D, D)``."""
    d, w = task.d, task.width
    a, b = m["W_K"][:, :, :d], m["W_Q"][:, :, :d]
    e, v = m["P"][:, -w:], m["W_V"][:, :, d : d + w]
    return Learned(m, a, b, np.einsum("rki,rkj->rij", a, b), e, v, e @ v)


def learned(get: Get, profile: str, group: str) -> Learned:
    """Figures 10 and 11 of a group, each draw at its best validation record."""
    every = [stopped_parameters(get(f"long{u}"), group) for u in range(UNITS[profile].units)]
    return products({n: np.concatenate([one[n] for one in every]) for n in every[0]}, quadrants(profile))


def quadrants(profile: str) -> Quadrants:
    """The task of the first draw; the others differ in W_e."""
    return Quadrants(N=SIZES[profile].quad_N, embed_seed=FIRST)


def crossed(one: Learned, task: Quadrants) -> Learned:
    """The control: W_K and P of each draw beside W_Q and W_V of the next one."""
    rolled = {n: np.roll(one.matrices[n], -1, axis=0) for n in ("W_Q", "W_V")}
    return products(one.matrices | rolled, task)


def anisotropy(matrices: np.ndarray) -> np.ndarray:
    """Distance of each matrix ``(R, n, n)`` from the nearest multiple of I, relative to its norm: 0 for a multiple, at most 1."""
    return np.linalg.norm(without_trace(matrices), axis=(1, 2)) / np.linalg.norm(matrices, axis=(1, 2))


def without_trace(matrices: np.ndarray) -> np.ndarray:
    """Each matrix ``(R, n, n)`` less the nearest multiple of I."""
    n = matrices.shape[-1]
    return matrices - np.trace(matrices, axis1=1, axis2=2)[:, None, None] / n * np.eye(n)


def neglect(read: np.ndarray, ignored: np.ndarray) -> np.ndarray:
    """Root mean square entry of the columns that should be zero over that of the columns that are read, ``(R, n, k)`` each; run by run ``(R,)``."""
    return np.sqrt((ignored**2).mean((1, 2))) / np.sqrt((read**2).mean((1, 2)))


def distance(these: np.ndarray, those: np.ndarray) -> np.ndarray:
    """Distance of matrices ``(R, n, k)`` from others, relative to the norm of the first, run by run ``(R,)``."""
    return np.linalg.norm(these - those, axis=(1, 2)) / np.linalg.norm(these, axis=(1, 2))


def figures10_11(get: Get, profile: str) -> tuple[dict[str, Any], dict[str, Learned]]:
    """What decides figures 10 and 11 and the questions of gauge and initialisation."""
    task = quadrants(profile)
    found = {name: learned(get, profile, name) for name, _, _ in STARTS}
    code, glorot = found["code"], found["glorot"]
    mixed, mixed_glorot = crossed(code, task), crossed(glorot, task)
    transpose, transpose_glorot = from_transpose(code), from_transpose(glorot)
    return {
        **per_draw(anisotropy(code.Q), "fig10/code_Q", "fig10/code_Q_se"),
        **per_draw(anisotropy(glorot.Q), "fig10/glorot_Q", "fig10/glorot_Q_se"),
        **per_draw(distance(code.A, code.B), "fig10/code_AB", "fig10/code_AB_se"),
        **per_draw(distance(glorot.A, glorot.B), "fig10/glorot_AB", "fig10/glorot_AB_se"),
        **per_draw(neglected_labels(code, task), "fig10/code_keys", "fig10/code_keys_se"),
        **per_draw(neglected_labels(glorot, task), "fig10/glorot_keys", "fig10/glorot_keys_se"),
        **per_draw(neglected_covariates(code, task), "fig10/code_values", "fig10/code_values_se"),
        **per_draw(neglected_covariates(glorot, task), "fig10/glorot_values", "fig10/glorot_values_se"),
        **per_draw(anisotropy(code.ED), "fig10/code_ED", "fig10/code_ED_se"),
        **per_draw(anisotropy(glorot.ED), "fig10/glorot_ED", "fig10/glorot_ED_se"),
        **per_draw(anisotropy(found["true"].ED), "fig10/true_ED", "fig10/true_ED_se"),
        **per_draw(transpose, "fig10/code_transpose", "fig10/code_transpose_se"),
        **per_draw(transpose_glorot, "fig10/glorot_transpose", "fig10/glorot_transpose_se"),
        "fig10/code_Q_crossed": anisotropy(mixed.Q).tolist(),
        "fig10/glorot_Q_crossed": anisotropy(mixed_glorot.Q).tolist(),
        "fig10/code_AB_crossed": distance(mixed.A, mixed.B).tolist(),
        "fig10/glorot_AB_crossed": distance(mixed_glorot.A, mixed_glorot.B).tolist(),
        "fig10/code_ED_crossed": anisotropy(mixed.ED).tolist(),
        "fig10/glorot_ED_crossed": anisotropy(mixed_glorot.ED).tolist(),
        "fig10/code_transpose_crossed": from_transpose(mixed).tolist(),
        "fig10/glorot_transpose_crossed": from_transpose(mixed_glorot).tolist(),
        "q-ed-init/gap": float((transpose_glorot - transpose).mean()),
        "q-ed-init/gap_se": widened_error(transpose_glorot - transpose),
        "fig10/inert_moved": inert_moved(get, profile),
        "fig10/inert_share": _inert_share(task),
        "fig10/draws": len(code.Q),
        **gauge(code, task),
        **gauge_spreads(found),
        **inverse_values(found["true"]),
    }, found


def per_draw(values: np.ndarray, key: str, error: str) -> dict[str, Any]:
    """One number for each draw ``(R,)``, every one of which is judged, and how far another draw's would lie: their standard deviation."""
    return {key: values.tolist(), error: float(np.std(values, ddof=1))}


def from_transpose(one: Learned) -> np.ndarray:
    """Distance of E from ``D^T`` relative to E's norm, ``(R,)``."""
    return distance(one.E, one.D.swapaxes(1, 2))


def neglected_labels(one: Learned, task: Quadrants) -> np.ndarray:
    """``W_K``'s entries for w over those for x, ``(R,)``."""
    keys = one.matrices["W_K"]
    return neglect(keys[:, :, : task.d], keys[:, :, task.d : task.d + task.width])


def neglected_covariates(one: Learned, task: Quadrants) -> np.ndarray:
    """``W_V``'s entries for x over those for w, ``(R,)``."""
    read = one.matrices["W_V"]
    return neglect(read[:, :, task.d : task.d + task.width], read[:, :, : task.d])


def gauge_spreads(found: dict[str, Learned]) -> dict[str, float]:
    """How far E D of one start is from that of the other, relative to their mean's norm: with W_e learned and with the true W_e held, means over draws."""

    def apart(one: str, other: str) -> np.ndarray:  # (R,)
        these, those = found[one].ED, found[other].ED
        size = np.linalg.norm((these + those) / 2, axis=(1, 2))
        return np.linalg.norm(these - those, axis=(1, 2)) / size

    free, held = apart("code", "glorot"), apart("true", "true-glorot")
    return {
        "q-ed-gauge/true_spread": float(held.mean()),
        "q-ed-gauge/learned_spread": float(free.mean()),
        "q-ed-gauge/learned_spread_se": widened_error(free - held),
    }


def inverse_values(held: Learned) -> dict[str, Any]:
    """Where the true W_e is held: whether E D departs from a multiple of I towards the inverse of the classes' second moment, as Newton's step at f = 0 would.

    The Hessian of the cross-entropy is there ``(W_e - mean)(W_e - mean)^T / C``. Cosine of the angle between the parts of E D and of its inverse that are no
    multiple of I, for the draw's own W_e and for the next draw's.
    """
    centred = held.matrices["embed"] - held.matrices["embed"].mean(2, keepdims=True)  # (R, d', C)
    inverse = without_trace(np.linalg.inv(centred @ centred.swapaxes(1, 2)))
    departs = without_trace(held.ED)

    def cosine(these: np.ndarray, those: np.ndarray) -> np.ndarray:
        return (
            (these * those).sum((1, 2))
            / np.linalg.norm(these, axis=(1, 2))
            / np.linalg.norm(those, axis=(1, 2))
        )

    own, other = cosine(departs, inverse), cosine(departs, np.roll(inverse, -1, axis=0))
    return {
        "q-ed-inverse/cosine": own.tolist(),
        "q-ed-inverse/other": other.tolist(),
        "q-ed-inverse/gap": float((own - other).mean()),
        "q-ed-inverse/gap_se": widened_error(own - other),
    }


def inert_moved(get: Get, profile: str) -> float:
    """Largest change during training, over draws, of the entries whose gradient is zero for every prompt (published initialisation)."""
    task = quadrants(profile)
    masks = TrainedStep(task.d, task.n_classes, task.width).inert()
    every = [get(f"long{u}").group("code") for u in range(UNITS[profile].units)]
    return max(
        float(np.abs(results[n][-1] - results[n][0])[:, mask.numpy()].max())
        for results in every
        for n, mask in masks.items()
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
