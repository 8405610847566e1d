"""Verifying stored results: what is derived again, compared within what rounding alone does, and then stamped as made from today's code.

A replay trains the first steps of stored runs again, and some segments in the middle of each training from the states that were kept there.

Allowed is :data:`FACTOR` times (measured sensitivity + one rounding unit of the stored array). Sensitivity is the largest distance between the replay and
:data:`REPLICAS` replicas of it whose parameters and data are moved by one rounding unit before every step (:mod:`iclbook.random`), for each array,
run and step, and never less than at an earlier step. A loss is the mean over a batch, and replicas leave the order of its sum as it is: one term
after another errs by the square root of their number, in units of the sum (Higham 2002, section 4), so a loss has that many units instead of one.
Initial parameters, which no replica moves, are normal numbers ``r cos(2 pi u)`` and have :data:`DRAWN` units.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .. import random, store
from ..errors import UserError
from ..random import UNIT
from .history import KEPT, SEGMENT, History, pack

if TYPE_CHECKING:
    from .study import Study

Arrays = dict[str, np.ndarray]

#: Replays compare records up to this step.
REPLAY_STEPS = 24
#: Some runs are at an edge (Adam divides a gradient that cancels by its own size), which only some replicas cross: three were seen to miss one.
REPLICAS = 8
#: Replicas err once at the inputs of a step; the step itself is a chain of rounded operations, some tens deep on the way to any one number, whose
#: independent errors add up to a few units (the square root). Two machines differ by two such errors.
FACTOR = 4.0
#: Rounding units of a drawn normal number, of its radius: an angle up to ``2 pi`` is rounded to the nearest of numbers ``2**-21`` apart, four units, which moves
#: a cosine by as much as two.
DRAWN = 2.0


def replay(study: Study, results: store.Results, device: str = "cpu") -> float:
    """Train the first steps again and return the largest deviation of circuits and losses from the stored ones, as a share of what is allowed.

    Replicas are trained only as long as a group is not explained. Whatever device made the results: random numbers are the same on all.
    """
    until = max(last_step(results[f"{g.name}/steps"]) for g in study.groups)

    def train(part: Study) -> Arrays:
        return pack(part.trainer(device, compile=False).train(progress=False, until=until))

    return _worst(study, train, results.arrays, REPLICAS if until else 0)


def replay_segments(study: Study, results: store.Results, kept: Arrays, device: str = "cpu") -> tuple[int, float]:
    """Train the segments in the middle of the first run of each group again whose states were kept (:func:`iclbook.training.history.segment_states`): how many
    there are, and the largest deviation as in :func:`replay`."""
    places = {(name, int(step) + SEGMENT) for name, step, _ in (key.split("/") for key in kept)}
    places = {place for place in places if place[0] in study.group_names}
    shares = [0.0]
    for end in sorted({end for _, end in places}):
        part = study.of_groups([name for name in study.group_names if (name, end) in places])
        part, there = thinned(part, results, stride=0)
        stored = {}
        for name in part.group_names:
            at_end = there[f"{name}/steps"] == end
            recorded = {k: v for k, v in there.group(name).items() if v.shape[:1] == at_end.shape}
            stored |= {f"{name}/{k}": v[at_end] for k, v in recorded.items()}

        def train(part: Study, end: int = end) -> Arrays:
            return pack(part.trainer(device, compile=False).train_segment(kept, end))

        shares.append(_worst(part, train, stored, REPLICAS))
    return len(places), float(np.max(shares))  # keeps a NaN


def _worst(study: Study, train: Callable[[Study], Arrays], stored: Mapping[str, np.ndarray], replicas: int) -> float:
    """Largest share of all groups: of what ``train`` gives for them against what is stored."""
    again = train(study)
    # how far rounding alone carries each array, ``(T, R, 1, ...)``: by the replica that it carries farthest.
    moved: Arrays = {}
    shares = {g.name: _share(g.name, again, stored, moved, study.batch_size) for g in study.groups}
    for replica in range(replicas):  # none is needed beyond agreement
        unsure = tuple(g for g in study.groups if shares[g.name] > 1)
        if not unsure:
            break
        with random.replica(replica):
            other = train(dataclasses.replace(study, groups=unsure))
        for g in unsure:
            for key, array in compared(g.name, again).items():
                farthest = np.maximum.accumulate(_size(apart(other[key], array)), axis=0)
                moved[key] = np.maximum(moved.get(key, 0.0), farthest)
            shares[g.name] = _share(g.name, again, stored, moved, study.batch_size)
    return float(np.max(list(shares.values())))  # keeps a NaN


def last_step(steps: np.ndarray) -> int:
    """Last recorded step that a replay reaches."""
    return int(steps[steps <= REPLAY_STEPS].max())


def compared(group: str, arrays: Arrays) -> Arrays:
    """The arrays of a group that replays compare, ``(T, R, ...)`` each."""
    others = (f"{group}/steps", f"{group}/{KEPT}")
    return {k: v for k, v in arrays.items() if k.startswith(f"{group}/") and not k.startswith(others)}


def apart(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Distances, 0 where both are not finite: code that rounds otherwise comes to infinity, or past it, at the same step."""
    same = (one == other) | ~(np.isfinite(one) | np.isfinite(other))
    with np.errstate(invalid="ignore"):
        return np.where(same, 0.0, np.abs(np.subtract(one, other, dtype=np.float64)))


def share_of(distance: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Distances as shares of what is allowed; none is 0 whatever is allowed."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(distance == 0, 0.0, distance / allowed)


def _size(array: np.ndarray) -> np.ndarray:
    """Largest finite entry of each recorded step and run, ``(T, R, 1, ...)``."""
    finite = np.abs(np.where(np.isfinite(array), array, 0.0))
    return finite.max(axis=tuple(range(2, array.ndim)), keepdims=True, initial=0.0)


def _share(group: str, again: Arrays, stored: Mapping[str, np.ndarray], moved: Arrays, terms: int) -> float:
    """Largest deviation of a group as a share of what is allowed; a loss is a sum of ``terms``."""
    steps, worst = again[f"{group}/steps"], [0.0]
    for key, array in compared(group, again).items():
        before = stored[key][: len(steps)]
        units = np.full((len(steps), *[1] * (array.ndim - 1)), terms**0.5 if key == f"{group}/loss" else 1.0)
        if steps[0] == 0:
            units[0] = DRAWN
        allowed = FACTOR * (moved.get(key, 0.0) + units * UNIT * _size(before))
        worst += share_of(apart(array, before), allowed).ravel().tolist()
    return float(np.max(worst))  # keeps a NaN


def measured_again(study: Study, results: store.Results) -> float | None:
    """Take the study's measure of the stored circuits again: its largest deviation from the stored one as a share of what is allowed.

    Allowed is :data:`FACTOR` times (the distance of replicas, measured on circuits moved by a rounding unit, + one unit). ``None``: there is no
    measure.
    """
    if study.measure is None:
        return None
    stored = {g.name: _history(results.group(g.name)) for g in study.groups}
    again = study.measure(study, stored)
    moved = []
    for replica in range(2):
        with random.replica(replica):
            jitter = random.replica_errors()
            moved.append(study.measure(study, {k: _moved(history, jitter) for k, history in stored.items()}))
    shares = [0.0]
    for key, array in again.items():
        far = max(apart(m[key], array).max() for m in moved)
        allowed = FACTOR * (far + UNIT * np.nanmax(np.abs(results[key])))
        shares.append(share_of(apart(array, results[key]).max(), allowed))
    return float(np.max(shares))


def _history(group: Arrays) -> History:
    """Steps, losses and circuits among a group's stored arrays: those with a row for each step and a column for each run."""
    own = {k: v for k, v in group.items() if k not in ("steps", "loss") and not k.startswith(KEPT)}
    return History(group["steps"], group["loss"], {k: v for k, v in own.items() if v.shape[:2] == group["loss"].shape})


def _moved(history: History, jitter: torch.Generator) -> History:
    circuits = {k: random.jittered(torch.from_numpy(v), jitter).numpy() for k, v in history.circuits.items()}
    return dataclasses.replace(history, circuits=circuits)


def thinned(study: Study, results: store.Results, stride: int = 7) -> tuple[Study, store.Results]:
    """One run of every group, another in each (with ``stride`` 0 the first), and its part of the results. A run depends on its own seed only, so it replays
    alone."""
    groups, arrays = [], {}
    for i, spec in enumerate(study.groups):
        run = stride * i % len(spec.runs)
        groups.append(dataclasses.replace(spec, runs=(spec.runs[run],)))
        for name, array in results.group(spec.name).items():
            by_run = array.ndim > 1 and array.shape[1] == len(spec.runs)
            arrays[f"{spec.name}/{name}"] = array[:, [run]] if by_run else array
    return dataclasses.replace(study, groups=tuple(groups)), store.Results(arrays, results.provenance)


def verify_study(study: Study, profile: str, device: str = "cpu", every: bool = False) -> dict[str, Any]:
    """Derive again what is cheap of a stored study, with ``every`` of every run and otherwise of one of each group, and, if it agrees, stamp it as made from
    today's source. Returns what the provenance keeps under ``verified``: ``trajectory``, ``measures`` and ``share``, the largest deviation as a share of
    what rounding explains. Results that are damaged, of another configuration or beyond what rounding explains are a UserError.
    """
    results = store.load(study.paper, profile, study.name, study.describe())
    chosen = (study, results) if every else thinned(study, results)
    shares = {"replay": replay(*chosen, device)}
    kept = store.load_states(study.paper, profile, study.name)
    segments, shares["segment"] = replay_segments(study, results, kept, device)
    again = measured_again(study, results)
    if again is not None:
        shares["measure"] = again
    last = max(last_step(results[f"{g.name}/steps"]) for g in study.groups)
    trajectory = f"first {last} of {study.steps} steps of {'every run' if every else 'one run of every group'}"
    trajectory += f", {segments} segments" if segments else ""
    return stamp(study, profile, results, shares, trajectory, device)


def stamp(
    study: Any, profile: str, results: store.Results, shares: Mapping[str, float], trajectory: str, device: str
) -> dict[str, Any]:
    """Stamp results as made from today's source, and return what the provenance keeps under ``verified``. A share above 1, a deviation larger than what
    rounding explains, or one that is no number, is a UserError."""
    for what, share in shares.items():
        if not share <= 1:
            made_on = results.provenance["device"]
            raise UserError(
                f"a {what} of {study.name} deviates by {share:.2g} times what rounding explains",
                "The code has changed: train with --fresh."
                if made_on == device
                else f"Other devices round otherwise: verify them where they were made, with --device {made_on}.",
            )
    measures = "taken again of the stored circuits" if "measure" in shares else "there are none"
    verified = {"trajectory": trajectory, "measures": measures, "share": float(f"{max(shares.values()):.2g}")}
    store.update_digest(study.paper, profile, study.name, study.source(), study.describe(), **verified)
    return verified
