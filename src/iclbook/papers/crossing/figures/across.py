"""One law on one model: what the sliders of laws and models show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ....drawing import style
from ....statistics import interval
from ..measures.rates import Race
from ..measures.stages import LOGARITHMIC
from ..measures.timing import Leads
from ..runs.waits import CELLS
from .laws import NAMES

Array = np.ndarray
#: Laws that are asked of all of :data:`ACROSS`.
LAWS = {
    "wait": "the wait of a small start",
    "lead": "attention before values",
    "rates": "ten times the rate on values",
}
#: Models of which each of :data:`LAWS` is asked.
ACROSS = ("heads", "chain", "known")


def law_on(
    law: str, model: str, waits: Mapping[str, Array], leads: Mapping[str, Leads], races: Mapping[str, Race]
) -> Figure:
    """A law on a model: waits against size, leads of attention, or steps saved by quicker matrices; every draw or seed is shown.

    Args:
        law, model: of :data:`LAWS` and :data:`ACROSS`.
        waits: ``(draws, 4)`` at the sizes of :data:`CELLS`.
        leads, races: as their measures give them.
    """
    fig, ax = style.figure(aspect=0.45)
    if law == "wait":
        _wait(ax, model, waits[model])
    elif law == "lead":
        _lead(ax, leads[model])
    else:
        _rates(ax, races[model])
    ax.set_title(f"{NAMES[model]}: {LAWS[law]}")
    return fig


def _wait(ax: Axes, model: str, times: Array) -> None:
    cell = CELLS[model]
    over = cell.scale / np.array(cell.scales())
    grown = times / times[:, :1]
    for row, values in enumerate(grown):
        ax.plot(over, values, "o-", color=style.PALETTE[0], label=None if row else "each draw of prompts")
    x = np.geomspace(1, over[-1], 50)
    tenth = (grown[:, 1] - 1).mean() / np.log(cell.factor)
    ax.plot(
        x,
        1 + tenth * np.log(x) if model in LOGARITHMIC else x**2,
        color=style.INK,
        ls=":",
        label="predicted: a logarithm" if model in LOGARITHMIC else "predicted: a square",
    )
    scale = "linear" if model in LOGARITHMIC else "log"
    ax.set(xscale="log", yscale=scale, xlabel="largest size over size", ylabel="wait over the shortest")
    ax.legend(loc="upper left", fontsize=9)


def _lead(ax: Axes, of: Leads) -> None:
    rows = {"equal rates": of.equal, "queries and keys\nten times faster": of.quicker}
    what = "time of attention over time of values (left of 1: attention first)"
    _strips(ax, rows, what, [0.25, 0.5, 1, 2, 4])


def _rates(ax: Axes, of: Race) -> None:
    logs = of.logs()
    rows = {
        "values and outputs\nten times faster": logs["values_plain"],
        "queries and keys\nten times faster": logs["routing_plain"],
        "best uniform rate": logs["uniform_plain"],
    }
    _strips(ax, rows, "steps over steps at the plain rate", [0.03, 0.1, 0.3, 1])


def _strips(ax: Axes, rows: Mapping[str, Array], what: str, ticks: Sequence[float]) -> None:
    """Exponentials of logarithms, a row for each kind: single values, and their geometric mean with its 95 % interval."""
    for row, values in enumerate(rows.values()):
        mean, low, high = np.exp(interval(values))
        ax.plot(np.exp(values), np.full(len(values), row), "o", color=style.PALETTE[0], ms=4, alpha=0.4)
        ax.plot([low, high], [row, row], color=style.PALETTE[3], lw=2.5)
        ax.plot(mean, row, "D", color=style.PALETTE[3], label=None if row else "mean, 95 % interval")
    ax.axvline(1, color=style.INK, ls=":")
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set(xscale="log", xlabel=what, ylim=(len(rows) + 0.2, -0.6))
    style.log_ticks(ax, "x", ticks)
    ax.legend(loc="lower left", fontsize=9)  # in the room under the last row
