"""Gradient descent on the approximate loss of he2025 from many small starts: where every run ends, and when patterns appear."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....tasks import LinearRegression
from ....training.computation import Computation
from ..theory.dynamics import draw_initial, log_steps, simulate
from ..theory.patterns import stage_times

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
    starts = draw_initial(max(members) + 1, n_heads, SCALE, seed=n_heads)
    omega, mu = (values[list(members)] for values in starts)
    path = simulate(
        omega, mu, RATE, STEPS, log_steps(STEPS, 120), d=task.d, L=task.L, noise_var=task.noise_var
    )
    times = stage_times(path.steps, path.omega, path.mu)
    found = {"start": path.omega[0] + path.mu[0], "omega": path.omega[-1], "mu": path.mu[-1]}
    found |= {name: times[name] for name in PATTERNS}
    return {name: values.astype(np.float32) for name, values in found.items()}


def descent_computations() -> dict[str, Computation]:
    """The same at every profile: a pattern may never appear."""
    groups = tuple(f"h{h}" for h in COUNTS)
    found = Computation("he2025", "descent", descend, groups, 0, RUNS, WITHIN, groups)
    return {found.name: found}
