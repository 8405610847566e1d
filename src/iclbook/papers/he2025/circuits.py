"""Two numbers per head: their patterns, how they are read from trained circuits, and how far these are from that form (He et al. 2025, Findings 1, 2).

A head is a dummy when both abs(omega) and abs(mu) are below :data:`DUMMY` times the model's largest. NaN (a diverged run) counts as no pattern.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...statistics import Estimate, median_error
from ...store import Results
from .loss import Array

Records = dict[str, Any]
#: Share of training, at its end, over which settled values are averaged: Adam's single iterates fluctuate.
SETTLED = 0.1


# -- patterns of (omega, mu): Key Findings 1, 2 and 4 -----------------------------------------------------------------

#: A head this small against the largest, in both omega and mu, is called a dummy.
DUMMY = 0.05


def active_heads(omega: ArrayLike, mu: ArrayLike) -> Array:
    """Heads that are not dummies, bool (..., H)."""
    omega, mu = np.abs(omega), np.abs(mu)
    return (omega > DUMMY * omega.max(axis=-1, keepdims=True)) | (mu > DUMMY * mu.max(axis=-1, keepdims=True))


def sign_matched(omega: Array, mu: Array) -> Array:
    """Whether every active head has sign(omega) = sign(mu), bool (...)."""
    matched = ~active_heads(omega, mu) | (omega * mu > 0)
    return matched.all(axis=-1) & np.isfinite(omega * mu).all(axis=-1)


def one_sided(omega: Array, mu: Array) -> Array:
    """Whether all active heads have one sign, which is that of omega, bool (...)."""
    active = active_heads(omega, mu)
    return np.any(active & (omega > 0), -1) ^ np.any(active & (omega < 0), -1)


def zero_sum(mu: ArrayLike) -> Array:
    """|sum mu| / sum |mu|, (...): 0 when the heads cancel, 1 when all have one sign."""
    mu = np.asarray(mu, dtype=np.float64)
    return np.abs(mu.sum(axis=-1)) / np.abs(mu).sum(axis=-1)


def scale_spread(omega: Array, mu: Array) -> Array:
    """(max - min)/max of |omega| over the active heads, (...): 0 when the KQ scaling is homogeneous."""
    active, size = active_heads(omega, mu), np.abs(omega)
    top = np.max(np.where(active, size, -np.inf), axis=-1)
    low = np.min(np.where(active, size, np.inf), axis=-1)
    with np.errstate(invalid="ignore"):
        return (top - low) / top


def weighted_spread(omega: Array, mu: Array) -> Array:
    """Standard deviation of |omega| over its mean gamma, heads weighted by |mu|, (...): a head that fades out of the predictor fades out of it, too."""
    weights = np.abs(mu) / np.abs(mu).sum(axis=-1, keepdims=True)
    gamma = (weights * np.abs(omega)).sum(axis=-1, keepdims=True)
    return np.sqrt((weights * (np.abs(omega) / gamma - 1) ** 2).sum(axis=-1))


def mismatch(omega: Array, mu: Array) -> Array:
    """Share of sum |mu omega| in heads with sign(omega) != sign(mu), (...)."""
    product = mu * omega
    return np.where(product < 0, -product, 0.0).sum(axis=-1) / np.abs(product).sum(axis=-1)


def first_kept(steps: Array, holds: Array) -> Array:
    """First recorded step from which ``holds`` (T, ...) stays true to the end, float (...); NaN if it is false at the end."""
    kept = np.flip(np.logical_and.accumulate(np.flip(holds, axis=0), axis=0), axis=0)
    return np.where(kept[-1], steps[np.argmax(kept, axis=0)], np.nan)


def effective_pair(omega: Array, mu: Array) -> tuple[Array, Array, Array]:
    """(gamma, mu_+, mu_-): the two-head form ("Equivalent to Two-Head Form"); gamma = sum |mu omega| / sum |mu|, each of shape (...)."""
    gamma = np.sum(np.abs(mu * omega), axis=-1) / np.sum(np.abs(mu), axis=-1)
    return gamma, np.sum(np.where(omega > 0, mu, 0.0), axis=-1), np.sum(np.where(omega < 0, mu, 0.0), axis=-1)


# -- trained circuits ----------------------------------------------------------------------------------------------------


def by_reading(figure: str) -> Callable[[Callable[[Any], Records]], Callable[[Mapping[str, Any]], Records]]:
    """Decorator: from ``{NAME: value}`` of heads to ``{figure/READING/NAME: value}`` of the heads of every reading of the score scale."""

    def decorate(values: Callable[[Any], Records]) -> Callable[[Mapping[str, Any]], Records]:
        def records(of: Mapping[str, Any]) -> Records:
            return {f"{figure}/{reading}/{k}": v for reading in of for k, v in values(of[reading]).items()}

        return wraps(values)(records)

    return decorate


class Heads(NamedTuple):
    """Two numbers per head ``(T, R, H)`` at ``steps`` ``(T,)``: mean diagonal of KQ's top ``d x d`` block, the score scale included, and last entry of OV; and
    the norm of all else in KQ's effective columns and in OV's row, over that of (omega I; 0) and over abs(mu)."""

    steps: Array
    omega: Array
    mu: Array
    kq_deviation: Array
    ov_deviation: Array

    def settled(self, values: Array) -> Array:
        """Mean of ``values`` ``(T, ...)`` over the end of training."""
        return settled(self.steps, values)

    @property
    def active(self) -> Array:
        """``(R, H)`` heads that are not dummies at the end, by their settled omega and mu: single iterates of a dummy fluctuate."""
        return active_heads(self.settled(self.omega), self.settled(self.mu))

    @property
    def one_sided(self) -> Array:
        """``(R,)`` runs whose active heads end with one sign."""
        return one_sided(self.settled(self.omega), self.settled(self.mu))

    @property
    def pairs(self) -> Array:
        """``(R,)`` runs that end with heads of both signs, none of which diverged. Where there is none, as in short trainings, all count."""
        found = ~self.one_sided & np.isfinite(self.mu[-1]).all(-1)
        return found if found.any() else np.ones_like(found)

    @property
    def gamma(self) -> Array:
        """``(T, R)`` the common abs(omega): mean over the heads, weighted by abs(mu)."""
        return effective_pair(self.omega, self.mu)[0]

    @property
    def positive_mu(self) -> Array:
        """``(T, R)`` sum of mu over the positive heads."""
        return effective_pair(self.omega, self.mu)[1]

    def patterned(self, bound: float) -> Array:
        """``(T, R)`` whether both deviations are below ``bound`` in all heads that end as no dummies."""
        worst = np.maximum(self.kq_deviation, self.ov_deviation)
        return np.where(self.active[None], worst, 0.0).max(-1) < bound


def settled(steps: Array, values: Array) -> Array:
    """Mean of ``values`` ``(T, ...)`` over the last :data:`SETTLED` of the training, at evenly spaced records."""
    late = steps >= (1 - SETTLED) * steps[-1]
    return np.asarray(values)[late].mean(0)


def read_heads(group: Mapping[str, Array], scale: float = 1.0) -> Heads:
    """Heads of a single-task group, its ``steps`` ``(T,)`` with ``kq`` ``(T, R, H, D, D)`` and ``ov`` ``(T, R, H, 1, D)``, or with ``omega`` and ``mu``
    ``(T, R, H)`` of a reduced model; ``scale`` is the model's factor on its scores."""
    steps = group["steps"]
    if "omega" in group:
        omega, mu = group["omega"].astype(float), group["mu"].astype(float)
        return Heads(steps, omega, mu, np.zeros_like(omega), np.zeros_like(mu))
    kq, row = scale * group["kq"].astype(float), group["ov"].astype(float)[..., 0, :]
    d = kq.shape[-1] - 1
    omega = np.trace(kq[..., :d, :d], axis1=-2, axis2=-1) / d
    # the last column meets the query's zero
    residual = kq[..., :d] - omega[..., None, None] * np.eye(d + 1, d)
    with np.errstate(divide="ignore", invalid="ignore"):
        kq_deviation = np.linalg.norm(residual, axis=(-2, -1)) / (np.abs(omega) * math.sqrt(d))
        ov_deviation = np.linalg.norm(row[..., :d], axis=-1) / np.abs(row[..., d])
    return Heads(steps, omega, row[..., d], kq_deviation, ov_deviation)


def read_sides(group: Mapping[str, Array], scale: float = 1.0) -> Heads:
    """The heads of each sign merged into one, sum_h mu_h KQ_h and sum_h OV_h over those that end with it, of the runs that end with both signs.

    The loss sees a side's sum, to first order in gamma: what single heads of one side have beside omega I may cancel in it.
    """
    positive = read_heads(group).omega[-1] > 0  # (R, H)
    both = positive.any(1) & ~positive.all(1)
    kq, ov = (group[name][:, both].astype(float) for name in ("kq", "ov"))  # (T, R, H, D, D), (T, R, H, 1, D)
    side = np.stack([positive, ~positive], 1)[both].astype(float)  # (R, 2, H)
    mu = np.einsum("rsh,trh->trs", side, ov[..., 0, -1])
    with np.errstate(divide="ignore", invalid="ignore"):
        merged = np.einsum("rsh,trh,trhij->trsij", side, ov[..., 0, -1], scale * kq) / mu[..., None, None]
    rows = np.einsum("rsh,trhnj->trsnj", side, ov)
    return read_heads({"steps": group["steps"], "kq": merged, "ov": rows})


def read_counts(
    results: Results, scale: float = 1.0, read: Callable[..., Heads] = read_heads, **labels: Any
) -> dict[int, Heads]:
    """Heads by their number ``n_heads``, of the groups with these other ``labels``; with ``read=read_sides`` those of each sign merged."""
    return {n_heads: read(group, scale) for n_heads, group in results.by("n_heads", **labels).items()}


def with_both_signs(results: Results) -> Results:
    """Results without the runs of several heads that end with one sign: what the paper says of pairs is asked of pairs."""
    arrays = dict(results.arrays)
    for name in [key[:-3] for key, kq in arrays.items() if key.endswith("/kq") and kq.shape[2] > 1]:
        group = results.group(name)
        kept = read_heads(group).pairs
        arrays |= {f"{name}/{key}": values[:, kept] for key, values in group.items() if values.ndim > 1}
    return replace(results, arrays=arrays)


def code_scale(d: int, n_tasks: int = 1) -> float:
    """The published code's factor on scores, 1/sqrt(d + N)."""
    return 1 / math.sqrt(d + n_tasks)


def typical(*groups: Array) -> Estimate:
    """Median over the runs of all groups ``(R,)`` that have a value: the typical run, which no outlying one decides."""
    runs = np.concatenate(groups)
    runs = runs[np.isfinite(runs)]
    return Estimate(float(np.median(runs)), median_error(runs))


def largest_ratio(groups: list[Array]) -> Estimate:
    """Largest over smallest mean of groups of runs; which two these are is taken as given."""
    means = [np.mean(group) for group in groups]
    return Estimate.runs(groups[int(np.argmax(means))]) / Estimate.runs(groups[int(np.argmin(means))])
