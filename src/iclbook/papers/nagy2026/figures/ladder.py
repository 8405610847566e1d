"""Figures of the ladder in the form of figures 2 to 7, the printed values drawn in where there are any; ``get`` as in :mod:`..probes.models`."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ....drawing import style
from ..measures.ladder import EARLY, NULL_DRAWS
from ..probes.alignment import errors, noise_around_prior
from ..probes.contraction import late_over_early
from ..probes.models import Get, Model, mixed, twins

#: Where the start is drawn: 0 has no place on a log scale.
START = 0.5
#: Printed shares of updates with the residual's sign (section 8).
PRINTED_SIGNS = (0.55, 0.65)


def _steps(m: Model) -> np.ndarray:
    return np.maximum(m.steps, START)


def _log_axis(ax: Axes, label: str) -> None:
    ax.set_xscale("log", base=2)
    ax.set_xlabel("training step")
    ax.set_ylabel(label)


def _by_size(models: list[Model]) -> dict[str, list[Model]]:
    found: dict[str, list[Model]] = {}
    for m in models:
        found.setdefault(m.name, []).append(m)
    return found


def development(get: Get) -> Figure:
    """Figures 3 and 6: error reduction over training, each model, its twin dashed; below, induction and recall."""
    fig, axes = style.figure(3, height=3.4)
    pairs = {m.name for m, _ in twins(get)}
    for colour, (name, runs) in zip(style.PALETTE, _by_size(mixed(get)).items(), strict=False):
        for i, m in enumerate(runs):
            label = name if i == 0 else None
            axes[0].plot(_steps(m), m.reductions(), color=colour, lw=1.4, label=label)
            axes[1].plot(_steps(m), (m.arrays["block10_margin"] > 0).mean(1), color=colour, lw=1.4)
            axes[2].plot(_steps(m), m.arrays["recall_logp"].mean(1), color=colour, lw=1.4)
        if name in pairs:
            for m in (twin for model, twin in twins(get) if model.name == name):
                axes[0].plot(_steps(m), m.reductions(), color=colour, lw=1.0, ls="--")
    axes[0].plot([], [], color=style.INK, ls="--", lw=1.0, label="never saw a regression")
    axes[0].axhline(0, color=style.INK, lw=0.8)
    for ax, label in zip(
        axes, ("error reduction (digits)", "induction accuracy", "recall, log p (nats)"), strict=True
    ):
        _log_axis(ax, label)
    axes[0].legend(fontsize=7)
    return fig


def sinks(get: Get) -> Figure:
    """Figure 4: late over early sinks beside the error reduction as a share of its largest value, over training."""
    fig, axes = style.figure(2, height=3.6)
    for colour, (name, runs) in zip(style.PALETTE, _by_size(mixed(get)).items(), strict=False):
        for i, m in enumerate(runs):
            label = name if i == 0 else None
            ratio = [late_over_early(s) for s in m.arrays["sink_all"]]
            axes[0].plot(_steps(m), ratio, color=colour, lw=1.4, label=label)
            reduction = m.reductions()
            axes[1].plot(_steps(m), reduction / np.abs(reduction).max(), color=colour, lw=1.4)
    axes[0].axhline(1, color=style.INK, lw=0.8)
    axes[1].axhline(0, color=style.INK, lw=0.8)
    _log_axis(axes[0], "late over early sinks")
    _log_axis(axes[1], "error reduction, share of its largest")
    axes[0].legend(fontsize=7)
    return fig


def signs(get: Get) -> Figure:
    """Section 8, finding 1: sign agreement of every model, and of noise with its read-out's means and deviations; the printed range shaded."""
    models = mixed(get)
    fig, ax = style.figure(height=3.6)
    ax.axhspan(*PRINTED_SIGNS, color=style.COLOURS["paper"], alpha=0.15, lw=0, label="printed")
    for i, m in enumerate(models):
        noise = noise_around_prior(m.arrays["lines_estimate"][-1].astype(float), m.target, NULL_DRAWS)
        drawn = [a.signs for a in noise]
        ax.plot(
            [i, i],
            [min(drawn), max(drawn)],
            color=style.PALETTE[1],
            lw=4,
            alpha=0.6,
            label="noise" if i == 0 else None,
        )
        ax.plot([i], [m.aligned().signs], "o", color=style.PALETTE[0], label="model" if i == 0 else None)
    ax.axhline(0.5, color=style.INK, lw=0.8)
    ax.set_xticks(range(len(models)), [m.name for m in models], rotation=60)
    ax.set_ylabel("share of updates with the residual's sign")
    ax.legend(fontsize=7)
    return fig


def by_layer(m: Model, at: int, prompt: int = 0) -> Figure:
    """One checkpoint of a model: estimates of one prompt (thick) and of all, and the mean error, layer by layer. A frame of both sliders."""
    estimate, target = m.arrays["lines_estimate"][at], m.target
    layers = np.arange(estimate.shape[1])
    fig, axes = style.figure(2, height=3.6)
    axes[0].plot(layers, estimate.T, color=style.PALETTE[0], lw=0.4, alpha=0.2)
    axes[0].plot(layers, estimate[prompt], "o-", color=style.PALETTE[0], lw=2)
    axes[0].axhline(
        target[prompt], color=style.COLOURS["paper"], ls="--", label="right answer of the thick line"
    )
    axes[0].set(ylim=(0, 9), xlabel="layer", ylabel="expected digit")
    axes[0].legend(fontsize=7)
    for ax in axes:
        ax.set_xticks(layers)
    axes[1].plot(layers, errors(estimate, target), "o-", color=style.PALETTE[0])
    axes[1].set(
        ylim=(0, 4), xlabel="layer", ylabel="mean absolute error (digits)", title=f"step {m.steps[at]:,}"
    )
    return fig


def forecast(get: Get) -> Figure:
    """Figure 7: the error reduction at 2.8 % of training against the final one and against final recall, each model."""
    fig, axes = style.figure(2, height=3.6)
    for colour, (name, runs) in zip(style.PALETTE, _by_size(mixed(get)).items(), strict=False):
        for i, m in enumerate(runs):
            reduction = m.reductions()
            early = reduction[int(np.flatnonzero(m.steps >= EARLY * m.steps[-1])[0])]
            targets = (reduction[-1], m.arrays["recall_logp"][-1].mean())
            for ax, target in zip(axes, targets, strict=True):
                ax.plot([early], [target], "o", color=colour, label=name if i == 0 else None)
    for ax, label in zip(axes, ("final error reduction (digits)", "final recall, log p (nats)"), strict=True):
        ax.set(xlabel="early error reduction (digits)", ylabel=label)
    axes[0].legend(fontsize=7)
    return fig
