"""Replays: the first steps of stored runs, trained again and compared within what rounding alone does to these runs in these steps.

Allowed is :data:`FACTOR` times (measured sensitivity + one rounding unit of the stored array). Sensitivity is the largest distance between the replay and
:data:`TWINS` twins of it whose parameters and data are moved by one rounding unit before every step (:mod:`iclbook.training.rounding`), for each array,
run and step, and never less than at an earlier step.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import torch

from .. import store
from ..training.history import pack
from ..training.rounding import UNIT

if TYPE_CHECKING:
    from .study import Study

Arrays = dict[str, np.ndarray]

#: Replays compare records up to this step.
REPLAY_STEPS = 24
#: The largest distance of three twins is rarely small by accident.
TWINS = 3
#: Twins err once at the inputs of a step; the step itself is a chain of rounded operations, some tens deep on the way to any one number, whose
#: independent errors add up to a few units (the square root). Two machines differ by two such errors.
FACTOR = 4.0


def replay(study: Study, results: store.Results, device: str = "cpu") -> float:
    """Train the first steps again and return the largest deviation of circuits and losses from the stored ones, as a share of what is allowed.

    Twins are trained only for groups that one rounding unit does not explain. Results made on another kind of device drew other random
    numbers, so of those only the initial circuits are compared.
    """
    same_device = results.provenance["device"] == device
    until = max(_last(results[f"{g.name}/steps"]) for g in study.groups) if same_device else 0
    again = _train(study, device, until)
    shares = {g.name: _share(g.name, again, results, {}) for g in study.groups}
    unsure = tuple(g for g in study.groups if shares[g.name] > 1)
    if unsure and until:
        part = dataclasses.replace(study, groups=unsure)
        twins = [_train(part, device, until, seed) for seed in range(TWINS)]
        for g in unsure:
            shares[g.name] = _share(g.name, again, results, sensitivity(g.name, again, twins))
    return float(np.max(list(shares.values())))  # keeps a NaN


def _last(steps: np.ndarray) -> int:
    """Last recorded step that a replay reaches."""
    return int(steps[steps <= REPLAY_STEPS].max())


def _train(study: Study, device: str, until: int, twin: int | None = None) -> Arrays:
    """The arrays of the first steps, ``"group/name"``; with a number in place of ``twin``, of that twin."""
    trainer = study.trainer(device, compile=False)
    jitter = None if twin is None else torch.Generator(trainer.device).manual_seed(twin)
    return pack(trainer.train(progress=False, until=until, jitter=jitter))


def compared(group: str, arrays: Arrays) -> Arrays:
    """The arrays of a group that replays compare, ``(T, R, ...)`` each; no loss was taken before the first step."""
    found = {k: v for k, v in arrays.items() if k.startswith(f"{group}/") and not k.endswith("/steps")}
    return {k: v[1:] if k == f"{group}/loss" else v for k, v in found.items()}


def _size(array: np.ndarray) -> np.ndarray:
    """Largest entry of each recorded step and run, ``(T, R, 1, ...)``."""
    return np.abs(array).max(axis=tuple(range(2, array.ndim)), keepdims=True) if array.size else array


def sensitivity(group: str, plain: Arrays, twins: list[Arrays]) -> Arrays:
    """How far rounding alone carries each array, ``(T, R, 1, ...)``."""
    found = {}
    for key, array in compared(group, plain).items():
        apart = np.max([_size(compared(group, twin)[key] - array) for twin in twins], axis=0)
        found[key] = np.maximum.accumulate(apart, axis=0)
    return found


def _share(group: str, again: Arrays, results: store.Results, moved: Arrays) -> float:
    """Largest deviation of a group as a share of what is allowed."""
    worst = 0.0
    for key, array in compared(group, again).items():
        stored = compared(group, {key: results[key][: len(again[f"{group}/steps"])]})[key]
        allowed = FACTOR * (moved.get(key, 0.0) + UNIT * _size(stored))
        apart = np.abs(array - stored)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(apart == 0, 0.0, apart / allowed)
        worst = float(np.max([worst, *share.ravel()]))
    return worst
