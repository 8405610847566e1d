"""Section 8 of agarwal2025: diagnostics of a training run, LayerNorm on values and attention dropout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy, normalize

from ...drawing import style
from ...models.single_head import SingleHead
from ...random import generator
from ...statistics import Estimate, bootstrap_error, share_error
from ...store import Results
from ...training.study import Study
from . import closed_forms as closed
from .chain_runs import data, sampled_positions
from .closed_forms_checked import rank_correlation
from .figure_9 import Followed
from .runs import DROPOUTS

# -- section 8.1: diagnostics ---------------------------------------------------------------------------------------------


def usage_by_position(T: int) -> Tensor:
    """Column sums ``(T,)`` of uniform causal attention: ``sum_{i >= j} 1 / i``."""
    return (1 / torch.arange(1, T + 1).double()).flip(0).cumsum(0).flip(0)


def without(alpha: Tensor, v: Tensor, j: int) -> Tensor:
    """Contexts ``(T, d_v)`` of the queries behind a position ``j`` that none of them attends to any more: equation 6 with the other weights scaled up."""
    weight = alpha[j + 1 :, j, None]
    return (alpha[j + 1 :] @ v - weight * v[j]) / (1 - weight)


def effects(w: closed.Weights, found: closed.Forward, y: Tensor, places: np.ndarray) -> Tensor:
    """By how much the loss of later queries changes, in size, without the value at each of these places: ``(n,)``."""
    losses = closed.losses(found.logits, y)
    changes = [cross_entropy(without(found.alpha, found.v, j) @ w.W_O.mT, y[j + 1 :], reduction="sum") for j in places]
    return torch.stack([change - losses[j + 1 :].sum() for change, j in zip(changes, places, strict=True)]).abs()


def diagnostic_values(runs: Sequence[Followed], pairs: int = 20_000) -> dict[str, float | Estimate]:
    """Section 8.1's claims halfway through every run, means over seeds: whether A^adv, sign and size as printed, predicts the scores' next step at so many
    pairs of a query and a visible key, and what column usage tells."""
    every = []
    for run in runs:
        (x, y), w = run.inputs(), run.weights(len(run.steps) // 2)
        T, mask = len(x), closed.causal_mask(len(x))
        found = closed.forward(x, w, mask)
        _, d = closed.every_gradient(x, y, w, mask, found)
        picked = torch.randperm(T * (T + 1) // 2, generator=generator(0, 9))[:pairs]
        i, j = torch.tril_indices(T, T)[:, picked]
        moved = closed.score_step_of_weights(d["q"], d["k"], found.q, found.k, x, 1.0)[i, j]
        printed = -closed.advantage(found.alpha, d["alpha"])  # A^adv of section 8.1
        usage, places = found.alpha.sum(0), sampled_positions(T - 1)
        position = torch.corrcoef(torch.stack([usage, usage_by_position(T)]))[0, 1] ** 2
        every.append(
            [
                rank_correlation(printed[i, j], moved),
                rank_correlation(d["s"][i, j], moved),
                rank_correlation(usage[places], effects(w, found, y, places)),
                float(position),
            ]
        )
    predicts, weighted, usage, position = np.array(every).T
    return {
        "diag/seeds": len(runs),
        "diag/predicts": Estimate.mean(predicts),
        "diag/weighted": float(weighted.mean()),
        "diag/usage": Estimate.mean(usage),
        "diag/position": float(position.mean()),
    }


def plot_usage(run: Followed) -> Figure:
    """Section 8.1's column usage halfway through a run, against position."""
    x, _ = run.inputs()
    w, mask = run.weights(len(run.steps) // 2), closed.causal_mask(len(x))
    usage = closed.forward(x, w, mask).alpha.sum(0)
    fig, ax = style.figure(height=2.7)
    position = np.arange(1, len(usage) + 1)
    look = {"ms": 3, "color": style.COLOURS["measured"], "rasterized": True, "label": "measured"}
    ax.loglog(position, usage.numpy(), ".", **look)
    style.theory_line(ax, position, usage_by_position(len(position)).numpy(), "uniform attention")
    ax.set(xlabel="position j", ylabel=r"usage $\sum_i \alpha_{ij}$", ylim=(1e-3, None))
    ax.legend(fontsize=9, loc="lower left")
    return fig


# -- section 8.2: LayerNorm on values, attention dropout ------------------------------------------------------------------


def model_at(recorded: Mapping[str, np.ndarray], run: int, record: int = -1, value_norm: bool = False) -> SingleHead:
    """The model of a run at a record (the last by default), float64, from a group's matrices ``(records, R, ...)``."""
    model = SingleHead(value_norm=value_norm).double()
    model.load_state_dict({name: torch.from_numpy(recorded[name][record, run]) for name in model.state_dict()})
    return model


@torch.no_grad()
def entropies(model: SingleHead, x: Tensor) -> tuple[float, float]:
    """Entropy of the column sums of attention over that of equal sums, and entropy of attention over the largest possible, mean over queries."""
    usage = model.attention(x).sum(0) / len(x)
    even = -torch.xlogy(usage, usage).sum() / np.log(len(x))
    return float(even), float(closed.causal_predict(x, *model.parameters()).spread[1:].mean())


@torch.no_grad()
def norm_spread(model: SingleHead, x: Tensor) -> float:
    """Standard deviation of the norms of the values over their mean."""
    sizes = model.values(x).norm(dim=-1)
    return float(sizes.std() / sizes.mean())


def directions_moved(start: SingleHead, x: Tensor, y: Tensor, rate: float = 1e-4) -> Tensor:
    """Change of the values' directions ``(T, d_v)`` in one small step from the start; the model must be float64, since the change is near the rounding of float32."""
    after = deepcopy(start)
    slopes = torch.autograd.grad(cross_entropy(start(x), y), list(start.parameters()))
    with torch.no_grad():
        for p, slope in zip(after.parameters(), slopes, strict=True):
            p -= rate * slope
        return normalize(after.values(x), dim=-1) - normalize(start.values(x), dim=-1)


def regularisation_values(study: Study, results: Results) -> dict[str, object]:
    """Section 8.2's claims, over the seeds of a study."""
    groups = {group.name: results.group(group.name) for group in study.groups}
    norms, cosines, larger = [], [], []
    for run, own in enumerate(study.groups[0].runs):
        seq = data(study.data.chain, own.seed).train
        x = seq.x.double()
        plain, normed = model_at(groups["plain"], run), model_at(groups["normed"], run, value_norm=True)
        dropped = [model_at(groups[f"dropped{share}"], run) for share in DROPOUTS]
        norms.append(norm_spread(normed, x) / norm_spread(plain, x))
        starts = model_at(groups["plain"], run, 0), model_at(groups["normed"], run, 0, value_norm=True)
        cosines.append(cosine_similarity(*[directions_moved(start, x, seq.y) for start in starts], dim=-1))
        of_plain, *others = [entropies(model, x) for model in (plain, *dropped)]
        larger.append(np.greater(others, of_plain))  # (rates, 2)
    found: dict[str, object] = {
        "reg/seeds": len(norms),
        "reg/norm_spread": float(np.median(norms)),
        "reg/direction": Estimate(
            float(torch.cat(cosines).median()), bootstrap_error(np.median, torch.stack(cosines).numpy())
        ),
    }
    for key, hits in zip(("reg/dropout_even", "reg/dropout_spread"), np.sum(larger, 0).T, strict=True):
        found[key] = Estimate(hits / len(larger), [share_error(int(n), len(larger)) for n in hits])
    return found
