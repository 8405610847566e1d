"""Statistics of sections 8 and 9.3 on a model's estimates by layer, null models that must be beaten, and the power of so few models (section 8.5.4).

Estimates are ``(n, L + 1)`` (:func:`.readout.estimates`), targets ``(n,)``; ``r_l = y* - yhat_l`` and ``dy_l = yhat_{l+1} - yhat_l``.
"""

import itertools
from typing import NamedTuple

import numpy as np
from scipy import stats

from ...draw import numpy_rng

Array = np.ndarray
#: Residuals are clipped here before their logarithm is taken; unstated.
CLIP = 1e-3
#: Draws of a null model; simulated ladders of models.
DRAWS, LADDERS = 200, 4000


class Alignment(NamedTuple):
    """Statistics of one model, as the paper takes them: pooled over prompts and layers. Numbers, or of many models arrays.

    Attributes:
        slope: alpha of the affine fit ``dy = alpha r + c``.
        r2: squared correlation of dy and r.
        signs: share of updates with the residual's sign; updates and residuals of exactly 0 do not count.
        reduction: MAE_0 - MAE_L, the "error reduction" ER.
        remaining: MAE_L / MAE_0.
        depth_rank: Spearman correlation of depth and -MAE_l.
        rho_pred: 1 - alpha.
        rho_obs: exp of the slope of log |r_l| on l.
        contracting: share of prompts whose own slope of log |r_l| is negative.
    """

    slope: float
    r2: float
    signs: float
    reduction: float
    remaining: float
    depth_rank: float
    rho_pred: float
    rho_obs: float
    contracting: float


def errors(estimate: Array, target: Array) -> Array:
    """Mean absolute error by layer, ``(L + 1,)``."""
    return np.abs(target[:, None] - estimate).mean(0)


def alignment(estimate: Array, target: Array, clip: float = CLIP) -> Alignment:
    """The statistics; those that a constant read-out leaves undefined are 0 (slopes, r^2, ranks) or 1/2 (signs)."""
    return Alignment(*(float(value[0]) for value in alignments(np.asarray(estimate)[None], target, clip)))


def alignments(estimates: Array, target: Array, clip: float = CLIP) -> Alignment:
    """The statistics ``(S,)`` of many models' estimates ``(S, n, L + 1)`` of the same targets ``(n,)``, or each of its own ``(S, n)``."""
    estimates, target = np.asarray(estimates, np.float64), np.asarray(target, np.float64)
    r = target[..., None] - estimates
    dy, before = (part.reshape(len(r), -1) for part in (np.diff(estimates, axis=-1), r[..., :-1]))
    spread, moved = before.var(1), dy.var(1)
    centred = [part - part.mean(1, keepdims=True) for part in (before, dy)]
    together = (centred[0] * centred[1]).mean(1)
    counted = (dy != 0) & (before != 0)
    alike = ((np.sign(dy) == np.sign(before)) & counted).sum(1)
    mae = np.abs(r).mean(1)
    slopes = depth_slopes(r, clip)
    slope = _over(together, spread)
    return Alignment(
        slope=slope,
        r2=_over(together**2, spread * moved),
        signs=_over(alike, counted.sum(1), otherwise=0.5),
        reduction=mae[:, 0] - mae[:, -1],
        remaining=mae[:, -1] / mae[:, 0],
        depth_rank=_depth_ranks(mae),
        rho_pred=1 - slope,
        rho_obs=np.exp(slopes.mean(1)),
        contracting=(slopes < 0).mean(1),
    )


def _over(part: Array, whole: Array, otherwise: float = 0.0) -> Array:
    """Ratios, or ``otherwise`` where the whole is not positive."""
    return np.divide(part, whole, out=np.full(len(whole), otherwise), where=whole > 0)


def _depth_ranks(mae: Array) -> Array:
    """Spearman's correlation of depth and ``-mae (S, L + 1)``, 0 where all are equal; scipy's adds a p-value, which takes most of its time."""
    depth, ranks = (
        part - part.mean(-1, keepdims=True) for part in (np.arange(mae.shape[1]), stats.rankdata(-mae, axis=-1))
    )
    together = ranks @ depth
    return _over(together, np.sqrt((ranks**2).sum(1) * (depth @ depth)))


def depth_slopes(r: Array, clip: float = CLIP) -> Array:
    """Slope of ``log max(|r_l|, clip)`` on the layer, of every prompt: ``(..., n, L + 1) -> (..., n)``. Their mean is the pooled slope."""
    layer = np.arange(r.shape[-1]) - (r.shape[-1] - 1) / 2
    return np.log(np.maximum(np.abs(r), clip)) @ layer / (layer @ layer)


def curvature_correlation(estimate: Array, target: Array, x: Array) -> float:
    """Correlation of a prompt's own rate with its Gram sum ``a = sum_i x_i^2``, x ``(n, k)`` (section 8.4, caveat iii)."""
    rate = np.exp(depth_slopes(np.asarray(target)[:, None] - np.asarray(estimate, np.float64)))
    gram = (np.asarray(x, np.float64) ** 2).sum(1)
    return float(np.corrcoef(rate, gram)[0, 1])


# -- null models -------------------------------------------------------------------------------------------------------


def noise_around_prior(estimate: Array, target: Array, draws: int = DRAWS) -> Alignment:
    """Read-outs that know nothing of the prompt: at each layer independent normal numbers with the mean and the deviation of the true ones, cut off at 0 and 9."""
    rng = numpy_rng(0)
    mean, deviation = estimate.mean(0), estimate.std(0)
    noise = mean + deviation * rng.standard_normal((draws, *estimate.shape))
    return alignments(np.clip(noise, 0, 9), target)


def exceeds(value: float, null: Array) -> float:
    """One-sided p of a value among draws of a null ``(draws,)``, never 0: ``(1 + draws at least as large) / (1 + draws)``."""
    return float((1 + (null >= value).sum()) / (1 + len(null)))


# -- surprisal by layer (section 8.2), heads and sinks (sections 9.3 and 9.4) ------------------------------------------------------------


class Contraction(NamedTuple):
    """Fit of ``log e_l = c + l log rho``, e the mean surprisal by layer: rate by layer, R^2 of the straight line in the logarithm (of a constant 0), and share of
    layers that lower e."""

    rho: float
    r2: float
    monotone: float


def contraction(surprisal: Array) -> Contraction:
    """From surprisals ``(n, L + 1)``."""
    e = np.asarray(surprisal, np.float64).mean(0)
    layer, log = np.arange(len(e)), np.log(np.maximum(e, 1e-12))
    slope, shift = np.polyfit(layer, log, 1)
    left, total = ((log - slope * layer - shift) ** 2).sum(), ((log - log.mean()) ** 2).sum()
    r2 = float(1 - left / total) if total > 1e-20 else 0.0
    return Contraction(float(np.exp(slope)), r2, float((np.diff(e) < 0).mean()))


def causal_heads(effect: Array, percentile: float = 95.0) -> Array:
    """Heads ``(k, 2)`` (layer, head) whose effect ``(L, H)`` lies above the percentile of all heads (section 9.3): by construction about 5 % of them, whatever
    the model does."""
    return np.argwhere(effect > np.percentile(effect, percentile))


def late_over_early(sink: Array, parts: int) -> float:
    """Mean sink ``(L, H)`` of the last part of the layers over that of the first (section 9.4; thirds are a reading, halves the other)."""
    by_layer = np.asarray(sink, np.float64).mean(1)
    part = max(1, len(by_layer) // parts)
    return float(by_layer[-part:].mean() / by_layer[:part].mean())


# -- what so few models can show (section 8.5.4) ----------------------------------------------------------------------------------------

#: Features of the early checkpoint among which the paper reports the best.
FEATURES = 4


def spearman_exact_p(rho: float, n: int) -> float:
    """Two-sided p of Spearman's correlation from all n! orders (n up to 9), at the attainable value nearest to ``rho``."""
    orders = np.array(list(itertools.permutations(range(n))))
    values = 1 - 6 * ((orders - np.arange(n)) ** 2).sum(1) / (n * (n * n - 1))
    nearest = values[np.abs(values - rho).argmin()]
    return float((np.abs(values) >= abs(nearest) - 1e-9).mean())


def skill(feature: Array, target: Array) -> Array:
    """Leave-one-out skill ``1 - SSE / SSE_mean`` of a straight line, against the mean of the others; ``(..., n) -> (...)``."""
    x, y = np.asarray(feature, np.float64), np.asarray(target, np.float64)
    n = x.shape[-1]
    dx, dy = x - x.mean(-1, keepdims=True), y - y.mean(-1, keepdims=True)
    square = (dx**2).sum(-1, keepdims=True)
    leverage = 1 / n + dx**2 / square
    line = (dy - (dx * dy).sum(-1, keepdims=True) / square * dx) / (1 - leverage)
    mean = dy * n / (n - 1)
    return 1 - (line**2).sum(-1) / (mean**2).sum(-1)


class Power(NamedTuple):
    """Power of a ladder of n models whose feature and target correlate by ``r``: share of ladders whose Pearson correlation has p below 0.05; the same of the largest
    of :data:`FEATURES` independent features with the same correlation, uncorrected; mean width of Fisher's 95 % interval; median leave-one-out skill."""

    significant: float
    best: float
    width: float
    skill: float


def power(n: int, r: float) -> Power:
    """Power of n models, from simulated ladders with normal numbers."""
    rng = numpy_rng(0)
    target = rng.standard_normal((LADDERS, 1, n))
    feature = r * target + np.sqrt(1 - r * r) * rng.standard_normal((LADDERS, FEATURES, n))
    pearson = stats.pearsonr(feature, target, axis=-1)
    half = 1.96 / np.sqrt(n - 3)
    centre = np.arctanh(pearson.statistic[:, 0])
    width = np.tanh(centre + half) - np.tanh(centre - half)
    return Power(
        float((pearson.pvalue[:, 0] < 0.05).mean()),
        float((pearson.pvalue.min(1) < 0.05).mean()),
        float(width.mean()),
        float(np.median(skill(feature[:, 0], target[:, 0]))),
    )
