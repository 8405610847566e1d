"""Section 9 of agarwal2025: effective weights side by side, and the conjectured gradients against autograd."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ....drawing import style
from ..measures.routing import Draw, weights

NAMES = {"softmax": "softmax attention", "ssm": "selective SSM", "normalised": "SSM, rows summing to 1"}
FORMS = {
    "printed": ("as printed", style.COLOURS["paper"], "o"),
    "advantage": ("without the factor $w_{ij}$", style.PALETTE[1], "s"),
    "chain": ("no baseline either: chain rule", style.PALETTE[0], "^"),
}


def weight_maps(d: Draw) -> Figure:
    """Weights ``w_ij`` of attention, of one channel of the SSM and of one channel of the LSTM on the same random sequence.

    Colours end at 1 and -1; the numbers do not.
    """
    maps, titles = [], []
    for mechanism, name in (("softmax", "attention"), ("ssm", "selective SSM"), ("lstm", "LSTM cell")):
        w = weights(mechanism, d.theta[mechanism], d.x)
        w = (w if w.dim() == 2 else w[0]).numpy()
        sums = w.sum(1)
        maps.append(w)
        titles.append(f"{name}\nrow sums {sums.min():.2f} to {sums.max():.2f}")
    places = [str(i + 1) for i in range(maps[0].shape[0])]
    fig, axes = style.figure(3, height=2.9)
    for ax, w, title in zip(axes, maps, titles, strict=True):
        image = style.heatmap(ax, w, 1.0, title=title, row_labels=places, col_labels=places)
        for i, j in zip(*np.tril_indices(len(w)), strict=True):
            dark = abs(w[i, j]) > 0.55
            ax.text(
                j,
                i,
                f"{round(w[i, j], 1) + 0:.1f}",
                ha="center",
                va="center",
                fontsize=7,
                color="white" if dark else style.INK,
            )
        ax.set_xlabel("position read, j")
    axes[0].set_ylabel("reader, i")
    bar = fig.colorbar(image, ax=list(axes), shrink=0.8, aspect=20, pad=0.02, extend="both")
    bar.set_label("$w_{ij}$")
    bar.outline.set_visible(False)
    return fig


def conjecture(cosines: dict[str, dict[str, np.ndarray]]) -> Figure:
    """Cosine of each form of Conjecture 9.2 with the exact gradient, one mark for each random network; 1 means proportional."""
    fig, ax = style.figure(height=3.2)
    for i, forms in enumerate(cosines.values()):
        for k, (form, values) in enumerate(forms.items()):
            label, colour, marker = FORMS[form]
            x = i + (k - 1) * 0.25 + np.linspace(-0.09, 0.09, len(values))
            ax.plot(x, values, marker, ms=3, mew=0, alpha=0.5, color=colour, label=label if i == 0 else None)
            middle = np.median(values)
            ax.plot(i + (k - 1) * 0.25 + np.array([-0.11, 0.11]), [middle] * 2, color=style.INK, lw=1.8)
    ax.axhline(1, color=style.COLOURS["theory"], lw=0.9, ls=(0, (1, 1.6)), zorder=1)
    ax.axhline(0, color=style.INK, lw=0.6, zorder=1)
    ax.set_xticks(range(len(cosines)), [NAMES[m] for m in cosines])
    ax.set(ylabel="cosine with the exact gradient", ylim=(-1.08, 1.12))
    ax.grid(axis="x", visible=False)
    fig.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3, markerscale=2)
    return fig
