"""What the figures of recall2025 share: colours and dashes of the heads, and the dotted plateau values."""

from __future__ import annotations

from matplotlib.axes import Axes

from ....drawing import style
from ....tasks import AssociativeRecall

HEAD = style.PALETTE[:4]
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (4, 1.5, 1, 1.5)))
DOTS = (0, (1, 1.6))


def plateau_lines(
    ax: Axes, task: AssociativeRecall, last: int, label: str | None = None, loss: str = "dp"
) -> None:
    """The closed forms of plateaus 0 to ``last`` as dotted lines across."""
    value = task.plateau_ce if loss == "ce" else task.plateau_dp
    for m in range(last + 1):
        ax.axhline(value(m), color=style.INK, lw=0.9, ls=DOTS, label=label if m == 0 else None)
