"""Output of a training: histories and the arrays in which they are kept, checkpoints, and states from which segments can be trained again."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from ..errors import UserError
from ..files import reading, write_whole
from .ensemble import Ensemble

#: Begins the names of kept parameters among the arrays of a group.
KEPT = "kept "
#: The first bytes of every checkpoint; the digest of all that follows comes next.
MAGIC = b"iclbook checkpoint 3\n"
HINT = "Delete it, or train with --fresh."
#: Steps from a kept state to the record that it must lead to.
SEGMENT = 24
#: Segments of a training, evenly spread over its records, the last one included.
SEGMENTS = 3
#: Largest size of a group's kept states, bytes; fewer segments are kept of larger models.
LARGEST = 100_000


@dataclass
class History:
    """Recorded history of a group.

    Attributes:
        steps: ``(T,)`` recorded steps; 0 is the initial point.
        loss: ``(T, R)`` mean batch loss over the steps since the previous record (NaN at step 0, where there are none).
        circuits: ``name -> (T, R, ...)`` what was observed at the recorded steps.
        kept: ``name -> (K, R, ...)`` parameters that were kept at chosen steps, in half precision: to be looked at and computed with, not to go on from.
    """

    steps: np.ndarray
    loss: np.ndarray
    circuits: dict[str, np.ndarray]
    kept: dict[str, np.ndarray] = field(default_factory=dict)


def joined(pieces: Sequence[History], axis: int) -> History:
    """The history of a group from pieces: from its records (axis 0), or from its runs, trained apart (axis 1)."""

    def along(*parts: np.ndarray) -> np.ndarray:
        return np.concatenate(parts, axis)

    loss, circuits = tree_map(along, *((piece.loss, piece.circuits) for piece in pieces))
    kept = [piece.kept for piece in pieces if piece.kept]
    steps = pieces[0].steps if axis else along(*(piece.steps for piece in pieces))
    return History(steps, loss, circuits, tree_map(along, *kept) if kept else {})


def pack(histories: Mapping[str, History]) -> dict[str, np.ndarray]:
    """Histories as ``"group/name"`` arrays, kept parameters as ``"group/kept name"``."""
    arrays: dict[str, np.ndarray] = {}
    for name, history in histories.items():
        arrays[f"{name}/steps"] = history.steps
        arrays |= {f"{name}/{k}": v.astype(np.float32) for k, v in {"loss": history.loss, **history.circuits}.items()}
        arrays |= {f"{name}/{KEPT}{k}": v for k, v in history.kept.items()}
    return arrays


def log_and_linear_steps(steps: int) -> list[int]:
    """Recorded steps: 0, about 40 log-spaced ones for the early phase and 100 evenly spaced ones, the last included."""
    both = np.geomspace(1, steps, 40), np.linspace(0, steps, min(100, steps) + 1)
    return sorted(set(np.concatenate(both).round().astype(int).tolist()))


# -- checkpoints: a reader sees the old file or the new one, never half of one, and no bit of it changed ------------------


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write ``content`` (tensors, numbers, strings, lists, dicts) to ``path`` atomically, behind its SHA-256. A file that cannot be written is a UserError."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    body = buffer.getvalue()
    write_whole(path, MAGIC + hashlib.sha256(body).digest() + body)


def load_checkpoint(path: Path, config: str) -> dict[str, Any] | None:
    """Content of the checkpoint made from the same ``config`` text; ``None`` when there is none. A damaged file or another configuration is a
    UserError."""
    if not path.exists():
        return None
    with reading(path, HINT):
        raw = path.read_bytes()
        start = len(MAGIC) + hashlib.sha256().digest_size
        body = raw[start:]
        if raw[:start] != MAGIC + hashlib.sha256(body).digest():
            raise ValueError("its checksum differs")
        content = torch.load(io.BytesIO(body), weights_only=True, map_location="cpu")
        if content["config"] == config:
            return content
    raise UserError(f"the checkpoint {path} was made from another configuration", HINT)


# -- segments in the middle of a training: states of the first run of every group, kept some steps before a record --------


def segment_ends(record: Sequence[int]) -> list[int]:
    """The records, at most :data:`SEGMENTS`, that lie at least :data:`SEGMENT` steps behind the one before."""
    able = [now for before, now in pairwise(record) if before and now - before >= SEGMENT]
    places = np.linspace(0, len(able), SEGMENTS + 1)[1:].astype(int) - 1
    return sorted({able[i] for i in places if i >= 0})


def segment_states(ensembles: Sequence[Ensemble], record: Sequence[int], done: int) -> dict[str, Tensor]:
    """The state at step ``done`` of the first run of every group that is not too large, ``"group/step/part" -> tensor``."""
    states = {}
    for ensemble in ensembles:
        parts = [x[:1].cpu().clone() for x in ensemble.leaves()]
        kept = LARGEST // sum(part.nbytes for part in parts)
        if kept and done + SEGMENT in segment_ends(record)[-kept:]:
            states |= {f"{ensemble.group.name}/{done}/{j}": part for j, part in enumerate(parts)}
    return states
