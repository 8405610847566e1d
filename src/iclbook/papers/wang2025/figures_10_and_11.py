"""Figures 10 and 11: the matrices that Trained TF learns on the quadrants, and what they mean when W_e is learned too."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scipy.special import softmax

from ...draw import torch_rng
from ...drawing import style
from ...statistics import Estimate, standard_error
from ...tasks.categorical import Quadrants
from .contexts import FIRST, sample_contexts, stopped_parameters
from .figure_9_data import PublishedQuadrants
from .figures_3_to_5 import Get
from .figures_8_and_9 import NAMES, model_of_run, near
from .studies import SIZES, STARTS

#: The distances that are judged, of :func:`distances` and :func:`in_logits`.
JUDGED = ("code_Q", "code_AB", "A_columns", "keys_logits", "values_logits", "gauge_ED", "gauge_transpose", "D_columns")


class Learned(NamedTuple):
    """Matrices that Trained TF learned, run by run, and the products that figures 10 and 11 show; D = d + 2 d'."""

    matrices: dict[str, np.ndarray]  # W_Q, W_K, W_V, P (R, D, D), embed (R, d', C)
    A: np.ndarray  # the first columns of W_K, (R, D, d)
    B: np.ndarray  # those of W_Q
    E: np.ndarray  # (R, d', D)
    D: np.ndarray  # (R, D, d')
    Q: np.ndarray  # A^T B, (R, d, d)
    ED: np.ndarray  # (R, d', d')


def products(m: dict[str, np.ndarray], free_sign: bool = False) -> Learned:
    """The products of matrices. With ``free_sign``, which linear attention leaves, the signs of W_Q and P make the trace of Q positive in each run."""
    w = m["embed"].shape[1]
    d = m["P"].shape[1] - 2 * w
    a, b = m["W_K"][:, :, :d], m["W_Q"][:, :, :d]
    if free_sign:
        sign = np.where(np.einsum("rki,rki->r", a, b) < 0, -1.0, 1.0)[:, None, None]
        b, m = sign * b, m | {"W_Q": sign * m["W_Q"], "P": sign * m["P"]}
    e, v = m["P"][:, -w:], m["W_V"][:, :, d : d + w]
    return Learned(m, a, b, e, v, np.einsum("rki,rkj->rij", a, b), e @ v)


def norm(matrices: np.ndarray) -> np.ndarray:
    """Frobenius norm ``(R,)`` of each matrix ``(R, n, k)``."""
    return np.linalg.norm(matrices, axis=(1, 2))


def without_trace(matrices: np.ndarray) -> np.ndarray:
    """Each matrix ``(R, n, n)`` less the nearest multiple of I."""
    n = matrices.shape[-1]
    return matrices - np.trace(matrices, axis1=1, axis2=2)[:, None, None] / n * np.eye(n)


def anisotropy(matrices: np.ndarray) -> np.ndarray:
    """Distance of each matrix ``(R, n, n)`` from the nearest multiple of I, relative to its norm: 0 for a multiple, at most 1."""
    return norm(without_trace(matrices)) / norm(matrices)


def distance(these: np.ndarray, those: np.ndarray) -> np.ndarray:
    """Distance of matrices ``(R, n, k)`` from others, relative to the norm of the first, run by run ``(R,)``."""
    return norm(these - those) / norm(these)


def good_gauge(one: Learned) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates in which the symmetric part S of E D is I, ``G = S^{-1/2}`` ``(R, d', d')``, and whether there are any ``(R,)``: S is positive definite.
    Otherwise G is I. ``W_e -> G^-T W_e``, ``E -> G E``, ``D -> D G^T`` leaves every prediction as it is, so E D has a meaning only up to ``G E D G^T``."""
    values, vectors = np.linalg.eigh((one.ED + one.ED.swapaxes(1, 2)) / 2)
    definite = values.min(1) > 0
    roots = 1 / np.sqrt(np.where(definite[:, None], values, 1.0))
    gauge = np.einsum("rik,rk,rjk->rij", vectors, roots, vectors)
    return np.where(definite[:, None, None], gauge, np.eye(gauge.shape[-1])), definite


def fitted_gauge(one: Learned, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates in which the learned embeddings fit the true ones ``(R, d', C)`` best, by least squares: ``G = M^-T`` ``(R, d', d')`` where M takes the learned
    W_e to the true one, both less their means over the categories, which change nothing; and the share of the true one that M misses, ``(R,)``."""
    learned, truth = (w - w.mean(2, keepdims=True) for w in (one.matrices["embed"], truth))
    m = truth @ np.linalg.pinv(learned)
    return np.linalg.inv(m).swapaxes(1, 2), norm(truth - m @ learned) / norm(truth)


def antisymmetric(matrices: np.ndarray) -> np.ndarray:
    """The antisymmetric part of each matrix ``(R, n, n)``."""
    return (matrices - matrices.swapaxes(1, 2)) / 2


def distances(one: Learned) -> dict[str, np.ndarray]:
    """Distances of the products from those of gradient descent, run by run: Q and E D from multiples of I, A from B, E from ``D^T``, and ``A^T A`` and
    ``D^T D`` from multiples of I, as for orthogonal columns of one length. ``gauge_...``, ``D_columns``: in the coordinates of :func:`good_gauge`; the former
    are 1 where there are none."""
    gauge, definite = good_gauge(one)
    e, d = gauge @ one.E, one.D @ gauge.swapaxes(1, 2)
    return {
        "code_Q": anisotropy(one.Q),
        "code_AB": distance(one.A, one.B),
        "code_ED": anisotropy(one.ED),
        "code_transpose": distance(one.E, one.D.swapaxes(1, 2)),
        "A_columns": anisotropy(one.A.swapaxes(1, 2) @ one.A),
        "D_columns": anisotropy(d.swapaxes(1, 2) @ d),
        "gauge_ED": np.where(definite, anisotropy(e @ d), 1.0),
        "gauge_transpose": np.where(definite, distance(e, d.swapaxes(1, 2)), 1.0),
    }


def in_logits(one: Learned, tasks: Sequence[Quadrants], contexts: int = 256) -> dict[str, np.ndarray]:
    """Effects of the parts that should vanish, run by run, as root mean squares over test contexts of each run's task: attention logits from w over those from x (each less its mean
    over the examples, which softmax ignores), and output logits from x over those from w (each less its mean over the categories)."""
    found = []

    def size(part: np.ndarray) -> float:
        return float(np.sqrt(part.var(0).mean()))

    for u, task in enumerate(tasks):
        m = {name: part[u] for name, part in one.matrices.items()}
        batch = sample_contexts(task, contexts, 23)
        x, y = batch.context[:, :2].double().numpy(), batch.context[:, 2].long().numpy()  # (N, 2, B), (N, B)
        embed = m["embed"] - m["embed"].mean(1, keepdims=True)
        w, d = embed[:, y].transpose(1, 0, 2), task.d  # (N, d', B)
        parts = ((slice(d), x), (slice(d, d + task.width), w))
        folded = m["W_K"].T @ (m["W_Q"][:, :d] @ batch.query.double().numpy()) / np.sqrt(len(m["W_K"]))
        keys_x, keys_w = (np.einsum("kb,nkb->nb", folded[at], part) for at, part in parts)
        weights = softmax(keys_x + keys_w, axis=0)
        step = embed.T @ m["P"][-task.width :] @ m["W_V"]  # (C, D)
        values_x, values_w = (step[:, at] @ np.einsum("nb,nkb->kb", weights, part) for at, part in parts)
        found.append([size(keys_w) / size(keys_x), size(values_x) / size(values_w)])
    return dict(zip(("keys_logits", "values_logits"), np.transpose(found), strict=True))


def every_kernel(get: Get) -> dict[str, Any]:
    """Five kernels, means over starts (linear: those off the plateau, sign chosen): E D from a multiple of I in :func:`good_gauge`; A from B."""
    learned = {k: stopped_parameters(get(f"square_{k}"), "tf") for k in NAMES}
    away = {k: distances(products(m, free_sign=k == "linear")) for k, m in learned.items()}
    left = near(get)
    kept = {k: left if k == "linear" and left.any() else np.ones(len(left), dtype=bool) for k in NAMES}
    found = {}
    for key, name in (("ED", "gauge_ED"), ("AB", "code_AB")):
        found[f"fig11/{key}"] = Estimate.stack(Estimate.runs(away[k][name][kept[k]]) for k in NAMES)
    return found


def records(get: Get, profile: str) -> tuple[dict[str, Any], dict[str, Learned]]:
    """Records that decide figures 10 and 11 (from the published start) and the questions of gauge, one number for each draw; and the trainings by start."""
    task = Quadrants(N=SIZES[profile].quad_N, embed_seed=FIRST)
    found = {}
    for start, _, _ in STARTS:
        every = [stopped_parameters(get(f"long{u}"), start) for u in range(SIZES[profile].units)]
        found[start] = products({name: np.concatenate([one[name] for one in every]) for name in every[0]})
    code = found["code"]
    ours = [Quadrants(embed_seed=FIRST + u) for u in range(len(code.Q))]
    each = distances(code) | in_logits(code, ours) | {"true_ED": anisotropy(found["true"].ED)}
    values: dict[str, Any] = {f"fig10/{name}": Estimate.runs(v) for name, v in each.items()}
    found["authors"] = products(stopped_parameters(get("published_quadrants"), "tf-softmax"))
    theirs = [PublishedQuadrants(source="training")] * len(found["authors"].Q)
    away = distances(found["authors"]) | in_logits(found["authors"], theirs)
    values["fig10/authors"] = Estimate.stack(Estimate.runs(away[name]) for name in JUDGED)
    values["fig10/worst"] = float(max(each["gauge_ED"].max(), each["gauge_transpose"].max()))
    # the control: W_K and P of each draw beside W_Q and W_V of the next one
    rolled = {name: np.roll(code.matrices[name], -1, axis=0) for name in ("W_Q", "W_V")}
    crossed = distances(products(code.matrices | rolled))
    for name in ("code_Q", "code_AB", "gauge_ED", "gauge_transpose"):
        values[f"fig10/{name}_crossed"] = crossed[name].tolist()
    values["fig10/asymmetry"] = (norm(antisymmetric(code.ED)) / norm(code.ED)).tolist()
    fitted, left = fitted_gauge(code, embeddings(ours))
    values["fig10/fitted_ED"] = Estimate.runs(anisotropy(fitted @ code.ED @ fitted.swapaxes(1, 2)))
    values["fig10/fit_left"] = Estimate.runs(left)
    values["fig10/definite"] = int(good_gauge(code)[1].sum())
    values["fig10/draws"] = len(code.Q)
    values |= every_kernel(get)
    return values | gauge(found, task) | inverse_values(found["true"]), found


def embeddings(tasks: Sequence[Quadrants]) -> np.ndarray:
    """W_e of tasks ``(R, d', C)``."""
    return np.stack([task.embedding.double().numpy() for task in tasks])


def inverse_values(held: Learned) -> dict[str, Any]:
    """Where the true W_e is held: whether E D departs from a multiple of I towards the inverse of the classes' second moment, as Newton's step at f = 0 would:
    the Hessian of the cross-entropy is there ``(W_e - mean)(W_e - mean)^T / C``. Cosine of the angle between the parts of E D and of its inverse that are no
    multiple of I, for the draw's own W_e and for the next draw's."""
    centred = held.matrices["embed"] - held.matrices["embed"].mean(2, keepdims=True)  # (R, d', C)
    inverse, departs = (without_trace(m) for m in (np.linalg.inv(centred @ centred.swapaxes(1, 2)), held.ED))
    both = (inverse, np.roll(inverse, -1, axis=0))
    own, other = ((departs * those).sum((1, 2)) / (norm(departs) * norm(those)) for those in both)
    return {
        "q-ed-inverse/cosine": own.tolist(),
        "q-ed-inverse/other": other.tolist(),
        "q-ed-inverse/gap": Estimate.mean(own - other),
    }


@torch.no_grad()
def gauge(found: dict[str, Learned], task: Quadrants) -> dict[str, Any]:
    """``W_e -> G^-T W_e`` with ``E D -> G E D G^T`` leaves every prediction as it is: E D is a choice of coordinates when W_e is learned. And how far E D of
    one start is from that of the other, relative to their mean's norm: with W_e learned and with the true W_e held, means over draws."""
    pairs = [(found[one].ED, found[other].ED) for one, other in (("code", "glorot"), ("true", "true-glorot"))]
    free, held = (norm(these - those) / norm((these + those) / 2) for these, those in pairs)  # (R,)
    g = torch.randn(task.width, task.width, generator=torch_rng(0), dtype=torch.float64)
    batch = sample_contexts(task, 64, 22)
    context, query = batch.context.double(), batch.query.double()
    first = {name: part[0] for name, part in found["code"].matrices.items()}
    model, turned = (model_of_run("softmax", first) for _ in range(2))
    before = model(context, query)
    w, reads = task.width, slice(task.d, task.d + task.width)
    turned.embed.copy_(torch.linalg.inv(g).T @ model.embed)
    turned.P[-w:] = g @ model.P[-w:]
    for name in ("W_V", "W_K"):  # the keys read w as well, by entries that training has left small
        getattr(turned, name)[:, reads] = getattr(model, name)[:, reads] @ g.T
    after = turned(context, query)
    turned_ed = (turned.P[-w:] @ turned.W_V[:, reads]).numpy()
    return {
        "q-ed-gauge/logits": float((after - before).abs().max() / before.abs().max()),
        "q-ed-gauge/turned": float(anisotropy(turned_ed[None])[0]),
        "q-ed-gauge/true_spread": float(held.mean()),
        "q-ed-gauge/learned_spread": Estimate(float(free.mean()), standard_error(free - held)),
    }


def plot_matrices(one: Learned) -> Figure:
    """Figure 10: the four matrices of the first run; hatched: entries that no gradient reaches; framed: those that are zero in gradient descent."""
    w, d = one.matrices["embed"].shape[1], one.Q.shape[-1]
    size, beyond = d + 2 * w, (d + w - 0.5, w, d + 2 * w)
    panels = {  # what a matrix does; where the entries that no gradient reaches begin, their columns and rows; where those that should vanish do
        "W_Q": ("$B$ reads $x$", (d - 0.5, 2 * w, size), None),
        "W_K": ("$A$ reads $x$", beyond, (d - 0.4, w - 0.2)),
        "W_V": ("$D$ reads $w$", beyond, (-0.4, d - 0.2)),
        "P": ("$E$ writes $f$", (-0.5, size, d + w), None),
    }
    fig, axes = style.figure(len(panels), height=2.5)
    unreached = {"fill": False, "hatch": "////", "ec": "#9A9A94", "lw": 0}
    vanishing = {"fill": False, "ec": style.COLOURS["theory"], "ls": ":", "lw": 2}
    for ax, (name, (does, (x, width, height), zero)) in zip(axes, panels.items(), strict=True):
        style.heatmap(ax, one.matrices[name][0], title=f"${name}$: {does}")
        for edge in (d - 0.5, d + w - 0.5):
            ax.axvline(edge, color=style.INK, lw=0.8)
        ax.add_patch(Rectangle((x, -0.5), width, height, **unreached))
        if zero:
            ax.add_patch(Rectangle((zero[0], -0.4), zero[1], size - 0.2, **vanishing))
        ax.set_xticks([(d - 1) / 2, d + (w - 1) / 2, d + w + (w - 1) / 2], ["x", "w", "f"])
        ax.tick_params(length=0)
    keys = [Rectangle((0, 0), 1, 1, **look) for look in (unreached, vanishing)]
    fig.legend(keys, ["no gradient reaches it", "zero in gradient descent"], loc="outside lower center", ncols=2)
    return fig


def plot_products(found: dict[str, Learned]) -> Figure:
    """Figure 11 on the authors' W_e and two draws of ours: Q, E D, E D fitted to the true embeddings, over their largest entries; E D antisymmetric."""
    theirs, ours = (found[each].matrices for each in ("authors", "code"))
    one = products({name: np.concatenate([part[:1], ours[name][:2]]) for name, part in theirs.items()})
    tasks = [PublishedQuadrants(source="training"), *(Quadrants(embed_seed=FIRST + u) for u in range(2))]
    gauge, _ = good_gauge(one)
    fitted, _ = fitted_gauge(one, embeddings(tasks))
    scaled = {
        "$Q$: nearly a multiple of $I$": one.Q,
        "$E D$: not a multiple of $I$": one.ED,
        "$E D$, $W_e$ fitted to the true one": fitted @ one.ED @ fitted.swapaxes(1, 2),
    }
    rows = {name: m / np.abs(m).max((1, 2), keepdims=True) for name, m in scaled.items()}
    rows["$E D$, antisymmetric part, $S = I$"] = antisymmetric(gauge @ one.ED @ gauge.swapaxes(1, 2))
    fig, axes = style.figure(len(tasks), len(rows), height=5.2, width=5.4)
    for row, (name, matrices) in zip(axes, rows.items(), strict=True):
        for ax, matrix in zip(row, matrices, strict=True):
            image = style.heatmap(ax, matrix, 1.0, annotate=".1f" if name.startswith("$Q$") else None)
            for i in range(len(matrix) if name in scaled else 0):
                ax.add_patch(Rectangle((i - 0.5, i - 0.5), 1, 1, fill=False, ec=style.INK, lw=1))
        row[0].set_title(name, loc="left", fontsize=9)
    for ax, title in zip(axes[0], ("authors' $W_e$", "our draw 1", "our draw 2"), strict=True):
        place = {"xycoords": "axes fraction", "textcoords": "offset points"}
        ax.annotate(
            title, (0.5, 1), (0, 19), **place, ha="center", va="bottom", fontsize=9
        )  # above the name of the row
    fig.colorbar(image, ax=axes, shrink=0.6, ticks=(-1, 0, 1), label="entry")
    return fig
