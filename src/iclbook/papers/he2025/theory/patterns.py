"""He et al. 2025, Key Findings 1, 2 and 4: measures of the patterns of (omega, mu), with their thresholds as arguments.

Inputs have shape (..., H). A head is a dummy when both |omega| and |mu| are below ``rel`` times the largest of the model; the other heads
are active. NaN (a diverged run) counts as no pattern.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .loss import Array, heads

#: A head this small against the largest, in both omega and mu, is called a dummy unless a caller says otherwise.
DUMMY = 0.05


def active_heads(omega: ArrayLike, mu: ArrayLike, rel: float = DUMMY) -> Array:
    """Heads that are not dummies, bool (..., H)."""
    omega, mu = np.abs(heads(omega, mu))
    return (omega > rel * omega.max(axis=-1, keepdims=True)) | (mu > rel * mu.max(axis=-1, keepdims=True))


def head_counts(omega: ArrayLike, mu: ArrayLike, rel: float = DUMMY) -> tuple[Array, Array, Array]:
    """Numbers of positive, negative and dummy heads, each (...); an active head's sign is that of omega."""
    omega, mu = heads(omega, mu)
    active = active_heads(omega, mu, rel)
    return np.sum(active & (omega > 0), -1), np.sum(active & (omega < 0), -1), np.sum(~active, -1)


def sign_matched(omega: ArrayLike, mu: ArrayLike, rel: float = DUMMY) -> Array:
    """Whether every active head has sign(omega) = sign(mu), bool (...)."""
    omega, mu = heads(omega, mu)
    return np.all(~active_heads(omega, mu, rel) | (omega * mu > 0), axis=-1) & np.isfinite(omega * mu).all(
        axis=-1
    )


def zero_sum(mu: ArrayLike) -> Array:
    """|sum mu| / sum |mu|, (...): 0 when the heads cancel, 1 when all have one sign."""
    mu = np.asarray(mu, dtype=np.float64)
    return np.abs(mu.sum(axis=-1)) / np.abs(mu).sum(axis=-1)


def scale_spread(omega: ArrayLike, mu: ArrayLike, rel: float = DUMMY) -> Array:
    """(max - min)/max of |omega| over the active heads, (...): 0 when the KQ scaling is homogeneous."""
    omega, mu = heads(omega, mu)
    active, size = active_heads(omega, mu, rel), np.abs(omega)
    top = np.max(np.where(active, size, -np.inf), axis=-1)
    low = np.min(np.where(active, size, np.inf), axis=-1)
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(top) & np.isfinite(low), (top - low) / top, np.nan)


def one_sided(omega: ArrayLike, mu: ArrayLike, rel: float = DUMMY) -> Array:
    """Whether all active heads have one sign (no negative head, or no positive one), bool (...)."""
    positive, negative, _ = head_counts(omega, mu, rel)
    return ((positive == 0) | (negative == 0)) & (positive + negative > 0)


def has_dummy(omega: ArrayLike, mu: ArrayLike, rel: float = DUMMY) -> Array:
    """Whether there is a dummy head beside active ones, bool (...)."""
    positive, negative, dummies = head_counts(omega, mu, rel)
    return (dummies > 0) & (positive + negative > 0)


def first_kept(steps: ArrayLike, holds: ArrayLike) -> Array:
    """First recorded step from which ``holds`` (T, ...) stays true to the end, float (...); NaN if it is false at the end."""
    steps, holds = np.asarray(steps, dtype=np.float64), np.asarray(holds, dtype=bool)
    kept = np.flip(np.logical_and.accumulate(np.flip(holds, axis=0), axis=0), axis=0)
    return np.where(kept[-1], steps[np.argmax(kept, axis=0)], np.nan)


def stage_times(
    steps: ArrayLike,
    omega: ArrayLike,
    mu: ArrayLike,
    zero_tol: float = 0.05,
    scale_tol: float = 0.05,
    rate_range: tuple[float, float] = (0.5, 1.5),
    rel: float = DUMMY,
) -> dict[str, Array]:
    """When each pattern appears for good, for trajectories (T, ..., H); float arrays (...), NaN where it never does.

    Keys: ``sign`` (sign matching), ``fit`` (<mu, omega> inside ``rate_range``: the saddle at 0 is left), ``zero_sum`` (below
    ``zero_tol``), ``homogeneous`` (`scale_spread` below ``scale_tol``), and ``stage_one`` = the later of sign and zero_sum.
    """
    omega, mu = heads(omega, mu)
    overlap = np.sum(omega * mu, axis=-1)
    with np.errstate(invalid="ignore"):
        found = {
            "sign": first_kept(steps, sign_matched(omega, mu, rel)),
            "fit": first_kept(steps, (overlap > rate_range[0]) & (overlap < rate_range[1])),
            "zero_sum": first_kept(steps, zero_sum(mu) < zero_tol),
            "homogeneous": first_kept(steps, scale_spread(omega, mu, rel) < scale_tol),
        }
    return found | {"stage_one": np.maximum(found["sign"], found["zero_sum"])}


def endings(omega: ArrayLike, mu: ArrayLike, rel: float = DUMMY) -> dict[str, float]:
    """Shares of the runs (R, H) that end: ``diverged``, ``one_sided``, ``with_dummy``, ``two_sided``, ``sign_matched`` (of the finite ones)."""
    omega, mu = heads(omega, mu)
    finite = np.isfinite(omega * mu).all(axis=-1)
    shares = {"diverged": float(np.mean(~finite))}
    omega, mu = omega[finite], mu[finite]
    single = one_sided(omega, mu, rel)
    for name, hits in (
        ("one_sided", single),
        ("two_sided", ~single),
        ("with_dummy", has_dummy(omega, mu, rel)),
        ("sign_matched", sign_matched(omega, mu, rel)),
    ):
        shares[name] = float(np.mean(hits)) if hits.size else float("nan")
    return shares
