"""The joint statistic of stacks whose kind is known, and of the ladder's models."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ....drawing import style
from ..measures.rungs import Rungs

KINDS = {
    "sharpening": "sharpening smoother",
    "averaging": "mean of noisy answers",
    "mean": "walk to the context's mean",
    "strides": "walk to the right answer",
    "jump": "jump to the right answer",
    "reordered": "layers reordered",
    "others": "answers to other prompts",
}


def rungs(found: Rungs) -> Figure:
    """Share of descending stacks among the nearest: quartiles (bar) and median (line) of fresh stacks of each kind, all depths together; models as discs, twins open."""
    known = {"stacks that descend": [judge.yes for judge in found.judges.values()]}
    known |= {label: [judge.no[kind] for judge in found.judges.values()] for kind, label in KINDS.items()}
    fig, ax = style.figure(height=4.5)
    for row, every in enumerate(known.values()):
        low, middle, high = np.quantile(np.concatenate(every), (0.25, 0.5, 0.75))
        colour = style.COLOURS["measured"] if row == 0 else style.COLOURS["dummy"]
        ax.plot([low, high], [row, row], color=colour, lw=9, alpha=0.45, solid_capstyle="butt")
        ax.plot([middle, middle], [row - 0.28, row + 0.28], color=colour, lw=2.4)
    for i, (name, said) in enumerate(found.ladder.items()):
        row, look = len(known) + i, {"ls": "", "marker": "o", "ms": 5, "color": style.PALETTE[i]}
        ax.plot(said, row - 0.15 + _apart(said), **look, label=None if i else "a model")
        if name in found.twins:
            alone = found.twins[name]
            ax.plot(alone, row + 0.2 + _apart(alone), **look, mfc="none", label=None if i else "its twin")
    ax.axvline(0.5, color=style.INK, lw=0.9, ls=":")
    ax.set_yticks(range(len(known) + len(found.ladder)), [*known, *found.ladder])
    ax.set(xlim=(-0.03, 1.03), xlabel="share of descending stacks among the 25 nearest")
    ax.invert_yaxis()
    ax.legend(loc="lower right", fontsize=8)
    return fig


def _apart(said: list[float]) -> np.ndarray:
    """Small shifts, so that equal scores do not hide one another."""
    return 0.11 * (np.arange(len(said)) - (len(said) - 1) / 2)
