"""What is measured of the closed forms of he2025: the approximate loss, one head, the manifold, Theorem 1, linear attention by softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import minimize, minimize_scalar

from .. import theory
from .circuits import Heads
from .noise import Valley
from .sampling import over_blocks, run_sd

Records = dict[str, Any]


# -- the approximate loss ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Approximation:
    """The approximate loss against the true one.

    Attributes:
        steps: ``(T,)`` of training, evenly in the logarithm.
        true, approx: ``(R, T)`` both losses at the (omega, mu) of every run.
        lengths: context lengths.
        gap, excess_gap: signed relative error of the loss, and of its excess over the noise, near the optimum of a pair at each length.
    """

    steps: np.ndarray
    true: np.ndarray
    approx: np.ndarray
    lengths: tuple[int, ...]
    gap: np.ndarray
    excess_gap: np.ndarray


def approximation(run: Heads, points: int, d: int, L: int, s2: float) -> Approximation:
    """Along the runs of ``run`` at about ``points`` steps, and against length at gamma = 0.03 on the manifold."""
    wanted = np.concatenate([[0], np.geomspace(1, run.steps[-1], points)])
    pick = np.unique([np.argmin(np.abs(run.steps - step)) for step in wanted])
    runs = range(run.omega.shape[1])
    true = [[theory.exact_loss(run.omega[t, r], run.mu[t, r], d, L, s2) for t in pick] for r in runs]
    approx = np.array([theory.approx_loss(run.omega[pick, r], run.mu[pick, r], d, L, s2) for r in runs])
    lengths = (10, 20, 40, 100, 400, 1000, 4000, 10_000)
    losses = [
        (theory.pair_loss_exact(0.03, theory.manifold_mu(0.03, d, n, s2), d, n, s2), n) for n in lengths
    ]
    gap = [theory.manifold_loss(0.03, d, n, s2) / loss - 1 for loss, n in losses]
    excess = [(theory.manifold_loss(0.03, d, n, s2) - s2) / (loss - s2) - 1 for loss, n in losses]
    return Approximation(run.steps[pick], np.array(true), approx, lengths, np.array(gap), np.array(excess))


def approximation_records(found: Approximation, d: int, s2: float) -> Records:
    """How near the approximate loss is along the first run (the others say how much that varies), and as L grows."""
    off = found.approx / found.true - 1  # (R, T)
    largest = np.abs(off).max(1)
    rank = [float(stats.spearmanr(*both).statistic) for both in zip(found.true, found.approx, strict=True)]
    at_40 = found.lengths.index(40)
    return {
        "approx/signed_max": float(off[0].max()),
        "approx/excess_at_40": float(abs(found.excess_gap[at_40])),
        "approx/excess_large_L": float(abs(found.excess_gap[-1])),
        "approx/excess_fall": float(found.excess_gap[-1] / found.excess_gap[at_40]),
        "approx/along_training": float(largest[0]),
        "approx/along_training_sd": run_sd(largest),
        "approx/rank": rank[0],
        "approx/rank_sd": run_sd(rank),
        "approx/large_L": float(abs(found.gap[-1])),
        "approx/at_40": float(abs(found.gap[at_40])),
        "approx/length_for_1_percent": float(theory.length_for_accuracy(0.01, d, s2)),
    }


# -- one head ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SingleHead:
    """omega sqrt(d) of one head: minimising the true loss at each length, in the limit of many examples, and trained ``(R,)`` by reading."""

    lengths: Sequence[int]
    curve: list[float]
    limit: float
    text: np.ndarray
    code: np.ndarray


def single_head(text: Heads, code: Heads, d: int, s2: float) -> SingleHead:
    """One head's scale against the paper's 1 / sqrt(d)."""
    lengths = (10, 20, 40, 80, 160, 400, 1000)
    curve = [theory.single_head_exact(d, n, s2).omega * np.sqrt(d) for n in lengths]
    trained = (h.settled(np.abs(h.omega))[:, 0] * np.sqrt(d) for h in (text, code))
    return SingleHead(lengths, curve, theory.single_head_many_examples(d, s2) * np.sqrt(d), *trained)


def single_head_records(found: SingleHead, d: int, L: int, s2: float) -> Records:
    """The best scale of one head by either loss, and the trained ones."""
    best = theory.single_head_exact(d, L, s2).omega * np.sqrt(d)
    mu_over_root = [theory.single_head_exact(k, 8 * k, s2).mu / np.sqrt(k) for k in (5, 10, 20, 40)]
    return {
        "single/approx_omega": theory.single_head_approx(d, L, s2).omega * np.sqrt(d),
        "single/true_omega": best,
        "single/mu_ratio": max(mu_over_root) / min(mu_over_root),
        "single/text/omega": found.text.tolist(),
        "single/text/omega_sd": run_sd(found.text),
        "single/code/omega": found.code.tolist(),
        "single/code/omega_sd": run_sd(found.code),
        "single/trained_over_true": (found.text / best).tolist(),
        "single/trained_over_true_sd": run_sd(found.text / best),
    }


# -- the manifold and Theorem 1 ---------------------------------------------------------------------------------------


def manifold_records(valley: Valley, d: int, L: int, s2: float) -> Records:
    """The curve of solutions against numeric minimisation, and how both losses rise along it."""
    grid = valley.gamma
    on_grid = [theory.best_approx_mu([g, -g], d, L, s2)[0] for g in grid]
    return {
        "manifold/mu_error": float(np.abs(theory.manifold_mu(grid, d, L, s2) / on_grid - 1).max()),
        "manifold/approx_rise": float(np.diff(theory.manifold_loss(grid, d, L, s2)).min()),
        "manifold/true_rise": float(np.diff(valley.loss).min()),
    }


@dataclass(frozen=True)
class Gap:
    """Theorem 1.1: quantiles ``(2, n)`` (median, 99 %) of the gap between pair and debiased GD at each gamma, with the bound ``(n,)``."""

    gammas: np.ndarray
    quantiles: np.ndarray
    bound: np.ndarray


def gap(d: int, L: int, s2: float, seed: int = 2) -> Gap:
    """From 4,000 prompts."""
    gammas, eta = np.geomspace(1e-3, 0.3, 14), float(theory.debiased_gd_best_eta(d, L, s2))
    quantiles = theory.gap_quantiles(gammas, eta, d, L, s2, [0.5, 0.99], draws=4000, seed=seed)
    return Gap(gammas, quantiles, theory.theorem_gap_bound(gammas, d, s2))


#: Dimensions, and the chance of failure at whose quantile the theorem's largest gamma is taken.
DIMENSIONS, DELTA = (5, 10, 20, 40, 80), 0.01


def gap_by_dimension(L: int, s2: float, eta: float, draws: int, seed: int = 2) -> Gap:
    """The same at the theorem's largest gamma, ``(sqrt(d) log(L / delta))^-1``, in every dimension: entries are dimensions here, eta is one for all."""
    gammas = np.array([theory.theorem_gamma_limit(d, L, DELTA) for d in DIMENSIONS])
    columns = [
        theory.gap_quantiles([g], eta, d, L, s2, [0.5, 1 - DELTA], draws=draws, seed=seed)
        for g, d in zip(gammas, DIMENSIONS, strict=True)
    ]
    bound = [float(theory.theorem_gap_bound(g, d, s2)) for g, d in zip(gammas, DIMENSIONS, strict=True)]
    return Gap(gammas, np.concatenate(columns, 1), np.array(bound))


def gaps_by_dimension(L: int, s2: float, eta: float, draws: int = 2000) -> list[Gap]:
    """On four draws of prompts."""
    return [gap_by_dimension(L, s2, eta, draws, seed) for seed in (2, 3, 4, 5)]


def dimension_records(found: Sequence[Gap]) -> Records:
    """Theorem 1.1's bound in d: powers of d with which the gap and its bound grow, the latter without its factor d as well; a gap for each draw of prompts."""
    ratios = np.array([g.quantiles[1] / g.bound for g in found])  # (draws, dimensions)
    powers = [float(theory.loglog_slope(DIMENSIONS, g.quantiles[1])) for g in found]
    bound = found[0].bound
    return {
        "thm1.1/ratio_by_d": ratios[0].tolist(),
        "thm1.1/ratio_by_d_se": ratios.std(0, ddof=1).tolist(),
        "thm1.1/power": powers[0],
        "thm1.1/power_se": run_sd(powers),
        "thm1.1/bound_power": float(theory.loglog_slope(DIMENSIONS, bound)),
        "thm1.1/bound_power_without_d": float(theory.loglog_slope(DIMENSIONS, bound / DIMENSIONS)),
    }


def gap_records(found: Gap, others: Sequence[Gap]) -> Records:
    """Theorem 1.1; ``others`` are the same of other prompts, as many."""
    every = [found, *others]
    ratio = [float((g.quantiles[1] / g.bound).max()) for g in every]
    slope = [float(theory.loglog_slope(g.gammas[:8], g.quantiles[0][:8])) for g in every]
    return {
        "thm1.1/ratio": ratio[0],
        "thm1.1/ratio_se": run_sd(ratio),
        "thm1.1/slope": slope[0],
        "thm1.1/slope_se": run_sd(slope),
    }


def best_rate(error_of: Callable, d: int, n: int, s2: float) -> float:
    """The rate that minimises an error, numerically."""

    def error(eta: float) -> float:
        return float(error_of(eta, d, n, s2))

    return minimize_scalar(error, bounds=(0.1, 1.5), method="bounded", options={"xatol": 1e-12}).x


def lowest_approx_loss(d: int, L: int, s2: float, starts: int = 20) -> float:
    """Lowest approximate loss of two heads that free minimisation over all (omega, mu) finds: none below the limit gamma -> 0."""

    def loss(p: np.ndarray) -> float:
        return float(theory.approx_loss(p[:2], p[2:], d, L, s2))

    def slope(p: np.ndarray) -> np.ndarray:
        return np.concatenate(theory.approx_gradients(p[:2], p[2:], d, L, s2))

    points = np.random.default_rng(0).normal(size=(starts, 4)) * [0.3, 0.3, 2, 2]
    return min(minimize(loss, p, jac=slope, method="BFGS").fun for p in points)


def optimality_records(d: int, L: int, s2: float) -> Records:
    """Theorem 1.2, and eta* against the best rates of debiased and vanilla gradient descent; the paper's L is 40."""
    star = theory.eta_star(d, L, s2)
    lowest = 1 + s2 - star  # the limit gamma -> 0 of the manifold's loss
    gammas = np.geomspace(0.01, 0.5, 30)
    above = theory.manifold_loss(gammas, d, L, s2) - lowest

    def off(n: int) -> float:
        return abs(best_rate(theory.debiased_gd_error, d, n, s2) / theory.eta_star(d, n, s2) - 1)

    def off_vanilla(n: int) -> float:
        return abs(float(theory.vanilla_gd_best_eta(d, n, s2)) / theory.eta_star(d, n, s2) - 1)

    return {
        "thm1.2/eta_error": off(L),
        "thm1.2/below_limit": lowest_approx_loss(d, L, s2) - lowest,
        "thm1.2/above_limit": float(above.min()),
        "thm1.2/power": float(theory.loglog_slope(gammas[:8], above[:8])),
        "thm1.2/rate_ratio": float(2e-5 * theory.manifold_mu(1e-5, d, L, s2) / star),
        "eta/debiased": [off(n) for n in (6, 10, 40, 100, 400)],
        "eta/vanilla_40": off_vanilla(40),
        "eta/vanilla_4000": off_vanilla(4000),
    }


def risk_records() -> Records:
    """Theorem 1.3 on a grid of xi and noise."""
    risk = theory.theorem_grid(np.geomspace(1e-3, 1e3, 41), np.geomspace(1e-3, 1e3, 41))
    return {
        "thm1.3/total_excess": float((risk["total"] - risk["bound"])[risk["admitted"]].max()),
        "thm1.3/excess_excess": float((risk["excess"] - risk["bound"])[risk["admitted"]].max()),
    }


def floor_records(d: int, L: int, s2: float) -> Records:
    """The floor that a fixed rate leaves."""
    eta = theory.debiased_gd_best_eta(d, L, s2)
    floor = float(theory.gd_error_floor(eta, s2))
    return {
        "floor/far_ratio": float(theory.debiased_gd_error(eta, d, 1e6, s2)) / floor,
        "floor/over_noise": floor / s2,
        "floor/value": floor,
        "floor/at_100": float(theory.debiased_gd_error(eta, d, 100, s2)) / floor - 1,
    }


def coincidence_records(d: int, s2: float) -> Records:
    """Debiased against vanilla gradient descent with eta*, far beyond d and near it."""

    def apart(n: int) -> float:
        eta = theory.eta_star(d, n, s2)
        return abs(
            float(theory.debiased_gd_error(eta, d, n, s2) / theory.vanilla_gd_error(eta, d, n, s2)) - 1
        )

    return {"gdcoincide/far": apart(100 * d), "gdcoincide/near": apart(8 * d)}


# -- linear attention by softmax heads --------------------------------------------------------------------------------


def missed(built: np.ndarray, target: np.ndarray) -> float:
    """Root mean square of a difference over that of the target."""
    return float(np.sqrt(np.mean((built - target) ** 2) / np.mean(target**2)))


def linear_by_softmax_records(prompts: theory.Prompts, d: int) -> Records:
    """One random linear attention of two heads, built of four softmax heads, on centred tokens and on tokens as drawn."""
    z = np.concatenate([prompts.x, prompts.y[..., None]], -1)[:2000]  # (n, L, D)
    z_q = np.concatenate([prompts.x_q, np.zeros((len(prompts.x_q), 1))], -1)[:2000]
    dice = np.random.default_rng(0)
    kq, ov = dice.normal(size=(2, d + 1, d + 1)) / np.sqrt(d), dice.normal(size=(2, d + 1))
    kq_soft, ov_soft = theory.softmax_heads_of_linear(kq, ov, gamma=1e-3)

    def both(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        built = theory.softmax_attention(kq_soft, ov_soft, tokens, z_q)
        return built, theory.linear_attention(kq, ov, tokens, z_q)

    centred, drawn = both(z - z.mean(1, keepdims=True)), both(z)
    return {
        "linsoft/centred": missed(*centred),
        "linsoft/centred_se": over_blocks(missed, *centred),
        "linsoft/uncentred": missed(*drawn),
        "linsoft/uncentred_se": over_blocks(missed, *drawn),
    }
