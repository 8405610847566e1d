"""Sections 9.1, 9.2 and 9.6 as distributions over seeds and settings, the printed numbers beside them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ....drawing import style
from ..measures.diversity import PRINTED_CHANGE as DIVERSITY_CHANGE
from ..measures.diversity import ROUND_3, DiversityRuns
from ..measures.dynamics import PRINTED, STEPS, Dynamics, shown
from ..measures.masks import MASK_ERRORS, MASKED, PRINTED_CHANGE, MaskRuns
from .marks import cross, legend_above, named_ticks, strip

MASK_COLOURS = dict(zip(MASK_ERRORS, (style.PALETTE[6], *style.PALETTE[:3]), strict=True))
MASK_MARKERS = dict(zip(MASK_ERRORS, "osD^", strict=True))
LINES = ("-", "--", "-.", ":", (0, (6, 1.5)), (0, (3, 1, 1, 1, 1, 1)))


def masks(runs: MaskRuns) -> Figure:
    """Section 9.1: error and its change against no mask, each seed, by setting; dashed, with the mask's mark at the right end: printed."""
    fig, (top, bottom) = style.figure(1, 2, height=5.4, sharex=True)
    changes = {mask: runs.change(mask) for mask in MASKED}
    for ax, series, printed in ((top, runs.errors, MASK_ERRORS), (bottom, changes, PRINTED_CHANGE)):
        for mask, values in series.items():
            j = list(MASK_ERRORS).index(mask)
            look = {"color": style.COLOURS["paper"], "zorder": 1}
            ax.axhline(printed[mask], ls=(0, (5, 3)), lw=0.9, **look)
            mark = {"mfc": MASK_COLOURS[mask], "mec": style.COLOURS["paper"], "zorder": 4}
            ax.plot([len(runs.settings) - 0.4 + 0.16 * j], [printed[mask]], MASK_MARKERS[mask], ms=6, **mark)
            for i in range(len(runs.settings)):
                name = ("no mask" if mask == "none" else mask) if i == 0 else None
                strip(ax, i + (j - 1.5) * 0.2, values[i], MASK_COLOURS[mask], MASK_MARKERS[mask], name)
    top.plot([], [], color=style.COLOURS["paper"], ls=(0, (5, 3)), label="printed")
    bottom.axhline(0, color=style.INK, lw=0.8)
    most = max(np.quantile(e, 0.97) for e in runs.errors.values())
    top.set(ylabel="error", ylim=(4.3, max(most, 6.3)))
    high = max(30.0, float(np.quantile(changes["redundant"], 0.95)))
    bottom.set(ylabel="change against no mask (%)", ylim=(-17, min(high, 45)))
    for ax, series in ((top, runs.errors), (bottom, changes)):
        _note_cut(ax, np.concatenate([np.ravel(values) for values in series.values()]))
        named_ticks(ax, [s.replace(", ", "\n").replace(" 0", "\n0") for s in runs.settings])
    bottom.tick_params(axis="x", labelsize=8, length=0)
    top.legend(
        ncols=5, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 1.17), markerscale=1.8, columnspacing=1
    )
    return fig


def _note_cut(ax: Axes, values: np.ndarray) -> None:
    """Write into the corner how many of the values lie beyond the axis, if any do."""
    low, high = ax.get_ylim()
    n = int(((values < low) | (values > high) | ~np.isfinite(values)).sum())
    if n:
        note = f"{n} of {values.size} marks beyond the axis"
        ax.text(0.01, 0.97, note, transform=ax.transAxes, va="top", fontsize=7.5)


def dynamics(d: Dynamics) -> Figure:
    """Section 9.2: error, rho_2 and alignment against the step, mean and range over seeds by setting; crosses: printed."""
    fig, axes = style.figure(3, height=3.1)
    panels = [
        (d.error, PRINTED["error"], "error, 16 examples"),
        (d.rho, PRINTED["rho2"], r"$\rho_2$ (fall per example)"),
        (d.alignment["gain"], PRINTED["alignment"], "spectral alignment (gain)"),
    ]
    steps = d.steps / 1000
    for ax, (by_setting, printed, title) in zip(axes, panels, strict=True):
        for i, name in enumerate(shown(d)):
            values, colour = by_setting[name], style.PALETTE[i]
            ax.fill_between(steps, values.min(1), values.max(1), color=colour, alpha=0.2, lw=0)
            ax.plot(steps, values.mean(1), color=colour, lw=1.4, ls=LINES[i % len(LINES)], label=name)
        cross(ax, np.array(STEPS) / 20_000 * steps[-1], printed, "printed")
        ax.set(xlabel="step (thousands)", title=title)
    axes[0].set_yscale("log")
    axes[0].set_yticks([5, 10, 20], ["5", "10", "20"])
    axes[0].minorticks_off()
    legend_above(fig, axes[0], 4)
    axes[2].axhline(0, color=style.INK, lw=0.8)
    axes[2].set_ylim(-1, 1)
    return fig


def alignment_gains(
    eigenvalues: tuple[float, ...], gains: Mapping[str, np.ndarray], best: np.ndarray
) -> Figure:
    """Trained gain of each covariate, every seed (setting -> ``(seeds, d)``), beside the best one-layer gain and the inverse spectrum."""
    fig, ax = style.figure(height=3.4)
    x = np.arange(len(eigenvalues))
    for i, (name, values) in enumerate(gains.items()):
        for j in x:
            place = j + (i - (len(gains) - 1) / 2) * 0.72 / len(gains)
            strip(ax, place, values[:, j], style.PALETTE[i], "osD^vP"[i], name if j == 0 else None)
    ax.plot(
        x, best, "_", ms=44, mew=1.6, color=style.COLOURS["theory"], label="best one-layer gain", zorder=3
    )
    inverse, top = 1 / np.asarray(eigenvalues) * best[0] * eigenvalues[0], 1.02
    inside = inverse <= top
    look = {"color": style.INK, "ms": 7, "mew": 1.6, "zorder": 4}
    ax.plot(x[inside], inverse[inside], "x", label="∝ inverse spectrum", **look)
    for place, value in zip(x[~inside], inverse[~inside], strict=True):
        ax.annotate(f"{value:.0f} ↑", (place, top), ha="center", va="top", fontsize=8)
    ax.set(ylabel="gain", ylim=(-0.12, top))
    ax.set_xlabel("variance λ of the covariate (inverse spectrum beyond the axis: arrows)")
    named_ticks(ax, [f"{v:g}" for v in eigenvalues])
    for handle in legend_above(fig, ax, 4).legend_handles:
        handle.set_markersize(6)
    return fig


def diversity(runs: DiversityRuns, balanced: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """Section 9.6. Left: improvement by the regulariser, each seed, rounds 1 and 2. Right: round 3's errors. Crosses: printed."""
    fig, (left, right) = style.figure(2, height=3.4, width_ratios=(1.7, 1))
    for j, rate in enumerate(runs.rates):
        place, colour, marker = (j - 0.5) * 0.3, style.PALETTE[j], "os"[j % 2]
        for i, name in enumerate(runs.base):
            strip(left, i + place, runs.improvement(name)[j], colour, marker, None if i else f"Adam {rate:g}")
        for i, condition in enumerate(ROUND_3):
            for errors in ("all", "low"):
                strip(right, i + place, balanced[condition][errors][j], colour, marker)
    cross(left, range(len(runs.base)), [DIVERSITY_CHANGE[name] for name in runs.base], "printed")
    for i, printed in enumerate(ROUND_3.values()):
        cross(right, [i, i], printed)
    left.axhline(0, color=style.INK, lw=0.8)
    left.set(ylabel="improvement (%)", title="rounds 1 and 2")
    legend_above(fig, left, 3, fontsize=8, markerscale=1.5, columnspacing=2)
    named_ticks(left, [n.replace("_", "\n") for n in runs.base], fontsize=8)
    right.set(ylabel="error", title="round 3: all (top), low band", ylim=(0, None))
    named_ticks(right, ["baseline", "regularised", "oracle"], fontsize=8)
    return fig
