"""How the figures show seeds and printed numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ....drawing import style


def strip(
    ax: Axes, x: float, values: np.ndarray, colour: str, marker: str = "o", label: str | None = None
) -> None:
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
