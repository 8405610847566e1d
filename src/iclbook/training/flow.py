"""Gradient flow: the limit of gradient descent for small steps, integrated to a stated accuracy with scipy's solve_ivp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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
        """Time of the first passage of an event.

        Raises:
            UserError: the flow ended before it.
        """
        if not len(self.events) > event:
            raise UserError(f"the flow watched {len(self.events)} events", "Give the events to watch.")
        if not len(self.events[event]):
            raise UserError(
                f"event {event} did not happen until t={self.times[-1]:.3g}", "Follow the flow for longer."
            )
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
        events: functions of the state whose upward passages through zero are located.
        stop_at: number of the event whose first passage ends the flow; none by default.
        method, rtol, atol: as in ``scipy.integrate.solve_ivp``.
        hessian: of the loss, ``(n, n)`` at flat parameters, for methods that follow stiff flows; by differences of the gradient where it is not given.
        between: whether the flow can be resampled afterwards.

    Raises:
        UserError: an end, times or an event to stop at that do not fit, or a flow that cannot be followed (a gradient that is not finite).
    """
    start = np.asarray(start, dtype=float)
    _check(until, stop_at, len(events))
    at = None if at is None else _rising(at, until)
    options = {"jac": lambda t, flat: -hessian(flat)} if hessian else {}
    options |= {"rtol": rtol, "atol": atol, "dense_output": between}
    watched = [_watched(event, start.shape, number == stop_at) for number, event in enumerate(events)]
    with np.errstate(over="ignore", invalid="ignore"):
        velocity, span = _velocity(gradient, start.shape), (0.0, float(until))
        solved = solve_ivp(velocity, span, start.ravel(), method, at, events=watched, **options)
    if solved.status < 0 or not np.isfinite(solved.y).all():
        mend = "Check the start and the gradient, or try another method."
        raise _lost(solved.t[-1] if len(solved.t) else 0, solved.message, mend)
    states = solved.y.T.reshape(-1, *start.shape)
    return Flow(solved.t, states, tuple(solved.t_events or ()), solved.sol)


def _check(until: float, stop_at: int | None, n_events: int) -> None:
    if not until > 0:
        raise UserError(f"a flow until t={until}", "Give an end after 0.")
    if stop_at is not None and not 0 <= stop_at < n_events:
        raise UserError(f"stop at event {stop_at} of {n_events}", "Name one of the events by its number.")


def _rising(at: Sequence[float] | Array, until: float) -> Array:
    """Times to report, as an array."""
    at = np.asarray(at, dtype=float)
    inside = at.ndim == 1 and len(at) > 0 and at[0] >= 0 and at[-1] <= until
    if not (inside and (np.diff(at) > 0).all()):
        raise UserError("times to report that do not rise from 0 to the end", f"Use 0 to {until:.6g}.")
    return at


def _velocity(gradient: Callable[[Array], Array], shape: tuple[int, ...]) -> Callable[[float, Array], Array]:
    def velocity(t: float, flat: Array) -> Array:
        slope = -gradient(flat.reshape(shape)).ravel()
        if not np.isfinite(slope).all():  # the integrator would look for a step size for ever
            raise _lost(t, "the gradient is not finite", "Check the start and the gradient.")
        return slope

    return velocity


def _watched(event: Callable[[Array], float], shape: tuple[int, ...], last: bool) -> Callable:
    """An event as the integrator asks for it: passages upwards, and with ``last`` the first one ends the flow."""

    def watch(_: float, flat: Array) -> float:
        return float(event(flat.reshape(shape)))

    watch.direction = 1.0
    watch.terminal = last
    return watch


def _lost(t: float, why: str, mend: str) -> UserError:
    return UserError(f"the flow stopped at t={t:.3g} ({why})", mend)
