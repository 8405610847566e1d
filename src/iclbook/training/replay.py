"""Replays: the first steps of stored runs, trained again and compared within what rounding alone does to these runs in these steps.

Allowed is :data:`FACTOR` times (measured sensitivity + one rounding unit of the stored array). Sensitivity is the largest distance between the replay and
:data:`TWINS` twins of it whose parameters and data are moved by one rounding unit before every step (:mod:`iclbook.rounding`), for each array,
run and step, and never less than at an earlier step. A loss is the mean over a batch, and twins leave the order of its sum as it is: one term
after another errs by the square root of their number, in units of the sum (Higham 2002, section 4), so a loss has that many units instead of one.
Initial parameters, which no twin moves, are normal numbers ``r cos(2 pi u)`` and have :data:`DRAWN` units.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .. import rounding, store
from ..rounding import UNIT
from .history import KEPT, History, pack
from .stretches import STRETCH, train_stretch

if TYPE_CHECKING:
    from .study import Study

Arrays = dict[str, np.ndarray]

#: Replays compare records up to this step.
REPLAY_STEPS = 24
#: Some runs are at an edge (Adam divides a gradient that cancels by its own size), which only some twins cross: three were seen to miss one.
TWINS = 8
#: Twins err once at the inputs of a step; the step itself is a chain of rounded operations, some tens deep on the way to any one number, whose
#: independent errors add up to a few units (the square root). Two machines differ by two such errors.
FACTOR = 4.0
#: Rounding units of a drawn normal number, of its radius: an angle up to ``2 pi`` is rounded to the nearest of numbers ``2**-21`` apart, four units, which moves
#: a cosine by as much as two.
DRAWN = 2.0


def replay(study: Study, results: store.Results, device: str = "cpu") -> float:
    """Train the first steps again and return the largest deviation of circuits and losses from the stored ones, as a share of what is allowed.

    Twins are trained only as long as a group is not explained. Results made on another kind of device drew other random
    numbers, so of those only the initial circuits are compared.
    """
    same_device = results.provenance["device"] == device
    until = max(last_step(results[f"{g.name}/steps"]) for g in study.groups) if same_device else 0

    def train(part: Study) -> Arrays:
        return pack(part.trainer(device, compile=False).train(progress=False, until=until))

    return _worst(study, train, results.arrays, TWINS if until else 0)


def replay_stretches(
    study: Study, results: store.Results, kept: Arrays, device: str = "cpu"
) -> tuple[int, float]:
    """Train the kept stretches in the midst of the first run of each group again.

    Args:
        study, results, device: as for :func:`replay`.
        kept: states, see :mod:`iclbook.training.stretches`.

    Returns:
        How many stretches there are, and the largest deviation as in :func:`replay`.
    """
    places = {(key.split("/")[0], int(key.split("/")[1]) + STRETCH) for key in kept}
    worst = 0.0
    for end in sorted({end for _, end in places}):
        groups = tuple(
            dataclasses.replace(g, runs=g.runs[:1]) for g in study.groups if (g.name, end) in places
        )
        stored = {}
        for g in groups:
            row = int(np.flatnonzero(results[f"{g.name}/steps"] == end)[0])
            course = History(**_course(results.group(g.name)))
            circuits = {k: v[[row]][:, :1] for k, v in course.circuits.items()}
            stored |= pack({g.name: History(course.steps[[row]], course.loss[[row]][:, :1], circuits)})

        def train(part: Study, end: int = end) -> Arrays:
            return pack(train_stretch(part.trainer(device, compile=False), kept, end))

        worst = float(
            np.max([worst, _worst(dataclasses.replace(study, groups=groups), train, stored, TWINS)])
        )
    return len(places), worst


def _worst(
    study: Study, train: Callable[[Study], Arrays], stored: Mapping[str, np.ndarray], twins: int
) -> float:
    """Largest share of all groups: of what ``train`` gives for them against what is stored."""
    again = train(study)
    terms = study.batch_size
    shares = {g.name: _share(g.name, again, stored, {}, terms) for g in study.groups}
    moved: dict[str, Arrays] = {}
    # the sensitivity is the largest of all twins: none is needed beyond agreement
    for twin in range(twins):
        unsure = tuple(g for g in study.groups if shares[g.name] > 1)
        if not unsure:
            break
        with rounding.twin(twin):
            other = train(dataclasses.replace(study, groups=unsure))
        for g in unsure:
            moved[g.name] = sensitivity(g.name, again, other, moved.get(g.name, {}))
            shares[g.name] = _share(g.name, again, stored, moved[g.name], terms)
    return float(np.max(list(shares.values())))  # keeps a NaN


def last_step(steps: np.ndarray) -> int:
    """Last recorded step that a replay reaches."""
    return int(steps[steps <= REPLAY_STEPS].max())


def compared(group: str, arrays: Arrays) -> Arrays:
    """The arrays of a group that replays compare, ``(T, R, ...)`` each; no loss was taken before the first step."""
    found = {k: v for k, v in arrays.items() if k.startswith(f"{group}/") and not k.endswith("/steps")}
    if arrays[f"{group}/steps"][0] == 0:
        found[f"{group}/loss"] = found[f"{group}/loss"][1:]
    return found


def _size(array: np.ndarray) -> np.ndarray:
    """Largest entry of each recorded step and run, ``(T, R, 1, ...)``."""
    return np.abs(array).max(axis=tuple(range(2, array.ndim)), keepdims=True) if array.size else array


def sensitivity(group: str, plain: Arrays, twin: Arrays, before: Arrays) -> Arrays:
    """How far rounding alone carries each array, ``(T, R, 1, ...)``: by this twin, or by those ``before`` if they went farther."""
    found, other = {}, compared(group, twin)
    for key, array in compared(group, plain).items():
        apart = np.maximum.accumulate(_size(other[key] - array), axis=0)
        found[key] = np.maximum(before.get(key, 0.0), apart)
    return found


def _share(group: str, again: Arrays, stored: Mapping[str, np.ndarray], moved: Arrays, terms: int) -> float:
    """Largest deviation of a group as a share of what is allowed; a loss is a sum of ``terms``."""
    worst, rows = 0.0, len(again[f"{group}/steps"])
    before = compared(group, {key: stored[key][:rows] for key in again if key.startswith(f"{group}/")})
    for key, array in compared(group, again).items():
        units = np.full((len(array), *[1] * (array.ndim - 1)), terms**0.5 if key == f"{group}/loss" else 1.0)
        if len(array) == rows and again[f"{group}/steps"][0] == 0:  # a loss begins later
            units[0] = DRAWN
        allowed = FACTOR * (moved.get(key, 0.0) + units * UNIT * _size(before[key]))
        apart = np.abs(array - before[key])
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(apart == 0, 0.0, apart / allowed)
        worst = float(np.max([worst, *share.ravel()]))
    return worst


def measured_again(study: Study, results: store.Results) -> float | None:
    """Take the study's measure of the stored circuits again: its largest deviation from the stored one as a share of what is allowed.

    Allowed is :data:`FACTOR` times (the distance of twins, measured on circuits moved by a rounding unit, + one unit). ``None``: there is no
    measure.
    """
    if study.measure is None:
        return None
    stored = {name: History(**_course(results.group(name))) for name in (g.name for g in study.groups)}
    again = study.measure(study, stored)
    moved = []
    for twin in range(2):
        with rounding.twin(twin):
            jitter = rounding.current()
            moved.append(study.measure(study, {k: _moved(history, jitter) for k, history in stored.items()}))
    worst = 0.0
    for key, array in again.items():
        apart = np.abs(np.asarray(array, np.float64) - results[key]).max()
        far = max(np.abs(np.asarray(m[key], np.float64) - array).max() for m in moved)
        allowed = FACTOR * (far + UNIT * np.abs(results[key]).max())
        worst = float(np.max([worst, 0.0 if apart == 0 else apart / allowed]))
    return worst


def _course(group: Arrays) -> dict[str, Any]:
    """Steps, losses and circuits among a group's stored arrays: those with a row for each step and a column for each run."""
    shape = group["loss"].shape
    circuits = {
        k: v
        for k, v in group.items()
        if k not in ("steps", "loss") and not k.startswith(KEPT) and v.shape[:2] == shape
    }
    return {"steps": group["steps"], "loss": group["loss"], "circuits": circuits}


def _moved(history: History, jitter: torch.Generator) -> History:
    circuits = {
        k: rounding.jittered(torch.from_numpy(v), jitter).numpy() for k, v in history.circuits.items()
    }
    return dataclasses.replace(history, circuits=circuits)
