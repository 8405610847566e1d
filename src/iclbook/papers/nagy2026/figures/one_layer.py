"""Sections 9.1, 9.2 and 9.6 as distributions over seeds and settings, the printed numbers beside them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ....drawing import style
from ..measures.diversity import ROUND_1, ROUND_3, DiversityRuns
from ..measures.one_layer import MASK_ERRORS, PRINTED_DYNAMICS, Dynamics, MaskRuns, shown

MASK_COLOURS = dict(zip(MASK_ERRORS, (style.PALETTE[6], *style.PALETTE[:3]), strict=True))
MASK_MARKERS = dict(zip(MASK_ERRORS, "osD^", strict=True))
MASK_NAMES = {"none": "no mask", "spectral": "spectral", "random": "random", "redundant": "redundant"}
PRINTED_AT = (0, 5_000, 10_000, 18_000)
LINES = ("-", "--", "-.", ":", (0, (6, 1.5)), (0, (3, 1, 1, 1, 1, 1)))


def strip(
    ax: Axes, x: float, values: np.ndarray, colour: str, marker: str = "o", label: str | None = None
) -> None:
    """Every seed as a small mark beside ``x``, their mean as a bar across; values ``(seeds,)``."""
    spread = np.linspace(-0.06, 0.06, len(values)) if len(values) > 1 else np.zeros(1)
    ax.plot(x + spread, values, marker, ms=2.6, mew=0, alpha=0.6, color=colour, label=label)
    ax.plot([x - 0.09, x + 0.09], [values.mean()] * 2, color=colour, lw=2.2, solid_capstyle="butt")


def masks(runs: MaskRuns) -> Figure:
    """Section 9.1: error and its change against no mask, each seed, by setting; dashed, with the mask's mark at the right end: printed."""
    fig, axes = style.figure(1, 2, height=5.4, sharex=True)
    for j, (mask, values) in enumerate(runs.errors.items()):
        for i in range(len(runs.settings)):
            x = i + (j - 1.5) * 0.2
            kwargs = {"marker": MASK_MARKERS[mask], "label": MASK_NAMES[mask] if i == 0 else None}
            strip(axes[0], x, values[i], MASK_COLOURS[mask], **kwargs)
            if mask != "none":
                strip(axes[1], x, runs.change(mask)[i], MASK_COLOURS[mask], **kwargs)
    right = len(runs.settings) - 0.4
    for i, (mask, value) in enumerate(MASK_ERRORS.items()):
        x = right + 0.16 * i
        lines = [(axes[0], value)]
        if mask != "none":
            lines.append((axes[1], 100 * (value / MASK_ERRORS["none"] - 1)))
        for ax, y in lines:
            ax.axhline(y, color=style.COLOURS["paper"], ls=(0, (5, 3)), lw=0.9, zorder=1)
            ax.plot(
                [x],
                [y],
                MASK_MARKERS[mask],
                ms=6,
                mfc=MASK_COLOURS[mask],
                mec=style.COLOURS["paper"],
                zorder=4,
            )
    axes[0].plot([], [], color=style.COLOURS["paper"], ls=(0, (5, 3)), label="printed")
    axes[1].axhline(0, color=style.INK, lw=0.8)
    top = max(np.quantile(e, 0.97) for e in runs.errors.values())
    axes[0].set(ylabel="error", ylim=(4.3, max(top, 6.3)))
    high = max(30.0, float(np.quantile(runs.change("redundant"), 0.95)))
    axes[1].set(ylabel="change against no mask (%)", ylim=(-17, min(high, 45)))
    for ax, series in (
        (axes[0], runs.errors.values()),
        (axes[1], [runs.change(m) for m in runs.errors if m != "none"]),
    ):
        _note_cut(ax, np.concatenate([np.ravel(s) for s in series]))
    axes[1].set_xticks(
        range(len(runs.settings)), [s.replace(", ", "\n").replace(" 0", "\n0") for s in runs.settings]
    )
    axes[1].tick_params(axis="x", labelsize=8, length=0)
    for ax in axes:
        ax.grid(axis="x", visible=False)
    axes[0].legend(
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
        (axes[0], d.error, PRINTED_DYNAMICS["error"], "error, 16 examples"),
        (axes[1], d.rho, PRINTED_DYNAMICS["rho2"], r"$\rho_2$ (fall per example)"),
        (axes[2], d.alignment["gain"], PRINTED_DYNAMICS["alignment"], "spectral alignment (gain)"),
    ]
    scale = d.steps[-1] / 20_000
    for ax, by_setting, printed, title in panels:
        for i, name in enumerate(shown(d)):
            values = by_setting[name]
            ax.fill_between(
                d.steps / 1000, values.min(1), values.max(1), color=style.PALETTE[i], alpha=0.2, lw=0
            )
            ax.plot(
                d.steps / 1000,
                values.mean(1),
                color=style.PALETTE[i],
                lw=1.4,
                ls=LINES[i % len(LINES)],
                label=name,
            )
        ax.plot(
            np.array(PRINTED_AT) * scale / 1000,
            printed,
            "x",
            ms=7,
            mew=1.8,
            color=style.COLOURS["paper"],
            label="printed",
            zorder=4,
        )
        ax.set(xlabel="step (thousands)", title=title)
    axes[0].set_yscale("log")
    axes[0].set_yticks([5, 10, 20], ["5", "10", "20"])
    axes[0].minorticks_off()
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=7.5, columnspacing=1.2)
    axes[2].axhline(0, color=style.INK, lw=0.8)
    axes[2].set_ylim(-1, 1)
    return fig


def alignment_gains(
    eigenvalues: tuple[float, ...], gains: Mapping[str, np.ndarray], best: np.ndarray
) -> Figure:
    """Trained gain of each covariate, every seed (setting -> ``(seeds, d)``), beside the best one-layer gain and the inverse spectrum."""
    fig, ax = style.figure(height=3.4)
    x = np.arange(len(eigenvalues))
    step = 0.72 / max(len(gains), 1)
    for i, (name, values) in enumerate(gains.items()):
        for j in x:
            place = j + (i - (len(gains) - 1) / 2) * step
            strip(ax, place, values[:, j], style.PALETTE[i], "osD^vP"[i], name if j == 0 else None)
    ax.plot(
        x, best, "_", ms=44, mew=1.6, color=style.COLOURS["theory"], label="best one-layer gain", zorder=3
    )
    inverse = 1 / np.asarray(eigenvalues) * best[0] * eigenvalues[0]
    top = 1.02
    inside, above = inverse <= top, inverse > top
    ax.plot(
        x[inside], inverse[inside], "x", color=style.INK, ms=7, mew=1.6, label="∝ inverse spectrum", zorder=4
    )
    for place, value in zip(x[above], inverse[above], strict=True):
        ax.annotate(f"{value:.0f} ↑", (place, top), ha="center", va="top", fontsize=8)
    ax.set(
        ylabel="gain",
        xlabel="variance λ of the covariate (inverse spectrum beyond the axis: arrows)",
        ylim=(-0.12, top),
    )
    ax.set_xticks(x, [f"{v:g}" for v in eigenvalues])
    ax.grid(axis="x", visible=False)
    handles, labels = ax.get_legend_handles_labels()
    legend = fig.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=7.5, columnspacing=1.2)
    for handle in legend.legend_handles:
        handle.set_markersize(6)
    return fig


def diversity(runs: DiversityRuns, balanced: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """Section 9.6. Left: improvement by the regulariser, each seed, rounds 1 and 2. Right: round 3's errors. Crosses: printed."""
    fig, (left, right) = style.figure(2, height=3.4, width_ratios=(1.7, 1))
    for i, name in enumerate(runs.base):
        for j, rate in enumerate(runs.rates):
            strip(
                left,
                i + (j - 0.5) * 0.3,
                runs.improvement(name)[j],
                style.PALETTE[j],
                "os"[j % 2],
                f"Adam {rate:g}" if i == 0 else None,
            )
        printed = 100 * (1 - ROUND_1[name][1] / ROUND_1[name][0])
        left.plot(
            [i],
            [printed],
            "x",
            ms=7,
            mew=1.8,
            color=style.COLOURS["paper"],
            zorder=4,
            label="printed" if i == 0 else None,
        )
    left.axhline(0, color=style.INK, lw=0.8)
    left.set_xticks(range(len(runs.base)), [n.replace("_", "\n") for n in runs.base], fontsize=8)
    left.set(ylabel="improvement (%)", title="rounds 1 and 2")
    handles, labels = left.get_legend_handles_labels()
    fig.legend(handles, labels, fontsize=8, ncols=3, loc="outside upper center", markerscale=1.5)
    for i, condition in enumerate(ROUND_3):
        errors = balanced[condition]
        for j in range(len(runs.rates)):
            strip(right, i + (j - 0.5) * 0.3, errors["all"][j], style.PALETTE[j], "os"[j % 2])
            strip(right, i + (j - 0.5) * 0.3, errors["low"][j], style.PALETTE[j], "os"[j % 2])
        right.plot([i, i], ROUND_3[condition], "x", ms=7, mew=1.8, color=style.COLOURS["paper"], zorder=4)
    right.set_xticks(range(3), ["baseline", "regularised", "oracle"], fontsize=8)
    right.set(ylabel="error", title="round 3: all (top), low band", ylim=(0, None))
    for ax in (left, right):
        ax.grid(axis="x", visible=False)
    return fig
