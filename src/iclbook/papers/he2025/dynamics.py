"""Gradient descent and gradient flow of the approximate loss, and the patterns in which they end (He et al. 2025, "Training Dynamics").

Float64. omega and mu are (R, H), runs first; trajectories (T, R, H).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from ...draw import numpy_rng
from ...tasks import LinearRegression
from .circuits import first_kept, scale_spread, sign_matched, zero_sum
from .loss import Array, approx_gradients, approx_loss, coupling, heads


@dataclass(frozen=True)
class Trajectory:
    """Recorded runs: ``steps`` (T,), ``omega`` and ``mu`` (T, R, H), ``loss`` (T, R). A run that diverged is NaN from then on."""

    steps: Array
    omega: Array
    mu: Array
    loss: Array

    @property
    def diverged(self) -> Array:
        """Which runs did not stay finite, (R,)."""
        return ~np.isfinite(self.loss[-1])

    def run(self, r: int) -> Trajectory:
        """The trajectory of run ``r`` alone, its run axis kept."""
        return Trajectory(self.steps, self.omega[:, r : r + 1], self.mu[:, r : r + 1], self.loss[:, r : r + 1])


def log_steps(last: int, count: int = 200) -> Array:
    """Recording steps 0, 1, ..., ``last``: whole numbers, evenly spaced in the logarithm, at most ``count + 1`` of them."""
    return np.unique(np.concatenate([[0], np.rint(np.geomspace(1, last, count)).astype(np.int64)]))


def sample_initial(runs: int, n_heads: int, scale: ArrayLike, seed: int) -> tuple[Array, Array]:
    """Initial omega and mu (R, H), independent N(0, scale^2); ``scale`` is a number or one per run (R,).

    Run r of a seed is the same whatever ``runs`` is, and scales share the same normals.
    """
    normals = np.stack([numpy_rng([seed, r]).standard_normal((2, n_heads)) for r in range(runs)])
    scale = np.broadcast_to(np.asarray(scale, dtype=np.float64), (runs,))[:, None]
    return scale * normals[:, 0], scale * normals[:, 1]


def simulate(
    omega0: ArrayLike,
    mu0: ArrayLike,
    lr: ArrayLike,
    steps: int,
    record_steps: Sequence[int] | Array | None = None,
    *,
    d: int,
    L: int,
    noise_var: float,
) -> Trajectory:
    """Plain gradient descent on the approximate loss, all runs in step ("Training Dynamics, Emerged Patterns").

    Args:
        omega0, mu0: starting points (R, H).
        lr: learning rate eta, a number or one per run (R,).
        steps: number of updates.
        record_steps: steps at which to record, 0 = the starting point; `log_steps` by default.
    """
    omega, mu = heads(omega0, mu0)
    assert omega.ndim == 2, f"omega0 and mu0 must be (runs, heads), not {omega.shape}"
    omega, mu = omega.T.copy(), mu.T.copy()  # (H, R): long rows, short sums
    rate = 2.0 * np.broadcast_to(np.asarray(lr, dtype=np.float64), omega.shape[1])
    c = coupling(d, L, noise_var)
    wanted = np.unique(log_steps(steps) if record_steps is None else np.asarray(record_steps, dtype=np.int64))
    assert 0 <= wanted[0] <= wanted[-1] <= steps, f"record_steps must lie in [0, {steps}]"
    kept_omega = np.empty((wanted.size, omega.shape[1], omega.shape[0]))
    kept_mu = np.empty_like(kept_omega)
    kernel = np.empty((omega.shape[0], *omega.shape))  # (H, H, R)
    done = 0
    with np.errstate(all="ignore"):  # diverging runs overflow to inf and NaN, which `diverged` reports
        for i, step in enumerate(wanted):
            for _ in range(done, step):
                _descend(omega, mu, rate, d, c, kernel)
            done = int(step)
            kept_omega[i], kept_mu[i] = omega.T, mu.T
        loss = approx_loss(kept_omega, kept_mu, d, L, noise_var)
    bad = ~np.isfinite(loss)
    kept_omega[bad], kept_mu[bad], loss[bad] = np.nan, np.nan, np.nan
    return Trajectory(wanted, kept_omega, kept_mu, loss)


def _descend(omega: Array, mu: Array, rate: Array, d: int, c: float, kernel: Array) -> None:
    """One step on omega and mu ``(H, R)`` in place, ``rate (R,)`` twice the learning rate; ``kernel (H, H, R)`` is overwritten."""
    np.multiply(d * omega[:, None], omega, out=kernel)
    np.exp(kernel, out=kernel)
    kernel *= mu
    rest = 1.0 - (mu * omega).sum(axis=0)
    step_mu = rest * omega - c * kernel.sum(axis=1)
    kernel *= omega
    step_omega = mu * (rest - (c * d) * kernel.sum(axis=1))
    mu += rate * step_mu
    omega += rate * step_omega


def flow(omega0: ArrayLike, mu0: ArrayLike, times: ArrayLike, d: int, L: int, noise_var: float) -> Trajectory:
    """Gradient flow (learning rate -> 0) of one run (H,), for times far beyond what plain steps reach.

    ``times`` (T,) increasing from 0, in units of learning rate x steps; they are the trajectory's ``steps``. Implicit, rtol 1e-9.
    """
    omega0, mu0 = heads(omega0, mu0)
    times = np.asarray(times, dtype=np.float64)
    n = omega0.shape[0]

    def velocity(_: float, state: Array) -> Array:
        in_omega, in_mu = approx_gradients(state[:n], state[n:], d, L, noise_var)
        return -np.concatenate([in_omega, in_mu])

    found = solve_ivp(velocity, (0.0, times[-1]), np.concatenate([omega0, mu0]), "LSODA", times, rtol=1e-9, atol=1e-12)
    assert found.success, found.message
    omega, mu = found.y[:n].T[:, None, :], found.y[n:].T[:, None, :]  # (T, 1, H)
    return Trajectory(times, omega, mu, approx_loss(omega, mu, d, L, noise_var))


def stage_times(
    steps: ArrayLike, omega: ArrayLike, mu: ArrayLike, zero_tol: float = 0.05, scale_tol: float = 0.05
) -> dict[str, Array]:
    """When each pattern appears for good, for trajectories (T, ..., H); float arrays (...), NaN where it never does.

    Keys: ``sign`` (sign matching), ``zero_sum`` (below ``zero_tol``), ``homogeneous`` (`scale_spread` below ``scale_tol``).
    """
    with np.errstate(invalid="ignore"):
        return {
            "sign": first_kept(steps, sign_matched(omega, mu)),
            "zero_sum": first_kept(steps, zero_sum(mu) < zero_tol),
            "homogeneous": first_kept(steps, scale_spread(omega, mu) < scale_tol),
        }


# -- descent from many small starts, stored -----------------------------------------------------------------------------

#: Rate and length, the scale of the starts, and how many.
RATE, STEPS, SCALE, RUNS = 0.05, 40_000, 0.05, 1000
#: How far two machines may lie apart: ends are kept in single precision, and times are steps that were recorded, the same or another.
WITHIN = 1e-5
#: Numbers of heads, and the patterns whose times are kept.
COUNTS, PATTERNS = (2, 3, 4), ("sign", "zero_sum", "homogeneous")


def descend(group: str, members: Sequence[int]) -> dict[str, np.ndarray]:
    """Runs of ``h<H>``: omega and mu ``(M, H)`` at the start and at the end, and the step ``(M,)`` from which on each pattern holds; not a number where it
    never does."""
    n_heads, task = int(group[1:]), LinearRegression()
    starts = sample_initial(max(members) + 1, n_heads, SCALE, seed=n_heads)
    omega, mu = (values[list(members)] for values in starts)
    path = simulate(omega, mu, RATE, STEPS, log_steps(STEPS, 120), d=task.d, L=task.L, noise_var=task.noise_var)
    times = stage_times(path.steps, path.omega, path.mu)
    found = {"start": path.omega[0] + path.mu[0], "omega": path.omega[-1], "mu": path.mu[-1]}
    found |= {name: times[name] for name in PATTERNS}
    return {name: values.astype(np.float32) for name, values in found.items()}
