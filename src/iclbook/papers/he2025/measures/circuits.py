"""From trained circuits to the two numbers per head, and how far the circuits are from that form."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ....store import Results
from .. import theory

#: Share of training, at its end, over which settled values are averaged: Adam's single iterates fluctuate.
SETTLED = 0.1


@dataclass(frozen=True)
class Heads:
    """What single-task circuits say of each head.

    Attributes:
        steps: ``(T,)`` recorded steps.
        omega: ``(T, R, H)`` mean diagonal of the top ``d x d`` block of KQ, the score scale included: the omega of the softmax.
        mu: ``(T, R, H)`` last entry of OV.
        kq_deviation: ``(T, R, H)`` Frobenius norm of the effective columns of KQ minus (omega I; 0), over that of (omega I; 0).
        ov_deviation: ``(T, R, H)`` norm of OV's row without its last entry, over abs(mu).
    """

    steps: np.ndarray
    omega: np.ndarray
    mu: np.ndarray
    kq_deviation: np.ndarray
    ov_deviation: np.ndarray

    @property
    def active(self) -> np.ndarray:
        """``(R, H)`` heads that are not dummies at the end, by their settled omega and mu: single iterates of a dummy fluctuate."""
        return theory.active_heads(self.settled(self.omega), self.settled(self.mu))

    def settled(self, values: np.ndarray) -> np.ndarray:
        """Mean of ``values`` ``(T, ...)`` over the end of training."""
        return settled(self.steps, values)

    @property
    def one_sided(self) -> np.ndarray:
        """``(R,)`` runs whose active heads end with one sign."""
        return theory.one_sided(self.settled(self.omega), self.settled(self.mu))

    @property
    def gamma(self) -> np.ndarray:
        """``(T, R)`` the common abs(omega): mean over the heads, weighted by abs(mu)."""
        return theory.effective_pair(self.omega, self.mu)[0]

    @property
    def positive_mu(self) -> np.ndarray:
        """``(T, R)`` sum of mu over the positive heads."""
        return np.where(self.omega > 0, self.mu, 0.0).sum(-1)

    def patterned(self, bound: float) -> np.ndarray:
        """``(T, R)`` whether both deviations are below ``bound`` in all heads that end as no dummies."""
        worst = np.maximum(self.kq_deviation, self.ov_deviation)
        return np.where(self.active[None], worst, 0.0).max(-1) < bound

    def worst(self, values: np.ndarray) -> np.ndarray:
        """``(T, R)`` largest of ``values`` over the heads that end as no dummies."""
        return np.where(self.active[None], values, -np.inf).max(-1)


def spread(values: np.ndarray) -> np.ndarray:
    """(max - min) / max along the last axis."""
    return (values.max(-1) - values.min(-1)) / values.max(-1)


def settled(steps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Mean of ``values`` ``(T, ...)`` over the last :data:`SETTLED` of the training, at evenly spaced records."""
    late = steps >= (1 - SETTLED) * steps[-1]
    return np.asarray(values)[late].mean(0)


def read_heads(group: Mapping[str, np.ndarray], scale: float = 1.0) -> Heads:
    """Heads of a single-task group.

    Args:
        group: ``steps`` ``(T,)`` with ``kq`` ``(T, R, H, D, D)`` and ``ov`` ``(T, R, H, 1, D)``, or with ``omega`` and ``mu`` ``(T, R, H)``
            of a reduced model.
        scale: the model's factor on its scores.
    """
    steps = group["steps"]
    if "omega" in group:
        omega, mu = group["omega"].astype(float), group["mu"].astype(float)
        return Heads(steps, omega, mu, np.zeros_like(omega), np.zeros_like(mu))
    kq, row = scale * group["kq"].astype(float), group["ov"].astype(float)[..., 0, :]
    d = kq.shape[-1] - 1
    omega = np.trace(kq[..., :d, :d], axis1=-2, axis2=-1) / d
    residual = kq[..., :d] - omega[..., None, None] * np.eye(
        d + 1, d
    )  # the last column meets the query's zero
    with np.errstate(divide="ignore", invalid="ignore"):
        kq_deviation = np.linalg.norm(residual, axis=(-2, -1)) / (np.abs(omega) * math.sqrt(d))
        ov_deviation = np.linalg.norm(row[..., :d], axis=-1) / np.abs(row[..., d])
    return Heads(steps, omega, row[..., d], kq_deviation, ov_deviation)


def read_counts(results: Results, d: int) -> tuple[dict[int, Heads], dict[int, Heads]]:
    """Softmax heads by their number, scores as printed and as the published code scales them."""
    names = {group for group, _, array in (key.partition("/") for key in results.arrays) if array == "kq"}
    counts = sorted(int(name[1:]) for name in names if re.fullmatch(r"h\d+", name))
    coded = [h for h in counts if f"code_h{h}" in names]
    return (
        {h: read_heads(results.group(f"h{h}")) for h in counts},
        {h: read_heads(results.group(f"code_h{h}"), code_scale(d)) for h in coded},
    )


def pairs(h: Heads) -> np.ndarray:
    """Which runs ``(R,)`` end with a head of each sign. Heads of one sign settle at another scale, which is not the gamma of a pair; where no run ends as a
    pair, as in short trainings, all count."""
    found = ~h.one_sided
    return found if found.any() else np.ones_like(found)


#: Groups of several heads that form pairs.
PAIRED = ("h2", "h3", "h4", "code_h2", "code_h3", "code_h4", "square", "tanh")


def with_both_signs(results: Results) -> Results:
    """The same results without the runs of :data:`PAIRED` groups that do not count among :func:`pairs`: what the paper says of pairs is asked of pairs."""
    arrays = dict(results.arrays)
    for name in PAIRED:
        if f"{name}/kq" not in arrays:
            continue
        kept = pairs(read_heads(results.group(name)))
        of_runs = {key: values for key, values in results.group(name).items() if values.ndim > 1}
        arrays |= {f"{name}/{key}": values[:, kept] for key, values in of_runs.items()}
    return replace(results, arrays=arrays)


def code_scale(d: int, n_tasks: int = 1) -> float:
    """The published code's factor on scores."""
    return 1 / math.sqrt(d + n_tasks)


@dataclass(frozen=True)
class MultiHeads:
    """What two-task circuits say of each head at the end of training.

    Attributes:
        omega: ``(R, H, d)`` diagonal of KQ's top block, the score scale included.
        mu: ``(R, H, N)`` diagonal of OV's response block.
        groups: feature indices of each group: own to task 1, shared, own to task 2.
        kq_deviation: ``(R, H)`` norm of KQ's effective columns without the diagonal, over that of the diagonal.
        ov_deviation: ``(R, H)`` norm of OV's read-out rows without the diagonal of its response block, over that of the diagonal.
    """

    omega: np.ndarray
    mu: np.ndarray
    groups: tuple[tuple[int, ...], ...]
    kq_deviation: np.ndarray
    ov_deviation: np.ndarray

    @property
    def active(self) -> np.ndarray:
        """``(R, H)`` heads that are not dummies, by the norms of omega and mu."""
        return theory.active_heads(np.linalg.norm(self.omega, axis=-1), np.linalg.norm(self.mu, axis=-1))

    def by_group(self) -> np.ndarray:
        """``(R, H, 3)`` mean omega of each feature group."""
        return np.stack([self.omega[..., list(g)].mean(-1) for g in self.groups], -1)

    def transfer(self) -> np.ndarray:
        """``(R, N, 3)`` sums over the heads of mu_n omega_S: the step size with which task n uses feature group S."""
        return np.einsum("rhn,rhs->rns", self.mu, self.by_group())


def read_multi_heads(
    group: Mapping[str, np.ndarray], supports: tuple[tuple[int, ...], ...], scale: float
) -> MultiHeads:
    """Settled heads of a two-task group with ``kq`` ``(T, R, H, D, D)`` and ``ov`` ``(T, R, H, N, D)``."""
    kq, ov = settled(group["steps"], group["kq"]), settled(group["steps"], group["ov"])
    d, n = kq.shape[-1] - ov.shape[-2], ov.shape[-2]
    first, second = map(set, supports)
    groups = tuple(tuple(sorted(s)) for s in (first - second, first & second, second - first))
    omega = scale * np.diagonal(kq[..., :d, :d], axis1=-2, axis2=-1)
    mu = np.diagonal(ov[..., :, d : d + n], axis1=-2, axis2=-1)
    kq_norm, ov_norm = (np.linalg.norm(m, axis=-1) for m in (omega, mu))
    kq_all, ov_all = scale * np.linalg.norm(kq[..., :d], axis=(-2, -1)), np.linalg.norm(ov, axis=(-2, -1))
    with np.errstate(divide="ignore", invalid="ignore"):
        kq_off = np.sqrt(np.maximum(kq_all**2 - kq_norm**2, 0)) / kq_norm
        ov_off = np.sqrt(np.maximum(ov_all**2 - ov_norm**2, 0)) / ov_norm
    return MultiHeads(omega, mu, groups, kq_off, ov_off)
