"""Which predictor trained heads compute: Figures 2.4 and 2.5, Key Finding 3 and the two-head form of He et al. (2025)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure

from ...claims import printed
from ...drawing import style
from ...models import attend
from ...statistics import Estimate
from ...store import Results
from . import predictors
from .circuits import Heads, Records, each_run, effective_pair, mean_of, over_blocks, read_heads, run_sd
from .loss import Array, manifold_mu
from .predictors import Prompts
from .runs import PAPER_HEADS

# -- errors by context length: Figures 2.4 and 2.5 ----------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """ICL error of a model against context length, each ``(n,)``.

    Attributes:
        mean: over its runs.
        seeds: standard error of the mean, from how the runs differ.
        prompts: that from the prompts, which are common to all runs and models.
    """

    mean: Array
    seeds: Array
    prompts: Array

    def at(self, i: int) -> Estimate:
        """The error at the ``i``-th length. Of a ratio of two curves at one length its error is an upper bound: prompts are common."""
        return Estimate(float(self.mean[i]), float(np.hypot(self.seeds[i], self.prompts[i])))


def read_curve(results: Results, name: str, like: str = "h2") -> Curve:
    """A group's curve; a single run is taken to vary as those of ``like``, by the same share."""
    errors = results[f"{name}/error"]  # (n, R)
    many = errors if errors.shape[1] > 1 else results[f"{like}/error"]
    mean = errors.mean(1)
    seeds = many.std(1, ddof=1) / many.mean(1) * mean / np.sqrt(errors.shape[1])
    return Curve(mean, seeds, results[f"{name}/error_se"].mean(1))


@dataclass(frozen=True)
class Curves:
    """ICL errors at common lengths ``(n,)``: of softmax attention by number of heads, and of linear attention."""

    lengths: Array
    heads: Mapping[int, Curve]
    linear: Curve

    def index(self, length: int) -> int:
        """The index of a length."""
        return list(self.lengths).index(length)


def read_curves(results: Results, counts: Iterable[int]) -> Curves:
    """All curves of the isotropic study for these numbers of heads."""
    heads = {h: read_curve(results, f"h{h}") for h in counts}
    return Curves(results["h2/lengths"], heads, read_curve(results, "linear"))


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
        found[h] = abs(mean_of(apart[worst]))
    known = max(e.error for e in found.values())
    return {h: Estimate(e.value, e.error or known) for h, e in found.items()}


def length_records(results: Results, curves: Curves, L: int) -> Records:
    """Figure 2.4, and eight heads, which the paper does not show."""
    apart = multi_spread(results, [h for h in curves.heads if h > 2])
    papers = [apart[h] for h in apart if h in PAPER_HEADS]
    far, near = curves.index(100), curves.index(L)
    ratios = [curve.at(far) / curve.at(near) for curve in curves.heads.values()]
    values: Records = {
        "fig2.4/multi_spread": Estimate([e.value for e in papers], [e.error for e in papers]),
        "fig2.4/single_over_two": curves.heads[1].at(near) / curves.heads[2].at(near),
        "fig2.4/length_ratio": Estimate([r.value for r in ratios], [r.error for r in ratios]),
    }
    return values | ({"eight/error_gap": apart[8]} if 8 in apart else {})


def code_values(curves: Curves, results: Results) -> Records:
    """Our errors over those that the published code prints; the error is that of ours."""
    says = printed("he2025")
    values: Records = {}
    for name, prints in (("h1", says["code/one_head"]), ("h2", says["code/two_heads"])):
        curve = read_curve(results, f"code_{name}")
        ours = [curve.at(curves.index(n)) / by for n, by in zip(says["code/lengths"], prints, strict=True)]
        values[f"codevalues/{name}_ratio"] = Estimate([r.value for r in ours], [r.error for r in ours])
    return values


@dataclass(frozen=True)
class Estimators:
    """Errors at every length ``(n,)``: of gradient descent with the rates best at the training length, and of ridge with its standard error."""

    debiased: Array
    vanilla: Array
    bayes: Array
    bayes_error: Array


def estimators(lengths: Array, d: int, L: int, noise_var: float) -> Estimators:
    """One step of gradient descent in closed form; ridge by drawing covariates."""
    eta_d = predictors.debiased_gd_best_eta(d, L, noise_var)
    eta_v = predictors.vanilla_gd_best_eta(d, L, noise_var)
    bayes = np.array([predictors.ridge_error(d, int(n), noise_var, draws=4000) for n in lengths])  # (n, 2)
    return Estimators(
        predictors.debiased_gd_error(eta_d, d, lengths, noise_var),
        predictors.vanilla_gd_error(eta_v, d, lengths, noise_var),
        *bayes.T,
    )


def estimator_records(curves: Curves, by: Estimators, d: int, L: int, noise_var: float) -> Records:
    """Figure 2.5 and Theorem 1.3 at the paper's own size; the errors of gradient descent are exact."""
    two, near = curves.heads[2], curves.index(L)
    bayes = Estimate(by.bayes, by.bayes_error)
    values: Records = {}
    for name, gd in (("debiased", by.debiased), ("vanilla", by.vanilla)):
        gap = np.abs(two.mean / gd - 1)
        i = int(gap.argmax())
        values[f"fig2.5/{name}_gap"] = Estimate(float(gap[i]), float(two.at(i).error / gd[i]))
    values["fig2.5/ridge_ratio"] = Estimate(two.mean, np.hypot(two.seeds, two.prompts)) / bayes
    values["fig2.5/single_gap"] = float(np.abs(curves.heads[1].mean / by.debiased - 1).max())
    values["fig2.5/ridge_bound_40"] = float(predictors.theorem_bound(d / L, noise_var))
    at_near = Estimate(float(by.bayes[near]), float(by.bayes_error[near]))
    return values | {"bayesfinite/ratio": Estimate(float(by.debiased[near]), 0.0) / at_near}


# -- predictions, prompt by prompt: Key Finding 3 -----------------------------------------------------------------------


@dataclass(frozen=True)
class Predictions:
    """Predictions on common prompts.

    Attributes:
        heads: number of heads -> ``(R, B)``, from final circuits.
        pairs: number of heads -> ``(R, B)``, all heads of one sign merged into one.
        debiased, vanilla: ``(B,)`` one step of gradient descent.
    """

    heads: Mapping[int, Array]
    pairs: Mapping[int, Array]
    debiased: Array
    vanilla: Array


#: Prompts of a block: what attention makes of them stays in a core's cache.
BLOCK = 512


def attended(kq: Array, ov: Array, prompts: Prompts, activation: str = "softmax") -> Array:
    """Predictions ``(R, B)`` in double precision from the circuits of runs, ``kq (R, H, D, D)`` and ``ov (R, H, 1, D)``, a block of prompts at a time."""
    runs = list(zip(*(torch.tensor(values).double() for values in (kq, ov)), strict=True))
    found = np.empty((len(runs), len(prompts.x_q)))
    for start in range(0, len(prompts.x_q), BLOCK):
        some = slice(start, start + BLOCK)
        pairs = np.concatenate([prompts.x[some], prompts.y[some, :, None]], -1)  # (b, L, D)
        tokens = torch.tensor(np.ascontiguousarray(pairs.transpose(1, 2, 0)))
        query = torch.tensor(prompts.x_q[some]).T
        for run, yhat in zip(runs, found, strict=True):
            yhat[some] = attend(*run, tokens, query, activation)[0].numpy()
    return found


def predict(results: Results, heads: Mapping[int, Heads], prompts: Prompts) -> Predictions:
    """Every run's predictions beside those of its effective pair and of gradient descent."""
    found, pairs, prompt = {}, {}, (prompts.x, prompts.y, prompts.x_q)
    for h, of in heads.items():
        found[h] = attended(results[f"h{h}/kq"][-1], results[f"h{h}/ov"][-1], prompts)
        effective = zip(*effective_pair(of.omega[-1], of.mu[-1]), strict=True)  # gamma, mu_+, mu_- of each run
        pairs[h] = np.stack([predictors.softmax_predictor([g, -g], [p, m], *prompt) for g, p, m in effective])
    return Predictions(found, pairs, predictors.debiased_gd(1.0, *prompt), predictors.vanilla_gd(1.0, *prompt))


def unexplained(yhat: Array, gd: Array) -> float:
    """Share of the variance of predictions ``(B,)`` that a multiple of ``gd`` leaves unexplained."""
    return float(1 - np.dot(yhat, gd) ** 2 / np.dot(gd, gd) / np.dot(yhat, yhat))


def unlike_pair(yhat: Array, pair: Array) -> float:
    """Share of the predictions' mean square that their pair misses."""
    return float(np.mean((yhat - pair) ** 2) / np.mean(yhat**2))


def _difference(yhat: Array, vanilla: Array, debiased: Array) -> float:
    return unexplained(yhat, vanilla) - unexplained(yhat, debiased)


def _both(by_run: Mapping[int, list[float]], prompts: float, vary: Mapping | None = None) -> Estimate:
    """Every run's value with its error: how runs differ (in ``vary``, where another quantity says so), and how prompts do."""
    runs = run_sd(*(vary or by_run).values())
    return Estimate(each_run(*by_run.values()).value, float(np.hypot(runs, prompts)))


def predictor_records(found: Predictions) -> Records:
    """Key Finding 3 and the two-head form, a value per run; the error of vanilla's is that of its difference to debiased's, run by run."""
    debiased, vanilla = (
        {h: [unexplained(yhat, gd) for yhat in runs] for h, runs in found.heads.items()}
        for gd in (found.debiased, found.vanilla)
    )
    apart = {h: np.subtract(vanilla[h], debiased[h]) for h in vanilla}
    more = {
        h: [unlike_pair(*both) for both in zip(found.heads[h], found.pairs[h], strict=True)]
        for h in found.heads
        if h > 2
    }
    first, last = found.heads[min(found.heads)][0], max(more)
    of_difference = over_blocks(_difference, first, found.vanilla, found.debiased)
    of_pair = over_blocks(unlike_pair, found.heads[last][0], found.pairs[last][0])
    return {
        "kf3/unexplained": _both(debiased, over_blocks(unexplained, first, found.debiased)),
        "kf3/unexplained_vanilla": _both(vanilla, of_difference, apart),
        "twohead/unexplained": _both(more, of_pair),
    }


def scale_records(heads: Mapping[int, Heads], d: int, L: int, noise_var: float) -> Records:
    """gamma against one head's scale (every H), and the sum of positive mu against the manifold's (H above 2); means over runs."""
    gamma = {h: of.settled(of.gamma) for h, of in heads.items()}  # each (R,)
    mu = {h: of.settled(of.positive_mu) for h, of in heads.items()}
    means = [mean_of(g) * np.sqrt(d) for g in gamma.values()]
    more = [h for h in heads if h > 2]
    ratios = [mean_of(mu[h] / manifold_mu(gamma[h], d, L, noise_var)).error for h in more]
    of_means = [float(mu[h].mean() / manifold_mu(gamma[h].mean(), d, L, noise_var)) for h in more]
    return {
        "kf3/gamma_ratio": Estimate([m.value for m in means], [m.error for m in means]),
        "twohead/mu_ratio": Estimate(of_means, ratios),
    }


# -- drawing ------------------------------------------------------------------------------------------------------------


def plot_error_by_length(curves: Curves, trained: int) -> Figure:
    """Figure 2.4: ICL error against context length for each head count, mean over seeds, and what the published code prints; right, over that of two heads."""
    fig, (ax, ratio) = style.figure(2, height=3.1)
    lengths, two = curves.lengths, curves.heads[2].mean
    for h, curve in curves.heads.items():
        look = {"marker": style.MARKERS[h], "color": style.COLOURS[h]}
        if h > 1:
            ratio.plot(lengths, curve.mean / two, ms=4, **look)
        ax.plot(lengths, curve.mean, label=f"H = {h}", ms=max(8 - h * 0.7, 3), alpha=0.9, **look)
    says = printed("he2025")
    for name in ("code/one_head", "code/two_heads"):
        ax.plot(says["code/lengths"], says[name], "x", color=style.COLOURS["paper"], ms=7, mew=1.8, zorder=5)
    ax.plot([], [], "x", color=style.COLOURS["paper"], label="printed (H = 1, 2)")
    ratio.set(xlabel="context length L", ylabel="error over that of H = 2", ylim=(0.97, 1.03))
    ax.axvline(trained, color=style.COLOURS["dummy"], lw=0.8, ls=":")
    place = {"xycoords": ("data", "axes fraction"), "xytext": (4, 6), "textcoords": "offset points"}
    ax.annotate("training length", (trained, 0), fontsize=8, **place)
    ax.set(xlabel="context length L", ylabel="ICL error", ylim=(0, None))
    ax.legend()
    return fig


def plot_estimators(curves: Curves, by: Estimators) -> Figure:
    """Figure 2.5: ICL error of two heads, of one step of gradient descent in both forms, and of ridge regression; right, over that of ridge."""
    fig, (left, right) = style.figure(2, height=3.0)
    for name, values, colour_of, line in (
        ("two heads", curves.heads[2].mean, 2, {"marker": "s", "ls": "none", "ms": 5}),
        ("vanilla GD", by.vanilla, "gd", {"lw": 1.8}),
        ("debiased GD", by.debiased, "debiased", {"lw": 1.8, "ls": "--"}),
        ("optimal ridge (Bayes)", by.bayes, "ridge", {"lw": 1.8}),
    ):
        left.plot(curves.lengths, values, color=style.COLOURS[colour_of], label=name, **line)
        right.plot(curves.lengths, values / by.bayes, color=style.COLOURS[colour_of], **line)
    left.set(xlabel="context length L", ylabel="ICL error", ylim=(0, None))
    right.set(xlabel="context length L", ylabel="error over that of ridge", ylim=(0.9, None))
    left.legend(fontsize=8)
    return fig
