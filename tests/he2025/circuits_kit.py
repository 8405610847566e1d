"""Circuits whose heads are known exactly, and an independent estimate of the true loss."""

from functools import cache

import numpy as np

from iclbook import theory
from iclbook.papers.he2025.circuits import Heads, read_heads


def synthetic(omega, mu, d: int = 5, kq_noise: float = 0.0, ov_noise: float = 0.0, scale: float = 1.0) -> dict:
    """A group whose heads are known: omega, mu ``(T, R, H)``, deviations of exactly these sizes, rubbish where it must not matter."""
    omega, mu = np.asarray(omega, dtype=float), np.asarray(mu, dtype=float)
    rng = np.random.default_rng(0)
    residual = rng.normal(size=(*omega.shape, d + 1, d))
    residual[..., :d, :] -= np.trace(residual[..., :d, :], axis1=-2, axis2=-1)[..., None, None] / d * np.eye(d)
    residual /= np.linalg.norm(residual, axis=(-2, -1), keepdims=True)
    kq = rng.normal(size=(*omega.shape, d + 1, d + 1))  # its last column stays: it meets the query's zero
    pattern = omega[..., None, None] * np.eye(d + 1, d)
    kq[..., :d] = pattern + kq_noise * np.sqrt(d) * np.abs(omega)[..., None, None] * residual
    row = rng.normal(size=(*mu.shape, d))
    row *= ov_noise * np.abs(mu)[..., None] / np.linalg.norm(row, axis=-1, keepdims=True)
    ov = np.concatenate([row, mu[..., None]], -1)[..., None, :]
    return {"steps": np.arange(len(omega)), "kq": kq / scale, "ov": ov, "loss": np.zeros(omega.shape[:2])}


def heads(omega, mu, steps=None, **noise_sizes) -> Heads:
    """Heads with these omega and mu ``(T, R, H)`` at steps 0, 1, ..."""
    group = synthetic(omega, mu, **noise_sizes)
    return read_heads(group | ({} if steps is None else {"steps": np.asarray(steps)}))


def still(omega, mu, **noise_sizes) -> Heads:
    """Heads that stand at omega, mu ``(R, H)`` from the start."""
    return heads(*(np.broadcast_to(v, (3, *np.shape(v))) for v in (omega, mu)), **noise_sizes)


def pairs(gammas, mus=None) -> Heads:
    """Two heads at plus and minus each gamma, a run each."""
    gammas, mus = (np.asarray(v, dtype=float) for v in (gammas, gammas if mus is None else mus))
    return still(np.stack([gammas, -gammas], -1), np.stack([mus, -mus], -1))


@cache
def prompts(d: int, L: int, s2: float) -> theory.Prompts:
    return theory.sample_prompts(60_000, d, L, s2, seed=11)


def z_score(prediction, batch, expected: float) -> float:
    """Distance of the mean squared error from what is expected, in standard errors."""
    mean, error = squared_error(prediction, batch)
    return (mean - expected) / error


def squared_error(prediction, prompts) -> tuple[float, float]:
    """Mean of (prediction - y_q)^2 and its standard error."""
    error = (prediction - prompts.y_q) ** 2
    return float(error.mean()), float(error.std(ddof=1) / np.sqrt(error.size))
