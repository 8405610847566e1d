"""Figures 3, 4 and 5 (left), and the bounds over draws of W_e."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ....claims import printed
from ....drawing import style
from ..measures.learned import Sweep
from ..runs.specs import Scores


def _band(
    ax: Axes, x, values: np.ndarray, colour: str, marker: str, label: str, dashed: bool = False
) -> None:
    """Mean over runs with one standard deviation, ``values (len(x), R)``."""
    sd = values.std(1, ddof=1) if values.shape[1] > 1 else np.zeros(len(values))
    ax.errorbar(
        x,
        values.mean(1),
        sd,
        marker=marker,
        ms=4,
        capsize=2,
        color=colour,
        ls="--" if dashed else "-",
        label=label,
    )


def _contexts_axis(ax: Axes, L: tuple[int, ...]) -> None:
    ax.set_xscale("log")
    ax.set_xticks(L, [f"{n:,}" for n in L])
    ax.minorticks_off()
    ax.set_xlabel("training contexts L")


def sweep(s: Sweep, oracle: float) -> Figure:
    """Figure 3: accuracy and NLL against L for RBF (left) and softmax (right)."""
    fig, axes = style.figure(2, 2, height=4.9, sharex=True)
    for column, kernel in enumerate(("RBF", "softmax")):
        for row, what in enumerate(("accuracy", "nll")):
            ax, values = axes[row, column], getattr(s, what)
            _band(ax, s.L, values[f"GD {kernel}"], style.PALETTE[0], "o", "GD")
            _band(ax, s.L, values[f"TF {kernel}"], style.PALETTE[1], "s", "Trained TF", dashed=True)
            if column == 1:
                _band(ax, s.L, values["GD linear"], style.PALETTE[6], "^", "GD, linear")
            _contexts_axis(ax, s.L)
            ax.set_xlabel("training contexts L" if row else "")
        axes[0, column].set_title(f"{kernel} attention")
        axes[0, column].set_ylim(0, oracle + 0.05)
        axes[0, column].axhline(oracle, color=style.COLOURS["theory"], ls=":", lw=1.3, label="oracle")
        axes[1, column].set_ylim(1.3, 3.3)
    axes[0, 0].set_ylabel("test accuracy")
    axes[1, 0].set_ylabel("test NLL (nats)")
    axes[0, 0].legend(*axes[0, 1].get_legend_handles_labels(), fontsize=8, loc="lower right")
    return fig


def two_blocks(s: Sweep) -> Figure:
    """Figure 5, left."""
    fig, axes = style.figure(2, height=2.8)
    for ax, what, label in zip(axes, ("accuracy", "nll"), ("test accuracy", "test NLL (nats)"), strict=True):
        _band(ax, s.L, getattr(s, what)["GD"], style.PALETTE[0], "o", "GD, 2 blocks")
        _band(ax, s.L, getattr(s, what)["TF"], style.PALETTE[1], "s", "Trained TF, 2 blocks", dashed=True)
        _contexts_axis(ax, s.L)
        ax.set_ylabel(label)
    axes[0].legend(fontsize=8)
    return fig


def fits(found: Mapping[tuple[str, int], tuple]) -> Figure:
    """Two blocks: NLL on new contexts (solid) and on the training contexts (dashed) along training, one panel for each L."""
    Ls = sorted({L for _, L in found})
    fig, axes = style.figure(max(len(Ls), 2), height=2.8, sharey=True)
    for ax, L in zip(axes, Ls, strict=False):
        for model, colour, name in (("GD", style.PALETTE[0], "GD"), ("TF", style.PALETTE[1], "Trained TF")):
            steps, train, test = found[model, L]
            ax.plot(steps, test, color=colour, label=f"{name}, new contexts")
            ax.plot(steps, train, color=colour, ls="--", label=f"{name}, training contexts")
        ax.set(xscale="log", xlabel="minibatches", title=f"L = {L:,}", ylim=(0.6, 4))
    for ax in axes[len(Ls) :]:
        ax.set_axis_off()
    axes[0].set_ylabel("NLL (nats)")
    axes[0].legend(fontsize=7.5)
    return fig


def courses(found: Mapping[str, Mapping[int, Scores]]) -> Figure:
    """Figure 4: top, accuracy and NLL along training (N = 10); bottom, scores at the best validation record against the number of blocks, both N."""
    fig, grid = style.figure(2, 2, height=5.2)
    along, axes = grid[0], grid[1]
    colours = [style.PALETTE[i] for i in (6, 0, 2, 1, 3, 5)]
    for ax, what, label in zip(along, ("accuracy", "nll"), ("test accuracy", "test NLL (nats)"), strict=True):
        for (k, s), colour in zip(found["narrow"].items(), colours, strict=False):
            ax.plot(s.steps[1:], getattr(s, what)[1:].mean(1), color=colour, label=f"{k}")
        style.log_ticks(ax, "x", (30, 100, 300))
        ax.set(xlabel="minibatches", ylabel=label, title="N = 10")
    along[1].legend(title="blocks", title_fontsize=8, fontsize=8, ncols=2)
    readings = (("narrow", "N = 10", style.PALETTE[0], "o"), ("wide", "N = 125", style.PALETTE[2], "s"))
    says = printed("wang2025")
    for ax, what, authors, label in zip(
        axes,
        ("accuracy", "nll"),
        (says["authors/accuracy"], says["authors/nll"]),
        ("test accuracy", "test NLL (nats)"),
        strict=True,
    ):
        for reading, name, colour, marker in readings:
            blocks = list(found[reading])
            values = [found[reading][k].stopped(what) for k in blocks]
            sd = [v.std(ddof=1) if len(v) > 1 else 0 for v in values]
            ax.errorbar(
                blocks,
                [v.mean() for v in values],
                sd,
                marker=marker,
                ms=4,
                capsize=2,
                color=colour,
                label=name,
            )
        ax.plot(range(1, 7), authors, "x", color=style.COLOURS["paper"], label="authors' code")
        ax.set(xlabel="blocks", xticks=range(1, 7), ylabel=label)
    axes[0].legend(fontsize=8, loc="center right")
    return fig


def bounds(samples: Mapping[str, np.ndarray], own: float) -> Figure:
    """Mean maximum probability over draws of W_e: quadrants, and four readings of appendix E."""
    names = {
        "quadrants": "appendix F: quadrants",
        "uniform_squared": "E: x uniform, squared",
        "uniform_printed": "E: x uniform, as printed",
        "normal_squared": "E: x normal, squared",
        "normal_printed": "E: x normal, as printed",
    }
    fig, ax = style.figure(height=2.7)
    rng = np.random.default_rng(0)
    for i, name in enumerate(names):
        values = samples[name][:, 0]
        y = -i + rng.uniform(-0.18, 0.18, len(values))
        ax.plot(values, y, "o", ms=3, alpha=0.6, color=style.PALETTE[3 if i == 0 else 0])
    ax.plot([own], [0], "D", ms=6, color=style.INK, zorder=4)
    ax.annotate("the draw used here", (own, 0), (own, 0.45), fontsize=8, ha="center")
    says = printed("wang2025")
    ax.plot([says["section6/bound"]] * 2, [-0.4, 0.4], color=style.COLOURS["paper"], ls="--", label="paper")
    ax.plot([max(says["authors/accuracy"])] * 2, [-4.4, -0.6], color=style.COLOURS["paper"], ls="--")
    ax.set_yticks([-i for i in range(len(names))], names.values())
    ax.set(xlabel="mean maximum probability (oracle accuracy)", ylim=(-4.6, 0.9))
    ax.legend(loc="lower right", fontsize=8)
    ax.grid(axis="y", visible=False)
    return fig
