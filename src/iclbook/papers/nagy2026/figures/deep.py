"""Sections 9.5 and 9.5.1 as distributions over seeds, the printed numbers beside them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ....drawing import style
from ..measures.ablation import DIMENSIONS, PRINTED_ABLATION, Ablation, DepthGrid
from ..measures.guided import CONTEXTS, PRINTED_ERRORS, PRINTED_SCALES, PRINTED_SINKS, Guided
from .marks import cross, legend_above, named_ticks, strip

READING_NAMES = {
    "set1e-3": "4,000 prompts, Adam 0.001",
    "set3e-3": "4,000 prompts, Adam 0.003",
    "fresh": "new prompts, Adam 0.001",
    "v295": "4,000 prompts, variance 0.295",
}
MODELS = {
    "baseline": ("2 layers", style.PALETTE[1], "s"),
    "guided": ("4 layers, guided", style.PALETTE[0], "o"),
}
#: Variant -> how it is called, its colour and its mark.
VARIANTS = {
    "baseline": ("baseline", style.PALETTE[1], "s"),
    "depth": ("depth", style.PALETTE[0], "o"),
    "sink": ("depth + sink", style.PALETTE[2], "D"),
    "scale": ("depth + layer scale", style.PALETTE[3], "^"),
    "ortho": ("depth + orthogonality", style.PALETTE[4], "v"),
    "full": ("depth + all three", style.PALETTE[5], "P"),
}


def guided(readings: Mapping[str, Guided]) -> Figure:
    """Section 9.5: error by context length of both models under each reading, every seed; crosses: printed."""
    fig, axes = style.figure(len(readings), height=3.1, sharey=True, squeeze=False)
    for ax, (reading, g) in zip(axes[0], readings.items(), strict=True):
        for j, (model, (name, colour, marker)) in enumerate(MODELS.items()):
            for i, printed in enumerate(PRINTED_ERRORS[model]):
                x = i + (j - 0.5) * 0.34
                strip(ax, x, g.errors[model][i], colour, marker, name if i == 0 else None)
                cross(ax, x, printed, "printed" if i == j == 0 else None)
        named_ticks(ax, CONTEXTS)
        ax.set_yscale("log")
        ax.set_yticks([0.03, 0.1, 0.3], ["0.03", "0.1", "0.3"])
        ax.minorticks_off()
        ax.set_xlabel("examples")
        ax.set_title(READING_NAMES.get(reading, reading).replace(", ", ",\n"), fontsize=9)
    axes[0, 0].set_ylabel("error")
    axes[0, 0].legend(fontsize=7.5, loc="lower left", markerscale=1.5)
    return fig


def guided_layers(readings: Mapping[str, Guided]) -> Figure:
    """Section 9.5: attention to the sink and layer scale, layer by layer, every seed; dashed: printed."""
    fig, axes = style.figure(2, height=2.9)
    for ax, field, printed, title in (
        (axes[0], "sinks", PRINTED_SINKS, "attention of the query to the sink"),
        (axes[1], "scales", PRINTED_SCALES, "layer scale"),
    ):
        layers = np.arange(1, len(printed) + 1)
        for j, (reading, g) in enumerate(readings.items()):
            for i, row in enumerate(getattr(g, field)):
                name = READING_NAMES.get(reading) if i == 0 else None
                strip(ax, layers[i] + (j - 1.5) * 0.2, row, style.PALETTE[j], "osD^"[j], name)
        cross(ax, layers, printed, "printed", ls=(0, (5, 3)))
        ax.set(xlabel="layer", title=title)
        ax.set_xticks(layers)
        ax.grid(axis="x", visible=False)
    legend_above(fig, axes[1], 3, markerscale=1.5)
    return fig


def ablation(errors: Mapping[int, Mapping[str, np.ndarray]]) -> Figure:
    """Section 9.5.1: error of the six variants at each dimension, every seed (``errors[d][variant]`` ``(seeds,)``); crosses: printed."""
    fig, axes = style.figure(3, height=3.5)
    for i, (ax, d) in enumerate(zip(axes, DIMENSIONS, strict=True)):
        for j, (variant, values) in enumerate(errors[d].items()):
            _, colour, marker = VARIANTS[variant]
            strip(ax, j, values, colour, marker)
            mean, sd = PRINTED_ABLATION[variant][i]
            look = {"fmt": "x", "ms": 6, "mew": 1.6, "elinewidth": 1, "color": style.COLOURS["paper"]}
            ax.errorbar([j + 0.3], [mean], yerr=[sd], label="printed (± sd)" if j == 0 else None, **look)
        named_ticks(ax, [VARIANTS[v][0] for v in errors[d]], rotation=60, ha="right", fontsize=7.5)
        ax.tick_params(axis="x", length=0)
        ax.set(title=f"d = {d}", ylim=(0, None))
    axes[0].set_ylabel("error")
    axes[0].legend(fontsize=7.5)
    return fig


def depth_course(runs: Ablation) -> Figure:
    """Error of every variant along training, mean and range over seeds; dashed: the printed baseline (low) and depth (high)."""
    fig, axes = style.figure(3, height=3.2)
    for i, (ax, d) in enumerate(zip(axes, DIMENSIONS, strict=True)):
        for variant in ("baseline", "depth", "full"):
            values, (name, colour, marker) = runs.errors[d][variant], VARIANTS[variant]
            ax.fill_between(runs.steps, values.min(1), values.max(1), color=colour, alpha=0.2, lw=0)
            ax.plot(runs.steps, values.mean(1), color=colour, marker=marker, ms=3, label=name)
            if variant != "full":
                line = style.paper_line(ax, PRINTED_ABLATION[variant][i][0], f"{variant}, printed")
                line.set_color(colour)
        ax.set(title=f"d = {d}", xlabel="step", ylim=(0, None))
        ax.xaxis.set_major_locator(MaxNLocator(4))
    axes[0].set_ylabel("error")
    legend_above(fig, axes[0], 5, columnspacing=2)
    return fig


def depth_grid(grid: DepthGrid) -> Figure:
    """Error of depth over baseline along training, one line for each optimiser and rate that learns; above 1 depth hurts."""
    fig, axes = style.figure(3, height=3.2, sharey=True)
    settings = list(dict.fromkeys(name.split(", ")[1] for name in grid.pairs))
    for i, (ax, d) in enumerate(zip(axes, DIMENSIONS, strict=True)):
        for name in (s for s in grid.pairs if s.startswith(f"d = {d},") and grid.learns(s)):
            setting = name.split(", ")[1]
            look = {
                "color": style.PALETTE[settings.index(setting)],
                "marker": "os^Dv"[settings.index(setting) % 5],
            }
            ax.plot(grid.steps, grid.ratio(name), ms=3, label=setting, **look)
        ax.axhline(1, color=style.INK, lw=0.9)
        style.paper_line(ax, PRINTED_ABLATION["depth"][i][0] / PRINTED_ABLATION["baseline"][i][0], "printed")
        ax.set(title=f"d = {d}", xlabel="step")
        ax.xaxis.set_major_locator(MaxNLocator(4))
    axes[0].set_ylabel("error of depth / baseline")
    shown = {label: h for ax in axes for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    order = [name for name in (*settings, "printed") if name in shown]
    fig.legend([shown[n] for n in order], order, loc="outside upper center", ncols=len(order), fontsize=8)
    return fig


def ablation_changes(errors: Mapping[int, Mapping[str, np.ndarray]]) -> Figure:
    """Change of the mean error against plain depth in per cent, by component and dimension, with two standard errors; crosses: printed."""
    fig, ax = style.figure(height=2.9)
    for i, d in enumerate(DIMENSIONS):
        depth = errors[d]["depth"]
        for j, variant in enumerate(("sink", "scale", "ortho", "full")):
            x = j + (i - 1) * 0.25
            paired = 100 * (errors[d][variant] - depth) / depth.mean()
            two_errors = 2 * paired.std(ddof=1) / np.sqrt(len(paired))
            look = {"fmt": "osD"[i], "ms": 5, "color": style.PALETTE[i], "capsize": 2}
            ax.errorbar([x], [paired.mean()], yerr=[two_errors], label=f"d = {d}" if j == 0 else None, **look)
            printed = 100 * (PRINTED_ABLATION[variant][i][0] / PRINTED_ABLATION["depth"][i][0] - 1)
            cross(ax, x + 0.08, printed, "printed" if i == j == 0 else None, ms=6, mew=1.6, zorder=2)
    ax.axhline(0, color=style.INK, lw=0.9)
    named_ticks(ax, ["sink (SM1)", "layer scale (SM2)", "orthogonality (SM4/5)", "all three"])
    ax.set(ylabel="change against depth (%)")
    ax.legend(fontsize=8, ncols=2)
    return fig
