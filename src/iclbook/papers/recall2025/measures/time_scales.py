"""How long things take (recall2025, after Theorem 3.1): exponents of the first jump's time, the late law, and the shorter window."""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import solve_ivp

from ....tasks import AssociativeRecall
from ....training import gradient_flow
from .. import theory
from ..theory import Population
from .first_jump import R, alpha_beta, jump_time, start
from .stages import HEADS, experiment, plateau_scan

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


def log_time_velocity(tau: float, y: np.ndarray, pop: Population) -> np.ndarray:
    """Derivatives of ``(alpha, beta)`` in ``tau = log T`` along the corrected ODE (Theorem 3.1 c with half of Xi), for any size of gamma_1."""
    alpha, beta = y
    k, n_responses = pop.task.order, pop.task.n_responses
    total = np.expm1(alpha) + k
    weight = theory.score_weight(alpha, beta, k, pop.kappa)
    # log of Xi/2, kept in logs because e^-gamma_1 underflows
    log_clock = -weight - 2 * np.log1p((k - 1) * np.exp(-weight))
    log_clock += np.log(pop.kappa * (n_responses - 1) / n_responses / math.factorial(k - 2))
    slopes = [beta**2 * np.exp(alpha) / total**2 * k**2 / (k - 1), 2 * beta * np.expm1(alpha) / total]
    return np.array(slopes) * np.exp(np.minimum(tau + log_clock, 300.0))


def late_growth(pop: Population | None = None, decades: float = 300.0) -> dict[str, np.ndarray | float]:
    """The corrected ODE in log time up to ``10^decades``: alpha, beta and ``s = e^alpha - 1`` against log T, the slope of s at the end, and 1/lambda.

    Order 4 at gamma = 0 and |R| = 4 unless another population is given.
    """
    pop = Population(AssociativeRecall(4, R), 4, 4) if pop is None else pop
    k, n_responses = pop.task.order, pop.task.n_responses

    eps = 0.1
    begin = np.log(theory.jump_limit(k, n_responses, pop.kappa) / eps * 1.5)
    flow = gradient_flow(pop.gradient, start(pop, eps), float(np.exp(begin)))
    first = [float(v[-1]) for v in alpha_beta(pop, flow.states)]
    taus = np.linspace(begin, decades * np.log(10), 400)
    solved = solve_ivp(
        log_time_velocity, (begin, taus[-1]), first, "LSODA", taus, args=(pop,), rtol=1e-8, atol=1e-10
    )
    s = np.expm1(solved.y[0])
    return {
        "log_time": taus,
        "alpha": solved.y[0],
        "beta": solved.y[1],
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


def growth_exponent(x: np.ndarray, y: np.ndarray) -> float:
    """``p`` of ``y = a x^p + b`` for rising ``x (N,)``, from how the slope between neighbours changes with x: whatever a and b are."""
    slope, middle = np.diff(y) / np.diff(x), (x[1:] + x[:-1]) / 2
    return 1 + float(np.polyfit(np.log(middle), np.log(slope), 1)[0])


def window_exponents(
    epsilons: tuple[float, ...] = (1e-2, 1e-4, 1e-6, 1e-8),
    ratios: tuple[float, ...] = (1e2, 1e3, 1e4, 1e5),
) -> dict[str, float]:
    """With the short window: exponents in ``log(1/eps)`` of the first jump's time, and in the log of the ratio of beta of the second plateau's length.

    Both ranges begin far enough down for corrections of order eps, or of one over the ratio, to be small.
    """
    times = window_time_scale(epsilons)["times"]
    lengths = plateau_scan(experiment(window=HEADS), ratios)["length"]
    return {
        "window/log_exponent": growth_exponent(-np.log(epsilons), times),
        "window/plateau_exponent": growth_exponent(np.log(ratios), np.array(lengths)),
    }


def time_scale_values(scan: dict, window: dict, late: dict) -> dict[str, float | list[float]]:
    """What the claims about time scales record."""
    log_eps, half = np.log(scan["eps"]), len(late["s"]) // 2
    alpha, beta, s, tau = (late[name][half:] for name in ("alpha", "beta", "s", "log_time"))
    return {
        "timescale/exponent": [float(np.polyfit(log_eps[1:], np.log(t[1:]), 1)[0]) for t in scan["times"]],
        "timescale/limit_ratio": (scan["times"][:, -1] * scan["eps"][-1] / scan["limit"]).tolist(),
        "late/exponent": growth_exponent(tau, s),
        "late/alpha": float(np.polyfit(np.log(tau), alpha, 1)[0]),
        "late/beta": float(np.polyfit(np.log(s), np.log(beta), 1)[0]),
        "late/slope": late["slope"],
        "late/ratio": late["slope"] / late["predicted"],
        "window/exponent": float(np.polyfit(log_eps, np.log(window["times"]), 1)[0]),
        "window/gain": float(window["times"][-1] / window["times"][0]),
    }
