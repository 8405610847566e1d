"""Is the learned gamma a minimum or a noise level? Learning rates, batch sizes, other optimisers and data, and the solution manifold (He et al. 2025, "Solution Manifold")."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import linregress

from ... import theory
from ...drawing import style
from ...sliders import Slider, show
from ...statistics import Estimate, student
from ...store import Results
from ...theory import Prompts
from . import loss, predictors
from .circuits import Heads, Records, largest_ratio, read_heads, sign_matched, zero_sum
from .loss import Array, Optimum
from .runs import RATES
from .trained_circuits import paper_limits
from .true_loss import pair_exact, pair_optimum_exact

#: Two heads by batch size and learning rate, both rising.
Settings = Mapping[int, Mapping[float, Heads]]


def read_settings(found: Mapping[int, Results]) -> Settings:
    """From the results by batch size."""
    return {b: {rate: read_heads(results.group(f"rate_{rate:g}")) for rate in RATES} for b, results in found.items()}


def settled_gammas(settings: Settings) -> dict[int, list[Array]]:
    """Settled gamma of the runs that end as a pair: batch -> one array a rate."""
    return {b: [h.settled(h.gamma)[h.pairs] for h in by_rate.values()] for b, by_rate in settings.items()}


def temperature_law(settings: Settings) -> tuple[Estimate, float, float]:
    """Power p of gamma = c (rate / sqrt(batch))^p over the settings with a rate of 0.001 or more, where gamma has come to rest, with its error from the
    scatter about the line; log c; and the root mean square of that scatter."""
    noise, logs = [], []
    for batch, gammas in settled_gammas(settings).items():
        for rate, runs in zip(RATES, gammas, strict=True):
            if rate >= 1e-3 and len(runs):
                noise.append(np.log(rate / np.sqrt(batch)))
                logs.append(np.log(runs.mean()))
    fit = linregress(noise, logs)
    off = float(np.sqrt(np.mean((np.array(logs) - fit.slope * np.array(noise) - fit.intercept) ** 2)))
    return Estimate(fit.slope, student(len(logs) - 1) * fit.stderr), fit.intercept, off


class Manifold(NamedTuple):
    """The true loss of a pair (gamma, -gamma) with its best mu, on a grid of gamma, and its minimum."""

    gamma: Array
    loss: list[float]
    best: Optimum


def solution_manifold(points: int, d: int, L: int, noise_var: float) -> Manifold:
    """Evaluated at ``points`` values of gamma, evenly in the logarithm."""
    grid = np.geomspace(0.02, 0.6, points)
    return Manifold(grid, [pair_exact(g, d, L, noise_var).loss for g in grid], pair_optimum_exact(d, L, noise_var))


def _matched_pair(h: Heads) -> Array:
    """``(R,)`` runs that end with heads of both signs, each head's omega and mu of one sign."""
    return sign_matched(h.settled(h.omega), h.settled(h.mu)) & ~h.one_sided


def setting_records(two: Heads, settings: Settings, best: Optimum, loss_of_013: float) -> Records:
    """The pair's minimum beside trained heads and the pair's true loss at gamma = 0.13; how the trained gamma depends on rate and batch size; the share of
    all runs that end as a matched pair."""
    gamma, slow = settled_gammas(settings), settings[256][RATES[0]]
    quarter = slow.gamma[np.argmin(np.abs(slow.steps - 0.75 * slow.steps[-1]))]
    every = [_matched_pair(h) for by_rate in settings.values() for h in by_rate.values()]
    power, _, off = temperature_law(settings)
    return {
        "minimiser/gamma": best.omega,
        "minimiser/interior": bool(best.omega > 0.01),
        "minimiser/gamma_ratio": Estimate.each(two.settled(two.gamma) / best.omega),
        "minimiser/cost_of_013": loss_of_013 / best.loss - 1,
        "minimiser/still_falling": float((1 - slow.gamma[-1] / quarter)[slow.pairs].mean()),
        "minimiser/rate_ratio": Estimate.runs(gamma[256][2]) / Estimate.runs(gamma[256][0]),
        "minimiser/batch_ratio": Estimate.runs(gamma[64][1]) / Estimate.runs(gamma[1024][1]),
        "noise/power": power,
        "noise/off": off,
        "robust/pattern_share": float(np.concatenate(every).mean()),
        "robust/gamma_ratio": largest_ratio([runs for by_rate in gamma.values() for runs in by_rate]),
    }


def start_records(rates: Results, smaller: Results) -> Records:
    """Share of runs that end otherwise, as a matched pair or not, than from the same start at the paper's rate and batch size: at the other :data:`RATES`, and
    at the paper's rate with the ``smaller`` batch. A start is one observation, with the mean of its runs. And the same from another start on the same data."""
    by_rate = {rate: _matched_pair(read_heads(rates.group(f"rate_{rate:g}"))) for rate in RATES}
    own = by_rate.pop(1e-3)
    others = [*by_rate.values(), _matched_pair(read_heads(smaller.group("h2")))]
    return {
        "robust/otherwise": Estimate.runs(np.mean([end != own for end in others], 0)),
        "robust/other_start": float(np.mean([np.roll(end, 4) != own for end in others])),  # four data streams in turn
    }


def decay_records(decayed: Heads, constant: Heads, reduced: Heads, best: Optimum, *size: float) -> Records:
    """Where gamma ends when the rate falls to a hundredth: every two-sided run, over the mean at a constant rate, and what the mean costs against the
    pair's minimum (``size``: d, L, noise variance). Of two numbers per head: how many runs are one-sided, and where the others settle."""
    gammas = decayed.settled(decayed.gamma)[decayed.pairs]
    sided = reduced.one_sided
    return {
        "decay/gammas": gammas,
        "decay/ratio": Estimate.each(gammas / constant.settled(constant.gamma).mean()),
        "decay/cost": pair_exact(float(gammas.mean()), *size).loss / best.loss - 1,
        "reduced/runs": len(sided),
        "reduced/one_sided": int(sided.sum()),
        "reduced/gamma": reduced.settled(reduced.gamma)[~sided] if not sided.all() else "no such run",
    }


def read_variations(results: Callable[[str], Results]) -> dict[str, Heads]:
    """Two heads from many starts under each other optimiser and on other data, from ``results(study)``."""
    found = {name: read_heads(results("seeds_optimisers").group(name)) for name in ("momentum", "adamw")}
    return found | {name: read_heads(results(f"seeds_{name}").group("h2")) for name in ("d10", "noisy")}


def variation_records(found: Mapping[str, Heads]) -> Records:
    """Share of one-sided runs in each variation; of the others, if any, the share whose heads match, and mean abs(sum mu) over sum abs(mu)."""
    both = [(h, ~h.one_sided) for h in found.values()]  # each (R,)
    return {
        "variations/one_sided": Estimate.stack(Estimate.share(~two) for _, two in both),
        "variations/matched": Estimate.stack(
            Estimate.share(_matched_pair(h)[two]) if two.any() else Estimate(0.0, 0.0) for h, two in both
        ),
        "variations/sum": Estimate.stack(
            Estimate.runs(zero_sum(h.settled(h.mu))[two]) if two.any() else Estimate(1.0, 0.0) for h, two in both
        ),
    }


def plot_noise_level(manifold: Manifold, approx: Array, settings: Settings) -> Figure:
    """Left: loss of a head pair with its best mu against gamma. Right: gamma at which runs settle against rate / sqrt(batch), with the law fitted to the
    filled marks; open: at the lowest rate, where gamma still falls."""
    grid, true, best = manifold.gamma, manifold.loss, manifold.best
    fig, (left, right) = style.figure(2, height=3.4)
    left.plot(grid, true, color=style.COLOURS["measured"], label="true loss")
    left.plot(grid, approx, color=style.COLOURS["theory"], ls=":", label="approximate loss")
    left.plot(best.omega, best.loss, "o", color=style.COLOURS["measured"], label="minimum of the true loss")
    paper, _ = paper_limits()
    style.paper_line(left, paper, f"paper: {paper:g}", axis="x")
    style.log_ticks(left, "x", (0.02, 0.05, 0.1, 0.2, 0.5))
    low = min(min(true), approx.min())
    left.set(xlabel="γ", ylabel="loss with the best μ", ylim=(low - 0.004, low + 0.08))
    for marker, colour, (batch, values) in zip("os^", style.PALETTE, settled_gammas(settings).items(), strict=False):
        right.plot([], [], marker, color=colour, label=f"batch {batch}")
        for rate, v in zip(RATES, values, strict=True):
            face = colour if rate >= 1e-3 else "none"
            right.plot([rate / np.sqrt(batch)] * len(v), v, marker, color=colour, mfc=face, ms=5, alpha=0.8)
    power, start, _ = temperature_law(settings)
    noise = np.geomspace(RATES[0] / np.sqrt(max(settings)), RATES[-1] / np.sqrt(min(settings)), 2)
    style.theory_line(right, noise, np.exp(start) * noise**power.value, f"power {power.value:.2f}")
    style.paper_line(right, paper, f"paper: {paper:g}")
    style.log_ticks(right, "y", (0.1, paper, 0.15, 0.2))
    right.set(xscale="log", xlabel="learning rate / √batch", ylabel="γ after training")
    right.legend(fontsize=8, loc="lower right")
    style.name_lines(left, {"true loss": 0.035, "approximate loss": 0.05}, up=8)
    disc = {"xytext": (0, -10), "textcoords": "offset points", "ha": "center", "va": "center", "fontsize": 8}
    left.annotate("minimum", (best.omega, best.loss), color=style.COLOURS["measured"], **disc)
    open_marks = {"transform": right.transAxes, "ha": "left", "va": "top", "fontsize": 8}
    right.text(0.03, 0.97, "open marks: lowest rate,\nγ still falling", **open_marks)
    return fig


# -- the manifold -------------------------------------------------------------------------------------------------------


def manifold_records(manifold: Manifold, d: int, L: int, s2: float) -> Records:
    """The curve of solutions against numeric minimisation, and how the approximate loss rises along it."""
    grid = manifold.gamma
    on_grid = [loss.best_approx_mu([g, -g], d, L, s2)[0] for g in grid]
    return {
        "manifold/mu_error": float(np.abs(loss.manifold_mu(grid, d, L, s2) / on_grid - 1).max()),
        "manifold/approx_rise": float(np.diff(loss.manifold_loss(grid, d, L, s2)).min()),
    }


def show_pair(manifold: Manifold, prompts: Prompts, d: int, L: int, noise_var: float, few: bool) -> None:
    """Slider: predictions of a pair with its best weight against those of debiased gradient descent, and its point on the solution manifold of the true loss."""
    gammas = [0.13, 0.5] if few else [0.02, 0.05, 0.09, 0.13, 0.2, 0.3, 0.4, 0.5]
    eta = loss.eta_star(d, L, noise_var)
    some = [of[:400] for of in prompts[:3]]
    gd, gd_loss = theory.debiased_gd(eta, *some), float(theory.debiased_gd_error(eta, d, L, noise_var))
    least, losses = min(manifold.loss), np.array(manifold.loss)

    def frame(gamma: float) -> Figure:
        best = pair_exact(gamma, d, L, noise_var)
        yhat = predictors.softmax_predictor([gamma, -gamma], [best.mu, -best.mu], *some)
        fig, (left, right) = style.figure(2, height=3.1)
        left.plot([-3, 3], [-3, 3], color=style.COLOURS["theory"], lw=0.9, ls=":")
        left.plot(gd, yhat, ".", color=style.COLOURS["measured"], ms=4, alpha=0.6)
        left.set(xlabel="prediction of debiased GD", ylabel="prediction of the pair", xlim=(-3, 3), ylim=(-3, 3))
        left.set_title(f"γ = {gamma:.2f}: rms difference {np.sqrt(np.mean((yhat - gd) ** 2)):.3f}")
        right.plot(
            manifold.gamma, 1e3 * (losses - least), color=style.COLOURS["measured"], label="pair with its best μ"
        )
        limit = {"color": style.COLOURS["debiased"], "ls": "--", "label": "debiased GD, the limit γ → 0"}
        right.axhline(1e3 * (gd_loss - least), **limit)
        right.plot(gamma, 1e3 * (best.loss - least), "o", ms=8, color=style.INK, label="this pair")
        # along the manifold the loss changes by a thousandth, across it a hundred times as much
        right.set_yscale("symlog", linthresh=0.1)
        bounds = {"ylim": (-0.02, 60), "xlim": (0, max(manifold.gamma))}
        right.set(xlabel="γ", ylabel="true loss above\nits minimum (1/1000)", **bounds)
        right.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 0.12))
        return fig

    show(
        frame,
        [Slider("gamma", "γ", gammas, live=(0.02, 0.6, 0.01))],
        start={"gamma": 0.13},
        title="A pair of heads with its best weight",
        description="At a small γ the answers of the pair fall onto those of debiased gradient descent. Try: the largest γ, then smaller ones.",
        alt="Predictions of the pair at gamma {gamma} against debiased gradient descent, and its true loss.".format,
    )
