"""Gradient flow, the limit of gradient descent for small steps, and the times at which functions of its state first cross zero.

:func:`gradient_flow` integrates one flow with scipy's solve_ivp. :func:`first_crossings` integrates an ensemble in which every run has its own time steps:
on shared steps an ensemble moves at the pace of its fastest run, and where runs jump at times that differ by orders of magnitude, steps of their own are
many times cheaper. A run alone is then exactly the same run in any ensemble.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.integrate import RK45, solve_ivp

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

    def resampled(self, count: int) -> "Flow":
        """This flow, which was followed with ``between``, at ``count`` evenly spaced times."""
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
        at: times to report, rising; the integrator's own by default.
        events: functions of the state whose upward crossings of zero are located.
        stop_at: number of the event whose first crossing ends the flow; none by default.
        method, rtol, atol: as in ``scipy.integrate.solve_ivp``.
        hessian: of the loss, ``(n, n)`` at flat parameters, for methods that follow stiff flows; by differences of the gradient where it is not given.
        between: whether the flow can be resampled afterwards.

    Raises:
        UserError: the flow cannot be followed (a gradient that is not finite).
    """
    start = np.asarray(start, dtype=float)

    def velocity(t: float, flat: Array) -> Array:
        slope = -gradient(flat.reshape(start.shape)).ravel()
        if not np.isfinite(slope).all():  # the integrator would look for a step size for ever
            raise UserError(f"the gradient of the flow is not finite at t={t:.3g}", "Check the start and the gradient.")
        return slope

    def watched(number: int, event: Callable[[Array], float]) -> Callable[[float, Array], float]:
        def watch(_: float, flat: Array) -> float:
            return float(event(flat.reshape(start.shape)))

        watch.direction, watch.terminal = 1.0, number == stop_at  # upward crossings
        return watch

    options = {"jac": lambda t, flat: -hessian(flat)} if hessian else {}
    options |= {"rtol": rtol, "atol": atol, "dense_output": between}
    options |= {"events": [watched(number, event) for number, event in enumerate(events)]}
    with np.errstate(over="ignore", invalid="ignore"):
        solved = solve_ivp(velocity, (0.0, float(until)), start.ravel(), method, at, **options)
    if solved.status < 0 or not np.isfinite(solved.y).all():
        raise UserError(
            f"the flow stopped at t={solved.t[-1]:.3g}, before t={until:.3g} ({solved.message})",
            "Check the start and the gradient.",
        )
    states = solved.y.T.reshape(-1, *start.shape)
    return Flow(solved.t, states, tuple(solved.t_events or ()), solved.sol)


#: Tries of a run before it is given up as one that cannot be followed.
MOST_STEPS = 100_000


def first_crossings(
    gradient: Callable[[Array], Array],
    events: Callable[[Array], Array],
    start: Array,
    until: float | Array,
    rtol: float = 1e-6,
    atol: float = 1e-10,
) -> Array:
    """First times ``(N, K)`` at which each event function of each run is not negative, along ``d theta / dt = -gradient(theta)``; inf if it stays negative.

    By Dormand and Prince's pair of order 5 and 4. A run is left when all its events have happened, or at its end.

    Args:
        gradient: ``(M, P) -> (M, P)`` for any number of runs, each row a function of that row alone.
        events: ``(M, P) -> (M, K)``.
        start: ``(N, P)``.
        until: latest end, one for all or ``(N,)``.
        rtol, atol: bound on the error of a step, root mean square over a run's parameters.

    Raises:
        UserError: a run that takes too many steps, or a gradient that is not finite.
    """
    y = np.array(start, dtype=float)
    end = np.broadcast_to(np.asarray(until, dtype=float), (len(y),)).copy()
    left, t, slope, event = np.arange(len(y)), np.zeros(len(y)), -gradient(y), events(y)
    # a hundredth of the way that a run's slope needs to its own size, within bounds set by its end
    step = 0.01 * np.linalg.norm(y, axis=1) / np.maximum(np.linalg.norm(slope, axis=1), 1e-300)
    step = np.clip(step, 1e-6 * end, 1e-2 * end)
    times = np.where(event >= 0, 0.0, np.inf)
    for _ in range(MOST_STEPS):
        going = (t < end) & ~np.isfinite(times[left]).all(-1)
        left, y, t, end, step, slope, event = (x[going] for x in (left, y, t, end, step, slope, event))
        if not len(left):
            return times
        h = np.minimum(step, end - t)
        new, new_slope, error = _try(gradient, y, slope, h)
        if not np.isfinite(new_slope).all():
            raise UserError("the gradient of a run is not finite", "Check the start and the gradient.")
        scale = atol + rtol * np.maximum(np.abs(y), np.abs(new))
        size = np.sqrt(((error / scale) ** 2).mean(1))
        taken = size <= 1
        if taken.any():
            rows = np.flatnonzero(taken)
            new_event = events(new[rows])
            passed = (event[rows] < 0) & (new_event >= 0) & np.isinf(times[left[rows]])
            for k in np.flatnonzero(passed.any(0)):
                at = rows[passed[:, k]]
                part = _locate(events, k, y[at], new[at], slope[at], new_slope[at], h[at])
                times[left[at], k] = t[at] + part * h[at]
            t = np.where(taken, np.where(h < step, end, t + h), t)
            y[rows], slope[rows], event[rows] = new[rows], new_slope[rows], new_event
        with np.errstate(divide="ignore"):
            step = h * np.clip(0.9 * size**-0.2, 0.2, 5.0)
    raise UserError(
        f"{len(left)} of {len(times)} runs took more than {MOST_STEPS} steps", "Raise rtol or end the flow earlier."
    )


def _try(gradient: Callable, y: Array, slope: Array, h: Array) -> tuple[Array, Array, Array]:
    """One step of every run: new state, its slope, and the error estimate."""
    stages, wide = [slope], h[:, None]
    for row in (*RK45.A[1:], RK45.B):
        move = sum(a * k for a, k in zip(row, stages, strict=False) if a)
        new = y + wide * move
        stages.append(-gradient(new))
    error = wide * sum(e * k for e, k in zip(RK45.E, stages, strict=True) if e)
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
