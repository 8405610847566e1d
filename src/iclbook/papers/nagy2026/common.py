"""What the measures of trained models share: errors by setting, the best single layer, distance of a printed number from what seeds give, marks of figures.

The best single layer of linear attention (sections 9.1 and 9.2) is ``yhat = (1/L) sum_l y_l x_l^T G x_q`` with ``x ~ N(0, diag(lambda))``,
``y = w . x``, ``w ~ N(0, I)``, no noise: one step of preconditioned gradient descent, whose best G is diagonal (Ahn et al. 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...drawing import style
from ...statistics import prediction
from ...store import Results
from ...training import Adam
from ...training.study import Study
from . import arithmetic
from .studies import Probes


def printed_numbers(item: str) -> tuple[float, ...]:
    """The printed numbers that an item of the table of printed numbers is recomputed from."""
    (inputs,) = [i.inputs for i in arithmetic.ITEMS if i.id.removeprefix("arithmetic/") == item]
    return tuple(float(number) for number in inputs)


def printed_results(item: str) -> tuple[float, ...]:
    """What the paper prints as the result of an item of that table."""
    (printed,) = [i.expects for i in arithmetic.ITEMS if i.id.removeprefix("arithmetic/") == item]
    return tuple(float(number) for number in printed.split())


def rates_of(study: Study, group: str) -> list[float]:
    """Learning rates of a group, in the order of its runs."""
    spec = next(g for g in study.groups if g.name == group)
    return list(dict.fromkeys(run.rate for run in spec.runs))


def by_rate(study: Study, results: Results, group: str, name: str) -> np.ndarray:
    """An array ``(T, R, ...)`` of a group as ``(T, rates, seeds, ...)``."""
    array = results[f"{group}/{name}"]
    return array.reshape(array.shape[0], len(rates_of(study, group)), -1, *array.shape[2:])


def label(optimiser: object, rate: float) -> str:
    """``Adam 0.001``."""
    return f"{'Adam' if isinstance(optimiser, Adam) else 'SGD'} {rate:g}"


def final_errors(study: Study, results: Results, group: str, probe: str = "n16", step: int = -1) -> np.ndarray:
    """Error ``(rates, seeds)`` with the whole context, at a recorded index."""
    return by_rate(study, results, group, f"curve_{probe}")[step, ..., -1].astype(float)


# -- the best single layer -------------------------------------------------------------------------------------------------------------


def best_gain(eigenvalues: Sequence[float], length: int) -> np.ndarray:
    """Diagonal ``(d,)`` of the G of least expected squared error: ``1 / ((1 + 1/L) lambda_i + tr / L)``."""
    lam = np.asarray(eigenvalues, dtype=float)
    return 1 / ((1 + 1 / length) * lam + lam.sum() / length)


def expected_error(eigenvalues: Sequence[float], length: int, gain: Sequence[float]) -> float:
    """Expected squared error of a diagonal G.

    ``E = sum_i lambda_i (1 - 2 G_i lambda_i) + G_i^2 lambda_i ((1 + 1/L) lambda_i^2 + lambda_i tr / L)``, by Wick's theorem.
    """
    lam, g = np.asarray(eigenvalues, dtype=float), np.asarray(gain, dtype=float)
    second = (1 + 1 / length) * lam**2 + lam * lam.sum() / length
    return float((lam * (1 - 2 * g * lam) + g**2 * lam * second).sum())


def on_probes(probes: Probes, name: str = "n16") -> tuple[float, float]:
    """Error of the best single layer on the very prompts that the trained models are measured on: mean and standard error."""
    context, query, target = (array.double().numpy() for array in probes.draw()[name])
    lam = np.asarray(probes.task.eigenvalues)
    scale = np.sqrt(lam)[:, None] if probes.task.balanced else 1.0
    length, d = context.shape[0], probes.task.d
    moment = (context[:, d:] * context[:, :d] / scale).mean(0)
    best = best_gain(np.ones(d) if probes.task.balanced else lam, length)
    squared = (target[0] - (best[:, None] * moment * query / scale).sum(0)) ** 2
    return float(squared.mean()), float(squared.std(ddof=1) / np.sqrt(len(squared)))


def common_error(study: Study, name: str = "n16") -> float:
    """Relative standard error that all runs of a study share, being measured on the same prompts; that of the best single layer."""
    mean, error = on_probes(study.groups[0].observe.probes, name)
    return error / mean


# -- how far a printed number is from ours ---------------------------------------------------------------------------------------------


def z_of(printed: float, values: np.ndarray, common: float = 0.0) -> np.ndarray:
    """Distance of a printed number from the mean of each row of ``values`` ``(settings, seeds)``, in standard deviations: ``(settings,)``.

    ``common`` is the relative standard error that all seeds share because they are measured on the same prompts.
    """
    spread = np.hypot(values.std(-1, ddof=1), common * values.mean(-1))
    return np.abs(printed - values.mean(-1)) / spread


def apart(printed: float, values: np.ndarray, of: int = 1, common: float = 0.0, level: float = 0.95) -> float:
    """Distance of a printed mean of ``of`` seeds from the mean of ours ``(seeds,)``, in half-widths of the prediction interval: above 1 it is outside.

    ``common`` as for :func:`z_of`.
    """
    expected = prediction(values, of, level)
    half = np.hypot((expected.high - expected.low) / 2, 1.96 * common * expected.mean)
    return float(abs(printed - expected.mean) / half)


# -- marks of figures ------------------------------------------------------------------------------------------------------------------


def strip(ax: Axes, x: float, values: np.ndarray, colour: str, marker: str = "o", label: str | None = None) -> None:
    """Every seed as a small mark beside ``x``, their mean as a bar across; values ``(seeds,)``."""
    spread = np.linspace(-0.06, 0.06, len(values)) if len(values) > 1 else np.zeros(1)
    ax.plot(x + spread, values, marker, ms=2.6, mew=0, alpha=0.6, color=colour, label=label)
    ax.plot([x - 0.09, x + 0.09], [values.mean()] * 2, color=colour, lw=2.2, solid_capstyle="butt")


def cross(ax: Axes, x: Any, y: Any, label: str | None = None, **look: Any) -> None:
    """Printed numbers ``y`` at ``x``, numbers or lists, as crosses."""
    look = {"ms": 7, "mew": 1.8, "zorder": 4, "ls": "none"} | look
    ax.plot(np.atleast_1d(x), np.atleast_1d(y), marker="x", color=style.COLOURS["paper"], label=label, **look)


def legend_above(fig: Figure, ax: Axes, ncols: int, **look: Any) -> Any:
    """One legend for all panels, above them, from the marks of one."""
    look = {"fontsize": 7.5, "columnspacing": 1.2} | look
    return fig.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=ncols, **look)


def named_ticks(ax: Axes, names: Any, **look: Any) -> None:
    """A category at each of 0, 1, 2, ... of the horizontal axis, without grid lines."""
    ax.set_xticks(range(len(names)), names, **look)
    ax.grid(axis="x", visible=False)
