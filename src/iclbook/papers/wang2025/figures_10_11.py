"""Figures 10 and 11: the matrices that Trained TF learns on the quadrants, and what they mean when W_e is learned too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ...drawing import style
from ...models.trained_tf import TrainedStep
from ...statistics import Estimate, widened_error
from ...tasks.categorical import Quadrants
from .contexts import FIRST, sample_contexts, stopped_parameters
from .figures_3_5 import Get
from .figures_8_9 import model_of_run
from .studies import SIZES, STARTS


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
    every = [stopped_parameters(get(f"long{u}"), group) for u in range(SIZES[profile].units)]
    return products({n: np.concatenate([one[n] for one in every]) for n in every[0]}, quadrants(profile))


def quadrants(profile: str) -> Quadrants:
    """The task of the first draw; the others differ in W_e."""
    return Quadrants(N=SIZES[profile].quad_N, embed_seed=FIRST)


def crossed(one: Learned, task: Quadrants) -> Learned:
    """The control: W_K and P of each draw beside W_Q and W_V of the next one."""
    rolled = {n: np.roll(one.matrices[n], -1, axis=0) for n in ("W_Q", "W_V")}
    return products(one.matrices | rolled, task)


def without_trace(matrices: np.ndarray) -> np.ndarray:
    """Each matrix ``(R, n, n)`` less the nearest multiple of I."""
    n = matrices.shape[-1]
    return matrices - np.trace(matrices, axis1=1, axis2=2)[:, None, None] / n * np.eye(n)


def anisotropy(matrices: np.ndarray) -> np.ndarray:
    """Distance of each matrix ``(R, n, n)`` from the nearest multiple of I, relative to its norm: 0 for a multiple, at most 1."""
    return np.linalg.norm(without_trace(matrices), axis=(1, 2)) / np.linalg.norm(matrices, axis=(1, 2))


def neglect(read: np.ndarray, ignored: np.ndarray) -> np.ndarray:
    """Root mean square entry of the columns that should be zero over that of the columns that are read, ``(R, n, k)`` each; run by run ``(R,)``."""
    return np.sqrt((ignored**2).mean((1, 2))) / np.sqrt((read**2).mean((1, 2)))


def distance(these: np.ndarray, those: np.ndarray) -> np.ndarray:
    """Distance of matrices ``(R, n, k)`` from others, relative to the norm of the first, run by run ``(R,)``."""
    return np.linalg.norm(these - those, axis=(1, 2)) / np.linalg.norm(these, axis=(1, 2))


def distances(one: Learned) -> dict[str, np.ndarray]:
    """How far the products are from what gradient descent would have, run by run: Q and E D from multiples of I, A from B, E from ``D^T``."""
    return {
        "Q": anisotropy(one.Q),
        "AB": distance(one.A, one.B),
        "ED": anisotropy(one.ED),
        "transpose": distance(one.E, one.D.swapaxes(1, 2)),
    }


def entries(one: Learned, task: Quadrants) -> dict[str, np.ndarray]:
    """Entries of ``W_K`` for w over those for x, of ``W_V`` for x over those for w, run by run."""
    x, w = slice(task.d), slice(task.d, task.d + task.width)
    keys, values = one.matrices["W_K"], one.matrices["W_V"]
    return {
        "keys": neglect(keys[:, :, x], keys[:, :, w]),
        "values": neglect(values[:, :, w], values[:, :, x]),
    }


def records(get: Get, profile: str) -> tuple[dict[str, Any], dict[str, Learned]]:
    """What decides figures 10 and 11 and the questions of gauge, one number for each draw; and the trainings by start."""
    task = quadrants(profile)
    found = {name: learned(get, profile, name) for name, _, _ in STARTS}
    values: dict[str, Any] = {"fig10/draws": len(found["code"].Q), **inert(get, profile)}
    for start in ("code", "glorot"):
        for name, each in {**distances(found[start]), **entries(found[start], task)}.items():
            values[f"fig10/{start}_{name}"] = per_draw(each)
        for name, each in distances(crossed(found[start], task)).items():
            values[f"fig10/{start}_{name}_crossed"] = each.tolist()
    values["fig10/true_ED"] = per_draw(anisotropy(found["true"].ED))
    return values | gauge(found["code"], task) | gauge_spreads(found) | inverse_values(found["true"]), found


def per_draw(values: np.ndarray) -> Estimate:
    """One number for each draw ``(R,)``, every one of which is judged, and how far another draw's would lie: their standard deviation."""
    return Estimate(values, float(np.std(values, ddof=1)))


def gauge_spreads(found: dict[str, Learned]) -> dict[str, Any]:
    """How far E D of one start is from that of the other, relative to their mean's norm: with W_e learned and with the true W_e held, means over draws."""

    def apart(one: str, other: str) -> np.ndarray:  # (R,)
        these, those = found[one].ED, found[other].ED
        return np.linalg.norm(these - those, axis=(1, 2)) / np.linalg.norm((these + those) / 2, axis=(1, 2))

    free, held = apart("code", "glorot"), apart("true", "true-glorot")
    return {
        "q-ed-gauge/true_spread": float(held.mean()),
        "q-ed-gauge/learned_spread": Estimate(float(free.mean()), widened_error(free - held)),
    }


def inverse_values(held: Learned) -> dict[str, Any]:
    """Where the true W_e is held: whether E D departs from a multiple of I towards the inverse of the classes' second moment, as Newton's step at f = 0 would.

    The Hessian of the cross-entropy is there ``(W_e - mean)(W_e - mean)^T / C``. Cosine of the angle between the parts of E D and of its inverse that are no
    multiple of I, for the draw's own W_e and for the next draw's.
    """
    centred = held.matrices["embed"] - held.matrices["embed"].mean(2, keepdims=True)  # (R, d', C)
    inverse, departs = (without_trace(m) for m in (np.linalg.inv(centred @ centred.swapaxes(1, 2)), held.ED))

    def cosine(those: np.ndarray) -> np.ndarray:
        norms = np.linalg.norm(departs, axis=(1, 2)) * np.linalg.norm(those, axis=(1, 2))
        return (departs * those).sum((1, 2)) / norms

    own, other = cosine(inverse), cosine(np.roll(inverse, -1, axis=0))
    return {
        "q-ed-inverse/cosine": own.tolist(),
        "q-ed-inverse/other": other.tolist(),
        "q-ed-inverse/gap": Estimate(float((own - other).mean()), widened_error(own - other)),
    }


def inert(get: Get, profile: str) -> dict[str, float]:
    """Share of the entries whose gradient is zero for every prompt, and their largest change during training over draws (published start)."""
    task = quadrants(profile)
    masks = TrainedStep(task.d, task.n_classes, task.width).inert()
    every = [get(f"long{u}").group("code") for u in range(SIZES[profile].units)]
    moved = [
        float(np.abs(results[n][-1] - results[n][0])[:, mask.numpy()].max())
        for results in every
        for n, mask in masks.items()
    ]
    share = float(torch.cat([m.flatten() for m in masks.values()]).double().mean())
    return {"fig10/inert_share": share, "fig10/inert_moved": max(moved)}


@torch.no_grad()
def gauge(one: Learned, task: Quadrants, seed: int = 0) -> dict[str, Any]:
    """``W_e -> G^-T W_e`` with ``E D -> G E D G^T`` leaves every prediction as it is: E D is a choice of coordinates when W_e is learned."""
    source = torch.Generator().manual_seed(seed)
    g = torch.randn(task.width, task.width, generator=source, dtype=torch.float64)
    batch = sample_contexts(task, 64, 22)
    context, query = batch.context.double(), batch.query.double()
    model, turned = (
        model_of_run("TF", "softmax", task, {n: p[0] for n, p in one.matrices.items()}) for _ in range(2)
    )
    before = model(context, query)
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


def plot_matrices(one: Learned, run: int = 0) -> Figure:
    """Figure 10: the four matrices of one run; hatched: entries that no gradient reaches."""
    names = ("W_Q", "W_K", "W_V", "P")
    size = one.matrices["W_Q"].shape[-1]
    w, d = one.matrices["embed"].shape[1], one.Q.shape[-1]
    beyond = (d + w - 0.5, -0.5, w, size)
    never = {
        "W_Q": (d - 0.5, -0.5, size - d, size),
        "W_K": beyond,
        "W_V": beyond,
        "P": (-0.5, -0.5, size, d + w),
    }
    fig, axes = style.heatmap_row([one.matrices[n][run] for n in names], [f"${n}$" for n in names])
    for ax, name in zip(axes, names, strict=True):
        x, y, width, height = never[name]
        ax.add_patch(Rectangle((x, y), width, height, fill=False, hatch="////", ec="#9A9A94", lw=0))
        ax.set_xticks([0, d, d + w], ["x", "w", "f"])
    return fig


def plot_products(found: dict[str, Learned], run: int = 0) -> Figure:
    """Figure 11 for four trainings: ``Q = A^T B`` and ``E D``, each divided by its largest entry."""
    names = {
        "code": r"$W_e$ learned, $0.002\,N(0,1)$",
        "true": r"$W_e$ true, $0.002\,N(0,1)$",
        "glorot": r"$W_e$ learned, Glorot",
        "true-glorot": r"$W_e$ true, Glorot",
    }
    fig, axes = style.figure(4, 2, height=3.6)
    for column, (name, title) in enumerate(names.items()):
        for row, matrix in enumerate((found[name].Q[run], found[name].ED[run])):
            style.heatmap(axes[row, column], matrix / np.abs(matrix).max(), 1.0, annotate=".1f")
        axes[0, column].set_title(title, fontsize=9)
    axes[0, 0].set_ylabel("$Q$")
    axes[1, 0].set_ylabel("$E D$")
    return fig
