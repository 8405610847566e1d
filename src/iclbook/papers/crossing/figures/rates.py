"""Steps saved by ten times the rate on some matrices, one row a model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from ....drawing import style
from ....statistics import interval
from ..measures.rates import Race

NAMES = {
    "heads": "two heads",
    "linear": "linear attention",
    "deep": "three layers",
    "chain": "sticky chain",
    "known": "Trained TF, known $W_e$",
}
MARKS = {
    "values": ("values and outputs ten times faster", "o", style.PALETTE[0], -0.15),
    "routing": ("queries and keys ten times faster", "s", style.PALETTE[3], 0.15),
}


def rates(found: Mapping[str, Race]) -> Figure:
    """Ratios of steps with 95 % intervals over seeds. Left: both arms at the plain base rate, over the plain rate; the best uniform rate is a diamond.
    Right: each at its best base rate, over the best uniform rate, which is the dotted line."""
    fig, (left, right) = style.figure(2, aspect=0.85, sharey=True)
    for row, of in enumerate(found.values()):
        logs = of.logs()
        for arm, (label, marker, colour, shift) in MARKS.items():
            right_of = logs["uniform" if arm == "values" else "routing_uniform"]
            for ax, values in ((left, logs[f"{arm}_plain"]), (right, right_of)):
                mean, low, high = np.exp(interval(values))
                shown = None if row else label
                ax.plot([low, high], [row + shift] * 2, color=colour, lw=2)
                ax.plot(mean, row + shift, marker, color=colour, label=shown)
                ax.plot(
                    np.exp(values), np.full(len(values), row + shift), marker, color=colour, ms=3, alpha=0.4
                )
        best = np.exp(logs["uniform_plain"].mean())
        left.plot(best, row, "D", color=style.INK, mfc="none", label=None if row else "best uniform rate")
    left.axvline(1, color=style.INK, ls=":")
    right.axvline(1, color=style.INK, ls=":")
    left.set(xscale="log", xlabel="steps over steps at the plain rate")
    right.set(xscale="log", xlabel="at the best base rate: steps over\nsteps at the best uniform rate")
    style.log_ticks(left, "x", [0.03, 0.1, 0.3, 1])
    style.log_ticks(right, "x", [0.1, 0.3, 1, 3, 10])
    left.set_yticks(range(len(found)), [NAMES[name] for name in found])
    left.set_ylim(len(found) - 0.5, -0.5)
    handles, labels = left.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=3, fontsize=8)
    return fig
