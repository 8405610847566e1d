"""Is what trained heads compute a step of functional gradient descent with one of the kernels of wang2025, and with which?

One step from zero answers ``rate * sum_i k(x_i, x_q) y_i``. Kernel width and rate are fitted on half of the prompts, and what the answers leave unexplained
is read on the other half, as a share of the answers' own mean square.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import minimize_scalar

from ....models import attend
from ....models.kernels import KERNELS, kernel_values, relate
from ....statistics import widened_error
from ....store import Results
from ....tasks import LinearRegression
from ..runs.models import prompts

Array = np.ndarray
PROMPTS = 4096
#: Groups of he2025 and their activation.
GROUPS = {"h1": "softmax", "h2": "softmax", "linear": "linear"}
#: Range of the kernels' parameter gamma, logarithmic.
GAMMAS = (-6.0, 2.0)


def answers(results: Results, group: str, activation: str, task: LinearRegression) -> Array:
    """Answers ``(runs, PROMPTS)`` of the trained heads of a group of he2025, at the end."""
    batch = prompts(task, 0, PROMPTS)
    kq, ov = (torch.from_numpy(results[f"{group}/{name}"][-1]).double() for name in ("kq", "ov"))
    return np.stack(
        [attend(k, o, batch.context, batch.query, activation)[0].numpy() for k, o in zip(kq, ov, strict=True)]
    )


def steps(task: LinearRegression) -> dict[str, Callable[[float], Array]]:
    """For each kernel ``step(log gamma)``: ``sum_i k(x_i, x_q) y_i`` ``(PROMPTS,)``; and as a rival the linear kernel on centred covariates."""
    batch = prompts(task, 0, PROMPTS)
    x, y, query = batch.context[:, :-1].movedim(-1, 0), batch.context[:, -1].T, batch.query.T

    def of(kernel: str) -> Callable[[float], Array]:
        relation = relate(KERNELS[kernel], query[:, None], x)[:, 0]  # (B, L)
        return lambda gamma: (kernel_values(kernel, relation, float(np.exp(gamma))) * y).sum(-1).numpy()

    centred = ((x - x.mean(1, keepdim=True)) @ query[..., None])[..., 0]
    return {kernel: of(kernel) for kernel in KERNELS} | {"centred": lambda _: (centred * y).sum(-1).numpy()}


def unexplained(answer: Array, step: Callable[[float], Array]) -> float:
    """Share of the answers' mean square that the best step leaves, on prompts that did not choose it."""
    half = len(answer) // 2

    def left(gamma: float, fit: slice, read: slice) -> float:
        made = step(gamma)
        rate = made[fit] @ answer[fit] / (made[fit] @ made[fit])
        return float(((answer[read] - rate * made[read]) ** 2).mean() / (answer[read] ** 2).mean())

    first, second = slice(0, half), slice(half, None)
    grid = np.linspace(*GAMMAS, 17)
    best = grid[np.argmin([left(g, first, first) for g in grid])]
    found = minimize_scalar(
        lambda g: left(g, first, first), bounds=(best - 0.5, best + 0.5), method="bounded"
    )
    return left(float(found.x), first, second)


def shares(results: Results, groups: dict[str, str], task: LinearRegression) -> dict[str, dict[str, Array]]:
    """``{group: {kernel: (runs,)}}``; groups are given with their activation."""
    every = steps(task)
    return {
        group: {
            kernel: np.array([unexplained(a, step) for a in answers(results, group, activation, task)])
            for kernel, step in every.items()
        }
        for group, activation in groups.items()
    }


def best(by: dict[str, Array]) -> list[str]:
    """The paper's kernels by what they leave, the best first."""
    return sorted(KERNELS, key=lambda kernel: by[kernel].mean())


def kernel_values_of(found: dict[str, dict[str, Array]]) -> dict[str, float | str]:
    """For one head, two heads and linear attention: what the best of the paper's kernels leaves, and what the next best leaves; errors for few runs."""
    one, two, linear = found["h1"], found["h2"], found["linear"]
    return {
        "kernel/one": float(one["softmax"].mean()),
        "kernel/one_se": float(widened_error(one["softmax"])),
        "kernel/one_next": float(min(one[k].mean() for k in KERNELS if k != "softmax")),
        "kernel/linear": float(linear["linear"].mean()),
        "kernel/linear_se": float(widened_error(linear["linear"])),
        "kernel/linear_next": float(min(linear[k].mean() for k in KERNELS if k != "linear")),
        "kernel/two": float(two[best(two)[0]].mean()),
        "kernel/two_se": float(widened_error(two[best(two)[0]])),
        "kernel/two_next": float(two[best(two)[1]].mean()),
        "kernel/two_best": best(two)[0],
        "kernel/two_centred": float(two["centred"].mean()),
        "kernel/two_gain": float((two[best(two)[0]] - two["centred"]).mean()),
        "kernel/two_gain_se": float(widened_error(two[best(two)[0]] - two["centred"])),
    }
