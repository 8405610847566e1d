"""Runs whose weights are kept, so that values and attention can be followed through training (agarwal2025, Figure 9, sections 6.3 and 8.1)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from ....tasks.sticky_chain import StickyChain
from ....training import History
from ....training.study import Study
from ..theory import Weights
from .full_batch import data

#: Section 7.2: "a sample of 200 v's".
SAMPLED = 200


def unpack(flat: np.ndarray | Tensor, sizes: Mapping[str, int]) -> Weights:
    """Recorded weights ``(..., 820)`` as matrices in float64; the bias is zero."""
    flat = torch.as_tensor(np.asarray(flat)).double()
    d_x, d_k, d_v, n = (sizes[k] for k in ("d_x", "d_k", "d_v", "n_classes"))
    shapes = ((d_k, d_x), (d_k, d_x), (d_v, d_x), (n, d_v))
    parts = flat.split([a * b for a, b in shapes], -1)
    matrices = [p.unflatten(-1, s) for p, s in zip(parts, shapes, strict=True)]
    return Weights(*matrices, flat.new_zeros(*flat.shape[:-1], n))


def sampled_positions(T: int) -> np.ndarray:
    """The 200 positions (or all, if fewer) whose values are followed: the same for every run."""
    return np.sort(np.random.default_rng(0).choice(T, min(SAMPLED, T), replace=False))


def value_paths(chain: StickyChain, seed: int, flat: np.ndarray, sizes: Mapping[str, int]) -> np.ndarray:
    """Values ``(records, 200, d_v)`` of a seed's run at the sampled positions, from its recorded weights ``(records, 820)``."""
    x = data(chain, seed).train.x.double()
    x = x[sampled_positions(len(x))]
    return (x @ unpack(flat, sizes).W_V.mT).numpy()


def first_component(moves: np.ndarray) -> float:
    """Share of the first principal component (about the origin) in displacements ``(n, d)``."""
    spread = np.linalg.svd(moves, compute_uv=False) ** 2
    return float(spread[0] / spread.sum())


def trajectories(study: Study, histories: dict[str, History]) -> dict[str, np.ndarray]:
    """Of every run's sampled values: ``length`` ``(R, 200)`` of the displacement, ``straight`` ``(R, 200)``, displacement over path, and ``pc1`` ``(R,)``."""
    (spec,) = study.groups
    weights = histories[spec.name].circuits["weights"]  # (records, R, 820)
    found: dict[str, list] = {"length": [], "straight": [], "pc1": []}
    for r in range(weights.shape[1]):
        seed = spec.runs[r].data_seed
        paths = value_paths(study.data.task.chain, seed, weights[:, r], dict(spec.kwargs))
        moves = paths[-1] - paths[0]
        length = np.linalg.norm(moves, axis=1)
        found["length"].append(length)
        found["straight"].append(length / np.linalg.norm(np.diff(paths, axis=0), axis=2).sum(0))
        found["pc1"].append(first_component(moves))
    return {f"{spec.name}/{name}": np.array(rows, dtype=np.float32) for name, rows in found.items()}
