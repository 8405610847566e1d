"""Figures 6 to 9 of agarwal2025, and what the sticky chain shows beyond them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ....drawing import style
from ....drawing.tables import Table
from ..measures.chain import Curves
from ..measures.follow import Diagnostics
from ..measures.table1 import METRICS, printed_table
from ..runs.short import Race

COLOUR = {"em": style.PALETTE[0], "sgd": style.PALETTE[3]}
NAME = {"em": "EM-like", "sgd": "SGD"}
DASH = {"em": "-", "sgd": (0, (4, 1.5))}
LABELS = {"loss": "loss (nats)", "accuracy": "accuracy", "entropy": "entropy (nats)"}


def curves(em: Curves, sgd: Curves, floor: float) -> Figure:
    """Figures 6 to 8 side by side: mean and range over seeds; the printed ends as diamonds with their standard deviations."""
    fig, axes = style.figure(3, height=3.0)
    for ax, metric in zip(axes, ("loss", "accuracy", "entropy"), strict=True):
        for arm, curve in (("em", em), ("sgd", sgd)):
            values = curve[METRICS[metric]]
            ax.fill_between(curve.steps, values.min(1), values.max(1), color=COLOUR[arm], alpha=0.18, lw=0)
            ax.plot(curve.steps, values.mean(1), color=COLOUR[arm], ls=DASH[arm], label=NAME[arm])
            mean, sd = printed_table()[f"{metric}_{arm}"]
            ax.errorbar(
                curve.steps[-1] * 1.03, mean, sd, fmt="D", color=style.COLOURS["paper"], ms=4.5, capsize=2
            )
        ax.set(xlabel="step", title=LABELS[metric])
    axes[0].axhline(floor, color=style.INK, ls=(0, (1, 1.6)), lw=1.3, label="Bayes floor")
    axes[0].plot([], [], "D", color=style.COLOURS["paper"], label="printed")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8)
    return fig


#: Rows of Table 1: metric and arm, and the other arm, which an interval must be narrow enough to refuse.
ROWS = {
    "loss_em": ("loss, EM-like (nats)", "loss_sgd"),
    "loss_sgd": ("loss, SGD (nats)", "loss_em"),
    "entropy_em": ("entropy, EM-like (nats)", "entropy_sgd"),
    "entropy_sgd": ("entropy, SGD (nats)", "entropy_em"),
    "accuracy_em": ("accuracy, EM-like", "accuracy_sgd"),
    "accuracy_sgd": ("accuracy, SGD", "accuracy_em"),
    "steps": ("steps to SGD's loss", "steps_sgd"),
}


def table(chains: Mapping[str, Mapping[str, Any]]) -> Table:
    """Table 1 beside ours on each chain: means and standard deviations, the interval in which a mean of the paper's five seeds is expected, whether the printed
    one lies in it, and whether the interval is narrow enough to refuse the other arm's printed number."""
    printed, rows = printed_table(), []
    for (chain, found), (key, (label, other)) in product(chains.items(), ROWS.items()):
        mean, sd = printed[key]
        digits = ".0f" if key == "steps" else ".3f"
        own, width = found[key], found[f"{key}_width"]
        rows.append(
            {
                "chain": f"{chain}, {found['seeds']} seeds",
                "what": label,
                "printed": f"{mean:{digits}} \u00b1 {sd:{digits}}",
                "ours": f"{own:{digits}} \u00b1 {found[f'{key}_sd']:{digits}}",
                "interval": f"{own - width:{digits}} to {own + width:{digits}}",
                "inside": "inside" if abs(own - mean) <= width else "outside",
                "power": "yes" if abs(printed[other][0] - mean) > width else "no",
            }
        )
    columns = {
        "chain": "chain",
        "what": "at the end",
        "printed": "printed",
        "ours": "ours",
        "interval": "a mean of 5 seeds",
        "inside": "printed is",
        "power": "tells the arms apart",
    }
    return Table(rows, columns, "Table 1 beside ours")


ARM_NAMES = {
    "sgd": "SGD 0.01",
    "em": "10x on $W_V$ (EM-like)",
    "o10": "10x on $W_O$",
    "qk10": "10x on $W_Q$, $W_K$",
    "alternating": "manual EM, alternating",
    "uniform0.02": "0.02 for everything",
    "uniform0.1": "0.1 for everything",
    "uniform1": "1 for everything",
    "adam0.001": "Adam 0.001",
}


def fair(every: Mapping[str, Curves], floor: float, held_out_floor: float) -> Figure:
    """Left: training loss along the steps. Right: lowest held-out loss. Every arm, the same seeds."""
    fig, axes = style.figure(2, height=3.6, width_ratios=(1.25, 1))
    names = [name for name in ARM_NAMES if name in every]
    dashes = [
        "-",
        "-",
        (0, (4, 1.5)),
        (0, (1, 1.2)),
        (0, (5, 1, 1, 1)),
        "-",
        (0, (4, 1.5)),
        (0, (1, 1.2)),
        (0, (5, 1, 1, 1)),
        "-",
    ]
    palette = [*style.PALETTE, *style.PALETTE]
    lowest = min(float(every[name]["nll"].mean(1).min()) for name in names)
    for n, name in enumerate(names):
        curve = every[name]
        wide = 2.6 if name == "em" else 1.5
        axes[0].plot(
            curve.steps, curve["nll"].mean(1), color=palette[n], ls=dashes[n], lw=wide, label=ARM_NAMES[name]
        )
        best = float(curve["held_out"].mean(1).min())
        axes[1].plot([held_out_floor, best], [-n, -n], color=palette[n], ls=dashes[n], lw=wide)
        axes[1].plot(best, -n, "o", color=palette[n], ms=5.5)
    axes[0].axhline(floor, color=style.INK, ls=(0, (1, 1.6)), lw=1.3)
    axes[1].axvline(held_out_floor, color=style.INK, ls=(0, (1, 1.6)), lw=1.3, label="Bayes floor")
    axes[1].axvline(math.log(8), color=style.COLOURS["dummy"], lw=1, label="ln 8")
    axes[0].set(xlabel="step", ylabel="training loss (nats)", ylim=(0.97 * min(floor, lowest), 2.11))
    axes[1].set_yticks([-n for n in range(len(names))], [ARM_NAMES[n] for n in names], fontsize=8)
    axes[1].set(xlabel="lowest held-out loss (nats)")
    axes[1].legend(loc="lower right", fontsize=8)
    return fig


def value_arrows(em: np.ndarray, sgd: np.ndarray, share: float) -> Figure:
    """Figure 9: start to end of 200 values ``(records, 200, 2)`` on the first two principal axes; EM-like blue, SGD red, as printed."""
    fig, axes = style.figure(2, aspect=0.85, sharex=True, sharey=True)
    for ax, paths, arm in ((axes[0], em, "em"), (axes[1], sgd, "sgd")):
        move = paths[-1] - paths[0]
        ax.quiver(
            *paths[0].T,
            *move.T,
            angles="xy",
            scale_units="xy",
            scale=1,
            color=COLOUR[arm],
            width=0.005,
            alpha=0.75,
        )
        ax.plot(*paths[0].T, ".", color=style.INK, ms=1.5)
        ends = np.concatenate([em[0], em[-1], sgd[-1]])
        ax.set(title=NAME[arm], xlabel="principal axis 1")
        ax.set(xlim=(ends[:, 0].min(), ends[:, 0].max()), ylim=(ends[:, 1].min(), ends[:, 1].max()))
        ax.margins(0.05)
    axes[0].set_ylabel("principal axis 2")
    axes[1].text(0.98, 0.02, f"{share:.0%} of variance", transform=axes[1].transAxes, ha="right", fontsize=8)
    return fig


def time_scales(runs: Mapping[str, Sequence[Mapping[str, np.ndarray]]], steps: np.ndarray) -> Figure:
    """Way left of attention and of values, every seed, one panel an arm."""
    fig, axes = style.figure(len(runs), height=2.6, sharey=True)
    for ax, (name, scales) in zip(axes, runs.items(), strict=True):
        for n, s in enumerate(scales):
            ax.plot(
                steps,
                s["attention"],
                color=style.PALETTE[3],
                lw=1.1,
                ls=(0, (4, 1.5)),
                label="attention" if n == 0 else None,
            )
            ax.plot(steps, s["values"], color=style.PALETTE[0], lw=1.1, label="values" if n == 0 else None)
        ax.axhline(0.1, color=style.INK, lw=0.9, ls=(0, (1, 1.6)))
        ax.set(title=name, xlabel="step", ylim=(0, None))
    axes[0].set_ylabel("way left to the end")
    axes[0].legend(loc="lower left", fontsize=8)
    return fig


def diagnostics(found: Diagnostics, last: int = 24) -> Figure:
    """Section 8.1 at one moment: compatibility and advantage of the last positions, column usage, value norms."""
    fig, axes = style.figure(4, height=2.5, width_ratios=(1.3, 1.3, 1, 1))
    see = np.tril(np.ones((last, last)))
    for ax, matrix, title in ((axes[0], found.b, "$b_{ij}$"), (axes[1], found.a_adv, r"$A^{adv}_{ij}$")):
        part = matrix[-last:, -last:].numpy() * see
        style.heatmap(ax, part, float(np.quantile(np.abs(part), 0.98)), title=title, bar=True)
        ax.set(xlabel=f"last {last} keys")
    axes[0].set_ylabel("last queries")
    position = np.arange(1, len(found.usage) + 1)
    axes[2].loglog(position, found.usage.numpy(), ".", ms=2, color=style.COLOURS["measured"], rasterized=True)
    style.theory_line(axes[2], position, found.by_position.numpy(), "uniform")
    axes[2].set(title=r"usage $\sum_i \alpha_{ij}$", xlabel="position j")
    axes[2].legend(fontsize=7.5)
    axes[3].hist(found.norms.numpy(), 24, color=style.COLOURS["measured"])
    axes[3].set(title="value norms", xlabel=r"$|v_j|$")
    return fig


def gradient_sizes(sgd: Curves) -> Figure:
    """Sizes of the four gradients along SGD: medians and range over seeds."""
    fig, ax = style.figure(aspect=0.45)
    for n, name in enumerate(("W_Q", "W_K", "W_V", "W_O")):
        size = sgd["norms"][:, :, n]
        colour, dash = style.PALETTE[n], ("-", (0, (4, 1.5)), "-", (0, (4, 1.5)))[n]
        ax.fill_between(sgd.steps, size.min(1), size.max(1), color=colour, alpha=0.15, lw=0)
        ax.semilogy(
            sgd.steps,
            np.median(size, 1),
            color=colour,
            ls=dash,
            lw=2.4 if name == "W_V" else 1.6,
            label=f"${name}$",
        )
    ax.axvline(100, color=style.INK, lw=0.9, ls=(0, (1, 1.6)))
    ax.set(xlabel="step of SGD", ylabel="norm of the gradient")
    ax.legend(ncols=4, loc="lower right", fontsize=8)
    return fig


def slider_race(race: Race, ratio: float, stay: float) -> Figure:
    """Loss of the schedule and of SGD on a short chain."""
    fig, ax = style.figure(height=2.9)
    _race(ax, race)
    ax.set(title=f"$\\eta_V / \\eta$ = {ratio:g}, chance to stay {stay:g}")
    return fig


def _race(ax: Axes, race: Race) -> None:
    steps = np.arange(len(race.sgd))
    ax.plot(steps, race.schedule, color=COLOUR["em"], label="schedule")
    ax.plot(steps, race.sgd, color=COLOUR["sgd"], ls=DASH["sgd"], label="SGD")
    ax.plot(steps, race.uniform, color=style.PALETTE[2], ls=(0, (1, 1.2)), label="larger rate for all")
    ax.axhline(race.floor, color=style.INK, ls=(0, (1, 1.6)), lw=1.2, label="Bayes floor")
    ax.set(xlabel="step", ylabel="loss (nats)", ylim=(0, 2.55))
    ax.legend(loc="upper center", ncols=4, fontsize=8)
