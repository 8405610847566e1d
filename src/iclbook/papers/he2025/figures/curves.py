"""Curves of trained runs: dynamics, limits, errors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ....claims import printed
from ....drawing import style
from ..measures.circuits import Heads
from ..measures.noise import Settings, Valley
from ..measures.predictor import Curves

_SIGNS = ("positive", "negative")


def _by_sign(ax: Axes, h: Heads, values: np.ndarray) -> None:
    """``values`` ``(T, R, H)`` of every head and run against the step, coloured by the sign that the head ends with."""
    active = h.active
    for r in range(values.shape[1]):
        for k in range(values.shape[2]):
            kind = "dummy" if not active[r, k] else _SIGNS[int(h.omega[-1, r, k] < 0)]
            ax.plot(h.steps[1:], values[1:, r, k], color=style.COLOURS[kind], lw=1.1, alpha=0.8)


def _below(fig: Figure, *axes: Axes, ncols: int = 4) -> None:
    """One legend under the panels, where it hides no data."""
    handles = {label: h for ax in axes for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    fig.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=ncols, fontsize=8)


def _limits() -> tuple[float, float]:
    """The limits of gamma and of the sum of positive mu, as the paper prints them."""
    says = printed("he2025")
    return says["fig2.8/gamma"], says["fig2.8/mu"]


def dynamics(readings: Mapping[str, Heads]) -> Figure:
    """omega and mu of all heads against the step (log scale), a line per head and seed, a row per reading; the paper's values are dashed."""
    fig, axes = style.figure(2, len(readings), height=2.35 * len(readings) + 0.3, squeeze=False, sharex="col")
    says = _limits()
    for row, (name, h) in zip(axes, readings.items(), strict=True):
        for ax, values, symbol, limit in zip(row, (h.omega, h.mu), ("ω", "μ"), says, strict=True):
            _by_sign(ax, h, values)
            for sign in (1, -1):
                style.paper_line(ax, sign * limit, None)
            ax.set_xscale("log")
            ax.set_ylabel(symbol)
            ax.set_title(f"{symbol} of each head, {name}")
    for kind in _SIGNS:
        axes[0, 0].plot([], [], color=style.COLOURS[kind], label=f"{kind} head")
    name = f"paper: {says[0]:g} and {says[1]:g}"
    axes[0, 1].plot([], [], color=style.COLOURS["paper"], ls=(0, (5, 3)), lw=1.2, label=name)
    _below(fig, *axes[0])
    for ax in axes[-1]:
        ax.set_xlabel("step")
    return fig


def limits(text: Mapping[int, Heads], code: Mapping[int, Heads]) -> Figure:
    """gamma and the sum of positive mu against the step by head count, scores as printed and as coded; mean over seeds, seeds as thin lines."""
    fig, (left, right) = style.figure(2, height=3.3)
    for groups, line, reading in ((text, "-", ""), (code, "--", ", as coded")):
        for n, h in groups.items():
            for ax, values in ((left, h.gamma), (right, h.positive_mu)):
                ax.plot(h.steps[1:], values[1:], color=style.COLOURS[n], lw=0.6, alpha=0.5, ls=line)
                mean, label = values[1:].mean(1), f"H = {n}{reading}"
                ax.plot(h.steps[1:], mean, color=style.COLOURS[n], label=label, ls=line)
    gamma, mu = _limits()
    style.paper_line(left, gamma, f"paper: {gamma:g} and {mu:g}")
    style.paper_line(right, mu, None)
    for ax, label in ((left, "γ (weighted mean of |ω|)"), (right, "sum of positive μ")):
        ax.set_xscale("log")
        ax.set(xlabel="step", ylabel=label)
    _below(fig, left)
    return fig


def census(ends: Mapping[str, Mapping[int, Mapping[str, float]]]) -> Figure:
    """Shares of runs without a head of one sign and with a dummy head, by head count, for each way of training."""
    fig, axes = style.figure(len(ends), height=2.6, sharey=True)
    for ax, (name, by_h) in zip(axes, ends.items(), strict=True):
        counts = list(by_h)
        for offset, (key, label, kind) in enumerate(
            (("one_sided", "no head of one sign", "positive"), ("with_dummy", "a dummy head", "dummy"))
        ):
            shares = [100 * by_h[h][key] for h in counts]
            bars = ax.bar(
                np.arange(len(counts)) + 0.4 * offset - 0.2,
                shares,
                0.38,
                color=style.COLOURS[kind],
                label=label,
            )
            ax.bar_label(bars, fmt="%.1f", fontsize=8, padding=1)
        ax.set_xticks(range(len(counts)), [f"H = {h}" for h in counts])
        ax.set_title(name)
        ax.margins(y=0.18)
    axes[0].set_ylabel("runs that end with ... (%)")
    axes[-1].legend(fontsize=8)
    return fig


def noise_level(valley: Valley, approx: np.ndarray, settings: Settings) -> Figure:
    """Left: loss of a head pair with its best mu against gamma. Right: gamma at which runs settle, by learning rate and batch size."""
    grid, true, best, rates = valley.gamma, valley.loss, valley.best, settings.rates
    fig, (left, right) = style.figure(2, height=3.4)
    left.plot(grid, true, color=style.COLOURS["measured"], label="true loss")
    left.plot(grid, approx, color=style.COLOURS["theory"], ls=":", label="approximate loss")
    left.plot(best.omega, best.loss, "o", color=style.COLOURS["measured"], label="minimum of the true loss")
    paper, _ = _limits()
    style.paper_line(left, paper, f"paper: {paper:g}", axis="x")
    style.log_ticks(left, "x", (0.02, 0.05, 0.1, 0.2, 0.5))
    low = min(min(true), approx.min())
    left.set(xlabel="γ", ylabel="loss with the best μ", ylim=(low - 0.004, low + 0.08))
    markers = ("o", "s", "^")
    for marker, colour, (batch, values) in zip(markers, style.PALETTE, settings.gamma.items(), strict=False):
        means = [v.mean() for v in values]
        right.plot(rates, means, marker=marker, color=colour, label=f"batch {batch}")
        for rate, v in zip(rates, values, strict=True):
            right.plot([rate] * len(v), v, ".", color=colour, ms=3)
    style.paper_line(right, paper, None)
    right.axhline(best.omega, color=style.COLOURS["measured"], ls="--", lw=1.3, label="γ of that minimum")
    style.log_ticks(right, "x", rates)
    right.set(xlabel="learning rate of Adam", ylabel="γ after training")
    _below(fig, left, right)
    return fig


def error_by_length(lengths: np.ndarray, error: Mapping[int, np.ndarray], trained: int) -> Figure:
    """ICL error against context length for each head count, mean over seeds; right, over that of two heads."""
    fig, (ax, ratio) = style.figure(2, height=3.1)
    for h, values in error.items():
        label = f"H = {h}"
        if h > 1:
            ratio.plot(lengths, values / error[2], marker=style.MARKERS[h], color=style.COLOURS[h], ms=4)
        ax.plot(
            lengths,
            values,
            marker=style.MARKERS[h],
            color=style.COLOURS[h],
            label=label,
            ms=8 - h * 0.7,
            alpha=0.9,
        )
    ratio.set(xlabel="context length L", ylabel="error over that of H = 2", ylim=(0.97, 1.03))
    ax.axvline(trained, color=style.COLOURS["dummy"], lw=0.8, ls=":")
    ax.annotate(
        "training length",
        (trained, 1),
        xycoords=("data", "axes fraction"),
        xytext=(4, -12),
        textcoords="offset points",
        fontsize=8,
    )
    ax.set(xlabel="context length L", ylabel="ICL error", ylim=(0, None))
    ax.legend()
    return fig


def estimators(
    lengths: np.ndarray, two: np.ndarray, vanilla: np.ndarray, debiased: np.ndarray, bayes: np.ndarray
) -> Figure:
    """ICL error of two heads, of one step of gradient descent in both forms, and of ridge regression; right, over that of ridge."""
    fig, (left, right) = style.figure(2, height=3.0)
    curves = {
        "two heads": (two, "s", style.COLOURS[2]),
        "vanilla GD": (vanilla, None, style.COLOURS["gd"]),
        "debiased GD": (debiased, None, style.COLOURS["debiased"]),
        "optimal ridge (Bayes)": (bayes, None, style.COLOURS["ridge"]),
    }
    for name, (values, marker, colour) in curves.items():
        line = (
            {"marker": marker, "ls": "none", "ms": 5}
            if marker
            else {"lw": 1.8, "ls": "--" if name == "debiased GD" else "-"}
        )
        left.plot(lengths, values, color=colour, label=name, **line)
        right.plot(lengths, values / bayes, color=colour, **line)
    left.set(xlabel="context length L", ylabel="ICL error", ylim=(0, None))
    right.set(xlabel="context length L", ylabel="error over that of ridge", ylim=(0.9, None))
    left.legend(fontsize=8)
    return fig


def linear_attention(curves: Curves, frozen: np.ndarray, closed: np.ndarray, trained: int) -> Figure:
    """ICL error of linear attention under both readings of 1/L, and of softmax attention, against context length."""
    lengths, one, two = curves.lengths, curves.means[1], curves.means[2]
    fig, ax = style.figure(aspect=0.55)
    ax.plot(
        lengths, frozen, color=style.PALETTE[3], ls="none", marker="x", label=f"linear, 1/{trained} frozen"
    )
    style.theory_line(ax, lengths, closed, "closed form at the trained rate")
    ax.plot(
        lengths,
        curves.linear.mean,
        "o",
        color=style.PALETTE[3],
        mfc="none",
        ms=8,
        label="linear, 1/L of the context at hand",
    )
    ax.plot(lengths, one, color=style.COLOURS[1], marker=style.MARKERS[1], label="softmax, one head", ms=3.5)
    ax.plot(lengths, two, color=style.COLOURS[2], marker=style.MARKERS[2], label="softmax, two heads", ms=3.5)
    ax.axvline(trained, color=style.COLOURS["dummy"], lw=0.8, ls=":")
    ax.set(xlabel="context length L", ylabel="ICL error", ylim=(0, min(1.9, float(np.max(frozen)) * 1.05)))
    ax.legend(fontsize=8, loc="upper center")
    return fig


def activation_dynamics(groups: Mapping[str, Heads]) -> Figure:
    """gamma and the sum of positive mu against the step for softmax and other activations, mean over seeds."""
    fig, (left, right) = style.figure(2, height=3.0)
    for colour, (name, h) in zip(style.PALETTE, groups.items(), strict=False):
        for ax, values in ((left, h.gamma), (right, h.positive_mu)):
            ax.plot(h.steps[1:], values[1:].mean(1), color=colour, label=name)
    for ax, label in ((left, "γ"), (right, "sum of positive μ")):
        ax.set_xscale("log")
        ax.set(xlabel="step", ylabel=label)
    style.log_ticks(left, "y", (0.05, 0.1, 0.2, 0.5, 1))
    left.legend(fontsize=8)
    return fig
