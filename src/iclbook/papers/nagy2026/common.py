"""Common parts of the measures of trained models: arrays by rate, the best single layer, distance of a printed number from what seeds give, marks of figures.

The best single layer of linear attention (sections 9.1 and 9.2) is ``yhat = (1/L) sum_l y_l x_l^T G x_q`` with ``x ~ N(0, diag(lambda))``,
``y = w . x``, ``w ~ N(0, I)``, no noise: one step of preconditioned gradient descent, whose best G is diagonal (Ahn et al. 2023).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...drawing import style
from ...statistics import Estimate, prediction
from ...store import Results
from ...training import Adam, Study
from .studies import Probes


def by_rate(study: Study, results: Results, group: str, name: str) -> dict[float, np.ndarray]:
    """An array of a group by learning rate, ``(T, seeds, ...)`` each."""
    (runs,) = [spec.runs for spec in study.groups if spec.name == group]
    rates = np.array([run.rate for run in runs])
    array = results[f"{group}/{name}"].astype(float)
    return {rate: array[:, rates == rate] for rate in dict.fromkeys(rates.tolist())}


def by_setting(study: Study, results: Results, name: str) -> dict[tuple[str, str], np.ndarray]:
    """An array by group and by optimiser and rate, such as ``Adam 0.001``: ``(T, seeds, ...)`` each."""
    return {
        (spec.name, f"{'Adam' if isinstance(spec.optimiser, Adam) else 'SGD'} {rate:g}"): array
        for spec in study.groups
        for rate, array in by_rate(study, results, spec.name, name).items()
    }


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


def on_probes(probes: Probes) -> Estimate:
    """Error of the best single layer on the very prompts of 16 examples that the trained models are measured on."""
    context, query, target = (array.double().numpy() for array in probes.draw()["n16"])
    length, d = context.shape[0], probes.task.d
    moment = (context[:, d:] * context[:, :d]).mean(0)
    best = best_gain(probes.task.eigenvalues, length)
    return Estimate.mean((target[0] - (best[:, None] * moment * query).sum(0)) ** 2)


# -- how far a printed number is from ours ---------------------------------------------------------------------------------------------


def apart(printed: float, values: np.ndarray, of: int = 1, level: float = 0.95) -> float:
    """Distance of a printed mean of ``of`` seeds from the mean of ours ``(seeds,)``, in half-widths of the prediction interval: above 1 it is outside."""
    expected = prediction(values, of, level)
    return float(abs(printed - expected.mean) / (expected.high - expected.mean))


# -- marks of figures ------------------------------------------------------------------------------------------------------------------


def strip(
    ax: Axes,
    x: float,
    values: np.ndarray,
    colour: str,
    marker: str = "o",
    label: str | None = None,
    typical: bool = False,
    row: bool = False,
    reach: float = 0.09,
    alpha: float = 0.6,
) -> None:
    """Draw the seeds as small marks beside ``x``, or in a ``row`` at that height, and their mean, or the ``typical`` value (Hodges-Lehmann), as a bar across, ``reach`` to each side; values ``(seeds,)``."""
    bar = Estimate.typical(values).value if typical else values.mean()
    spread = np.linspace(-0.06, 0.06, len(values)) if len(values) > 1 else np.zeros(1)
    seeds, centre = (x + spread, values), ([x - reach, x + reach], [bar] * 2)
    ax.plot(*seeds[:: -1 if row else 1], marker, ms=3.4, mew=0, alpha=alpha, color=colour, label=label)
    ax.plot(*centre[:: -1 if row else 1], color=colour, lw=2.2, solid_capstyle="butt")


def cross(ax: Axes, x: Any, y: Any, label: str | None = None, **look: Any) -> None:
    """Printed numbers ``y`` at ``x``, numbers or lists, as crosses."""
    look = {"ms": 7, "mew": 1.8, "zorder": 4, "ls": "none"} | look
    ax.plot(np.atleast_1d(x), np.atleast_1d(y), marker="x", color=style.COLOURS["paper"], label=label, **look)


def legend_above(fig: Figure, ax: Axes, ncols: int, **look: Any) -> None:
    """One legend for all panels, above them, from the marks of one."""
    look = {"fontsize": 7.5, "columnspacing": 1.2} | look
    fig.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=ncols, **look)


def named_ticks(ax: Axes, names: Any, **look: Any) -> None:
    """A category at each of 0, 1, 2, ... of the horizontal axis, without grid lines."""
    ax.set_xticks(range(len(names)), names, **look)
    ax.grid(axis="x", visible=False)
