"""Section 8 of agarwal2025: diagnostics of a training run, LayerNorm on values and attention dropout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy, normalize

from ...drawing import style
from ...models.single_head import SingleHead
from ...random import generator
from ...statistics import Estimate, bootstrap_error
from ...store import Results
from ...training.study import Study
from . import closed_forms as closed
from .causal import causal_pass, predict, score_steps
from .chain_runs import sampled_positions
from .closed_forms_checked import rank_correlation
from .figure_9 import Followed
from .runs import DROPOUTS
from .table_1 import data

# -- section 8.1: diagnostics ---------------------------------------------------------------------------------------------


def usage_by_position(T: int) -> Tensor:
    """Column sums ``(T,)`` of uniform causal attention: ``sum_{i >= j} 1 / i``."""
    return (1 / torch.arange(1, T + 1).double()).flip(0).cumsum(0).flip(0)


@lru_cache(maxsize=4)
def sampled_pairs(T: int, pairs: int) -> tuple[Tensor, Tensor]:
    """Queries and visible keys of so many pairs of positions, the same for every run of a length."""
    rows, columns = torch.tril_indices(T, T)
    pick = torch.randperm(len(rows), generator=generator(0, 9))[:pairs]
    return rows[pick], columns[pick]


def without(alpha: Tensor, v: Tensor, j: int) -> Tensor:
    """Contexts ``(T, d_v)`` of the queries behind a position ``j`` that none of them attends to any more: equation 6 with the other weights scaled up."""
    weight = alpha[j + 1 :, j, None]
    return (alpha[j + 1 :] @ v - weight * v[j]) / (1 - weight)


def usage_and_effect(run: Followed) -> tuple[Tensor, Tensor]:
    """Of the sampled positions halfway through a run: column usage, and by how much the loss of later queries changes without the value, in size."""
    x, y = run.inputs()
    w = run.weights(len(run.steps) // 2)
    found = closed.forward(x, w, closed.causal_mask(len(x)))
    v = x @ w.W_V.mT
    losses, places = cross_entropy(found.logits, y, reduction="none"), sampled_positions(len(x) - 1)
    changes = [cross_entropy(without(found.alpha, v, j) @ w.W_O.mT, y[j + 1 :], reduction="sum") for j in places]
    effects = torch.stack([change - losses[j + 1 :].sum() for change, j in zip(changes, places, strict=True)])
    return found.alpha.sum(0)[places], effects.abs()


def diagnostic_values(runs: Sequence[Followed], pairs: int = 20_000) -> dict[str, float | Estimate]:
    """Section 8.1's claims halfway through every run, means over seeds: whether A^adv, sign and size as printed, predicts the scores' next step, and what
    column usage tells."""
    every = []
    for run in runs:
        x, y = run.inputs()
        at = sampled_pairs(len(x), pairs)
        found = causal_pass(x, y, run.weights(len(run.steps) // 2), at)
        moved = score_steps(found, x, at)
        correlations = [rank_correlation(part, moved) for part in (found.adv, found.ds)]
        correlations.append(rank_correlation(*usage_and_effect(run)))
        position = torch.corrcoef(torch.stack([found.usage, usage_by_position(len(x))]))[0, 1] ** 2
        every.append([*correlations, float(position)])
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


def model_at(recorded: Mapping[str, np.ndarray], run: int, step: int = -1, value_norm: bool = False) -> SingleHead:
    """The model of a run at a recorded step (the last by default), from a group's ``steps`` and matrices ``(records, R, ...)``."""
    row = -1 if step < 0 else int(np.flatnonzero(recorded["steps"] == step)[0])
    model = SingleHead(value_norm=value_norm)
    model.load_state_dict({name: torch.from_numpy(recorded[name][row, run]) for name in model.state_dict()})
    return model


@torch.no_grad()
def usage_evenness(model: SingleHead, x: Tensor) -> float:
    """Entropy of the column sums of attention over that of equal sums."""
    usage = model.attention(x).sum(0) / len(x)
    return float(-torch.xlogy(usage, usage).sum() / np.log(len(x)))


@torch.no_grad()
def attention_spread(model: SingleHead, x: Tensor) -> float:
    """Entropy of attention over the largest possible, mean over queries."""
    return float(predict(x, model.W_Q, model.W_K, model.W_V, model.W_O).spread[1:].mean())


@torch.no_grad()
def norm_spread(model: SingleHead, x: Tensor) -> float:
    """Standard deviation of the norms of the values over their mean, float64: single precision would leave its own rounding where they are all alike."""
    sizes = deepcopy(model).double().values(x).norm(dim=-1)
    return float(sizes.std() / sizes.mean())


def directions_moved(start: SingleHead, x: Tensor, y: Tensor, rate: float = 1e-4) -> Tensor:
    """Change of the values' directions ``(T, d_v)`` in one small step from the start, float64."""
    model = deepcopy(start).double()
    after = deepcopy(model)
    slopes = torch.autograd.grad(cross_entropy(model(x), y), list(model.parameters()))
    with torch.no_grad():
        for p, slope in zip(after.parameters(), slopes, strict=True):
            p -= rate * slope
        return normalize(after.values(x), dim=-1) - normalize(model.values(x), dim=-1)


def regularisation_values(study: Study, results: Results) -> dict[str, object]:
    """Section 8.2's claims, over the seeds of a study."""
    groups = {group.name: results.group(group.name) for group in study.groups}
    norms, cosines, even, spread = [], [], [], []
    for run, own in enumerate(study.groups[0].runs):
        seq = data(study.data.chain, own.seed).train
        x = seq.x.double()
        plain, normed = model_at(groups["plain"], run), model_at(groups["normed"], run, value_norm=True)
        dropped = [model_at(groups[f"dropped{share}"], run) for share in DROPOUTS]
        norms.append(norm_spread(normed, x) / norm_spread(plain, x))
        starts = model_at(groups["plain"], run, 0), model_at(groups["normed"], run, 0, value_norm=True)
        cosines.append(cosine_similarity(*[directions_moved(start, x, seq.y) for start in starts], dim=-1))
        even.append([usage_evenness(model, seq.x) > usage_evenness(plain, seq.x) for model in dropped])
        spread.append([attention_spread(model, seq.x) > attention_spread(plain, seq.x) for model in dropped])
    found: dict[str, object] = {
        "reg/seeds": len(norms),
        "reg/norm_spread": float(np.median(norms)),
        "reg/direction": Estimate(
            float(torch.cat(cosines).median()), bootstrap_error(np.median, torch.stack(cosines).numpy())
        ),
    }
    for key, happens in (("reg/dropout_even", even), ("reg/dropout_spread", spread)):
        shares = [Estimate.share(int(hits), len(happens)) for hits in np.sum(happens, 0)]
        found |= {key: [share.value for share in shares], f"{key}_se": [share.error for share in shares]}
    return found
