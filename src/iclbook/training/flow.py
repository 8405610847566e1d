"""Gradient flow, the limit of gradient descent for small steps, and the times at which functions of its state first cross zero.

:func:`gradient_flow` integrates one flow with scipy's solve_ivp. :func:`first_crossings` integrates an ensemble in which every run has its own time steps:
on shared steps an ensemble moves at the pace of its fastest run, and where runs jump at times that differ by orders of magnitude, steps of their own are
many times cheaper. A run alone is then exactly the same run in any ensemble.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.integrate import solve_ivp

from ..errors import UserError

Array = np.ndarray


@dataclass(frozen=True)
class Flow:
    """A solved flow.

    Attributes:
        times: ``(T,)``.
        states: ``(T, ...)`` parameters at those times, in the shape of the start.
        events: for each event function, the times at which it passed zero.
        between: the integrator's own interpolation, times ``(T,)`` to flat states ``(n, T)``, where the flow was asked for it.
    """

    times: Array
    states: Array
    events: tuple[Array, ...] = ()
    between: Callable[[Array], Array] | None = None

    def resampled(self, count: int) -> Flow:
        """The same flow, which was followed with ``between``, at ``count`` evenly spaced times."""
        times = np.linspace(self.times[0], self.times[-1], count)
        return replace(self, times=times, states=self.between(times).T.reshape(count, *self.states.shape[1:]))

    def first(self, event: int = 0) -> float:
        """Time of the first crossing of an event, which the flow must have reached."""
        assert len(self.events[event]), f"event {event} did not happen until t={self.times[-1]:.3g}"
        return float(self.events[event][0])


def gradient_flow(
    gradient: Callable[[Array], Array],
    start: Array,
    until: float,
    at: Sequence[float] | Array | None = None,
    events: Sequence[Callable[[Array], float]] = (),
    stop_at: int | None = None,
    method: str = "DOP853",
    rtol: float = 1e-10,
    atol: float = 1e-14,
    hessian: Callable[[Array], Array] | None = None,
    between: bool = False,
) -> Flow:
    """Integrate ``d theta / dt = -gradient(theta)``.

    Args:
        gradient: of the loss, same shape in and out.
        start: initial parameters of any shape; a leading axis makes an ensemble that shares its time steps.
        until: end of the flow, positive.
        at: times to report, rising, within ``[0, until]``; the integrator's own by default.
        events: functions of the state whose upward crossings of zero are located.
        stop_at: number of the event whose first crossing ends the flow; none by default.
        method, rtol, atol: as in ``scipy.integrate.solve_ivp``.
        hessian: of the loss, ``(n, n)`` at flat parameters, for methods that follow stiff flows; by differences of the gradient where it is not given.
        between: whether the flow can be resampled afterwards.

    Raises:
        UserError: the flow cannot be followed (a gradient that is not finite).
    """
    start = np.asarray(start, dtype=float)
    assert until > 0, until
    assert stop_at is None or 0 <= stop_at < len(events), stop_at

    def velocity(t: float, flat: Array) -> Array:
        slope = -gradient(flat.reshape(start.shape)).ravel()
        if not np.isfinite(slope).all():  # the integrator would look for a step size for ever
            raise _lost(t, "the gradient is not finite")
        return slope

    options = {"jac": lambda t, flat: -hessian(flat)} if hessian else {}
    options |= {"rtol": rtol, "atol": atol, "dense_output": between}
    watched = [_watched(event, start.shape, number == stop_at) for number, event in enumerate(events)]
    with np.errstate(over="ignore", invalid="ignore"):
        span = (0.0, float(until))
        solved = solve_ivp(velocity, span, start.ravel(), method, at, events=watched, **options)
    if solved.status < 0 or not np.isfinite(solved.y).all():
        raise _lost(solved.t[-1] if len(solved.t) else 0, solved.message)
    states = solved.y.T.reshape(-1, *start.shape)
    return Flow(solved.t, states, tuple(solved.t_events or ()), solved.sol)


def _watched(event: Callable[[Array], float], shape: tuple[int, ...], last: bool) -> Callable:
    """An event as the integrator asks for it: upward crossings, and with ``last`` the first one ends the flow."""

    def watch(_: float, flat: Array) -> float:
        return float(event(flat.reshape(shape)))

    watch.direction = 1.0
    watch.terminal = last
    return watch


def _lost(t: float, why: str) -> UserError:
    return UserError(f"the flow stopped at t={t:.3g} ({why})", "Check the start and the gradient.")


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
class Crossings:
    """Where an ensemble ended.

    Attributes:
        times: ``(N, K)`` first time at which each event function was not negative; inf if it stayed negative.
        end: ``(N,)`` time at which each run was left: when all its events had happened, or at its end.
        states: ``(N, P)`` at that time.
    """

    times: Array
    end: Array
    states: Array


def first_crossings(
    gradient: Callable[[Array], Array],
    events: Callable[[Array], Array],
    start: Array,
    until: float | Array,
    rtol: float = 1e-6,
    atol: float = 1e-10,
    most_steps: int = 100_000,
) -> Crossings:
    """Integrate ``d theta / dt = -gradient(theta)`` for each run until each of its event functions has crossed zero upwards.

    Args:
        gradient: ``(M, P) -> (M, P)`` for any number of runs, each row a function of that row alone.
        events: ``(M, P) -> (M, K)``.
        start: ``(N, P)``.
        until: latest end, one for all or ``(N,)``.
        rtol, atol: bound on the error of a step, root mean square over a run's parameters.
        most_steps: tries before the run is given up as one that cannot be followed.

    Raises:
        UserError: a run that takes too many steps.
    """
    y = np.array(start, dtype=float)
    end = np.broadcast_to(np.asarray(until, dtype=float), (len(y),)).copy()
    assert y.ndim == 2, y.shape
    assert (end > 0).all(), until
    runs = _started(gradient, events, y, end)
    times = np.where(runs.event >= 0, 0.0, np.inf)
    states, ended = y.copy(), np.zeros(len(y))
    for _ in range(most_steps):
        going = (runs.t < runs.end) & ~np.isfinite(times[runs.left]).all(-1)
        if not going.all():
            gone = runs.left[~going]
            states[gone], ended[gone] = runs.y[~going], runs.t[~going]
            runs.keep(going)
        if not len(runs.left):
            return Crossings(times, ended, states)
        _step(runs, gradient, events, times, rtol, atol)
    raise UserError(
        f"{len(runs.left)} of {len(states)} runs took more than {most_steps} steps",
        "Raise rtol or end the flow earlier.",
    )


@dataclass
class _Moving:
    """The runs that still move, one row each: number in the ensemble, state, time, end, next step, slope and event functions."""

    left: Array
    y: Array
    t: Array
    end: Array
    step: Array
    slope: Array
    event: Array

    def keep(self, rows: Array) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name)[rows])


def _started(gradient: Callable, events: Callable, y: Array, end: Array) -> _Moving:
    """All runs at time 0, with a first step of a hundredth of the way that a run's slope needs to its own size, within bounds set by its end."""
    slope = _slope(gradient, y)
    step = 0.01 * np.linalg.norm(y, axis=1) / np.maximum(np.linalg.norm(slope, axis=1), 1e-300)
    step = np.clip(step, 1e-6 * end, 1e-2 * end)
    return _Moving(np.arange(len(y)), y.copy(), np.zeros(len(y)), end, step, slope, events(y))


def _step(runs: _Moving, gradient: Callable, events: Callable, times: Array, rtol: float, atol: float) -> None:
    """One try of every run: those whose error is within bounds move on, and crossings of their events go into ``times``."""
    h = np.minimum(runs.step, runs.end - runs.t)
    new, new_slope, error = _try(gradient, runs.y, runs.slope, h)
    scale = atol + rtol * np.maximum(np.abs(runs.y), np.abs(new))
    size = np.sqrt(((error / scale) ** 2).mean(1))
    taken = size <= 1
    if taken.any():
        rows = np.flatnonzero(taken)
        new_event = events(new[rows])
        passed = (runs.event[rows] < 0) & (new_event >= 0) & np.isinf(times[runs.left[rows]])
        for k in np.flatnonzero(passed.any(0)):
            at = rows[passed[:, k]]
            part = _locate(events, k, runs.y[at], new[at], runs.slope[at], new_slope[at], h[at])
            times[runs.left[at], k] = runs.t[at] + part * h[at]
        runs.t = np.where(taken, np.where(h < runs.step, runs.end, runs.t + h), runs.t)
        runs.y[rows], runs.slope[rows], runs.event[rows] = new[rows], new_slope[rows], new_event
    with np.errstate(divide="ignore"):
        runs.step = h * np.clip(0.9 * size**-0.2, 0.2, 5.0)


def _slope(gradient: Callable[[Array], Array], y: Array) -> Array:
    slope = -gradient(y)
    assert np.isfinite(slope).all(), "the gradient of a run is not finite"
    return slope


def _try(gradient: Callable, y: Array, slope: Array, h: Array) -> tuple[Array, Array, Array]:
    """One step of every run: new state, its slope, and the error estimate."""
    stages, wide = [slope], h[:, None]
    for row in _A:
        move = sum(a * k for a, k in zip(row, stages, strict=True) if a)
        new = y + wide * move
        stages.append(_slope(gradient, new))
    error = wide * sum(e * k for e, k in zip(_E, stages, strict=True) if e)
    return new, stages[-1], error


def _locate(events: Callable, k: int, y0: Array, y1: Array, f0: Array, f1: Array, h: Array) -> Array:
    """Share of the step at which event function k crosses zero, by bisection along the cubic through both ends and their slopes."""
    low, high, wide = np.zeros(len(y0)), np.ones(len(y0)), h[:, None]
    for _ in range(30):
        middle = (low + high) / 2
        x = middle[:, None]
        y = (1 + 2 * x) * (1 - x) ** 2 * y0 + x * (1 - x) ** 2 * wide * f0
        y = y + x**2 * (3 - 2 * x) * y1 + x**2 * (x - 1) * wide * f1
        above = events(y)[:, k] >= 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return high
