"""Gradient descent and gradient flow of the approximate loss, and the patterns in which they end (He et al. 2025, "Training Dynamics").

Float64. omega and mu are (R, H), runs first; trajectories (T, R, H).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from ...draw import numpy_rng
from ...tasks import LinearRegression
from .circuits import first_kept, scale_spread, sign_matched, zero_sum
from .loss import Array, approx_gradients, approx_loss, coupling, heads


class Trajectory(NamedTuple):
    """Recorded runs: ``steps`` (T,), ``omega`` and ``mu`` (T, R, H), ``loss`` (T, R)."""

    steps: Array
    omega: Array
    mu: Array
    loss: Array


def log_steps(last: int, count: int) -> Array:
    """Recording steps 0, 1, ..., ``last``: whole numbers, evenly spaced in the logarithm, at most ``count + 1`` of them."""
    return np.unique(np.concatenate([[0], np.rint(np.geomspace(1, last, count)).astype(np.int64)]))


def sample_initial(runs: int, n_heads: int, scale: float, seed: int) -> tuple[Array, Array]:
    """Initial omega and mu (R, H), independent N(0, scale^2). Run r of a seed is the same whatever ``runs`` is, and scales share the same normals."""
    normals = np.stack([numpy_rng([seed, r]).standard_normal((2, n_heads)) for r in range(runs)])
    return scale * normals[:, 0], scale * normals[:, 1]


def simulate(
    omega0: ArrayLike, mu0: ArrayLike, lr: float, record: Sequence[int] | Array, *, d: int, L: int, noise_var: float
) -> Trajectory:
    """Plain gradient descent of rate ``lr`` on the approximate loss from (R, H), all runs in step ("Training Dynamics, Emerged Patterns"); ``record``:
    rising steps to record, 0 = the starting point."""
    omega, mu = heads(omega0, mu0)
    omega, mu = omega.T.copy(), mu.T.copy()  # (H, R): long rows, short sums
    rate, c = 2.0 * lr, coupling(d, L, noise_var)
    kernel = np.empty((omega.shape[0], *omega.shape))  # (H, H, R)
    kept, done = np.empty((2, len(record), *omega.T.shape)), 0
    with np.errstate(all="ignore"):  # runs that diverge overflow to inf and NaN
        for i, step in enumerate(record):
            for _ in range(done, step):
                np.exp(np.multiply(d * omega[:, None], omega, out=kernel), out=kernel)
                kernel *= mu
                rest = 1.0 - (mu * omega).sum(axis=0)
                step_mu = rest * omega - c * kernel.sum(axis=1)
                kernel *= omega
                step_omega = mu * (rest - (c * d) * kernel.sum(axis=1))
                mu += rate * step_mu
                omega += rate * step_omega
            kept[:, i], done = (omega.T, mu.T), step
        return Trajectory(np.asarray(record), *kept, approx_loss(*kept, d, L, noise_var))


def flow(omega0: ArrayLike, mu0: ArrayLike, times: Array, d: int, L: int, noise_var: float) -> Trajectory:
    """Gradient flow (learning rate -> 0) of one run (H,), for times far beyond what plain steps reach: ``times`` (T,) increasing from 0, in units of
    learning rate x steps, are the trajectory's ``steps``. Implicit, rtol 1e-9."""

    def velocity(_: float, state: Array) -> Array:
        return -np.concatenate(approx_gradients(*np.split(state, 2), d, L, noise_var))

    start = np.concatenate([omega0, mu0])
    found = solve_ivp(velocity, (0.0, times[-1]), start, "LSODA", times, rtol=1e-9, atol=1e-12)
    assert found.success, found.message
    omega, mu = np.split(found.y.T[:, None], 2, axis=-1)  # (T, 1, H)
    return Trajectory(times, omega, mu, approx_loss(omega, mu, d, L, noise_var))


#: Patterns, and below what zero sum and homogeneous scaling count as there.
PATTERNS, NEAR = ("sign", "zero_sum", "homogeneous"), 0.05


def stage_times(steps: Array, omega: Array, mu: Array) -> dict[str, Array]:
    """When each of :data:`PATTERNS` appears for good in trajectories (T, ..., H), float arrays (...); NaN where it never does."""
    with np.errstate(invalid="ignore"):
        holds = sign_matched(omega, mu), zero_sum(mu) < NEAR, scale_spread(omega, mu) < NEAR
    return {name: first_kept(steps, there) for name, there in zip(PATTERNS, holds, strict=True)}


# -- descent from many small starts, stored -----------------------------------------------------------------------------

#: Rate and length, the scale of the starts, how many, and the numbers of heads.
RATE, STEPS, SCALE, RUNS, COUNTS = 0.05, 40_000, 0.05, 1000, (2, 3, 4)
#: How far two machines may lie apart: ends are kept in single precision, and times are steps that were recorded, the same or another.
WITHIN = 1e-5


def descend(group: str, members: Sequence[int]) -> dict[str, np.ndarray]:
    """Runs of ``h<H>``: omega and mu ``(M, H)`` at the end, their sum at the ``start``, and when each pattern appears for good ``(M,)``."""
    n_heads, task = {f"h{h}": h for h in COUNTS}[group], LinearRegression()
    starts = sample_initial(max(members) + 1, n_heads, SCALE, seed=n_heads)
    omega, mu = (values[list(members)] for values in starts)
    path = simulate(omega, mu, RATE, log_steps(STEPS, 120), d=task.d, L=task.L, noise_var=task.noise_var)
    found = {"start": path.omega[0] + path.mu[0], "omega": path.omega[-1], "mu": path.mu[-1]}
    found |= stage_times(path.steps, path.omega, path.mu)
    return {name: values.astype(np.float32) for name, values in found.items()}
