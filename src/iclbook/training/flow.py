"""Gradient flow: the limit of gradient descent for small steps, integrated to a stated accuracy with scipy's solve_ivp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
    """

    times: Array
    states: Array
    events: tuple[Array, ...] = ()


def gradient_flow(
    gradient: Callable[[Array], Array],
    start: Array,
    until: float,
    at: Sequence[float] | Array | None = None,
    events: Sequence[Callable[[Array], float]] = (),
    stop_at_events: bool = False,
    method: str = "DOP853",
    rtol: float = 1e-10,
    atol: float = 1e-14,
) -> Flow:
    """Integrate ``d theta / dt = -gradient(theta)``.

    Args:
        gradient: of the loss, same shape in and out.
        start: initial parameters of any shape; a leading axis makes an ensemble that shares its time steps.
        until: end of the flow, positive.
        at: times to report, within ``[0, until]``; the integrator's own by default.
        events: functions of the state whose upward passages through zero are located.
        stop_at_events: end the flow at the last of the events (each counted once).
        method, rtol, atol: as in ``scipy.integrate.solve_ivp``.

    Raises:
        UserError: an end that is not after the start, or a flow that cannot be followed (a gradient that is not finite).
    """
    start = np.asarray(start, dtype=float)
    if not until > 0:
        raise UserError(f"a flow until t={until}", "Give an end after 0.")

    def velocity(_: float, flat: Array) -> Array:
        return -gradient(flat.reshape(start.shape)).ravel()

    watched = []
    for event in events:

        def watch(_: float, flat: Array, event: Callable[[Array], float] = event) -> float:
            return float(event(flat.reshape(start.shape)))

        watch.direction = 1.0
        watch.terminal = bool(stop_at_events and len(events) == 1)
        watched.append(watch)
    with np.errstate(over="ignore", invalid="ignore"):
        solved = solve_ivp(
            velocity, (0.0, float(until)), start.ravel(), method, at, events=watched, rtol=rtol, atol=atol
        )
    if solved.status < 0 or not np.isfinite(solved.y).all():
        raise UserError(
            f"the flow stopped at t={solved.t[-1] if len(solved.t) else 0:.3g} ({solved.message})",
            "Check the start and the gradient, or try another method.",
        )
    states = solved.y.T.reshape(-1, *start.shape)
    return Flow(solved.t, states, tuple(solved.t_events or ()))
