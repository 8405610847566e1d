"""Is what trained heads compute a step of functional gradient descent with one of the kernels of wang2025, and with which?

One step from zero answers ``rate * sum_i k(x_i, x_q) y_i``. Kernel width and rate are fitted on half of the prompts, and what the answers leave unexplained
is read on the other half, as a share of the answers' own mean square.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy.optimize import minimize_scalar

from ....models.attention import ACTIVATIONS
from ....models.kernels import KERNELS, kernel_values, relate
from ....statistics import widened_error
from ....store import Results
from ....tasks import Batch, LinearRegression
from ..runs.models import prompts

Array = np.ndarray
PROMPTS = 4096
#: Prompts that many runs answer at once: what their heads weigh stays in a core's cache.
TOGETHER = 64
#: Groups of he2025 and their activation.
GROUPS = {"h1": "softmax", "h2": "softmax", "linear": "linear"}
#: Range of the kernels' parameter gamma, logarithmic.
GAMMAS = (-6.0, 2.0)


#: What a step answers, ``(PROMPTS,)``; with a kernel that has a width, ``step(log gamma, prompts)``, a function that answers some of the prompts.
Step = Array | Callable[[float, slice], Array]


def answers(kq: Array, ov: Array, batch: Batch, activation: str) -> Array:
    """Answers ``(R, B)`` of the heads of many runs, with circuits ``(R, H, D, >= d)`` and ``(R, H, 1, D)``: :func:`iclbook.models.attend` for all at once."""
    d = len(batch.query)
    kq, ov = (torch.from_numpy(np.asarray(part, float)) for part in (kq, ov))
    found = []
    for tokens, queries in zip(
        batch.context.movedim(-1, 0).split(TOGETHER), batch.query.T.split(TOGETHER), strict=True
    ):  # (B, L, D), (B, d)
        folded = (queries @ kq[..., :d].flatten(0, 2).T).unflatten(1, (-1, kq.shape[-2]))  # (B, R H, D)
        weights = ACTIVATIONS[activation](tokens @ folded.mT)  # (B, L, R H)
        values = tokens @ ov[:, :, 0].flatten(0, 1).T
        found.append((weights * values).sum(1).unflatten(1, kq.shape[:2]).sum(2))
    return torch.cat(found).T.numpy()


def steps(batch: Batch, kernels: Sequence[str] = (*KERNELS, "centred")) -> dict[str, Step]:
    """For each kernel ``sum_i k(x_i, x_q) y_i`` ``(PROMPTS,)``; ``centred`` is the linear kernel on centred covariates."""
    x, y, query = batch.context[:, :-1].movedim(-1, 0), batch.context[:, -1].T, batch.query.T

    def of(kernel: str) -> Step:
        if kernel == "centred":
            relation = relate("inner", query[:, None], x - x.mean(1, keepdim=True))[:, 0]
        else:
            relation = relate(KERNELS[kernel], query[:, None], x)[:, 0]  # (B, L)
        if kernel in ("linear", "centred"):
            return (relation * y).sum(-1).numpy()
        return lambda gamma, some: (
            (kernel_values(kernel, relation[some], float(np.exp(gamma))) * y[some]).sum(-1).numpy()
        )

    return {kernel: of(kernel) for kernel in kernels}


def unexplained(answers: Array, step: Step) -> Array:
    """Shares ``(R,)`` of the mean square of answers ``(R, PROMPTS)`` that the best step leaves, on prompts that did not choose it."""
    half = answers.shape[1] // 2
    fit, read = answers[:, :half], answers[:, half:]
    made = np.stack(_best_steps(fit, step)) if callable(step) else np.broadcast_to(step, answers.shape)
    rate = np.array([_rate(*pair) for pair in zip(fit, made[:, :half], strict=True)])
    return ((read - rate[:, None] * made[:, half:]) ** 2).mean(1) / (read**2).mean(1)


def _rate(answer: Array, made: Array) -> float:
    """The best rate of a step."""
    return float(made @ answer / (made @ made))


def _best_steps(fit: Array, step: Callable[[float, slice], Array]) -> list[Array]:
    """For each of the answers ``(R, n)`` to the first prompts, the step whose width fits them best, on all prompts."""
    first = slice(0, fit.shape[1])

    def left(answer: Array, made: Array) -> float:
        return float(((answer - _rate(answer, made) * made) ** 2).mean() / (answer**2).mean())

    grid = np.linspace(*GAMMAS, 17)
    on_grid = [step(gamma, first) for gamma in grid]
    found = []
    for answer in fit:
        best = grid[np.argmin([left(answer, made) for made in on_grid])]
        bounds = best - 0.5, best + 0.5
        width = minimize_scalar(lambda g, a=answer: left(a, step(g, first)), bounds=bounds, method="bounded")
        found.append(step(float(width.x), slice(None)))
    return found


def shares(results: Results, groups: dict[str, str], task: LinearRegression) -> dict[str, dict[str, Array]]:
    """``{group: {kernel: (runs,)}}`` of the trained heads of groups of he2025, at the end; groups are given with their activation."""
    batch = prompts(task, 0, PROMPTS)
    every = steps(batch)
    found = {}
    for group, activation in groups.items():
        answered = answers(*(results[f"{group}/{name}"][-1] for name in ("kq", "ov")), batch, activation)
        found[group] = {kernel: unexplained(answered, step) for kernel, step in every.items()}
    return found


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
