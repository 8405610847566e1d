"""Sections 9.5 and 9.5.1 as distributions over seeds, the printed numbers beside them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ....drawing import style
from ..measures.deep import (
    CONTEXTS,
    DIMENSIONS,
    PRINTED_ABLATION,
    PRINTED_ERRORS,
    PRINTED_SCALES,
    PRINTED_SINKS,
    VARIANT_NAMES,
    Ablation,
    DepthGrid,
    Guided,
)
from .one_layer import strip

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
VARIANT_COLOURS = dict(
    zip(VARIANT_NAMES, style.PALETTE[1:2] + style.PALETTE[:1] + style.PALETTE[2:6], strict=True)
)
VARIANT_MARKERS = dict(zip(VARIANT_NAMES, "soD^vP", strict=True))


def guided(readings: Mapping[str, Guided]) -> Figure:
    """Section 9.5: error by context length of both models under each reading, every seed; crosses: printed."""
    fig, axes = style.figure(len(readings), height=3.1, sharey=True, squeeze=False)
    for ax, (reading, g) in zip(axes[0], readings.items(), strict=True):
        for j, (model, (name, colour, marker)) in enumerate(MODELS.items()):
            for i in range(len(CONTEXTS)):
                x = i + (j - 0.5) * 0.34
                strip(ax, x, g.errors[model][i], colour, marker, name if i == 0 else None)
                ax.plot(
                    [x],
                    [PRINTED_ERRORS[model][i]],
                    "x",
                    ms=7,
                    mew=1.8,
                    color=style.COLOURS["paper"],
                    zorder=4,
                    label="printed" if i == j == 0 else None,
                )
        ax.set_xticks(range(len(CONTEXTS)), [str(n) for n in CONTEXTS])
        ax.set_yscale("log")
        ax.set_yticks([0.03, 0.1, 0.3], ["0.03", "0.1", "0.3"])
        ax.minorticks_off()
        ax.set(xlabel="examples", title=READING_NAMES.get(reading, reading).replace(", ", ",\n"))
        ax.title.set_fontsize(9)
        ax.grid(axis="x", visible=False)
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
                strip(
                    ax,
                    layers[i] + (j - 1.5) * 0.2,
                    row,
                    style.PALETTE[j],
                    "osD^"[j],
                    READING_NAMES.get(reading) if i == 0 else None,
                )
        ax.plot(
            layers,
            printed,
            color=style.COLOURS["paper"],
            ls=(0, (5, 3)),
            marker="x",
            ms=7,
            mew=1.8,
            label="printed",
            zorder=4,
        )
        ax.set(xlabel="layer", title=title)
        ax.set_xticks(layers)
        ax.grid(axis="x", visible=False)
    handles, labels = axes[1].get_legend_handles_labels()
    place = {"loc": "outside upper center", "ncols": 3, "columnspacing": 1.2}
    fig.legend(handles, labels, fontsize=7.5, markerscale=1.5, **place)
    return fig


def ablation(errors: Mapping[int, Mapping[str, np.ndarray]]) -> Figure:
    """Section 9.5.1: error of the six variants at each dimension, every seed (``errors[d][variant]`` ``(seeds,)``); crosses: printed."""
    fig, axes = style.figure(3, height=3.5)
    for i, (ax, d) in enumerate(zip(axes, DIMENSIONS, strict=True)):
        for j, (variant, values) in enumerate(errors[d].items()):
            strip(ax, j, values, VARIANT_COLOURS[variant], VARIANT_MARKERS[variant])
            mean, sd = PRINTED_ABLATION[variant][i]
            ax.errorbar(
                [j + 0.3],
                [mean],
                yerr=[sd],
                fmt="x",
                ms=6,
                mew=1.6,
                elinewidth=1,
                color=style.COLOURS["paper"],
                label="printed (± sd)" if j == 0 else None,
            )
        ax.set_xticks(
            range(6),
            [VARIANT_NAMES[v].split(" (")[0] for v in errors[d]],
            rotation=60,
            ha="right",
            fontsize=7.5,
        )
        ax.tick_params(axis="x", length=0)
        ax.set(title=f"d = {d}", ylim=(0, None))
        ax.grid(axis="x", visible=False)
    axes[0].set_ylabel("error")
    axes[0].legend(fontsize=7.5)
    return fig


def depth_course(runs: Ablation) -> Figure:
    """Error of every variant along training, mean and range over seeds; dashed: the printed baseline (low) and depth (high)."""
    fig, axes = style.figure(3, height=3.2)
    for i, (ax, d) in enumerate(zip(axes, DIMENSIONS, strict=True)):
        for variant in ("baseline", "depth", "full"):
            values = runs.errors[d][variant]
            ax.fill_between(
                runs.steps, values.min(1), values.max(1), color=VARIANT_COLOURS[variant], alpha=0.2, lw=0
            )
            ax.plot(
                runs.steps,
                values.mean(1),
                color=VARIANT_COLOURS[variant],
                marker=VARIANT_MARKERS[variant],
                ms=3,
                label=VARIANT_NAMES[variant].split(" (")[0],
            )
            if variant != "full":
                line = style.paper_line(ax, PRINTED_ABLATION[variant][i][0], None)
                line.set_color(VARIANT_COLOURS[variant])
                line.set_label(f"{variant}, printed")
        ax.set(title=f"d = {d}", xlabel="step", ylim=(0, None))
        ax.xaxis.set_major_locator(MaxNLocator(4))
    axes[0].set_ylabel("error")
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=7.5)
    return fig


def depth_grid(grid: DepthGrid) -> Figure:
    """Error of depth over baseline along training, one line for each optimiser and rate that learns; above 1 depth hurts."""
    fig, axes = style.figure(3, height=3.2, sharey=True)
    settings = list(dict.fromkeys(name.split(", ")[1] for name in grid.pairs))
    for ax, d in zip(axes, DIMENSIONS, strict=True):
        for name in (s for s in grid.pairs if s.startswith(f"d = {d},") and grid.learns(s)):
            setting = name.split(", ")[1]
            i = settings.index(setting)
            ax.plot(
                grid.steps,
                grid.ratio(name),
                color=style.PALETTE[i],
                marker="os^Dv"[i % 5],
                ms=3,
                label=setting,
            )
        ax.axhline(1, color=style.INK, lw=0.9)
        printed = (
            PRINTED_ABLATION["depth"][DIMENSIONS.index(d)][0]
            / PRINTED_ABLATION["baseline"][DIMENSIONS.index(d)][0]
        )
        style.paper_line(ax, printed, "printed")
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
    shown = ("sink", "scale", "ortho", "full")
    for i, d in enumerate(DIMENSIONS):
        depth = errors[d]["depth"]
        for j, variant in enumerate(shown):
            x = j + (i - 1) * 0.25
            values = errors[d][variant]
            paired = 100 * (values - depth) / depth.mean()
            ax.errorbar(
                [x],
                [paired.mean()],
                yerr=[2 * paired.std(ddof=1) / np.sqrt(len(paired))],
                fmt="osD"[i],
                ms=5,
                color=style.PALETTE[i],
                capsize=2,
                label=f"d = {d}" if j == 0 else None,
            )
            printed = 100 * (PRINTED_ABLATION[variant][i][0] / PRINTED_ABLATION["depth"][i][0] - 1)
            ax.plot(
                [x + 0.08],
                [printed],
                "x",
                ms=6,
                mew=1.6,
                color=style.COLOURS["paper"],
                label="printed" if i == j == 0 else None,
            )
    ax.axhline(0, color=style.INK, lw=0.9)
    ax.set_xticks(range(4), ["sink (SM1)", "layer scale (SM2)", "orthogonality (SM4/5)", "all three"])
    ax.set(ylabel="change against depth (%)")
    ax.grid(axis="x", visible=False)
    ax.legend(fontsize=8, ncols=2)
    return fig
