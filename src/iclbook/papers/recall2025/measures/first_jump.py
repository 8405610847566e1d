"""Measurements of the first jump along the exact flow (recall2025, Theorem 3.1 and what follows from it)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.integrate import solve_ivp

from ....tasks import AssociativeRecall
from ....training import Flow, gradient_flow
from .. import theory
from ..theory import Population

ORDERS = (2, 3, 4, 5)
R = 4  # the paper's experiments: "response vocabulary of also size 4"


def start(pop: Population, eps: float) -> np.ndarray:
    """The initialisation I_1: ``beta_1 = eps``, everything else zero."""
    theta = np.zeros(pop.size)
    theta[pop.n_heads * pop.window] = eps
    return theta


def alpha_beta(pop: Population, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``alpha_1`` and ``beta_1`` along a flow."""
    w, beta = pop.split(states)
    return w[..., 0, 0] - w[..., 0, -1], beta[..., 0]


@lru_cache(maxsize=16)
def run(
    order: int,
    eps: float = 0.01,
    gamma: float = 0.0,
    loss: str = "dp",
    window: int | None = None,
    periods: float = 3.0,
) -> tuple[Population, Flow]:
    """The first jump from I_1 on a task of this order, followed for ``periods`` times the predicted jump time."""
    pop = Population(
        AssociativeRecall(order, R),
        order if window is None else window,
        order if window is None else window,
        gamma,
        loss=loss,
    )
    until = periods * theory.jump_limit(order, R, pop.kappa) / eps
    if loss == "ce":
        until /= (
            1 + float(pop.task.n_permutations) / R
        )  # the gradient is larger by 1/p, and p starts near 1/|R|
        until *= 4
    return pop, gradient_flow(pop.gradient, start(pop, eps), until)


def direction(orders: tuple[int, ...] = ORDERS) -> dict[str, float]:
    """Theorem 3.1 a, b along exact flows: spread of the other offsets, movement of the other heads, signs of dw; and how far delta is from
    ``-alpha / k``, over the largest alpha, with the same for ``-alpha / (k - 1)``, which is what it would be if the own offset stood still."""
    spread, others, signs, delta, wrong = 0.0, 0.0, True, 0.0, np.inf
    for order in orders:
        pop, flow = run(order, gamma=0.3)
        w, beta = pop.split(flow.states)
        scale = np.abs(w[-1, 0]).max()
        spread = max(spread, float(np.ptp(w[:, 0, 1:], axis=1).max() / scale))
        others = max(others, float(np.abs(w[:, 1:]).max() + np.abs(beta[:, 1:]).max()))
        velocity = -pop.split(pop.gradient(flow.states))[0][:, 0]  # (T, W)
        signs &= bool((velocity[:, 0] > 0).all() and (velocity[:, 1:] < 0).all())
        alpha = alpha_beta(pop, flow.states)[0]
        off = [float(np.abs(w[:, 0, -1] + alpha / n).max() / alpha.max()) for n in (order, order - 1)]
        delta, wrong = max(delta, off[0]), min(wrong, off[1])
    return {
        "thm3.1/spread": spread,
        "thm3.1/others": others,
        "thm3.1/signs": signs,
        "thm3.1/delta": delta,
        "thm3.1/delta_wrong": wrong,
    }


def sufficient_ode(orders: tuple[int, ...] = ORDERS, eps: float = 0.01) -> dict[str, float]:
    """Exact flow against the ODE of Theorem 3.1 c with Xi as printed and with half of it.

    Returns:
        largest difference of (alpha, beta) over the whole jump, relative to the largest value; and the printed ODE's clock, as the factor
        between the times at which alpha reaches half its end.
    """
    worst, clocks = {True: 0.0, False: 0.0}, []
    for order in orders:
        pop, flow = run(order, eps, gamma=0.3)
        truth = np.stack(alpha_beta(pop, flow.states), -1)  # (T, 2)
        half = truth[-1, 0] / 2
        reached = np.interp(half, truth[:, 0], flow.times)
        for printed in (True, False):
            solved = solve_ivp(
                lambda _, y, order=order, kappa=pop.kappa, printed=printed: theory.ode(
                    y, order, R, kappa, printed
                ),
                (0, flow.times[-1]),
                [0.0, eps],
                "DOP853",
                flow.times,
                rtol=1e-11,
                atol=1e-14,
            )
            worst[printed] = max(worst[printed], float(np.abs(solved.y.T - truth).max() / truth.max()))
            if printed:
                fine = solve_ivp(
                    lambda _, y, order=order, kappa=pop.kappa: theory.ode(y, order, R, kappa),
                    (0, 3 * reached),
                    [0.0, eps],
                    "DOP853",
                    rtol=1e-11,
                    atol=1e-14,
                    events=_passes(half),
                )
                clocks.append(float(reached / fine.t_events[0][0]))
    return {"ode/printed": worst[True], "ode/half": worst[False], "ode/clock": clocks}


def ode_path(pop: Population, flow: Flow, eps: float, printed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Times and ``(alpha, beta)`` ``(2, T)`` of Theorem 3.1 c's ODE over the span of a flow, with Xi as printed or with half of it."""
    times = np.linspace(0, flow.times[-1], 600)
    solved = solve_ivp(
        lambda _, y: theory.ode(y, pop.task.order, pop.task.n_responses, pop.kappa, printed),
        (0, times[-1]),
        [0.0, eps],
        "DOP853",
        times,
        rtol=1e-10,
    )
    return solved.t, solved.y


def _passes(level: float):
    def event(_: float, y: np.ndarray) -> float:
        return y[0] - level

    return event


def conservation(orders: tuple[int, ...] = ORDERS) -> dict[str, float]:
    """Drift of ``f(alpha) -+ beta^2/4`` along exact flows, over the largest ``beta^2/4``: worst order for the law that holds, best for those that do not.

    ``window``: a window k on the task of order k + 1, with the f of order k and with that of order k + 1; the least over orders of each.
    """

    def path(order: int, **options: str | int) -> tuple[np.ndarray, np.ndarray]:
        pop, flow = run(order, gamma=0.3, **options)
        return alpha_beta(pop, flow.states)

    def drift(paths: dict, sign: int = 1, of_beta: int = -1, shorter: int = 0) -> list[float]:
        return [
            _drift(theory.potential(alpha, k - shorter, sign), of_beta * beta**2 / 4)
            for k, (alpha, beta) in paths.items()
        ]

    dot = {k: path(k) for k in orders}
    short = {k: path(k, window=k - 1) for k in orders if k > 2}
    return {
        "conserved/statement": min(drift(dot, sign=-1)),
        "conserved/proof": max(drift(dot)),
        "conserved/flipped": min(drift(dot, of_beta=1)),
        "conserved/ce": max(drift({k: path(k, loss="ce") for k in orders})),
        "conserved/window": min(drift(short, shorter=1)),
        "conserved/window_longer": min(drift(short)),
    }


def _drift(a: np.ndarray, b: np.ndarray) -> float:
    total = a + b
    return float(np.abs(total - total[0]).max() / np.abs(b).max())


def local_law(orders: tuple[int, ...] = ORDERS, eps: float = 1e-4) -> dict[str, list[float]]:
    """Coefficient c of ``beta^2 = c s^2 + eps^2``, measured where ``s`` is ten times eps, and the one from the conserved quantity."""
    measured = []
    for order in orders:
        pop, flow = run(order, eps, periods=1.0)
        alpha, beta = alpha_beta(pop, flow.states)
        s = np.expm1(alpha)
        i = int(np.argmin(np.abs(np.log(np.maximum(s, 1e-30) / (10 * eps)))))
        measured.append(float((beta[i] ** 2 - eps**2) / s[i] ** 2))
    return {"local/coefficient": measured, "local/predicted": [theory.local_coefficient(k) for k in orders]}


def jump_time(pop: Population, eps: float) -> float:
    """Time at which ``s = e^alpha - 1`` reaches 1 from I_1."""

    def reached(theta: np.ndarray) -> float:
        return alpha_beta(pop, theta)[0] - np.log(2.0)

    until = 2 * theory.jump_limit(pop.task.order, pop.task.n_responses, pop.kappa) / eps
    return gradient_flow(pop.gradient, start(pop, eps), until, events=[reached], stop_at=0).first()


def time_scale(epsilons: tuple[float, ...], orders: tuple[int, ...] = ORDERS) -> dict[str, np.ndarray]:
    """Jump times ``(orders, epsilons)`` at gamma = 0, |R| = 4, and the limit of eps T in closed form."""
    pops = [Population(AssociativeRecall(order, R), order, order) for order in orders]
    return {
        "times": np.array([[jump_time(pop, eps) for eps in epsilons] for pop in pops]),
        "limit": np.array([theory.jump_limit(k, R) for k in orders]),
        "eps": np.array(epsilons),
    }
