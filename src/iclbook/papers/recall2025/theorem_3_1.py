"""The first jump along exact flows: direction, ODE, conserved quantity and time scales (recall2025, Theorem 3.1 and the text after it)."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.integrate import solve_ivp

from ...tasks import AssociativeRecall
from ...training import Flow, gradient_flow
from . import theory
from .stages import ACTIVE, HEADS, R, Values, experiment, plateau_scan, small
from .theory import Array, Population

ORDERS = (2, 3, 4, 5)
#: Settings other than gamma = 0, |R| = 4 at which the closed forms are tried: |R|, gamma, order.
OTHERS = ((2, 0.5, 3), (7, 2.0, 4), (3, 1.0, 2))


def start(pop: Population, eps: float) -> Array:
    """The initialisation I_1: ``beta_1 = eps``, everything else zero."""
    return small(pop, eps * np.eye(pop.n_heads)[0])


def alpha_beta(pop: Population, states: Array) -> tuple[Array, Array]:
    """``alpha_1 = w^1_1 - w^1_k`` and ``beta_1`` along a flow."""
    w, beta = pop.split(states)
    return w[..., 0, 0] - w[..., 0, -1], beta[..., 0]


@lru_cache(maxsize=16)
def run(
    order: int, eps: float = 0.01, gamma: float = 0.0, loss: str = "dp", window: int | None = None, periods: float = 3.0
) -> tuple[Population, Flow]:
    """The first jump from I_1 on a task of this order, with as many heads as offsets, for ``periods`` times the predicted jump time."""
    width = order if window is None else window
    pop = Population(AssociativeRecall(order, R), width, width, gamma, loss=loss)
    until = periods * theory.jump_limit(order, R, pop.kappa) / eps
    if loss == "ce":  # the gradient is larger by 1/p, and p starts near 1/|R|
        until *= 4 / (1 + pop.task.n_permutations / R)
    return pop, gradient_flow(pop.gradient, start(pop, eps), until)


def direction(orders: tuple[int, ...] = ORDERS) -> Values:
    """Theorem 3.1 a and b along exact flows: relative spread of the other offsets, movement of the other heads, signs of dw; and how far ``delta`` is from
    ``-alpha / k`` over the largest alpha, with the same for ``-alpha / (k - 1)``, which would hold if the head's own offset stood still."""
    found = []
    for order in orders:
        pop, flow = run(order, gamma=0.3)
        w, beta = pop.split(flow.states)
        alpha = alpha_beta(pop, flow.states)[0]
        velocity = -pop.split(pop.gradient(flow.states))[0][:, 0]  # (T, W)
        spread = np.ptp(w[:, 0, 1:], axis=1).max() / np.abs(w[-1, 0]).max()
        others = np.abs(w[:, 1:]).max() + np.abs(beta[:, 1:]).max()
        signs = (velocity[:, 0] > 0).all() and (velocity[:, 1:] < 0).all()
        deltas = [np.abs(w[:, 0, -1] + alpha / n).max() / alpha.max() for n in (order, order - 1)]
        found.append((spread, others, signs, *deltas))
    worst = {"spread": max, "others": max, "signs": all, "delta": max, "delta_wrong": min}
    each = zip(worst.items(), zip(*found, strict=True), strict=True)
    return {f"thm3.1/{name}": worst_of(values) for (name, worst_of), values in each}


def sufficient_ode(orders: tuple[int, ...] = ORDERS, eps: float = 0.01) -> Values:
    """Exact flow against the ODE of Theorem 3.1 c with Xi as printed and with half of it: largest relative difference of (alpha, beta); and the printed ODE's clock."""
    worst, clocks = {True: 0.0, False: 0.0}, []
    for order in orders:
        pop, flow = run(order, eps, gamma=0.3)
        truth = np.stack(alpha_beta(pop, flow.states))  # (2, T)
        half = truth[0, -1] / 2
        reached = np.interp(half, truth[0], flow.times)
        for printed in worst:
            path = solved_ode(pop, eps, flow.times[-1], printed, t_eval=flow.times).y
            worst[printed] = max(worst[printed], np.abs(path - truth).max() / truth.max())
        passing = solved_ode(pop, eps, 3 * reached, True, events=lambda _, y, half=half: y[0] - half)
        clocks.append(reached / passing.t_events[0][0])
    return {"ode/printed": worst[True], "ode/half": worst[False], "ode/clock": clocks}


def solved_ode(pop: Population, eps: float, until: float, printed: bool, **options):
    """Theorem 3.1 c's ODE of ``(alpha, beta)`` from ``(0, eps)``, with Xi as printed or with half of it, as scipy solves it."""
    k, responses = pop.task.order, pop.task.n_responses

    def velocity(_: float, y: Array) -> Array:
        return theory.ode(y, k, responses, pop.kappa, printed)

    return solve_ivp(velocity, (0, until), [0.0, eps], "DOP853", rtol=1e-11, atol=1e-14, **options)


def conservation(orders: tuple[int, ...] = ORDERS) -> Values:
    """Drift of ``f(alpha) -+ beta^2/4`` over the largest ``beta^2/4``: worst order for the law that holds, best for the others and for a window one shorter, f of either."""

    def drift(f_of: int = 0, sign: int = 1, of_beta: int = -1, loss: str = "dp", short: bool = False) -> list[float]:
        found = []
        for k in (k for k in orders if k > 2 or not short):
            pop, flow = run(k, gamma=0.3, loss=loss, window=k - 1 if short else None)
            alpha, beta = alpha_beta(pop, flow.states)
            part = of_beta * beta**2 / 4
            total = theory.potential(alpha, k + f_of, sign) + part
            found.append(np.abs(total - total[0]).max() / np.abs(part).max())
        return found

    return {
        "conserved/statement": min(drift(sign=-1)),
        "conserved/proof": max(drift()),
        "conserved/flipped": min(drift(of_beta=1)),
        "conserved/ce": max(drift(loss="ce")),
        "conserved/window": min(drift(-1, short=True)),
        "conserved/window_longer": min(drift(short=True)),
    }


# -- how long it takes -------------------------------------------------------------------------------------------------------


def local_law(orders: tuple[int, ...] = ORDERS, eps: float = 1e-4) -> Values:
    """Coefficient c of ``beta^2 = c s^2 + eps^2`` where ``s`` is ten times eps, and by the conserved quantity; until there the largest relative difference of s from ``eps /
    sqrt(c) tan(pi t / 2T)`` and from that curve's first tangent; from there to a hundred times eps the exponent of ds/dt in s."""
    found = []
    for order in orders:
        pop, flow = run(order, eps, periods=1.0)
        alpha, beta = alpha_beta(pop, flow.states)
        s = np.expm1(alpha)
        i = np.argmin(np.abs(np.log(np.maximum(s, 1e-30) / (10 * eps))))
        predicted = theory.local_coefficient(order)
        root = math.sqrt(predicted)
        angle = np.arctan(root * np.geomspace(0.1, 100, 61))  # where the tangent is 0.1 to 100 times eps
        times = 2 / math.pi * angle * theory.jump_limit(order, R) / eps
        states = gradient_flow(pop.gradient, start(pop, eps), times[-1], times).states
        alpha = alpha_beta(pop, states)[0]
        growth = np.expm1(alpha) * root / eps
        off, line = (np.abs(growth / closed - 1)[:41].max() for closed in (np.tan(angle), angle))
        speed = -alpha_beta(pop, pop.gradient(states))[0] * np.exp(alpha)
        grown = np.polyfit(np.log(growth[40:]), np.log(speed[40:]), 1)[0]
        found.append(((beta[i] ** 2 - eps**2) / s[i] ** 2, predicted, grown, off, line))
    names = ("coefficient", "predicted", "growth", "tangent", "line")
    values = {f"local/{name}": list(each) for name, each in zip(names, zip(*found, strict=True), strict=True)}
    return values | {"local/line": min(values["local/line"])}


def looking_away(leans: tuple[float, ...] = (-0.3, -0.1), order: int = 4) -> Values:
    """Largest beta at the end over the start, from ``alpha_1 = lean < 0`` and a beta for which ``f(alpha_1)`` is 1.05 (``above``) or 0.95 (``below``) times ``beta^2 / 4``."""
    pop = experiment(order=order, n_heads=order)
    found: dict[str, list[float]] = {}
    for name, times in (("above", 1.05), ("below", 0.95)):
        for lean in leans:
            eps = 2 * math.sqrt(float(theory.potential(np.array(lean), order, 1)) / times)
            theta = start(pop, eps)
            theta[:order] += lean * (np.eye(order)[0] - 1 / order)  # alpha = w_1 - w_k, with scores that sum to zero
            end = gradient_flow(pop.gradient, theta, 40 * theory.jump_limit(order, R) / eps).states[-1]
            found.setdefault(f"looking/{name}", []).append(float(np.abs(pop.split(end)[1]).max() / eps))
    return dict(found)


def jump_time(pop: Population, eps: float) -> float:
    """Time at which ``s = e^alpha - 1`` reaches 1 from I_1."""
    return _reached(pop, eps, lambda theta: alpha_beta(pop, theta)[0] - np.log(2.0))


def _reached(pop: Population, eps: float, event: Callable[[Array], float], periods: float = 2.0) -> float:
    """Time of an event on the flow from I_1, which comes within ``periods`` times the predicted jump time."""
    until = periods * theory.jump_limit(pop.task.order, pop.task.n_responses, pop.kappa) / eps
    return gradient_flow(pop.gradient, start(pop, eps), until, events=[event], stop_at=0).first()


def time_scale(epsilons: tuple[float, ...]) -> dict[str, Array]:
    """Jump times ``(orders, epsilons)`` at gamma = 0, |R| = 4, and the limit of eps T in closed form ``(orders,)``."""
    times = [[jump_time(experiment(order=k, n_heads=k), eps) for eps in epsilons] for k in ORDERS]
    limits = [theory.jump_limit(k, R) for k in ORDERS]
    return {"times": np.array(times), "limit": np.array(limits), "eps": np.array(epsilons)}


def window_times(epsilons: tuple[float, ...]) -> Array:
    """Times at which the first head becomes active with a window of three on order four, ``(epsilons,)``."""
    pop = experiment(window=HEADS)
    return np.array([_reached(pop, eps, lambda theta: pop.advantage(theta)[0] - ACTIVE, 10.0) for eps in epsilons])


def late_growth(pop: Population) -> dict[str, Array | float]:
    """The corrected ODE in log time up to ``10^300``: alpha, beta and ``s = e^alpha - 1`` against log T, the slope of s at the end, and ``1/lambda``."""
    k, eps = pop.task.order, 0.1
    begin = np.log(theory.jump_limit(k, pop.task.n_responses, pop.kappa) / eps * 1.5)
    flow = gradient_flow(pop.gradient, start(pop, eps), float(np.exp(begin)))
    first = [float(v[-1]) for v in alpha_beta(pop, flow.states)]
    taus = np.linspace(begin, 300 * np.log(10), 400)
    span = (begin, taus[-1])

    def velocity(tau: float, y: Array) -> Array:
        # in double precision up to 10^300 only: Xi is 4e-304 there, and the smallest normal number 2e-308
        return np.exp(tau) * theory.ode(y, k, pop.task.n_responses, pop.kappa, False)

    alpha, beta = solve_ivp(velocity, span, first, "LSODA", taus, rtol=1e-8, atol=1e-10).y
    s = np.expm1(alpha)
    slope, predicted = (s[-1] - s[-40]) / (taus[-1] - taus[-40]), 1 / theory.late_rate(k, pop.kappa)
    return {"log_time": taus, "alpha": alpha, "beta": beta, "s": s, "slope": slope, "predicted": predicted}


def growth_exponent(x: Array, y: Array) -> float:
    """``p`` of ``y = a x^p + b`` for rising ``x (N,)``, from how the slope between neighbours changes with x, whatever a and b are."""
    slope, middle = np.diff(y) / np.diff(x), (x[1:] + x[:-1]) / 2
    return 1 + np.polyfit(np.log(middle), np.log(slope), 1)[0]


def window_exponents() -> Values:
    """With the short window: exponents in ``log(1/eps)`` of the first jump's time, and in the log of the ratio of beta of the second plateau's length."""
    epsilons, ratios = (1e-2, 1e-4, 1e-6, 1e-8), (1e2, 1e3, 1e4, 1e5)
    lengths = plateau_scan(experiment(window=HEADS), ratios)["length"]
    return {
        "window/log_exponent": growth_exponent(-np.log(epsilons), window_times(epsilons)),
        "window/plateau_exponent": growth_exponent(np.log(ratios), lengths),
    }


def time_scale_values(scan: dict, window: Array, late: dict, eps: float = 1e-4) -> Values:
    """Exponents and constants of the jump's time and of the late law, at gamma = 0 and |R| = 4 and at :data:`OTHERS`."""
    limits, slopes = [], []
    for n_responses, gamma, order in OTHERS:
        pop = Population(AssociativeRecall(order, n_responses), order, order, gamma)
        limits.append(jump_time(pop, eps) * eps / theory.jump_limit(order, n_responses, pop.kappa))
        other = late_growth(pop)
        slopes.append(other["slope"] / other["predicted"])
    log_eps, half = np.log(scan["eps"]), len(late["s"]) // 2
    alpha, beta, s, tau = (late[name][half:] for name in ("alpha", "beta", "s", "log_time"))
    return {
        "timescale/exponent": [np.polyfit(log_eps[1:], np.log(t[1:]), 1)[0] for t in scan["times"]],
        "timescale/limit_ratio": scan["times"][:, -1] * scan["eps"][-1] / scan["limit"],
        "timescale/limit_others": limits,
        "late/exponent": growth_exponent(tau, s),
        "late/alpha": np.polyfit(np.log(tau), alpha, 1)[0],
        "late/beta": np.polyfit(np.log(s), np.log(beta), 1)[0],
        "late/slope": late["slope"],
        "late/ratio": late["slope"] / late["predicted"],
        "late/ratio_others": slopes,
        "window/exponent": np.polyfit(log_eps, np.log(window), 1)[0],
        "window/gain": window[-1] / window[0],
    }
