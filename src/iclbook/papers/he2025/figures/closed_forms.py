"""Curves of the closed forms: losses, manifold, theorem, stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from ....claims import printed
from ....drawing import style
from .. import theory
from ..measures.closed_forms import Approximation, SingleHead


def approximation(found: Approximation, trained: int) -> Figure:
    """Left: both losses at the points of the first training run. Right: relative error of the loss, and of its excess over the noise, against L."""
    fig, (left, right) = style.figure(2, height=2.9)
    steps, gap, excess_gap = np.maximum(found.steps, 0.7), np.abs(found.gap), np.abs(found.excess_gap)
    left.plot(steps, found.true[0], color=style.COLOURS["measured"], marker="o", ms=3, label="true loss")
    left.plot(steps, found.approx[0], color=style.COLOURS["theory"], ls="--", label="approximate loss")
    left.set_xscale("log")
    left.set(xlabel="training step", ylabel="loss at (ω, μ) of the run", ylim=(0, None))
    left.legend()
    right.loglog(found.lengths, 100 * gap, color=style.COLOURS["measured"], marker="o", label="of the loss")
    right.loglog(
        found.lengths,
        100 * excess_gap,
        color=style.PALETTE[3],
        marker="s",
        label="of its excess over the noise",
    )
    right.axhline(1, color=style.COLOURS["dummy"], lw=0.9, ls=":", label="1 %")
    right.axvline(
        trained, color=style.COLOURS["paper"], lw=1.2, ls=(0, (5, 3)), label=f"the paper's L = {trained}"
    )
    right.set(xlabel="context length L", ylabel="relative error (%)")
    right.legend(fontsize=8)
    return fig


def single_head(found: SingleHead, L: int) -> Figure:
    """omega sqrt(d) of one head: minimiser of the true loss against L, of the approximate loss (1), and trained heads at L."""
    trained = {"as printed": found.text, "as coded": found.code}
    fig, ax = style.figure(aspect=0.5)
    ax.plot(
        found.lengths,
        found.curve,
        color=style.COLOURS["measured"],
        marker="o",
        label="minimum of the true loss",
    )
    ax.axhline(found.limit, color=style.COLOURS["measured"], ls=":", lw=1.2, label="its limit for L → ∞")
    style.paper_line(ax, 1.0, "paper: 1 (minimum of the approximate loss)")
    for marker, colour, (name, values) in zip(
        "s^", (style.PALETTE[3], style.PALETTE[2]), trained.items(), strict=False
    ):
        ax.plot(
            [L] * len(values),
            values,
            marker,
            ls="none",
            ms=7,
            color=colour,
            alpha=0.8,
            label=f"trained, {name}",
        )
    ax.set_xscale("log")
    ax.set(xlabel="context length L", ylabel=r"$\omega\,\sqrt{d}$")
    ax.legend(fontsize=8)
    return fig


def pair(
    gamma: float,
    gd: np.ndarray,
    yhat: np.ndarray,
    grid: np.ndarray,
    losses: Sequence[float],
    loss: float,
    gd_loss: float,
) -> Figure:
    """One frame of the gamma slider: predictions against debiased gradient descent, and the point in the valley of the true loss."""
    fig, (left, right) = style.figure(2, height=3.1)
    left.plot([-3, 3], [-3, 3], color=style.COLOURS["theory"], lw=0.9, ls=":")
    left.plot(gd, yhat, ".", color=style.COLOURS["measured"], ms=4, alpha=0.6)
    left.set(xlabel="prediction of debiased GD", ylabel="prediction of the pair", xlim=(-3, 3), ylim=(-3, 3))
    rms = np.sqrt(np.mean((yhat - gd) ** 2))
    left.set_title(f"γ = {gamma:.2f}: rms difference {rms:.3f}")
    least = min(losses)
    above = 1e3 * (np.asarray(losses) - least)
    right.plot(grid, above, color=style.COLOURS["measured"], label="pair with its best μ")
    right.axhline(
        1e3 * (gd_loss - least),
        color=style.COLOURS["debiased"],
        ls="--",
        label="debiased GD, the limit γ → 0",
    )
    right.plot(gamma, 1e3 * (loss - least), "o", ms=8, color=style.COLOURS["positive"], label="this pair")
    right.set_yscale(
        "symlog", linthresh=0.1
    )  # the valley is a thousandth deep, its walls are a hundred times higher
    right.set(
        xlabel="γ", ylabel="true loss above its minimum (1/1000)", ylim=(-0.02, 60), xlim=(0, max(grid))
    )
    right.legend(fontsize=8, loc="upper left")
    return fig


def theorem_one(gammas: np.ndarray, gaps: np.ndarray, bound: np.ndarray, noise_var: float) -> Figure:
    """Theorem 1.1: quantiles of |yhat - yhat_gd| over prompts against gamma, with the bound."""
    fig, ax = style.figure(aspect=0.5)
    ax.loglog(
        gammas,
        bound,
        color=style.COLOURS["paper"],
        ls=(0, (5, 3)),
        label=r"paper: $\sqrt{1+\sigma^2}\,\gamma d$",
    )
    for values, name, marker in ((gaps[1], "99 % of prompts", "^"), (gaps[0], "median prompt", "o")):
        ax.loglog(gammas, values, marker=marker, color=style.COLOURS["measured"], label=name, alpha=0.9)
    guide = gaps[0][0] * (gammas / gammas[0]) ** 2
    ax.loglog(gammas, guide * 0.5, color=style.COLOURS["theory"], ls=":", label="slope 2")
    ax.set(xlabel="γ", ylabel="gap to debiased GD")
    ax.legend(fontsize=8)
    return fig


def bayes_ratio(xi_paper: float, noise_var: float) -> Figure:
    """Theorem 1.3: ratio of risks against xi = d/L at two noise levels, total and excess, with the bound."""
    fig, axes = style.figure(2, height=3.0, sharey=True)
    xi = np.geomspace(1e-2, 10, 160)
    for ax, s2 in zip(axes, (noise_var, 1.0), strict=True):
        gd, bayes = theory.gd_risk_limit(xi, s2), theory.bayes_risk_limit(xi, s2)
        ax.loglog(
            xi,
            theory.theorem_bound(xi, s2),
            color=style.COLOURS["paper"],
            ls=(0, (5, 3)),
            label="paper's bound",
        )
        ax.loglog(xi, gd / bayes, color=style.COLOURS["gd"], label="ratio of total risks")
        ax.loglog(
            xi, (gd - s2) / (bayes - s2), color=style.PALETTE[3], ls="-.", label="ratio of excess risks"
        )
        if s2 == noise_var:
            ax.axvline(xi_paper, color=style.COLOURS["dummy"], lw=0.9, ls=":", label=f"ξ = {xi_paper:g}")
        ax.set(xlabel="ξ = d / L", title=f"σ² = {s2:g}")
    axes[0].set_ylabel("GD over Bayes")
    fig.legend(
        loc="outside lower center", ncols=4, fontsize=8, handles=axes[0].get_legend_handles_labels()[0]
    )
    return fig


def stages(path: theory.Trajectory, rate: float) -> Figure:
    """omega and mu of one run of gradient descent on the approximate loss against time (rate times steps)."""
    fig, (left, right) = style.figure(2, height=2.9)
    time = rate * np.maximum(path.steps, 0.5)
    for k in range(path.omega.shape[-1]):
        kind = "positive" if path.omega[-1, 0, k] > 0 else "negative"
        left.plot(time, path.omega[:, 0, k], color=style.COLOURS[kind])
        right.plot(time, path.mu[:, 0, k], color=style.COLOURS[kind])
    for ax, label, bounds in ((left, "ω of each head", (-1.0, 1.0)), (right, "μ of each head", (-2.6, 2.6))):
        ax.set_xscale("log")
        ax.set(xlabel="time (rate × steps)", ylabel=label, ylim=bounds)
    return fig


def stage_times(times: Mapping[int, Mapping[str, np.ndarray]], rate: float) -> Figure:
    """Distribution over runs of the time at which each pattern appears for good, by head count."""
    fig, axes = style.figure(len(times), height=2.7, sharey=True)
    names = {"sign": "signs match", "zero_sum": "zero sum", "homogeneous": "equal |ω|"}
    for ax, (h, found) in zip(axes, times.items(), strict=True):
        data = [rate * np.maximum(found[k][np.isfinite(found[k])], 1) for k in names]
        parts = ax.boxplot(
            data,
            tick_labels=list(names.values()),
            whis=(5, 95),
            showfliers=False,
            patch_artist=True,
            widths=0.6,
        )
        for box, colour in zip(parts["boxes"], style.PALETTE, strict=False):
            box.set(facecolor=colour, alpha=0.7)
        for line in parts["medians"]:
            line.set_color(style.INK)
        ax.set_yscale("log")
        ax.set_title(f"H = {h} ({len(found['sign'])} runs)")
        ax.tick_params(axis="x", labelsize=8)
    axes[0].set_ylabel("time (rate × steps)")
    return fig


def flow(times: np.ndarray, gamma: np.ndarray, closed_times: np.ndarray, closed: np.ndarray) -> Figure:
    """gamma along gradient flow on the approximate loss, with the closed form of the valley."""
    fig, ax = style.figure(aspect=0.45)
    ax.loglog(times, gamma, color=style.COLOURS["measured"], label="gradient flow")
    style.theory_line(ax, closed_times, closed, "closed form of the valley")
    paper = printed("he2025")["fig2.8/gamma"]
    style.paper_line(ax, paper, f"paper: {paper:g}")
    style.log_ticks(ax, "y", (0.03, 0.05, 0.1, paper, 0.2, 0.3))
    ax.set(xlabel="time (rate × steps)", ylabel="γ")
    ax.legend(fontsize=8)
    return fig
