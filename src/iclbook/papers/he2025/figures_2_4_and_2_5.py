"""Which predictor trained heads compute: Figures 2.4 and 2.5, Key Finding 3 and the two-head form of He et al. (2025)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure

from ... import theory
from ...claims import printed
from ...drawing import style
from ...models import attend
from ...statistics import Estimate, over_blocks, run_sd
from ...store import Results
from ...theory import Prompts
from . import predictors
from .circuits import Heads, Records, effective_pair, read_heads
from .loss import Array, eta_star, manifold_mu
from .runs import PAPER_HEADS

# -- errors by context length: Figures 2.4 and 2.5 ----------------------------------------------------------------------


class Curve(NamedTuple):
    """ICL error of a model against context length, each ``(n,)``: ``mean`` over its runs, and its standard error from how the runs differ (``seeds``) and
    from the ``prompts``, which are common to all runs and models, as ``lengths`` are."""

    lengths: Array
    mean: Array
    seeds: Array
    prompts: Array

    @property
    def error(self) -> Array:
        """The standard error ``(n,)``, both parts added in squares."""
        return np.hypot(self.seeds, self.prompts)

    def at(self, length: int) -> Estimate:
        """The error at a length. Of a ratio of two curves at one length its error is an upper bound: prompts are common."""
        i = list(self.lengths).index(length)
        return Estimate(float(self.mean[i]), float(self.error[i]))


#: ICL errors by number of heads.
Curves = Mapping[int, Curve]


def read_curve(results: Results, name: str) -> Curve:
    """A group's curve; a single run is taken to vary as those of two heads, by the same share."""
    errors = results[f"{name}/error"]  # (n, R)
    many = errors if errors.shape[1] > 1 else results["h2/error"]
    mean = errors.mean(1)
    seeds = many.std(1, ddof=1) / many.mean(1) * mean / np.sqrt(errors.shape[1])
    return Curve(results[f"{name}/lengths"], mean, seeds, results[f"{name}/error_se"].mean(1))


def multi_spread(results: Results, counts: Iterable[int]) -> dict[int, Estimate]:
    """Relative difference of the error of H heads to that of two where it is largest over the lengths, by H: seed by seed on common prompts, of seeds that
    both end with heads of both signs. A single seed has no error of its own; it is given the largest of the others."""
    both = {h: ~read_heads(results.group(f"h{h}")).one_sided for h in (2, *counts)}
    found: dict[int, Estimate] = {}
    for h in counts:
        two, many = results["h2/error"], results[f"h{h}/error"]  # (n, R)
        seeds = [r for r in range(many.shape[1]) if both[2][r] and both[h][r]] or [0]
        apart = many[:, seeds] / two[:, seeds] - 1
        worst = int(np.abs(apart.mean(1)).argmax())
        found[h] = abs(Estimate.runs(apart[worst]))
    known = max(e.error for e in found.values())
    return {h: Estimate(e.value, e.error or known) for h, e in found.items()}


def length_records(results: Results, curves: Curves, L: int) -> Records:
    """Figure 2.4, and eight heads, which the paper does not show."""
    apart = multi_spread(results, [h for h in curves if h > 2])
    return {
        "fig2.4/multi_spread": Estimate.stack(apart[h] for h in apart if h in PAPER_HEADS),
        "fig2.4/single_over_two": curves[1].at(L) / curves[2].at(L),
        "fig2.4/length_ratio": Estimate.stack(curve.at(100) / curve.at(L) for curve in curves.values()),
        **({"eight/error_gap": apart[8]} if 8 in apart else {}),
    }


def code_values(results: Results) -> Records:
    """Our errors over those that the published code prints; the error is that of ours."""
    says = printed("he2025")
    values: Records = {}
    for name, prints in (("h1", says["code/one_head"]), ("h2", says["code/two_heads"])):
        curve, known = read_curve(results, f"code_{name}"), zip(says["code/lengths"], prints, strict=True)
        values[f"codevalues/{name}_ratio"] = Estimate.stack(curve.at(n) / by for n, by in known)
    return values


def estimators(lengths: Array, d: int, L: int, noise_var: float) -> dict[str, Array | Estimate]:
    """Errors at every length ``(n,)``: of one gradient step with the rate best at the training length L, in closed form, and of ridge regression."""
    ridge = np.array([theory.ridge_error(d, int(n), noise_var, draws=4000) for n in lengths])  # (n, 2)
    return {
        "debiased": theory.debiased_gd_error(eta_star(d, L, noise_var), d, lengths, noise_var),
        "vanilla": theory.vanilla_gd_error(theory.vanilla_gd_best_eta(d, L, noise_var), d, lengths, noise_var),
        "ridge": Estimate(*ridge.T),
    }


def estimator_records(curves: Curves, by: Mapping[str, Array | Estimate], d: int, L: int, noise_var: float) -> Records:
    """Figure 2.5 and Theorem 1.3 at the paper's own size; the errors of gradient descent are exact."""
    two, ridge = curves[2], by["ridge"]
    values: Records = {
        "fig2.5/ridge_ratio": Estimate(two.mean, two.error) / ridge,
        "fig2.5/single_gap": float(np.abs(curves[1].mean / by["debiased"] - 1).max()),
        "fig2.5/ridge_bound_40": float(predictors.theorem_bound(d / L, noise_var)),
    }
    for name in ("debiased", "vanilla"):
        gap = np.abs(two.mean / by[name] - 1)
        i = int(gap.argmax())
        values[f"fig2.5/{name}_gap"] = Estimate(float(gap[i]), float(two.at(two.lengths[i]).error / by[name][i]))
    (near,) = np.flatnonzero(two.lengths == L)
    return values | {"bayesfinite/ratio": by["debiased"][near] / ridge[near]}


# -- predictions, prompt by prompt: Key Finding 3 -----------------------------------------------------------------------


#: Prompts of a block: what attention makes of them stays in a core's cache.
BLOCK = 512


def attended(kq: Array, ov: Array, prompts: Prompts, activation: str = "softmax") -> Array:
    """Predictions ``(R, B)`` in double precision from the circuits of runs, ``kq (R, H, D, D)`` and ``ov (R, H, 1, D)``, a block of prompts at a time."""
    runs = list(zip(*(torch.tensor(values).double() for values in (kq, ov)), strict=True))
    blocks = -(-len(prompts.x_q) // BLOCK)
    found = []
    for x, y, x_q in zip(*(np.array_split(of, blocks) for of in prompts[:3]), strict=True):
        pairs = np.concatenate([x, y[..., None]], -1)  # (b, L, D)
        tokens = torch.tensor(np.ascontiguousarray(pairs.transpose(1, 2, 0)))
        found.append([attend(*run, tokens, torch.tensor(x_q).T, activation)[0].numpy() for run in runs])
    return np.concatenate(found, -1)


def unexplained(yhat: Array, gd: Array) -> Array:
    """Share of the variance of predictions ``(..., B)`` that a multiple of ``gd`` ``(B,)`` leaves unexplained, ``(...)``."""
    return 1 - np.vecdot(yhat, gd) ** 2 / np.vecdot(gd, gd) / np.vecdot(yhat, yhat)


def unlike_pair(yhat: Array, pair: Array) -> Array:
    """Share of the predictions' mean square that their pair misses, ``(..., B) -> (...)``."""
    return np.mean((yhat - pair) ** 2, -1) / np.mean(yhat**2, -1)


def predictor_records(results: Results, heads: Mapping[int, Heads], prompts: Prompts) -> Records:
    """Key Finding 3 and the two-head form, a value per run: what gradient descent leaves unexplained of the final circuits, and what their effective pair
    does, heads of one sign merged into one. The error of vanilla's is that of its difference to debiased's, run by run."""
    debiased, vanilla = (step(1.0, *prompts[:3]) for step in (theory.debiased_gd, theory.vanilla_gd))
    yhats, pairs = {}, {}  # by number of heads (R, B)
    for h, of in heads.items():
        yhats[h] = attended(results[f"h{h}/kq"][-1], results[f"h{h}/ov"][-1], prompts)
        effective = zip(*effective_pair(of.omega[-1], of.mu[-1]), strict=True)  # gamma, mu_+, mu_- of each run
        pairs[h] = np.stack([predictors.softmax_predictor([g, -g], of_mu, *prompts[:3]) for g, *of_mu in effective])
    left, left_vanilla = ([unexplained(yhat, gd) for yhat in yhats.values()] for gd in (debiased, vanilla))
    apart = [np.subtract(*both) for both in zip(left_vanilla, left, strict=True)]
    missed = [unlike_pair(yhats[h], pairs[h]) for h in heads if h > 2]

    def every(values: list, vary: list, of_prompts: float) -> Estimate:
        """Values of all runs with their errors: how runs differ in ``vary``, and how prompts do."""
        return Estimate(np.concatenate(values), float(np.hypot(run_sd(*vary), of_prompts)))

    first, most = yhats[min(yhats)][0], max(yhats)  # predictions of a run (B,), and the largest number of heads
    of_difference = over_blocks(lambda y, v, g: unexplained(y, v) - unexplained(y, g), first, vanilla, debiased)
    return {
        "kf3/unexplained": every(left, left, over_blocks(unexplained, first, debiased)),
        "kf3/most": float(np.max(np.concatenate(left))),
        "kf3/least_vanilla": float(np.min(np.concatenate(left_vanilla))),
        "kf3/unexplained_vanilla": every(left_vanilla, apart, of_difference),
        "twohead/unexplained": every(missed, missed, over_blocks(unlike_pair, yhats[most][0], pairs[most][0])),
    }


def scale_records(heads: Mapping[int, Heads], d: int, L: int, noise_var: float) -> Records:
    """gamma against one head's scale (every H), and the sum of positive mu against the manifold's (H above 2); means over runs."""
    gammas = {h: of.settled(of.gamma) for h, of in heads.items()}  # each (R,)
    ratios = []
    for h in [h for h in heads if h > 2]:
        mu, gamma = heads[h].settled(heads[h].positive_mu), gammas[h]
        error = Estimate.runs(mu / manifold_mu(gamma, d, L, noise_var)).error
        ratios.append(Estimate(float(mu.mean() / manifold_mu(gamma.mean(), d, L, noise_var)), error))
    return {
        "kf3/gamma_ratio": Estimate.stack(Estimate.runs(gamma) * np.sqrt(d) for gamma in gammas.values()),
        "twohead/mu_ratio": Estimate.stack(ratios),
    }


# -- drawing ------------------------------------------------------------------------------------------------------------


def plot_error_by_length(curves: Curves, trained: int) -> Figure:
    """Figure 2.4: ICL error against context length by head count, and what the published code prints; right, over that of two heads."""
    fig, (ax, ratio) = style.figure(2, height=2.9)
    lengths, two = curves[2].lengths, curves[2].mean
    for h, curve in curves.items():
        look = {"marker": style.MARKERS[h], "color": style.COLOURS[h]}
        if h > 1:
            ratio.plot(lengths, curve.mean / two, ms=4, **look)
        ax.plot(lengths, curve.mean, label=f"H = {h}", ms=max(8 - h * 0.7, 3), alpha=0.9, **look)
    says = printed("he2025")
    for name in ("code/one_head", "code/two_heads"):
        ax.plot(says["code/lengths"], says[name], "x", color=style.COLOURS["paper"], ms=7, mew=1.8, zorder=5)
    style.write(ax, says["code/lengths"][0] + 5, says["code/one_head"][0], "× paper's code", style.COLOURS["paper"])
    style.write(ax, 55, 0.48, "one head", style.COLOURS[1])
    style.write(ax, 55, 0.12, "two or more heads", style.COLOURS[2])
    style.write(ratio, lengths[-1], 0.988, "H = 8", style.COLOURS[8], ha="right")
    style.write(ratio, lengths[-1], 1.005, "H = 3, 4", style.COLOURS[3], ha="right")
    ratio.set(xlabel="context length L", ylabel="error over that of H = 2", ylim=(0.97, 1.03))
    ax.axvline(trained, color=style.COLOURS["dummy"], lw=0.8, ls=":")
    place = {"xycoords": ("data", "axes fraction"), "xytext": (4, 6), "textcoords": "offset points"}
    ax.annotate("training length", (trained, 0), fontsize=8, **place)
    ax.set(xlabel="context length L", ylabel="ICL error", ylim=(0, None))
    return fig


def plot_estimators(curves: Curves, by: Mapping[str, Array | Estimate]) -> Figure:
    """Figure 2.5: ICL error of two heads, of one step of gradient descent in both forms, and of ridge regression; right, over that of the debiased step."""
    fig, (left, right) = style.figure(2, height=2.8)
    two, best = curves[2], by["debiased"]
    for name, values, look in (
        ("vanilla GD", by["vanilla"], {"color": style.COLOURS["gd"]}),
        ("debiased GD", best, {"color": style.COLOURS["theory"], "ls": "--"}),
        ("optimal ridge (Bayes)", by["ridge"].value, {"color": style.COLOURS["ridge"]}),
    ):
        left.plot(two.lengths, values, label=name, **look)
        if name.endswith("GD"):
            right.plot(two.lengths, 100 * (values / best - 1), **look)
    look = {"color": style.COLOURS[2], "marker": style.MARKERS[2], "ls": "none", "ms": 4.5, "label": "two heads"}
    left.plot(two.lengths, two.mean, **look)
    right.errorbar(two.lengths, 100 * (two.mean / best - 1), 100 * two.error / best, **look)
    left.set(xlabel="context length L", ylabel="ICL error", ylim=(0, None))
    right.set(xlabel="context length L", ylabel="error above debiased GD (%)")
    style.write(left, 36, 0.52, "■ two heads", style.COLOURS[2])
    style.write(left, 36, 0.45, "- - debiased GD")
    style.write(left, 36, 0.38, "— vanilla GD", style.COLOURS["gd"])
    style.write(left, 30, 0.06, "optimal ridge (Bayes)")
    style.write(right, 42, 2.6, "two heads", style.COLOURS[2])
    style.write(right, 45, -1.5, "vanilla GD", style.COLOURS["gd"])
    style.write(right, two.lengths[-1], -0.25, "debiased GD", ha="right")
    return fig
