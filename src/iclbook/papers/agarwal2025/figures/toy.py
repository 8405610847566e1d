"""Figures 1 to 5 of agarwal2025: one real step, and the toy simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ....drawing import style
from ..measures.one_step import OneStep
from ..measures.toy import first_shares, value_paths
from ..runs.toy import RATES, SCALES, TASK, Ensemble
from ..theory import forward
from ..theory.gradients import Weights


def _arrow(ax: Axes, start: np.ndarray, along: np.ndarray, colour: str, label: str) -> None:
    ax.annotate(
        "",
        start + along,
        start,
        arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2.2, "shrinkA": 0, "shrinkB": 0},
    )
    ax.plot([], [], color=colour, lw=2.2, label=label)
    ax.plot(*np.stack([start, start + along]).T, alpha=0)  # so that the limits include both ends


def geometry(step: OneStep) -> Figure:
    """Figure 1 from a real step: the value and its update, the signal, the context and its change; arrows in each panel share one scale."""
    fig, axes = style.figure(2, aspect=0.85)
    origin = np.zeros(2)
    ax = axes[0]
    _arrow(ax, origin, step.v, style.PALETTE[0], "value $v_j$")
    _arrow(ax, origin, step.g, style.PALETTE[6], "context $g_i$")
    _arrow(ax, origin, step.u_i, style.PALETTE[3], "error $u_i$")
    ax.set(title="where they are", xlabel="value coordinate 1", ylabel="value coordinate 2")
    ax = axes[1]
    _arrow(ax, origin, step.u_bar, style.PALETTE[2], r"signal $\bar u_j$")
    scale = np.linalg.norm(step.u_bar) / np.linalg.norm(step.dv)
    _arrow(ax, origin, step.dv * scale, style.PALETTE[0], rf"$\Delta v_j$ (x {scale:.0f})")
    _arrow(
        ax,
        origin,
        step.dg * scale,
        style.PALETTE[5],
        rf"$\Delta g_i$ (x {scale:.0f})",
    )
    ax.set(title=rf"one step, $\alpha_{{ij}}$ = {step.alpha:.2f}", xlabel="value coordinate 1")
    for ax in axes:
        ax.set_aspect("equal", adjustable="datalim")
        ax.margins(0.15)
        ax.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.2),
            ncols=3,
            fontsize=8,
            columnspacing=1,
            handlelength=1.3,
        )
    return fig


def settings(found: Mapping[str, np.ndarray]) -> Figure:
    """Shares of seeds over initial scale and rate: sharp attention, smooth loss, both."""
    fig, axes = style.figure(3, height=3.3)
    names = {"share": "attention sharpens", "smooth": "loss decays smoothly", "both": "both in one run"}
    for n, (ax, (name, title)) in enumerate(zip(axes, names.items(), strict=True)):
        style.heatmap(
            ax,
            found[name],
            1.0,
            title=title,
            annotate=".2f",
            row_labels=[f"{s:g}" for s in SCALES] if n == 0 else None,
            col_labels=[f"{r:g}" for r in RATES],
        )
        ax.set_xlabel("learning rate")
        ax.tick_params(axis="x", labelsize=7.5, labelrotation=45)
    axes[0].set_ylabel("initial scale")
    return fig


def _attention(ax: Axes, run: Ensemble, r: int, step: int, title: str) -> None:
    w = Weights(*[p[r] for p in run.weights[step]])
    alpha = forward(run.x[r], w).alpha.numpy()
    labels = [str(n + 1) for n in range(TASK.T)]
    style.heatmap(ax, alpha, 1.0, title=title, annotate=".2f", row_labels=labels, col_labels=labels)
    ax.set(xlabel="key j", ylabel="query i")


def attention(run: Ensemble, r: int) -> Figure:
    """Figures 2 and 3."""
    fig, axes = style.figure(2, height=3.1)
    _attention(axes[0], run, r, 0, "before training")
    _attention(axes[1], run, r, len(run.weights) - 1, f"after {len(run.weights) - 1} steps")
    return fig


def loss(run: Ensemble, r: int) -> Figure:
    """Figure 4 over all seeds, and the effective number of attended positions on the same steps."""
    fig, axes = style.figure(2, aspect=0.72)
    for ax, values, label in zip(
        axes,
        (run.loss, run.positions),
        ("cross-entropy, summed (nats)", "attended positions, exp(entropy)"),
        strict=True,
    ):
        low, middle, high = np.nanquantile(values, (0.1, 0.5, 0.9), axis=1)
        steps = np.arange(len(values))
        ax.fill_between(
            steps, low, high, color=style.COLOURS["dummy"], alpha=0.3, lw=0, label="80 % of seeds"
        )
        ax.plot(steps, middle, color=style.COLOURS["dummy"], ls=(0, (4, 2)), label="median")
        ax.plot(steps, values[:, r], color=style.COLOURS["measured"], label="typical run")
        ax.set(xlabel="step", ylabel=label, ylim=(0, None))
    axes[1].legend(loc="lower left", fontsize=8)
    return fig


def values(run: Ensemble, r: int) -> Figure:
    """Figure 5: the values' paths on their two principal axes, and the share of the first in every run's displacements."""
    paths = value_paths(run, r)
    ends = paths[[0, -1]].reshape(-1, 2)
    centre = ends.mean(0)
    axes_ = np.linalg.svd(ends - centre)[2]
    shown = (paths - centre) @ axes_.T
    fig, axes = style.figure(2, aspect=0.8, width_ratios=(1.2, 1))
    ax = axes[0]
    for j in range(TASK.T):
        colour = style.PALETTE[j]
        ax.plot(*shown[:, j].T, color=colour, lw=1.5)
        ax.plot(*shown[0, j], "o", mfc=style.GROUND, mec=colour, ms=6)
        ax.plot(*shown[-1, j], "o", color=colour, ms=7)
        ax.annotate(f"$v_{j + 1}$", shown[-1, j], textcoords="offset points", xytext=(6, 4), fontsize=9)
    ax.plot([], [], "o", mfc=style.GROUND, mec=style.INK, label="start")
    ax.plot([], [], "o", color=style.INK, label="end")
    ax.set(xlabel="principal axis 1", ylabel="principal axis 2", title="typical run")
    ax.margins(0.12)
    ax.legend(fontsize=8)
    axes[1].hist(first_shares(run), np.linspace(0.5, 1, 26), color=style.COLOURS["measured"])
    axes[1].set(xlabel="share of the first component", ylabel="runs", title="displacements, all seeds")
    return fig


def dominant(found: Mapping[str, np.ndarray], most: int = 4000) -> Figure:
    """Error of equation 43 against the printed condition and against rho."""
    fig, axes = style.figure(2, aspect=0.75, sharey=True)
    pick = np.random.default_rng(0).permutation(len(found["error"]))[:most]
    error = np.maximum(found["error"][pick], 1e-4)
    panels = (
        ("lead", r"$\alpha_{ij}$ over the largest other $\alpha_{rj}$", "as printed: $\\gg 1$"),
        ("rho", r"$\rho = \sum_{r \neq i} \alpha_{rj}|u_r| \;/\; \alpha_{ij}|u_i|$", "the sum, with errors"),
    )
    for ax, (name, label, title) in zip(axes, panels, strict=True):
        ax.loglog(
            found[name][pick], error, ".", ms=2.5, color=style.COLOURS["measured"], alpha=0.5, rasterized=True
        )
        ax.set(xlabel=label, title=title, ylim=(1e-4, 1e4), xlim=(1e-2, 1e4))
    line = np.array([1e-2, 1e4])
    style.theory_line(axes[1], line, line, r"bound: error = $\rho$")
    axes[0].axvline(10, color=style.COLOURS["paper"], ls=(0, (5, 3)), lw=1.2, label="ten times")
    axes[0].set_ylabel("relative error of equation 43")
    for ax in axes:
        ax.legend(loc="upper left" if ax is axes[1] else "upper right", fontsize=8)
    return fig


def statements(rows: Sequence[tuple[str, float]]) -> Figure:
    """Share of cases in which each prose statement holds."""
    fig, ax = style.figure(height=0.24 * len(rows) + 0.8)
    y = np.arange(len(rows))[::-1]
    exact = [share == 1 for _, share in rows]
    colours = [style.PALETTE[2] if e else style.PALETTE[3] for e in exact]
    ax.barh(y, [share for _, share in rows], color=colours, height=0.62)
    for at, (_, share) in zip(y, rows, strict=True):
        ax.text(
            share + 0.01,
            at,
            "always" if share == 1 else ("never" if share == 0 else f"{share:.0%}"),
            va="center",
            fontsize=8,
        )
    ax.set_yticks(y, [name for name, _ in rows], fontsize=8.5)
    ax.set(xlim=(0, 1.12), xlabel="share of cases in which it holds")
    ax.grid(axis="y", visible=False)
    return fig


def slider_attention(run: Ensemble, r: int, step: int, scale: float) -> Figure:
    """Attention map and loss at one step of one toy run."""
    fig, axes = style.figure(2, height=2.9, width_ratios=(1, 1.3))
    _attention(axes[0], run, r, step, f"attention, step {step}")
    ax = axes[1]
    ax.plot(run.loss[:, r], color=style.COLOURS["dummy"], lw=1)
    ax.plot(run.loss[: step + 1, r], color=style.COLOURS["measured"], lw=2.2)
    ax.plot(step, run.loss[step, r], "o", color=style.COLOURS["measured"], ms=7)
    ax.set(xlabel="step", ylabel="summed loss (nats)", ylim=(0, 9), title=f"initial scale {scale:g}")
    return fig
