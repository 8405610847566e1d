"""Section 8 of agarwal2025: diagnostics of a training run, LayerNorm on values and attention dropout."""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import torch
from scipy.stats import entropy, pearsonr, spearmanr
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy, normalize

from ...measuring import model_at
from ...models.single_head import SingleHead
from ...random import generator
from ...statistics import Estimate, bootstrap_error, share_error
from ...store import Results
from ...training import Study
from . import closed_forms as closed
from .chain_runs import data, sampled_positions
from .figure_9 import Followed


def without(found: closed.Forward, j: int) -> Tensor:
    """Contexts ``(T - j - 1, d_v)`` of the queries behind a position ``j`` that none attends to any more: equation 6 with the other weights scaled up."""
    weight = found.alpha[j + 1 :, j, None]
    return (found.g[j + 1 :] - weight * found.v[j]) / (1 - weight)


def effects(w: closed.Weights, found: closed.Forward, y: Tensor, places: np.ndarray) -> Tensor:
    """By how much the loss of later queries changes, in size, without the value at each of these places: ``(n,)``."""
    losses = closed.losses(found.logits, y)
    changes = [cross_entropy(without(found, j) @ w.W_O.mT, y[j + 1 :], reduction="sum") for j in places]
    return torch.stack([change - losses[j + 1 :].sum() for change, j in zip(changes, places, strict=True)]).abs()


def diagnostic_values(runs: Sequence[Followed]) -> dict[str, float | Estimate]:
    """Section 8.1's claims halfway through every run: whether A^adv as printed predicts the scores' next step at 20,000 pairs, and what column usage tells."""
    every = []
    for run in runs:
        (x, y), w = run.inputs(), run.at(len(run.steps) // 2)
        T, mask = len(x), closed.causal_mask(len(x))
        found = closed.forward(x, w, mask)
        _, d = closed.every_gradient(x, y, w, mask, found)
        picked = torch.randperm(T * (T + 1) // 2, generator=generator(0, 9))[:20_000]
        i, j = torch.tril_indices(T, T)[:, picked]
        moved = closed.score_step_of_weights(d["q"], d["k"], found.q, found.k, x)[i, j]
        printed = -closed.advantage(found.alpha, d["alpha"])  # A^adv of section 8.1
        usage, places = found.alpha.sum(0), sampled_positions(T - 1)
        pairs_of = (printed[i, j], moved), (d["s"][i, j], moved), (usage[places], effects(w, found, y, places))
        uniform = (mask.double() / mask.sum(1, keepdim=True)).sum(0)  # column sums of uniform causal attention
        position = pearsonr(usage, uniform).statistic ** 2
        every.append([*(spearmanr(*both).statistic for both in pairs_of), position])
    predicts, weighted, usage, position = map(Estimate.mean, np.transpose(every))
    means = {"predicts": predicts, "weighted": weighted.value, "usage": usage, "position": position.value}
    return {"diag/seeds": len(runs)} | {f"diag/{name}": mean for name, mean in means.items()}


@torch.no_grad()
def entropies(model: SingleHead, x: Tensor) -> tuple[float, float]:
    """Entropy of the column sums of attention over that of equal sums, and entropy of attention over the largest possible, mean over queries."""
    even = entropy(model.attention(x).sum(0), base=len(x))
    return float(even), float(closed.causal_predict(x, *model.parameters()).spread[1:].mean())


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
    cosines, larger = [], []
    for run, own in enumerate(study.groups[0].runs):
        seq = data(study.data.chain, own.seed).train
        x = seq.x.double()
        plain, _, *dropped = (model_at(group, results, run) for group in study.groups)
        moved = [directions_moved(model_at(group, results, run, 0), x, seq.y) for group in study.groups[:2]]
        cosines.append(cosine_similarity(*moved, dim=-1))
        of_plain, *others = [entropies(model, x) for model in (plain, *dropped)]
        larger.append(np.greater(others, of_plain))  # (rates, 2)
    direction = torch.stack(cosines)  # (seeds, T)
    found: dict[str, object] = {
        "reg/seeds": len(larger),
        "reg/direction": Estimate(float(direction.median()), bootstrap_error(np.median, direction.numpy())),
    }
    for key, hits in zip(("reg/dropout_even", "reg/dropout_spread"), np.sum(larger, 0).T, strict=True):
        found[key] = Estimate(hits / len(larger), [share_error(int(n), len(larger)) for n in hits])
    return found
