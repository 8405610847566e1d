"""Covariates that are not isotropic: Figure 3.1 of He et al. (2025), "Extensions"."""

from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure

from ...drawing import style
from ...models import attend
from ...random import generator
from ...statistics import Estimate
from ...store import Results
from ...tasks import LinearRegression, MultiTaskRegression
from .circuits import Records, settled
from .figures_2_4_and_2_5 import unexplained
from .loss import Array
from .runs import EVAL_PURPOSE, EVAL_SEED

Task = LinearRegression | MultiTaskRegression

#: A preconditioner this near to the optimum, relative to it, has come there: it costs about 1 % of the loss.
NEAR = 0.1


def best_preconditioner(cov: Array, L: int, noise_var: float) -> Array:
    """The Omega (d, d) that minimises the error of yhat = (1/L) sum_l y_l x_l^T Omega x_q for x ~ N(0, Sigma), beta ~ N(0, I/d): [(1 + 1/L) Sigma +
    (tr Sigma + d s2)/L I]^-1, which tends to Sigma^-1 as L grows."""
    d = len(cov)
    prior = np.eye(d) / d
    shift = np.trace(prior @ cov) + noise_var
    return L * np.linalg.solve((L + 1) * prior @ cov + shift * np.eye(d), prior)


def shape_distance(a: Array, b: Array) -> float:
    """min over c of |a - c b|_F / |a|_F: 0 for proportional matrices, whatever their scale, 1 for orthogonal ones."""
    a, b = (np.asarray(matrix, dtype=np.float64).ravel() for matrix in (a, b))
    cosine = (a @ b) / np.sqrt((a @ a) * (b @ b))
    return float(np.sqrt(max(0.0, 1.0 - cosine**2)))


class Preconditioners(NamedTuple):
    """Where two heads and a linear one settle on covariates of covariance Sigma, the ``task``'s: KQ ``blocks`` ``(R, 2, d, d)`` and ``rows`` of OV
    ``(R, 2, d + 1)`` of the two, mu KQ of the ``linear`` head, ``(R, d, d)``; ``split`` ``(R,)``: runs that end with a head of each sign."""

    task: LinearRegression
    blocks: Array
    rows: Array
    linear: Array
    split: Array

    def best(self, L: int | None = None) -> Array:
        """The best preconditioner of linear attention, at the training length or at another."""
        return best_preconditioner(np.array(self.task.covariance), L or self.task.L, self.task.noise_var)


def preconditioners(results: Results, task: LinearRegression) -> Preconditioners:
    """Preconditioners of the softmax heads and of the linear head."""
    d, steps = task.d, results["h2/steps"]
    mu, rows = results["linear/ov"][..., 0, 0, d, None, None], settled(steps, results["h2/ov"])[:, :, 0]
    return Preconditioners(
        task,
        settled(steps, results["h2/kq"])[..., :d, :d],
        rows,
        settled(results["linear/steps"], mu * results["linear/kq"][..., 0, :d, :d]),
        np.sign(rows[..., -1]).sum(1) == 0,
    )


def preconditioner_records(results: Results, found: Preconditioners, seed_sweep: Preconditioners) -> Records:
    """Figure 3.1: how many starts of the ``census`` split into a head of each sign, and how many of its linear heads come to the optimum; how that nears
    Sigma^-1 as L grows. Of runs that split: the shape of the blocks, and what steps with and without them as preconditioner leave of the answers."""
    inverse, best = np.linalg.inv(found.task.covariance), found.best()
    by_length = [shape_distance(found.best(n), inverse) for n in (10, 40, 160, 1000)]
    split = found.split
    there = np.linalg.norm(seed_sweep.linear - best, axis=(1, 2)) < NEAR * np.linalg.norm(best)
    values: Records = {
        "inverse_by_length": by_length,
        "inverse_fall": np.divide(by_length[1:], by_length[:-1]),
        "runs": len(split),
        "both_runs": int(split.sum()),
        "both_share": Estimate.share(seed_sweep.split),
        "linear_share": Estimate.share(there),
    }
    if split.any():  # else nothing to measure
        blocks, ov, identity = found.blocks[split], found.rows[split], np.eye(found.task.d)
        for name, shape in {"inverse": inverse, "optimal": best, "identity": identity}.items():
            values[f"to_{name}"] = Estimate.each(
                np.array([[shape_distance(of, shape) for of in run] for run in blocks])
            )
        step = np.einsum("rh,rhij->rij", found.rows[..., -1], found.blocks)[:, None]
        for name, of in {"unexplained": step, "unexplained_by_plain": np.broadcast_to(identity, step.shape)}.items():
            values[name] = Estimate.each(unlike_step(results, "h2", of, found.task, 1.0)[split])
        sums = np.linalg.norm(blocks.sum(1), axis=(1, 2)) / np.linalg.norm(blocks[:, 0], axis=(1, 2))
        values |= {
            "to_inverse_worst": float(values["to_inverse"].value.max()),
            "opposite": Estimate.each(sums),
            "ov_deviation": Estimate.each(np.linalg.norm(ov[..., :-1], axis=-1) / np.abs(ov[..., -1])),
        }
    return {f"fig3.1/{name}": value for name, value in values.items()}


def plot_preconditioners(found: Preconditioners) -> Figure:
    """KQ blocks of the first run that splits, Sigma^-1, and the linear preconditioner at its best; each over its largest entry."""
    titles = ["head 1", "head 2", r"$\Sigma^{-1}$", "best linear layer"]
    fig, axes = style.figure(4, height=2.1, squeeze=False)
    blocks = found.blocks[int(np.argmax(found.split))]
    shown = [*blocks, np.linalg.inv(found.task.covariance), found.best()]
    for ax, matrix, title in zip(axes[0], shown, titles, strict=True):
        largest = np.abs(matrix).max()
        style.heatmap(ax, matrix / largest, 1.0, title=f"{title}\n÷ {largest:.2f}")
    return fig


def unlike_step(results: Results, name: str, step: Array, task: Task, scale: float, prompts: int = 8192) -> Array:
    """``(R,)`` share of the predictions' variance, on fresh prompts, that the displayed step of gradient descent leaves unexplained: for task n
    (1/L) sum_l y_ln xbar_l^T M_n x_q, with M_n = sum_h mu_hn KQ_h on the covariates: ``step`` (R, N, d, d) (he2025, Figures 3.1 and 3.3)."""
    kq, ov = (torch.tensor(results[f"{name}/{of}"][-1]) for of in ("kq", "ov"))
    batch = task.batch(torch.randn(task.normals, prompts, generator=generator(EVAL_SEED, EVAL_PURPOSE)))
    x, y = batch.context[:, : task.d], batch.context[:, task.d :]  # (L, d, B), (L, N, B)
    scatter = torch.einsum("lnb,ldb->ndb", y, x - x.mean(0)) / task.L
    left = []
    for r, of_run in enumerate(torch.tensor(step).float()):
        said = attend(scale * kq[r], ov[r], batch.context, batch.query)
        step_of = torch.einsum("ndb,nde,eb->nb", scatter, of_run, batch.query)
        left.append(unexplained(said.flatten().numpy(), step_of.flatten().numpy()))
    return np.array(left)
