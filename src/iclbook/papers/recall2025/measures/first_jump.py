"""Measurements of the first jump along the exact flow (recall2025, Theorem 3.1 and what follows from it)."""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import solve_ivp

from ....tasks import AssociativeRecall
from ....training import Flow, gradient_flow
from .. import theory
from ..theory import Population

ORDERS = (2, 3, 4, 5)
R = 4  # the document's experiments: "response vocabulary of also size 4"


def start(pop: Population, eps: float) -> np.ndarray:
    """The initialisation I_1: ``beta_1 = eps``, everything else zero."""
    theta = np.zeros(pop.size)
    theta[pop.n_heads * pop.window] = eps
    return theta


def alpha_beta(pop: Population, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``alpha_1`` and ``beta_1`` along a flow."""
    w, beta = pop.split(states)
    return w[..., 0, 0] - w[..., 0, -1], beta[..., 0]


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
    """Theorem 3.1 a, b along exact flows: spread of the other offsets, movement of the other heads, signs of dw."""
    spread, others, signs = 0.0, 0.0, True
    for order in orders:
        pop, flow = run(order, gamma=0.3)
        w, beta = pop.split(flow.states)
        scale = np.abs(w[-1, 0]).max()
        spread = max(spread, float(np.ptp(w[:, 0, 1:], axis=1).max() / scale))
        others = max(others, float(np.abs(w[:, 1:]).max() + np.abs(beta[:, 1:]).max()))
        velocity = -pop.split(pop.gradient(flow.states))[0][:, 0]  # (T, W)
        signs &= bool((velocity[:, 0] > 0).all() and (velocity[:, 1:] < 0).all())
    return {"thm3.1/spread": spread, "thm3.1/others": others, "thm3.1/signs": signs}


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


#: Settings other than gamma = 0, |R| = 4 at which the closed forms are tried: |R|, gamma, order.
OTHERS = ((2, 0.5, 3), (7, 2.0, 4), (3, 1.0, 2))


def other_settings(eps: float = 1e-4) -> dict[str, list[float]]:
    """eps T over its limit, and the late slope over 1/lambda, at ``OTHERS``."""
    limits, slopes = [], []
    for n_responses, gamma, order in OTHERS:
        pop = Population(AssociativeRecall(order, n_responses), order, order, gamma)
        limits.append(jump_time(pop, eps) * eps / theory.jump_limit(order, n_responses, pop.kappa))
        late = late_growth(pop)
        slopes.append(late["slope"] / late["predicted"])
    return {"timescale/limit_others": limits, "late/ratio_others": slopes}


def late_growth(pop: Population | None = None, decades: float = 300.0) -> dict[str, np.ndarray | float]:
    """The corrected ODE in log time up to ``10^decades``: ``s = e^alpha - 1`` against log T, its slope at the end, and 1/lambda of the late law.

    Order 4 at gamma = 0 and |R| = 4 unless another population is given.
    """
    pop = Population(AssociativeRecall(4, R), 4, 4) if pop is None else pop
    k, n_responses = pop.task.order, pop.task.n_responses

    def velocity(tau: float, y: np.ndarray) -> np.ndarray:
        alpha, beta = y
        total = np.expm1(alpha) + k
        weight = theory.score_weight(alpha, beta, k, pop.kappa)
        # log of Xi/2 for large gamma_1, kept in logs because e^-gamma_1 underflows
        log_clock = -weight - 2 * np.log1p((k - 1) * np.exp(-weight))
        log_clock += np.log(pop.kappa * (n_responses - 1) / n_responses / math.factorial(k - 2))
        slopes = [beta**2 * np.exp(alpha) / total**2 * k**2 / (k - 1), 2 * beta * np.expm1(alpha) / total]
        return np.array(slopes) * np.exp(np.minimum(tau + log_clock, 300.0))

    eps = 0.1
    begin = np.log(theory.jump_limit(k, n_responses, pop.kappa) / eps * 1.5)
    flow = gradient_flow(pop.gradient, start(pop, eps), float(np.exp(begin)))
    first = [float(v[-1]) for v in alpha_beta(pop, flow.states)]
    taus = np.linspace(begin, decades * np.log(10), 400)
    solved = solve_ivp(velocity, (begin, taus[-1]), first, "LSODA", taus, rtol=1e-8, atol=1e-10)
    s = np.expm1(solved.y[0])
    return {
        "log_time": taus,
        "s": s,
        "slope": float((s[-1] - s[-40]) / (taus[-1] - taus[-40])),
        "predicted": 1 / theory.late_rate(k, pop.kappa),
    }


def window_time_scale(epsilons: tuple[float, ...], order: int = 4) -> dict[str, np.ndarray]:
    """Time at which the first head becomes active with a window of ``order - 1``, ``(epsilons,)``."""
    pop = Population(AssociativeRecall(order, R), order - 1, order - 1)
    times = []
    for eps in epsilons:
        until = 10 * theory.jump_limit(order, R) / eps
        flow = gradient_flow(
            pop.gradient,
            start(pop, eps),
            until,
            events=[lambda theta: float(pop.advantage(theta)[0]) - 1.0],
            stop_at=0,
        )
        times.append(flow.first())
    return {"eps": np.array(epsilons), "times": np.array(times)}


def time_scale_values(scan: dict, window: dict, late: dict) -> dict[str, float | list[float]]:
    """What the claims about time scales record."""
    log_eps = np.log(scan["eps"])
    s, tau = late["s"][len(late["s"]) // 2 :], late["log_time"][len(late["s"]) // 2 :]
    return {
        "timescale/exponent": [float(np.polyfit(log_eps[1:], np.log(t[1:]), 1)[0]) for t in scan["times"]],
        "timescale/limit_ratio": (scan["times"][:, -1] * scan["eps"][-1] / scan["limit"]).tolist(),
        "late/r2": float(np.corrcoef(s, tau)[0, 1] ** 2),
        "late/slope": late["slope"],
        "late/ratio": late["slope"] / late["predicted"],
        "window/exponent": float(np.polyfit(log_eps, np.log(window["times"]), 1)[0]),
        "window/r2": float(np.corrcoef(log_eps, window["times"])[0, 1] ** 2),
        "window/gain": float(window["times"][-1] / window["times"][0]),
    }
