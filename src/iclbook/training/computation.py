"""Long computations that are not trainings, such as gradient flows and sweeps: made once, kept as results are, and made again in part to verify them."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from .. import random, store
from ..draw import outputs
from ..files import file_lock
from ..machines import is_pinned
from ..project import find_root
from ..sources import source_of
from ..workers import progress_bar
from .replay import FACTOR, apart, share_of, stamp

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Computation:
    """Configuration of a computation as plain data: everything that decides its numbers.

    Attributes:
        paper, name: where the results are kept.
        compute: ``compute(group, members) -> {name: array (M, ...)}``; what a member (a seed, a draw) gives depends on the group and on itself only.
        groups: names.
        first, count: members are ``first, ..., first + count - 1``.
        within: relative tolerance between machines, as a share of a member's largest entry of an array, added to the sensitivity that replicas measure.
        replicas: how many replicas (:mod:`iclbook.random`) of a member may be made where rounding decides; ``compute`` then moves its numbers in them.
        may_diverge: groups whose numbers need not be finite.
    """

    paper: str
    name: str
    compute: Callable[[str, Sequence[int]], Arrays]
    groups: tuple[str, ...]
    first: int
    count: int
    within: float = field(default=0.0, compare=False)
    may_diverge: tuple[str, ...] = ()
    replicas: int = field(default=0, compare=False)

    def of_groups(self, names: Sequence[str]) -> "Computation":
        """The computation of some of its groups alone."""
        return dataclasses.replace(self, groups=tuple(g for g in self.groups if g in names))

    @property
    def group_names(self) -> tuple[str, ...]:
        return self.groups

    @property
    def members(self) -> range:
        return range(self.first, self.first + self.count)

    def describe(self) -> dict[str, Any]:
        """The configuration as JSON holds it; equal ones mean equal numbers."""
        return store.plain(self)

    def source(self) -> dict[str, str]:
        """Digests of the code that can change these numbers."""
        return source_of(self, compute)


def compute(
    computation: Computation,
    profile: str,
    progress: bool = True,
    executor: Executor | None = None,
    parts: int = 1,
    missing: Sequence[str] = (),
) -> store.Results:
    """Make a computation on the CPU and keep its results; with an executor in so many shares of the members. A computation under way elsewhere is a
    UserError.

    Where ``missing`` names groups, these are made alone and kept beside the others, which have results.
    """
    lock = outputs(find_root()) / ".cache" / "checkpoints" / f"{computation.paper}-{profile}-{computation.name}.lock"
    what = f"the computation of {computation.paper}/{computation.name} at {profile}"
    todo = computation.of_groups(missing) if missing else computation
    parts = 1 if executor is None else min(parts, computation.count)
    pieces = [computation.members[i::parts] for i in range(parts)]
    with file_lock(lock, what, wait=profile == "smoke"):
        beside = store.others(computation, profile, missing)
        source, start = computation.source(), time.perf_counter()
        if executor is None:
            shares = [_share(todo, piece, progress) for piece in pieces]
        else:
            tasks = [executor.submit(_share, todo, piece, False) for piece in pieces]
            shares = [task.result() for task in tasks]
        order = np.argsort(np.concatenate([list(piece) for piece in pieces]))  # members were dealt out in turn
        arrays = {key: np.concatenate([share[key] for share in shares])[order] for key in shares[0]}
        seconds = time.perf_counter() - start
        extra = {"threads": torch.get_num_threads(), "pinned": is_pinned(), "parts": parts}
        about = store.provenance(computation.describe(), source, seconds, "cpu", **extra)
        return store.keep(computation, profile, arrays, about, beside)


def _share(computation: Computation, members: Sequence[int], progress: bool) -> Arrays:
    """Arrays of all groups for some members, ``"group/name" -> array``."""
    arrays = {}
    with progress_bar(progress, len(computation.groups), unit="group") as update:
        for group in computation.groups:
            for name, array in computation.compute(group, members).items():
                arrays[f"{group}/{name}"] = np.asarray(array)
            update(1)
    return arrays


def verify_computation(computation: Computation, profile: str, every: bool = False) -> dict[str, Any]:
    """Make one of the members again (or every one) and, if it agrees, stamp the results as made from today's source; what was made again, as
    :func:`iclbook.training.replay.verify_study` returns it."""
    results = store.load(computation.paper, profile, computation.name, computation.describe())
    share = deviation(computation, results, every)
    again = "every member" if every else f"1 of {computation.count} members"
    return stamp(computation, profile, results, {"member": share}, f"{again} of every group", "cpu")


def deviation(computation: Computation, results: store.Results, every: bool = False) -> float:
    """Largest deviation of a member of every group that is made again, another in each (or of every member), as a share of what is allowed.

    Allowed is ``within`` of a member's largest entry and :data:`FACTOR` times what replicas move that one entry by. Replicas are made only as long as a member
    is not explained.
    """

    def made(group: str, places: np.ndarray) -> Arrays:
        computed = computation.compute(group, [computation.members[int(k)] for k in places])
        return {name: np.asarray(array, float) for name, array in computed.items()}

    worst = 0.0
    for i, group in enumerate(computation.groups):
        places = np.arange(computation.count) if every else np.array([7 * (i + 1) % computation.count])
        again = made(group, places)
        stored = {name: results[f"{group}/{name}"][places].astype(float) for name in again}
        if any(again[name].shape != stored[name].shape for name in again):
            return float("inf")
        moved = {name: np.zeros_like(array) for name, array in again.items()}
        shares = _shares(again, stored, moved, computation.within)
        for which in range(computation.replicas):
            unsure = np.flatnonzero(shares > 1)
            if not len(unsure):
                break
            with random.replica(which):
                other = made(group, places[unsure])
            for name, array in other.items():
                moved[name][unsure] = np.fmax(moved[name][unsure], np.abs(array - again[name][unsure]))
            shares = _shares(again, stored, moved, computation.within)
        worst = max(worst, float(shares.max()))
    return worst


def _shares(again: Arrays, stored: Arrays, moved: Arrays, within: float) -> np.ndarray:
    """Each member's largest distance as a share of what is allowed, ``(M,)``; infinite where one of two is no number."""
    worst = []
    for name, array in again.items():
        other, axes = stored[name], tuple(range(1, array.ndim))
        size = np.nanmax(np.abs(other), axis=axes, keepdims=True, initial=0.0)
        distance = np.where(np.isnan(array) == np.isnan(other), apart(array, other), np.inf)
        shares = share_of(distance, within * size + FACTOR * moved[name])
        worst.append(shares.max(axis=axes, initial=0.0))
    return np.max(worst, axis=0)
