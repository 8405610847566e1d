"""What a training leaves behind, and the arrays in which it is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

#: Begins the names of kept parameters among the arrays of a group.
KEPT = "kept "


@dataclass
class History:
    """What a group left behind.

    Attributes:
        steps: ``(T,)`` recorded steps; 0 is the initial point.
        loss: ``(T, R)`` mean batch loss over the steps since the previous record (NaN at step 0, where there are none).
        circuits: ``name -> (T, R, ...)`` circuits at the recorded steps.
        kept: ``name -> (K, R, ...)`` parameters that were kept at chosen steps, in half precision: to be looked at and computed with, not to go on from.
    """

    steps: np.ndarray
    loss: np.ndarray
    circuits: dict[str, np.ndarray]
    kept: dict[str, np.ndarray] = field(default_factory=dict)


def joined(pieces: Sequence[History]) -> History:
    """The history of a group from those of its runs, trained in pieces."""

    def every(arrays: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
        return {k: np.concatenate([a[k] for a in arrays], axis=1) for k in arrays[0]}

    if len(pieces) == 1:
        return pieces[0]
    loss = np.concatenate([piece.loss for piece in pieces], axis=1)
    circuits, kept = every([piece.circuits for piece in pieces]), every([piece.kept for piece in pieces])
    return History(pieces[0].steps, loss, circuits, kept)


def pack(histories: Mapping[str, History]) -> dict[str, np.ndarray]:
    """Histories as ``"group/name"`` arrays."""
    arrays: dict[str, np.ndarray] = {}
    for name, history in histories.items():
        arrays[f"{name}/steps"] = history.steps
        arrays[f"{name}/loss"] = history.loss.astype(np.float32)
        arrays.update({f"{name}/{k}": v.astype(np.float32) for k, v in history.circuits.items()})
    return arrays


def pack_kept(histories: Mapping[str, History]) -> dict[str, np.ndarray]:
    """Kept parameters as ``"group/kept name"`` arrays."""
    return {f"{name}/{KEPT}{k}": v for name, history in histories.items() for k, v in history.kept.items()}


def log_and_linear_steps(steps: int, n_log: int = 40, n_linear: int = 100) -> list[int]:
    """Recorded steps: 0, about ``n_log`` log-spaced ones for the early phase and ``n_linear`` evenly spaced ones, the last included."""
    log = np.unique(np.geomspace(1, steps, n_log).round().astype(int))
    linear = np.linspace(0, steps, min(n_linear, steps) + 1).round().astype(int)
    return sorted({0, *log.tolist(), *linear.tolist()})
