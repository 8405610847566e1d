"""Gradient flow of an ensemble in which every run has its own time steps: when does each of several functions of the state first pass zero?

An ensemble on shared steps moves at the pace of its fastest run. Where runs jump at times that differ by orders of magnitude, steps of their own are
many times cheaper, and a run alone is then exactly the same run in any ensemble.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from ..errors import UserError

Array = np.ndarray

# Dormand and Prince's pair of order 5 and 4: the last row of _A gives the new state, _E the error estimate.
_A = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_E = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


@dataclass(frozen=True)
class Passages:
    """Where an ensemble ended.

    Attributes:
        times: ``(N, K)`` first time at which each mark was not negative; inf if it stayed so.
        end: ``(N,)`` time at which each run was left: when all its marks had passed, or at its end.
        states: ``(N, P)`` at that time.
    """

    times: Array
    end: Array
    states: Array


def first_passages(
    gradient: Callable[[Array], Array],
    marks: Callable[[Array], Array],
    start: Array,
    until: float | Array,
    rtol: float = 1e-6,
    atol: float = 1e-10,
    most_steps: int = 100_000,
) -> Passages:
    """Integrate ``d theta / dt = -gradient(theta)`` for each run until all its marks have passed zero upwards.

    Args:
        gradient: ``(M, P) -> (M, P)`` for any number of runs, each row a function of that row alone.
        marks: ``(M, P) -> (M, K)``.
        start: ``(N, P)``.
        until: latest end, one for all or ``(N,)``.
        rtol, atol: bound on the error of a step, root mean square over a run's parameters.
        most_steps: tries before the run is given up as one that cannot be followed.

    Raises:
        UserError: an end that is not after the start, a gradient that is not finite, or a run that takes too many steps.
    """
    y = np.array(start, dtype=float)
    end = np.broadcast_to(np.asarray(until, dtype=float), (len(y),)).copy()
    if y.ndim != 2 or not (end > 0).all():
        raise UserError(
            f"an ensemble of shape {y.shape} until t={until}", "Give (runs, size) and ends after 0."
        )
    runs = _started(gradient, marks, y, end)
    times = np.where(runs.mark >= 0, 0.0, np.inf)
    states, ended = y.copy(), np.zeros(len(y))
    for _ in range(most_steps):
        going = (runs.t < runs.end) & ~np.isfinite(times[runs.left]).all(-1)
        if not going.all():
            gone = runs.left[~going]
            states[gone], ended[gone] = runs.y[~going], runs.t[~going]
            runs.keep(going)
        if not len(runs.left):
            return Passages(times, ended, states)
        _step(runs, gradient, marks, times, rtol, atol)
    raise UserError(
        f"{len(runs.left)} of {len(states)} runs took more than {most_steps} steps",
        "Raise rtol or end the flow earlier.",
    )


@dataclass
class _Going:
    """The runs that still go, one row each: number in the ensemble, state, time, end, next step, slope and marks."""

    left: Array
    y: Array
    t: Array
    end: Array
    step: Array
    slope: Array
    mark: Array

    def keep(self, rows: Array) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name)[rows])


def _started(gradient: Callable, marks: Callable, y: Array, end: Array) -> _Going:
    """All runs at time 0, with a first step of a hundredth of the way that a run's slope needs to its own size, within bounds set by its end."""
    slope = _velocity(gradient, y)
    step = 0.01 * np.linalg.norm(y, axis=1) / np.maximum(np.linalg.norm(slope, axis=1), 1e-300)
    step = np.clip(step, 1e-6 * end, 1e-2 * end)
    return _Going(np.arange(len(y)), y.copy(), np.zeros(len(y)), end, step, slope, marks(y))


def _step(runs: _Going, gradient: Callable, marks: Callable, times: Array, rtol: float, atol: float) -> None:
    """One try of every run: those whose error is within bounds move on, and passages of their marks go into ``times``."""
    h = np.minimum(runs.step, runs.end - runs.t)
    new, new_slope, error = _try(gradient, runs.y, runs.slope, h)
    scale = atol + rtol * np.maximum(np.abs(runs.y), np.abs(new))
    size = np.sqrt(((error / scale) ** 2).mean(1))
    taken = size <= 1
    if taken.any():
        rows = np.flatnonzero(taken)
        new_mark = marks(new[rows])
        passed = (runs.mark[rows] < 0) & (new_mark >= 0) & np.isinf(times[runs.left[rows]])
        for k in np.flatnonzero(passed.any(0)):
            at = rows[passed[:, k]]
            part = _locate(marks, k, runs.y[at], new[at], runs.slope[at], new_slope[at], h[at])
            times[runs.left[at], k] = runs.t[at] + part * h[at]
        runs.t = np.where(taken, np.where(h < runs.step, runs.end, runs.t + h), runs.t)
        runs.y[rows], runs.slope[rows], runs.mark[rows] = new[rows], new_slope[rows], new_mark
    with np.errstate(divide="ignore"):
        runs.step = h * np.clip(0.9 * size**-0.2, 0.2, 5.0)


def _velocity(gradient: Callable[[Array], Array], y: Array) -> Array:
    slope = -gradient(y)
    if not np.isfinite(slope).all():
        raise UserError("the gradient of a run is not finite", "Check the start and the gradient.")
    return slope


def _try(gradient: Callable, y: Array, slope: Array, h: Array) -> tuple[Array, Array, Array]:
    """One step of every run: new state, its slope, and the error estimate."""
    stages, wide = [slope], h[:, None]
    for row in _A:
        move = sum(a * k for a, k in zip(row, stages, strict=True) if a)
        new = y + wide * move
        stages.append(_velocity(gradient, new))
    error = wide * sum(e * k for e, k in zip(_E, stages, strict=True) if e)
    return new, stages[-1], error


def _locate(marks: Callable, k: int, y0: Array, y1: Array, f0: Array, f1: Array, h: Array) -> Array:
    """Share of the step at which mark k passes zero, by bisection along the cubic through both ends and their slopes."""
    low, high, wide = np.zeros(len(y0)), np.ones(len(y0)), h[:, None]
    for _ in range(30):
        middle = (low + high) / 2
        x = middle[:, None]
        y = (1 + 2 * x) * (1 - x) ** 2 * y0 + x * (1 - x) ** 2 * wide * f0
        y = y + x**2 * (3 - 2 * x) * y1 + x**2 * (x - 1) * wide * f1
        above = marks(y)[:, k] >= 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return high
