"""Closed forms against numbers: the approximate loss, one head and Theorem 1 of He et al. (2025), and its errata."""

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy import stats
from scipy.optimize import minimize, minimize_scalar
from torch import Tensor

from ... import theory
from ...draw import numpy_rng
from ...drawing import style
from ...models import attend
from ...statistics import Estimate, run_sd
from . import loss, predictors, true_loss
from .circuits import Heads, Records
from .loss import Array

# -- the approximate loss -----------------------------------------------------------------------------------------------


def approximation(run: Heads, points: int, d: int, L: int, s2: float) -> dict[str, Array]:
    """The ``approx`` loss and the ``true`` one ``(R, T)`` along runs, at about ``points`` ``steps`` even in the logarithm; and by ``lengths``, at gamma = 0.03 on
    the manifold, the signed relative errors ``gap`` of the loss and ``excess_gap`` of its excess over the noise."""
    wanted = np.concatenate([[0], np.geomspace(1, run.steps[-1], points)])
    pick = np.unique([np.argmin(np.abs(run.steps - step)) for step in wanted])
    omega, mu = (values[pick].swapaxes(0, 1) for values in (run.omega, run.mu))  # (R, T, H)
    approx, true = (of(omega, mu, d, L, s2) for of in (loss.approx_loss, true_loss.exact_loss))
    found = {"steps": run.steps[pick], "true": true, "approx": approx}
    lengths, near = (10, 20, 40, 100, 400, 1000, 4000, 10_000), 0.03
    mus = [float(loss.manifold_mu(near, d, n, s2)) for n in lengths]
    at = np.array([true_loss.exact_loss([near, -near], [m, -m], d, n, s2) for m, n in zip(mus, lengths, strict=True)])
    approx_at = np.array([loss.manifold_loss(near, d, n, s2) for n in lengths])
    found |= {"lengths": np.array(lengths), "gap": approx_at / at - 1}
    return found | {"excess_gap": (approx_at - s2) / (at - s2) - 1}


def approximation_records(found: dict[str, Array], d: int, s2: float) -> Records:
    """Error of the approximate loss along training: largest relative error, the share of the true loss' variance that a straight line in it leaves, and
    by how much it is lower after the start; and as L grows."""
    off = found["approx"] / found["true"] - 1  # (R, T)
    below = found["true"] - found["approx"]
    pairs = list(zip(found["true"], found["approx"], strict=True))
    rank = [float(stats.spearmanr(*both).statistic) for both in pairs]
    at_40 = found["lengths"].tolist().index(40)
    gap, excess_gap = np.abs(found["gap"]), np.abs(found["excess_gap"])
    return {
        "approx/below_most": float(below.max(1).mean()),
        "approx/below_end": float(below[:, -1].mean()),
        "approx/excess_at_40": float(excess_gap[at_40]),
        "approx/excess_large_L": float(excess_gap[-1]),
        "approx/excess_fall": float(excess_gap[-1] / excess_gap[at_40]),
        "approx/largest": Estimate.runs(np.abs(off).max(1)),
        "approx/unexplained": Estimate.each(np.array([1 - np.corrcoef(both)[0, 1] ** 2 for both in pairs])),
        "approx/rank": Estimate(rank[0], run_sd(rank)),
        "approx/large_L": float(gap[-1]),
        "approx/at_40": float(gap[at_40]),
        "approx/length_for_1_percent": float(predictors.length_for_accuracy(0.01, d, s2)),
    }


def plot_approximation(found: dict[str, Array], trained: int) -> Figure:
    """Left: both losses at the points of the first training run. Right: relative error of the loss, and of its excess over the noise, against L."""
    fig, (left, right) = style.figure(2, height=2.9)
    steps = np.maximum(found["steps"], 0.7)
    left.plot(steps, found["true"][0], color=style.COLOURS["measured"], marker="o", ms=3, label="true loss")
    left.plot(steps, found["approx"][0], color=style.COLOURS["theory"], ls="--", label="approximate loss")
    left.set(xscale="log", xlabel="training step", ylabel="loss at (ω, μ) of the run", ylim=(0, None))
    left.legend()
    for values, colour, marker, label, place in (
        (found["gap"], style.COLOURS["measured"], "o", "of the loss", (550, 2)),
        (found["excess_gap"], style.PALETTE[4], "s", "of its excess over the noise", (100, 10)),
    ):
        right.text(*place, label, color=colour, fontsize=9)
        right.loglog(found["lengths"], 100 * np.abs(values), color=colour, marker=marker, label=label)
    right.axhline(1, color=style.COLOURS["dummy"], lw=0.9, ls=":", label="1 %")
    style.paper_line(right, trained, f"the paper's L = {trained}", axis="x")
    right.text(1.1 * trained, 0.12, f"the paper's L = {trained}", fontsize=8)
    right.set(xlabel="context length L", ylabel="relative error (%)")
    return fig


# -- one head -----------------------------------------------------------------------------------------------------------


def single_head_records(readings: dict[str, Heads], d: int, L: int, s2: float) -> Records:
    """omega sqrt(d) of one head, which the paper puts at 1: the best by either loss, and the trained ones, by reading."""
    best = true_loss.single_head_exact(d, L, s2).omega * np.sqrt(d)
    mu_over_root = [true_loss.single_head_exact(k, 8 * k, s2).mu / np.sqrt(k) for k in (5, 10, 20, 40)]
    trained = {reading: h.settled(np.abs(h.omega))[:, 0] * np.sqrt(d) for reading, h in readings.items()}  # each (R,)
    return {
        "single/approx_omega": loss.single_head_approx(d, L, s2).omega * np.sqrt(d),
        "single/true_omega": best,
        "single/mu_ratio": max(mu_over_root) / min(mu_over_root),
        **{f"single/{reading}/omega": Estimate.each(runs) for reading, runs in trained.items()},
        "single/trained_over_true": Estimate.each(trained["text"] / best),
    }


def plot_single_head(readings: dict[str, Heads], d: int, L: int, s2: float) -> Figure:
    """omega sqrt(d) of one head: minimiser of the true loss against L, of the approximate loss (1), and trained heads at L."""
    fig, ax = style.figure(aspect=0.5)
    colour, lengths = style.COLOURS["measured"], (10, 20, 40, 80, 160, 400, 1000)
    curve = [true_loss.single_head_exact(d, n, s2).omega * np.sqrt(d) for n in lengths]
    ax.plot(lengths, curve, color=colour, marker="o", label="minimum of the true loss")
    limit = true_loss.single_head_many_examples(d, s2) * np.sqrt(d)
    ax.axhline(limit, color=colour, ls=":", lw=1.2, label="its limit for L → ∞")
    style.paper_line(ax, 1.0, "paper: 1 (minimum of the approximate loss)")
    trained = np.concatenate([h.settled(np.abs(h.omega))[:, 0] for h in readings.values()]) * np.sqrt(d)
    look = {"ms": 7, "color": style.COLOURS[1], "label": "trained heads, both readings of the scores"}
    ax.plot([L] * len(trained), trained, "s", **look)
    ax.set(xscale="log", xlabel="context length L", ylabel=r"$\omega\,\sqrt{d}$")
    ax.legend(fontsize=8)
    return fig


# -- Theorem 1.1: approximation -----------------------------------------------------------------------------------------


#: Where the gap is looked at; dimensions, and the chance of failure at whose quantile the theorem's largest gamma is taken.
GAMMAS, DIMENSIONS, DELTA = np.geomspace(1e-3, 0.3, 14), (5, 10, 20, 40, 80), 0.01
#: Quantiles ``(2, n)`` (median, 99 %) over prompts of the gap between pair and debiased GD at each gamma, and the bound ``(n,)``.
Gap = tuple[Array, Array]


def gap(d: int, L: int, s2: float, eta: float, seed: int, gammas: Array = GAMMAS, draws: int = 4000) -> Gap:
    """Theorem 1.1: ``|yhat - yhat_gd(eta)|`` of two heads with mu = eta/(2 gamma) over so many prompts at gammas ``(n,)``, and its bound."""
    prompts = theory.sample_prompts(draws, d, L, s2, seed)[:3]
    pairs = [predictors.softmax_predictor([g, -g], [eta / (2 * g), -eta / (2 * g)], *prompts) for g in gammas]
    apart = np.abs(pairs - theory.debiased_gd(eta, *prompts))  # (n, draws)
    return np.quantile(apart, [0.5, 1 - DELTA], axis=1), predictors.theorem_gap_bound(gammas, d, s2)


def gap_by_dimension(L: int, s2: float, eta: float, seed: int, draws: int = 2000) -> Gap:
    """Gap at the theorem's largest gamma, ``(sqrt(d) log(L / delta))^-1``, in every dimension; eta is one for all."""
    found = [gap(d, L, s2, eta, seed, 1.0 / (np.sqrt([d]) * np.log(L / DELTA)), draws) for d in DIMENSIONS]
    return np.hstack([quantiles for quantiles, _ in found]), np.hstack([bound for _, bound in found])


def gap_records(found: Sequence[Gap], by_dimension: Sequence[Gap]) -> Records:
    """Theorem 1.1 on the first draw of prompts, of which the others say how much it varies: the gap over its bound, its slope in gamma, and powers of d."""
    ratio = [float((quantiles[1] / bound).max()) for quantiles, bound in found]
    slope = [predictors.loglog_slope(GAMMAS[:8], quantiles[0, :8]) for quantiles, _ in found]
    ratios = np.array([quantiles[1] / bound for quantiles, bound in by_dimension])  # (draws, dimensions)
    powers = [predictors.loglog_slope(DIMENSIONS, quantiles[1]) for quantiles, _ in by_dimension]
    bound = by_dimension[0][1]
    return {
        "thm1.1/ratio": Estimate(ratio[0], run_sd(ratio)),
        "thm1.1/slope": Estimate(slope[0], run_sd(slope)),
        "thm1.1/ratio_by_d": Estimate(ratios[0], ratios.std(0, ddof=1)),
        "thm1.1/power": Estimate(powers[0], run_sd(powers)),
        "thm1.1/bound_power": predictors.loglog_slope(DIMENSIONS, bound),
        "thm1.1/bound_power_without_d": predictors.loglog_slope(DIMENSIONS, bound / DIMENSIONS),
    }


def plot_gap(found: Gap) -> Figure:
    """Theorem 1.1: quantiles of |yhat - yhat_gd| over prompts against gamma, with the bound."""
    fig, ax = style.figure(aspect=0.5)
    (median, high), bound = found
    paper = {"color": style.COLOURS["paper"], "ls": (0, (5, 3)), "label": r"paper: $\sqrt{1+\sigma^2}\,\gamma d$"}
    ax.loglog(GAMMAS, bound, **paper)
    for values, name, marker in ((high, "99 % of prompts", "^"), (median, "median prompt", "o")):
        ax.loglog(GAMMAS, values, marker=marker, color=style.COLOURS["measured"], label=name, alpha=0.9)
    guide = 0.5 * median[0] * (GAMMAS / GAMMAS[0]) ** 2
    ax.loglog(GAMMAS, guide, color=style.COLOURS["theory"], ls=":", label="slope 2")
    ax.set(xlabel="γ", ylabel="gap to debiased GD", xlim=(0.9 * GAMMAS[0], 1.1 * GAMMAS[-1]))
    style.name_ends(ax, 0.12)
    return fig


# -- Theorems 1.2 and 1.3: optimality and Bayes risk ----------------------------------------------------------------------


def best_rate(d: int, n: int, s2: float) -> float:
    """The rate that minimises the error of debiased gradient descent, numerically."""
    search = {"bounds": (0.1, 1.5), "method": "bounded", "options": {"xatol": 1e-12}}
    return minimize_scalar(theory.debiased_gd_error, args=(d, n, s2), **search).x


def lowest_approx_loss(d: int, L: int, s2: float, starts: int = 20) -> float:
    """Lowest approximate loss of two heads that free minimisation over all (omega, mu) finds: none below the limit gamma -> 0."""

    def value(p: Array) -> tuple[float, Array]:
        at = p[:2], p[2:], d, L, s2
        return float(loss.approx_loss(*at)), np.concatenate(loss.approx_gradients(*at))

    points = numpy_rng(0).normal(size=(starts, 4)) * [0.3, 0.3, 2, 2]
    return min(minimize(value, p, jac=True, method="BFGS").fun for p in points)


def optimality_records(d: int, L: int, s2: float) -> Records:
    """Theorem 1.2, and eta* against the best rates of debiased gradient descent; the paper's L is 40."""
    star = loss.eta_star(d, L, s2)
    lowest = 1 + s2 - star  # the limit gamma -> 0 of the manifold's loss
    gammas = np.geomspace(0.01, 0.5, 30)
    above = loss.manifold_loss(gammas, d, L, s2) - lowest
    # the best mu of two heads at these scales, with no constraint, against +-mu_gamma
    free = loss.best_approx_mu(np.stack([gammas, -gammas], -1), d, L, s2)  # (n, 2)
    off_manifold = free * [1, -1] / loss.manifold_mu(gammas, d, L, s2)[:, None] - 1
    off = {n: abs(best_rate(d, n, s2) / loss.eta_star(d, n, s2) - 1) for n in (6, 10, L, 100, 400)}
    return {
        "thm1.2/eta_error": off[L],
        "thm1.2/below_limit": lowest_approx_loss(d, L, s2) - lowest,
        "thm1.2/above_limit": float(above.min()),
        "thm1.2/off_manifold": float(np.abs(off_manifold).max()),
        "thm1.2/power": predictors.loglog_slope(gammas[:8], above[:8]),
        "thm1.2/rate_ratio": float(2e-5 * loss.manifold_mu(1e-5, d, L, s2) / star),
        "eta/debiased": list(off.values()),
    }


def risk_records(d: int, L: int, s2: float) -> Records:
    """Theorem 1.3 where it holds (s2 + 1/xi > 1), total and excess risk; the floor that a fixed rate leaves as L grows; debiased against vanilla GD."""
    xi, noise = np.geomspace(1e-3, 1e3, 41)[:, None], np.geomspace(1e-3, 1e3, 41)
    gd, bayes = predictors.gd_risk_limit(xi, noise), predictors.bayes_risk_limit(xi, noise)
    admitted, bound = noise + 1.0 / xi > 1.0, predictors.theorem_bound(xi, noise)
    eta = loss.eta_star(d, L, s2)
    floor = s2 + (1.0 - eta) ** 2
    sizes = [(loss.eta_star(d, n, s2), d, n, s2) for n in (100 * d, 8 * d)]
    far, near = (abs(float(theory.debiased_gd_error(*of) / theory.vanilla_gd_error(*of)) - 1) for of in sizes)
    return {
        "thm1.3/total_excess": float((gd / bayes - bound)[admitted].max()),
        "thm1.3/excess_excess": float(((gd - noise) / (bayes - noise) - bound)[admitted].max()),
        "floor/far_ratio": float(theory.debiased_gd_error(eta, d, 1e6, s2)) / floor,
        "floor/value": floor,
        "floor/at_100": float(theory.debiased_gd_error(eta, d, 100, s2)) / floor - 1,
        "gdcoincide/far": far,
        "gdcoincide/near": near,
        "gdcoincide/eta": loss.eta_star(d, 100 * d, s2),
    }


def near_bayes_records(d: int, L: int, s2: float, far: int = 10_000) -> Records:
    """Key Finding 3, item 4: error and excess of a model trained at length L over ridge regression's, and by what factor the ratio grows to ``far``."""
    eta = loss.eta_star(d, L, s2)
    gd = [float(theory.debiased_gd_error(eta, d, n, s2)) for n in (L, far)]
    ridge = [Estimate(*theory.ridge_error(d, n, s2)) for n in (L, far)]
    values: Records = {}
    for name, floor in (("total", 0.0), ("excess", s2)):
        near, away = ((of - floor) / (best - floor) for of, best in zip(gd, ridge, strict=True))
        values |= {f"nearbayes/{name}_at_L": near.value, f"nearbayes/{name}_growth": away / near}
    return values


def expansion_records(d: int, L: int, s2: float, draws: int = 200) -> Records:
    """Stages I and II at random points of four heads: the displayed updates and the Taylor form against the approximate loss, and Hoelder's bound."""
    omega, mu = numpy_rng(0).normal(size=(2, draws, 4)) * [[[0.3]], [[2.0]]]
    exact = loss.approx_gradients(omega, mu, d, L, s2)
    c, terms = loss.coupling(d, L, s2), loss.stage_one_terms(omega, mu, d, L, s2)
    printed_updates = (
        2 * (terms["omega_sign"] - c * terms["omega_high"]),
        2 * (terms["mu_sign"] - c * (terms["mu_zero_sum"] + terms["mu_high"])),
    )
    updates = [np.abs(-g / u - 1).max() for g, u in zip(exact, printed_updates, strict=True)]
    taylor = loss.taylor_loss(omega, mu, d, L, s2) / loss.approx_loss(omega, mu, d, L, s2) - 1
    # equal scales, with the mu as drawn and with a sum of zero
    equal = 0.3 * np.sign(mu)
    plus, minus = (np.where(sign * mu > 0, np.abs(mu), 0).sum(-1, keepdims=True) for sign in (1, -1))
    both = (plus * minus > 0).ravel()
    zero_sum = (mu / np.where(mu > 0, plus, minus))[both]

    def slack(omega: Array, mu: Array) -> Array:
        """The series less its bound, as a share of the series."""
        return 1 - loss.holder_bound(omega, mu, d) / sum(loss.odd_even_split(omega, mu, d))

    return {
        "expansion/updates": float(max(updates)),
        "expansion/taylor": float(np.abs(taylor).max()),
        "holder/least": float(slack(np.abs(omega) * np.sign(mu), mu).min()),
        "holder/zero_sum": float(np.abs(slack(equal[both], zero_sum)).max()),
        "holder/equal": float(np.abs(slack(equal, mu)).max()),
    }


def plot_bayes_ratio(xi_paper: float, noise_var: float) -> Figure:
    """Theorem 1.3: ratio of risks against xi = d/L at two noise levels, total and excess, with the bound."""
    fig, axes = style.figure(2, height=3.0, sharey=True)
    xi = np.geomspace(1e-2, 10, 160)
    for ax, s2 in zip(axes, (noise_var, 1.0), strict=True):
        gd, bayes = predictors.gd_risk_limit(xi, s2), predictors.bayes_risk_limit(xi, s2)
        for values, look in (
            (predictors.theorem_bound(xi, s2), (style.COLOURS["paper"], (0, (5, 3)), "paper's bound")),
            (gd / bayes, (style.COLOURS["gd"], "-", "ratio of total risks")),
            ((gd - s2) / (bayes - s2), (style.PALETTE[4], "-.", "ratio of excess risks")),
        ):
            ax.loglog(xi, values, **dict(zip(("color", "ls", "label"), look, strict=True)))
        if s2 == noise_var:
            ax.axvline(xi_paper, color=style.COLOURS["dummy"], lw=0.9, ls=":", label=f"ξ = {xi_paper:g}")
        ax.set(xlabel="ξ = d / L", title=f"σ² = {s2:g}")
    axes[0].set_ylabel("GD over Bayes")
    look = {"fontsize": 9, "va": "center"}
    axes[0].text(0.012, 6, "excess risks", color=style.PALETTE[4], **look)
    axes[0].text(10, 3.6, "paper's bound", color=style.COLOURS["paper"], ha="right", **look)
    axes[0].text(0.012, 2.2, "total risks", color=style.COLOURS["gd"], **look)
    axes[0].text(xi_paper, 1.03, f" ξ = {xi_paper:g}", **look | {"va": "bottom"})
    return fig


# -- errata -------------------------------------------------------------------------------------------------------------


def errata_records(example: tuple[Tensor, Tensor, Tensor, Tensor], two: Heads) -> Records:
    """The mask against the closed form of the prediction; whether a trained pair lies in Theorem 1's space, min(|H+|, |H-|) > 1; and symbols."""
    kq, ov, context, query = example
    token = torch.cat([query, torch.zeros_like(query[:1])])
    closed_form = attend(kq, ov[:, -1:], context, query)  # no query among the keys
    masked = attend(kq, ov[:, -1:], torch.cat([context, token[None]]), query)
    sides = np.minimum((two.omega[-1] > 0).sum(-1), (two.omega[-1] < 0).sum(-1))  # (R,)
    # solution sets that the text defines, and those that Theorem 1 names (transcribed by hand)
    defined, used = {"S_gamma", "S-bar"}, {"S*", "S-bar"}
    return {
        "typo/mask_difference": (masked - closed_form).abs().max().item(),
        "typo/two_heads_in_space": bool((sides > 1).any()),
        "typo/undefined_symbols": len(used - defined),
    }
