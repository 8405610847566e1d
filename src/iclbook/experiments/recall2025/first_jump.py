"""Measurements of the first jump along the exact flow (recall2025, Theorem 3.1 and what follows from it)."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from ...tasks import AssociativeRecall
from ...theory import recall2025 as theory
from ...theory.recall2025 import Population
from ...training import Flow, gradient_flow

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


def _passes(level: float):
    def event(_: float, y: np.ndarray) -> float:
        return y[0] - level

    return event


def conservation(orders: tuple[int, ...] = ORDERS) -> dict[str, float]:
    """Drift of ``f(alpha) -+ beta^2/4`` along exact flows, over the largest ``beta^2/4``: worst order for the law that holds, best for those that do not."""
    drift: dict[str, list[float]] = {"statement": [], "proof": [], "flipped": [], "ce": [], "window": []}
    for order in orders:
        for loss in ("dp", "ce"):
            pop, flow = run(order, loss=loss, gamma=0.3)
            alpha, beta = alpha_beta(pop, flow.states)
            if loss == "dp":
                drift["statement"].append(_drift(theory.potential(alpha, order, -1), -(beta**2) / 4))
                drift["proof"].append(_drift(theory.potential(alpha, order, 1), -(beta**2) / 4))
                drift["flipped"].append(_drift(theory.potential(alpha, order, 1), beta**2 / 4))
            else:
                drift["ce"].append(_drift(theory.potential(alpha, order, 1), -(beta**2) / 4))
        if order > 2:
            k = order - 1
            pop, flow = run(order, gamma=0.3, window=k)
            alpha, beta = alpha_beta(pop, flow.states)
            drift["window"].append(_drift(theory.potential(alpha, k, 1), -(beta**2) / 4))
    return {
        "conserved/statement": min(drift["statement"]),
        "conserved/proof": max(drift["proof"]),
        "conserved/flipped": min(drift["flipped"]),
        "conserved/ce": max(drift["ce"]),
        "conserved/window": min(drift["window"]),
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


def time_scale(epsilons: tuple[float, ...], orders: tuple[int, ...] = ORDERS) -> dict[str, np.ndarray]:
    """Time at which ``s = e^alpha - 1`` reaches 1, ``(orders, epsilons)``, and the limit of eps T in closed form."""
    times = np.empty((len(orders), len(epsilons)))
    for a, order in enumerate(orders):
        for b, eps in enumerate(epsilons):
            pop = Population(AssociativeRecall(order, R), order, order)
            until = 2 * theory.jump_limit(order, R) / eps

            def reached(theta: np.ndarray, pop: Population = pop) -> float:
                return alpha_beta(pop, theta)[0] - np.log(2.0)

            flow = gradient_flow(pop.gradient, start(pop, eps), until, events=[reached], stop_at_events=True)
            times[a, b] = flow.events[0][0]
    return {
        "times": times,
        "limit": np.array([theory.jump_limit(k, R) for k in orders]),
        "eps": np.array(epsilons),
    }


def late_growth(order: int = 4, decades: float = 300.0) -> dict[str, np.ndarray | float]:
    """The ODE in log time up to ``10^decades``: s against log T, its slope at the end, and the slope that the late law predicts."""

    def velocity(tau: float, y: np.ndarray) -> np.ndarray:
        alpha, beta = y
        k, total = order, np.expm1(y[0]) + order
        weight = theory.score_weight(alpha, beta, k)
        # log of Xi/2 for large gamma_1, kept in logs because e^-gamma_1 underflows
        log_clock = (
            -weight - 2 * np.log1p((k - 1) * np.exp(-weight)) + np.log((R - 1) / R / _factorial(k - 2))
        )
        speed = np.exp(np.minimum(tau + log_clock, 300.0))
        return (
            np.array(
                [beta**2 * np.exp(alpha) / total**2 * k**2 / (k - 1), 2 * beta * np.expm1(alpha) / total]
            )
            * speed
        )

    eps = 0.1
    begin = np.log(theory.jump_limit(order, R) / eps * 1.5)
    pop = Population(AssociativeRecall(order, R), order, order)
    flow = gradient_flow(pop.gradient, start(pop, eps), float(np.exp(begin)))
    first = [float(v[-1]) for v in alpha_beta(pop, flow.states)]
    taus = np.linspace(begin, decades * np.log(10), 400)
    solved = solve_ivp(velocity, (begin, taus[-1]), first, "LSODA", taus, rtol=1e-8, atol=1e-10)
    s = np.exp(solved.y[0])
    slope = float((s[-1] - s[-40]) / (taus[-1] - taus[-40]))
    return {
        "log_time": taus,
        "s": s,
        "slope": slope,
        "predicted": 1 / theory.late_rate(order),
        "printed": 1.0,
    }


def _factorial(n: int) -> float:
    return float(np.prod(np.arange(1, n + 1)))


def window_time_scale(epsilons: tuple[float, ...], order: int = 4) -> dict[str, np.ndarray]:
    """Time at which the first head becomes active with a window of ``order - 1``, ``(epsilons,)``."""
    times = []
    for eps in epsilons:
        pop = Population(AssociativeRecall(order, R), order - 1, order - 1)

        def active(theta: np.ndarray, pop: Population = pop) -> float:
            return float(pop.advantage(theta)[0]) - 1.0

        until = 10 * theory.jump_limit(order, R) / eps
        flow = gradient_flow(pop.gradient, start(pop, eps), until, events=[active], stop_at_events=True)
        times.append(float(flow.events[0][0]))
    return {"eps": np.array(epsilons), "times": np.array(times)}


def time_scale_values(scan: dict, window: dict, late: dict) -> dict[str, float | list[float]]:
    """What the claims about time scales record."""
    log_eps = np.log(scan["eps"])
    s, tau = late["s"][len(late["s"]) // 2 :], late["log_time"][len(late["s"]) // 2 :]
    return {
        "timescale/exponent": [float(np.polyfit(log_eps[1:], np.log(t[1:]), 1)[0]) for t in scan["times"]],
        "timescale/limit_ratio": (scan["times"][:, -1] * scan["eps"][-1] / scan["limit"]).tolist(),
        "late/r2": float(np.corrcoef(s, tau)[0, 1] ** 2),
        "late/ratio": late["slope"] / late["predicted"],
        "window/exponent": float(np.polyfit(log_eps, np.log(window["times"]), 1)[0]),
        "window/r2": float(np.corrcoef(log_eps, window["times"])[0, 1] ** 2),
        "window/gain": float(window["times"][-1] / window["times"][0]),
    }
