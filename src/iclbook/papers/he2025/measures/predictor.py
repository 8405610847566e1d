"""Which predictor trained heads of he2025 compute: errors by context length (Figures 2.4, 2.5, 4.1) and predictions, prompt by prompt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ....claims import printed
from ....models import attend
from ....statistics import standard_error
from ....store import Results
from ....tasks import LinearRegression
from .. import theory
from .circuits import Heads
from .sampling import mean_error, over_blocks, run_sd

Records = dict[str, Any]


@dataclass(frozen=True)
class Curve:
    """ICL error of a model against context length, each ``(n,)``.

    Attributes:
        mean: over its runs.
        seeds: standard error of the mean, from how the runs differ.
        prompts: that from the prompts, which are common to all runs and models.
    """

    mean: np.ndarray
    seeds: np.ndarray
    prompts: np.ndarray

    @property
    def error(self) -> np.ndarray:
        """Standard error of the mean."""
        return np.hypot(self.seeds, self.prompts)


def read_curve(results: Results, name: str, like: str = "h2") -> Curve:
    """A group's curve; a single run is taken to vary as those of ``like``, by the same share."""
    errors = results[f"{name}/error"]  # (n, R)
    many = errors if errors.shape[1] > 1 else results[f"{like}/error"]
    mean = errors.mean(1)
    seeds = many.std(1, ddof=1) / many.mean(1) * mean / np.sqrt(errors.shape[1])
    return Curve(mean, seeds, results[f"{name}/error_se"].mean(1))


def ratio_error(above: Curve, i: int, below: Curve, j: int) -> float:
    """Standard error of ``above.mean[i] / below.mean[j]``; at one length at most so much, because prompts are common."""
    parts = above.error[i] / above.mean[i], below.error[j] / below.mean[j]
    return float(above.mean[i] / below.mean[j] * np.hypot(*parts))


@dataclass(frozen=True)
class Curves:
    """ICL errors at common lengths ``(n,)``: of softmax attention by number of heads, and of linear attention."""

    lengths: np.ndarray
    heads: Mapping[int, Curve]
    linear: Curve

    @property
    def means(self) -> dict[int, np.ndarray]:
        """Mean over seeds, by number of heads."""
        return {h: curve.mean for h, curve in self.heads.items()}

    def at(self, length: int) -> int:
        """The index of a length."""
        return {int(n): i for i, n in enumerate(self.lengths)}[length]


def read_curves(results: Results, counts: Iterable[int]) -> Curves:
    """All curves of the isotropic study for these numbers of heads."""
    heads = {h: read_curve(results, f"h{h}") for h in counts}
    return Curves(results["h2/lengths"], heads, read_curve(results, "linear"))


def length_records(curves: Curves, L: int) -> Records:
    """Figure 2.4. Models are compared on common prompts, so between those of several heads only seeds differ."""
    many = [curve for h, curve in curves.heads.items() if h > 1]
    stack = np.stack([curve.mean for curve in many])
    ratio = stack.max(0) / stack.min(0)
    i = int(ratio.argmax())
    top, low = many[int(stack[:, i].argmax())], many[int(stack[:, i].argmin())]
    far, near = curves.at(100), curves.at(L)
    one, two = curves.heads[1], curves.heads[2]
    seeds = np.hypot(top.seeds[i] / top.mean[i], low.seeds[i] / low.mean[i])
    return {
        "fig2.4/multi_spread": float((ratio - 1).max()),
        "fig2.4/multi_spread_se": float(ratio[i] * seeds),
        "fig2.4/single_over_two": float(one.mean[near] / two.mean[near]),
        "fig2.4/single_over_two_se": ratio_error(one, near, two, near),
        "fig2.4/length_ratio": [float(c.mean[far] / c.mean[near]) for c in curves.heads.values()],
        "fig2.4/length_ratio_se": [ratio_error(c, far, c, near) for c in curves.heads.values()],
    }


def code_values(curves: Curves, results: Results) -> Records:
    """Our errors over those that the published code prints; the error is that of ours."""
    says = printed("he2025")
    at = [curves.at(n) for n in says["code/lengths"]]
    one, two = read_curve(results, "code_h1"), read_curve(results, "code_h2")
    single, pair = np.array(says["code/one_head"]), np.array(says["code/two_heads"])
    return {
        "codevalues/h1_ratio": (one.mean[at] / single).tolist(),
        "codevalues/h1_ratio_se": (one.error[at] / single).tolist(),
        "codevalues/h2_ratio": (two.mean[at] / pair).tolist(),
        "codevalues/h2_ratio_se": (two.error[at] / pair).tolist(),
    }


@dataclass(frozen=True)
class Estimators:
    """Errors at every length ``(n,)``: of gradient descent with the rates best at the training length, and of ridge with its standard error."""

    debiased: np.ndarray
    vanilla: np.ndarray
    bayes: np.ndarray
    bayes_error: np.ndarray


def estimators(lengths: np.ndarray, d: int, L: int, noise_var: float) -> Estimators:
    """One step of gradient descent in closed form; ridge by drawing covariates."""
    eta_d = theory.debiased_gd_best_eta(d, L, noise_var)
    eta_v = theory.vanilla_gd_best_eta(d, L, noise_var)
    bayes = np.array([theory.ridge_error(d, int(n), noise_var, draws=4000) for n in lengths])  # (n, 2)
    return Estimators(
        theory.debiased_gd_error(eta_d, d, lengths, noise_var),
        theory.vanilla_gd_error(eta_v, d, lengths, noise_var),
        bayes[:, 0],
        bayes[:, 1],
    )


def estimator_records(curves: Curves, by: Estimators, d: int, L: int, noise_var: float) -> Records:
    """Figure 2.5 and Theorem 1.3 at the paper's own size; the errors of gradient descent are exact."""
    two, near = curves.heads[2], curves.at(L)
    ridge = two.mean / by.bayes
    ridge_error = ridge * np.hypot(two.error / two.mean, by.bayes_error / by.bayes)
    gaps = {name: np.abs(two.mean / gd - 1) for name, gd in (("d", by.debiased), ("v", by.vanilla))}
    at = {name: int(gap.argmax()) for name, gap in gaps.items()}
    bayes_ratio = by.debiased[near] / by.bayes[near]
    return {
        "fig2.5/debiased_gap": float(gaps["d"].max()),
        "fig2.5/debiased_gap_se": float(two.error[at["d"]] / by.debiased[at["d"]]),
        "fig2.5/vanilla_gap": float(gaps["v"].max()),
        "fig2.5/vanilla_gap_se": float(two.error[at["v"]] / by.vanilla[at["v"]]),
        "fig2.5/ridge_ratio": ridge.tolist(),
        "fig2.5/ridge_ratio_se": ridge_error.tolist(),
        "fig2.5/single_gap": float(np.abs(curves.heads[1].mean / by.debiased - 1).max()),
        "fig2.5/ridge_bound_40": float(theory.theorem_bound(d / L, noise_var)),
        "bayesfinite/ratio": float(bayes_ratio),
        "bayesfinite/ratio_se": float(bayes_ratio * by.bayes_error[near] / by.bayes[near]),
    }


# -- predictions, prompt by prompt ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Predictions:
    """Predictions on common prompts.

    Attributes:
        heads: number of heads -> ``(R, B)``, from final circuits.
        pairs: number of heads -> ``(R, B)``, all heads of one sign merged into one.
        debiased, vanilla: ``(B,)`` one step of gradient descent.
    """

    heads: Mapping[int, np.ndarray]
    pairs: Mapping[int, np.ndarray]
    debiased: np.ndarray
    vanilla: np.ndarray


#: Prompts of a block: what attention makes of them stays in a core's cache.
BLOCK = 512


def attended(
    kq: np.ndarray, ov: np.ndarray, prompts: theory.Prompts, activation: str = "softmax"
) -> np.ndarray:
    """Predictions ``(R, B)`` in double precision from the circuits of runs, ``kq (R, H, D, D)`` and ``ov (R, H, 1, D)``, a block of prompts at a time."""
    runs = list(zip(*(torch.tensor(values).double() for values in (kq, ov)), strict=True))
    found = np.empty((len(runs), len(prompts.x_q)))
    for start in range(0, len(prompts.x_q), BLOCK):
        some = slice(start, start + BLOCK)
        pairs = np.concatenate([prompts.x[some], prompts.y[some, :, None]], -1)  # (b, L, D)
        tokens = pairs.transpose(1, 2, 0)
        tokens, query = torch.tensor(np.ascontiguousarray(tokens)), torch.tensor(prompts.x_q[some]).T
        for run, yhat in zip(runs, found, strict=True):
            yhat[some] = attend(*run, tokens, query, activation)[0].numpy()
    return found


def predict(results: Results, heads: Mapping[int, Heads], prompts: theory.Prompts) -> Predictions:
    """Every run's predictions beside those of its effective pair and of gradient descent."""
    found, pairs = {}, {}
    for h, of in heads.items():
        found[h] = attended(results[f"h{h}/kq"][-1], results[f"h{h}/ov"][-1], prompts)
        gamma, plus, minus = theory.effective_pair(of.omega[-1], of.mu[-1])  # each (R,)
        pairs[h] = np.stack(
            [
                theory.softmax_predictor([g, -g], [p, m], prompts.x, prompts.y, prompts.x_q)
                for g, p, m in zip(gamma, plus, minus, strict=True)
            ]
        )
    steps = (gd(1.0, prompts.x, prompts.y, prompts.x_q) for gd in (theory.debiased_gd, theory.vanilla_gd))
    return Predictions(found, pairs, *steps)


def unexplained(yhat: np.ndarray, gd: np.ndarray) -> float:
    """Share of the variance of predictions ``(B,)`` that a multiple of ``gd`` leaves unexplained."""
    return float(1 - np.dot(yhat, gd) ** 2 / np.dot(gd, gd) / np.dot(yhat, yhat))


def unlike_pair(yhat: np.ndarray, pair: np.ndarray) -> float:
    """Share of the predictions' mean square that their pair misses."""
    return float(np.mean((yhat - pair) ** 2) / np.mean(yhat**2))


def _difference(yhat: np.ndarray, vanilla: np.ndarray, debiased: np.ndarray) -> float:
    return unexplained(yhat, vanilla) - unexplained(yhat, debiased)


def _flat(by_run: Mapping[int, list[float]]) -> list[float]:
    return [value for values in by_run.values() for value in values]


def _both(by_run: Mapping[int, list[float]], prompts: float) -> float:
    """Standard error of one run's value: how runs differ, and how prompts do."""
    return float(np.hypot(run_sd(*by_run.values()), prompts))


def predictor_records(found: Predictions) -> Records:
    """Key Finding 3 and the two-head form, a value per run; the error of vanilla's is that of its difference to debiased's, run by run."""
    debiased, vanilla = (
        {h: [unexplained(yhat, gd) for yhat in runs] for h, runs in found.heads.items()}
        for gd in (found.debiased, found.vanilla)
    )
    apart = {h: np.subtract(vanilla[h], debiased[h]).tolist() for h in vanilla}
    more = {
        h: [unlike_pair(*both) for both in zip(found.heads[h], found.pairs[h], strict=True)]
        for h in found.heads
        if h > 2
    }
    first, last = found.heads[min(found.heads)][0], max(more)
    of_debiased = over_blocks(unexplained, first, found.debiased)
    of_difference = over_blocks(_difference, first, found.vanilla, found.debiased)
    of_pair = over_blocks(unlike_pair, found.heads[last][0], found.pairs[last][0])
    return {
        "kf3/unexplained": _flat(debiased),
        "kf3/unexplained_sd": _both(debiased, of_debiased),
        "kf3/unexplained_vanilla": _flat(vanilla),
        "kf3/unexplained_vanilla_sd": _both(apart, of_difference),
        "twohead/unexplained": _flat(more),
        "twohead/unexplained_sd": _both(more, of_pair),
    }


def scale_records(heads: Mapping[int, Heads], d: int, L: int, noise_var: float) -> Records:
    """gamma against one head's scale (every H), and the sum of positive mu against the manifold's (H above 2); means over runs."""
    gamma = {h: of.settled(of.gamma) for h, of in heads.items()}  # each (R,)
    mu = {h: of.settled(of.positive_mu) for h, of in heads.items()}
    more = [h for h in heads if h > 2]
    means = [mu[h].mean() / theory.manifold_mu(gamma[h].mean(), d, L, noise_var) for h in more]
    runs = [mu[h] / theory.manifold_mu(gamma[h], d, L, noise_var) for h in more]
    return {
        "kf3/gamma_ratio": (np.array([g.mean() for g in gamma.values()]) * np.sqrt(d)).tolist(),
        "kf3/gamma_ratio_se": [mean_error(g) * np.sqrt(d) for g in gamma.values()],
        "twohead/mu_ratio": [float(ratio) for ratio in means],
        "twohead/mu_ratio_se": [mean_error(ratios) for ratios in runs],
    }


# -- linear attention -------------------------------------------------------------------------------------------------


def frozen_linear(
    results: Results, lengths: np.ndarray, d: int, L: int, noise_var: float, dice: torch.Generator
) -> Curve:
    """Linear attention's first run with the training length in the place of the context's, on fresh prompts."""
    kq, ov = (torch.tensor(results[f"linear/{k}"][-1, 0]) for k in ("kq", "ov"))
    rows = []
    for n in lengths:
        longer = LinearRegression(d, int(n), noise_var)
        batch = longer.batch(torch.randn(longer.normals, 16_384, generator=dice))
        yhat = attend(kq, ov, batch.context, batch.query, "linear") * int(n) / L
        squared = (yhat - batch.target) ** 2
        rows.append((squared.mean().item(), float(standard_error(squared.double().ravel().numpy()))))
    mean, error = np.array(rows).T
    return Curve(mean, np.zeros_like(mean), error)


def linear_closed(linear: Heads, lengths: np.ndarray, d: int, L: int, noise_var: float) -> np.ndarray:
    """Error ``(n,)`` of linear attention in closed form, at the rate that training found."""
    rate = float(linear.settled(theory.effective_rate(linear.omega, linear.mu)).mean())
    return theory.linear_attention_error(rate, d, lengths, noise_var, train_L=L)


def linear_records(curves: Curves, frozen: Curve, L: int) -> Records:
    """Figure 4.1: errors at 100 examples over those at the training length, and linear over softmax attention."""
    far, near = curves.at(100), curves.at(L)
    linear, two = curves.linear, curves.heads[2]
    # the frozen factor scales the predictions of the other runs alike: they vary as those at the context's own length
    frozen = replace(frozen, seeds=linear.seeds / linear.mean * frozen.mean)
    return {
        "fig4.1/test/linear_ratio": float(linear.mean[far] / linear.mean[near]),
        "fig4.1/test/linear_ratio_se": ratio_error(linear, far, linear, near),
        "fig4.1/frozen/linear_ratio": float(frozen.mean[far] / frozen.mean[near]),
        "fig4.1/frozen/linear_ratio_se": ratio_error(frozen, far, frozen, near),
        "fig4.1/softmax_ratio": float(two.mean[far] / two.mean[near]),
        "fig4.1/softmax_ratio_se": ratio_error(two, far, two, near),
        "qlength/over_softmax": float(linear.mean[far] / two.mean[far]),
        "qlength/over_softmax_se": ratio_error(linear, far, two, far),
    }
