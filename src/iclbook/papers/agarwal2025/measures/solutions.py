"""Where SGD and the EM-like schedule end: how alike their predictions are, and whether values form clusters (agarwal2025, sections 5.3, 7.2 and 9.4)."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from ....statistics import standard_error, widened_error
from ....store import Results
from ....tasks.sticky_chain import StickyChain
from ....training.study import Study
from ..runs.shown import sampled_positions, value_paths
from .chain import Curves
from .follow import Followed, followed
from .sequences import data, logits

#: The ways to train whose weights are kept, in the order of recorded lists.
KEPT = ("sgd", "em", "uniform1")


def kl_values(em: Curves, chain: StickyChain, runs: list[Followed]) -> dict[str, float]:
    """KL(EM || SGD) of the predictive distributions at the end, nats, and over what EM's predictions know, ``ln n - entropy`` = KL(EM || uniform).

    Args:
        runs: of the EM-like schedule with their weights, for the control: predictions of a seed's run against those of the other seeds' on its sequence.
    """
    kl = em["kl"][-1]
    known = math.log(chain.n) - em["entropy"][-1]
    return {
        "kl/mean": float(kl.mean()),
        "kl/share": float((kl / known).mean()),
        "kl/share_se": float(standard_error(kl / known)),
        "kl/other_seed": other_seed(runs),
    }


def divergence(p: Tensor, q: Tensor) -> float:
    """KL(p || q) of log probabilities ``(T, n)``, nats, mean over positions."""
    return float((p.exp() * (p - q)).sum(1).mean())


def other_seed(runs: list[Followed]) -> float:
    """KL of a run's final predictions against those of another seed's run on the same sequence, over what the first knows: mean over pairs."""
    found = []
    for at, own in enumerate(runs):
        x, _ = own.inputs()
        logs = [logits(x, *run.weights(-1)[:4]).log_softmax(-1) for run in runs]
        first = logs.pop(at)
        known = math.log(first.shape[1]) + float((first.exp() * first).sum(1).mean())
        found += [divergence(first, other) / known for other in logs]
    return float(np.mean(found))


def silhouette(points: np.ndarray, labels: np.ndarray) -> float:
    """Mean silhouette of points ``(n, d)`` with labels ``(n,)`` (Rousseeuw 1987): 1 for tight clusters far apart, 0 for none; a point alone counts 0."""
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    kinds, member = np.unique(labels, return_inverse=True)
    within = np.eye(len(kinds))[member]  # (n, kinds)
    counts = within.sum(0)
    own = counts[member]
    sums = distance @ within  # (n, kinds)
    inside = sums[np.arange(len(points)), member] / np.maximum(own - 1, 1)
    nearest = np.where(within > 0, np.inf, sums / counts).min(1)
    return float(np.where(own > 1, (nearest - inside) / np.maximum(nearest, inside), 0.0).mean())


def clusters(run: Followed) -> tuple[float, float, float]:
    """Silhouette of the sampled values by the symbol that each input shows: at the start, at the end, and at the end with shuffled symbols."""
    seq = data(run.chain, run.seed).train
    symbols = (seq.x[:, None] - seq.means).square().sum(-1).argmin(1).numpy()
    labels = symbols[sampled_positions(len(symbols))]
    first, last = value_paths(run.chain, run.seed, run.flat[[0, -1]], run.sizes)
    mixed = np.random.default_rng(0).permutation(labels)
    return silhouette(first, labels), silhouette(last, labels), silhouette(last, mixed)


def cluster_values(study: Study, results: Results) -> dict[str, list[float]]:
    """Section 9.4 (2): means over seeds for every way to train of :data:`KEPT`."""
    found = np.array([[clusters(run) for run in followed(study, results, arm)] for arm in KEPT])
    start, end, mixed = found.transpose(2, 0, 1)  # (arms, seeds) each
    return {
        "clusters/start": start.mean(1).tolist(),
        "clusters/end": end.mean(1).tolist(),
        "clusters/end_se": [widened_error(own) for own in end],
        "clusters/growth": (end - start).mean(1).tolist(),
        "clusters/growth_se": [widened_error(own) for own in end - start],
        "clusters/shuffled": mixed.mean(1).tolist(),
    }
