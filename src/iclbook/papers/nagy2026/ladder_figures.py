"""Figures and the table of the ladder, the printed values drawn in where there are any; ``get`` as in :mod:`.ladder`.

Every size has its colour and one line, the mean over its seeds; dashed and grey: models that never saw a regression.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...drawing import style
from ...drawing.figure_data import Table
from ...sliders import Slider, show
from .arithmetic import SERIES
from .common import cross, legend_above, named_ticks
from .ladder import Get, Model, by_size, controls, mixed
from .probe_statistics import errors

#: Where the start is drawn: 0 has no place on a log scale.
START = 0.5
#: The first step that is shown of training: nothing happens before.
BEGIN = 64
#: Printed valleys and peaks of the error reduction (section 8.4).
PRINTED_VALLEYS = (-0.87, -0.43)
PRINTED_PEAKS = (1.2, 2.6)
#: Section 8.4: shares of updates with the residual's sign, over all models.
PRINTED_SIGNS = (0.55, 0.65)

Curve = Callable[[Model], tuple[np.ndarray, np.ndarray]]


def in_words(name: str) -> str:
    """``2 layers, width 32`` for ``l2w32``."""
    return "{} layers, width {}".format(*name[1:].split("w"))


def _curves(ax: Axes, get: Get, curve: Curve, with_controls: bool = False) -> None:
    """A line for every size, the mean over its seeds, which share their places; those of controls are grey."""

    def mean(runs: list[Model]) -> tuple[np.ndarray, np.ndarray]:
        return curve(runs[0])[0], np.mean([curve(m)[1] for m in runs], 0)

    alone = by_size([control for _, control in controls(get)]) if with_controls else {}
    for i, runs in enumerate(alone.values()):
        look = {"color": style.COLOURS["dummy"], "lw": 1.1, "ls": "--", "zorder": 1}
        ax.plot(*mean(runs), label=None if i else "no regression", **look)
    for colour, (name, runs) in zip(style.PALETTE, by_size(mixed(get)).items(), strict=False):
        ax.plot(*mean(runs), color=colour, lw=1.7, label=in_words(name))


def _steps(m: Model) -> np.ndarray:
    return np.maximum(m.steps, START)


def _over_training(ax: Axes, label: str) -> None:
    ax.set_xscale("log", base=2)
    end = ax.get_xlim()[1]
    begin = BEGIN if end > 4 * BEGIN else 1  # the smoke profile has few steps
    ax.set_xlim(begin, end)
    ticks = [4**i for i in range(8) if begin <= 4**i <= end]
    ax.set_xticks(ticks, [f"{t:,}" for t in ticks])
    ax.set(xlabel="training step", ylabel=label)


def layers(get: Get) -> Figure:
    """Figure 2a and section 8.4's first finding, at the end of training: error of the estimate by depth, and surprisal in a repeated block by depth."""
    fig, axes = style.figure(2, height=3.3)

    def depth(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.linspace(0, 1, len(values)), values

    _curves(axes[0], get, lambda m: depth(errors(m.arrays["lines_estimate"][-1], m.target)), with_controls=True)
    _curves(axes[1], get, lambda m: depth(m.arrays["block10_surprisal"][-1].mean(0)))
    axes[0].set(xlabel="depth (share of layers)", ylabel="mean absolute error (digits)", ylim=(0, 3.4), xlim=(0, 1))
    axes[1].set(xlabel="depth (share of layers)", ylabel="surprisal (nats)", yscale="log", xlim=(0, 1))
    for ax in axes:
        ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        style.name_ends(ax)
    return fig


def development(get: Get) -> Figure:
    """Figure 3 over training: error reduction with the printed range of its valley and of its peak, and copying of a repeated block."""
    fig, (reduction, induction) = style.figure(1, 2, height=4.4, sharex=True)
    words = {"fontsize": 8.5, "va": "center", "color": style.COLOURS["paper"]}
    for (low, high), label in ((PRINTED_VALLEYS, "printed valleys"), (PRINTED_PEAKS, "printed peaks")):
        reduction.axhspan(low, high, color=style.COLOURS["paper"], alpha=0.13, lw=0)
        reduction.text(0.02, (low + high) / 2, label, transform=reduction.get_yaxis_transform(), **words)
    _curves(reduction, get, lambda m: (_steps(m), m.reductions()), with_controls=True)
    _curves(induction, get, lambda m: (_steps(m), (m.arrays["block10_margin"] > 0).mean(1)))
    copied = np.mean([(m.arrays["block10_margin"] > 0).mean(1) for m in mixed(get)], 0)
    begun = _steps(mixed(get)[0])[copied > 0.5][:1]
    for ax in (reduction, induction):
        ax.vlines(begun, *ax.get_ylim(), color=style.INK, lw=1, ls=":", label="mean of all models past half", zorder=0)
    for step in begun:
        induction.text(1.1 * step, 0.3, "mean of\nall models\npast half", va="center", fontsize=8.5)
    reduction.axhline(0, color=style.INK, lw=0.8)
    _over_training(reduction, "error reduction (digits)")
    _over_training(induction, "induction accuracy")
    induction.set(yticks=[0, 0.5, 1], ylim=(-0.06, 1.32))  # room for the names at the ends
    reduction.label_outer()
    for ax in (reduction, induction):
        style.name_ends(ax)
    return fig


def signs(get: Get) -> Figure:
    """Section 8, finding 1: sign agreement of every model, and of noise with its read-out's means and deviations; the printed range shaded."""
    fig, ax = style.figure(height=3.75)
    ax.axhspan(*PRINTED_SIGNS, color=style.COLOURS["paper"], alpha=0.15, lw=0, label="printed range")
    sizes = by_size(mixed(get))
    for i, runs in enumerate(sizes.values()):
        for m, at in zip(runs, i + 0.16 * (np.arange(len(runs)) - (len(runs) - 1) / 2), strict=True):
            drawn, first = m.noise().signs, i == 0 and m.run == 0
            bar = {"color": style.PALETTE[1], "lw": 5, "alpha": 0.6}
            ax.plot([at, at], [drawn.min(), drawn.max()], label="noise, forty draws" if first else None, **bar)
            ax.plot([at], [m.aligned().signs], "o", color=style.PALETTE[0], label="a model" if first else None)
    ax.axhline(0.5, color=style.INK, lw=0.8)
    named_ticks(ax, [in_words(name).replace(", ", ",\n") for name in sizes], fontsize=8.5)
    ax.set_xlim(-0.5, len(sizes) - 0.5)
    ax.set(xlabel="one column a model", ylabel="updates with the residual's sign (share)")
    for name, place, up, colour in (
        ("printed range", (len(sizes) - 0.55, PRINTED_SIGNS[0]), 7, style.COLOURS["paper"]),
        ("a model", (at - 0.13, m.aligned().signs), 0, style.PALETTE[0]),
        ("noise", (at - 0.13, (drawn.min() + drawn.max()) / 2), 0, style.PALETTE[1]),
    ):
        look = {"fontsize": 9, "textcoords": "offset points", "va": "center", "ha": "right", "color": colour}
        ax.annotate(name, place, (0, up), **look)
    return fig


def rates(get: Get) -> Figure:
    """Figure 5: the rate that the slope predicts against the one that is observed, one disc a model of the ladder; crosses: the printed pairs."""
    fig, ax = style.figure(1, height=3.6)
    every = np.array([(m.aligned().rho_pred, m.aligned().rho_obs) for m in mixed(get)])
    ax.plot(*every.T, "o", color=style.COLOURS["measured"], label="the ladder")
    lowest = every[every[:, 1].argmin()]
    ax.annotate("the ladder", lowest, (8, 0), textcoords="offset points", va="center", color=style.COLOURS["measured"])
    printed = [[float(x) for x in SERIES[name]] for name in ("rho_predicted", "rho_observed")]
    cross(ax, *printed, "printed")
    words = {"textcoords": "offset points", "color": style.COLOURS["paper"]}
    ax.annotate("printed", [max(printed[0]), min(printed[1])], (4, -4), **words)
    low = 0.95 * every.min()
    ax.plot([low, 1], [low, 1], color=style.INK, lw=0.9, ls=":", label="equal", zorder=0)
    ax.annotate("equal", [low + 0.22 * (1 - low)] * 2, (2, -4), textcoords="offset points", fontsize=9, va="top")
    ax.set(xlabel=r"predicted by the slope, $1 - \alpha$", ylabel="observed decay by layer")
    return fig


def printed_only(ours: Mapping[str, Any]) -> Figure:
    """Figures 4 to 7 as printed (crosses), with the published models' own ratios of sinks (discs) once :func:`.pretrained.records` has some."""
    fig, axes = style.figure(2, 2, height=5.2)
    sinks, agree, life, forecast = axes.flat
    steps, ratios, predicted, observed, peaks, finals, correlations = (
        np.array(SERIES[name], dtype=float)
        for name in ("sink_steps", "sink_ratios", "rho_predicted", "rho_observed", "peak", "final", "forecasts")
    )
    cross(sinks, steps, ratios, "printed", ls="--", lw=1)
    sinks.set(xscale="log", xlabel="step", ylabel="sinks, late over early", ylim=(0, 5.2), yticks=range(6))
    cross(agree, predicted, observed)
    agree.plot([0, 1], [0, 1], color=style.INK, ls=":", lw=1, label="equal")
    style.name_lines(agree, {"equal": 0.5})
    agree.set(
        xlabel="rate predicted by the slope", ylabel="rate observed", xlim=(0, 1.04), ylim=(0, 1.04), xticks=(0, 0.5, 1)
    )
    cross(life, peaks, range(5))
    life.hlines(range(5), finals, peaks, color=style.COLOURS["paper"], lw=1.4)
    (falls,) = np.nonzero(finals < peaks)
    life.plot(finals[falls], falls, "<", color=style.COLOURS["paper"], ms=5)
    life.set_yticks(range(5), ("OLMo-2-1B", "OLMo-2-7B", "Pythia-1.4B", "Pythia-1B", "Pythia-160M"))
    life.set(xlabel="error reduction: peak to end", xlim=(0, 2.6), ylim=(4.6, -0.6))
    cross(forecast, correlations, range(3))
    forecast.axvline(0, color=style.INK, lw=0.8)
    forecast.set_yticks(range(3), ("its own end", "another task, highest", "another task, lowest"))
    forecast.set(xlabel="correlation with step 4,000", xlim=(-1, 1), ylim=(2.5, -0.5))
    keys = ("probes/sinks/early", "probes/sinks/middle", "probes/sinks/late")
    measured = [float(getattr(ours[key], "value", ours[key])) for key in keys if key in ours]
    sinks.plot(steps[: len(measured)], measured, "o", color=style.COLOURS["measured"])
    titles = ("4:\nsinks grow late", "5:\nrates nearly agree", "6:\nreduction shrinks", "7:\nearly against late")
    for ax, title in zip(axes.flat, titles, strict=True):
        ax.set_title(f"paper's Figure {title}", fontsize=10)
    legend_above(fig, sinks, 1, fontsize=9)
    return fig


def read_out_frame(m: Model, step: int, layer: int, prompt: int) -> Figure:
    """One checkpoint read at one layer: estimates against right answers, and along the layers the estimate of one prompt (thick), of all, and the mean error."""
    at = int(np.flatnonzero(m.steps == step)[0])
    estimate, target = m.arrays["lines_estimate"][at].astype(float), m.target
    fig, (left, right) = style.figure(2, height=3.1)
    left.plot([0, 9], [0, 9], color=style.INK, lw=0.9, ls=":", label="right answer")
    spread = 0.25 * np.sin(np.arange(len(target)) * 2.4)  # equal answers side by side
    left.plot(target + spread, estimate[:, layer], ".", ms=5, alpha=0.5, color=style.PALETTE[0], label="all prompts")
    here = {"ms": 8, "color": style.COLOURS["positive"]}
    left.plot([target[prompt] + spread[prompt]], [estimate[prompt, layer]], "o", label="one prompt", **here)
    left.set(xlabel="right answer (digit)", ylabel="expected digit", xlim=(-0.5, 9.5), ylim=(-0.2, 9.2))
    left.set_title(f"after {layer} of {estimate.shape[1] - 1} layers, step {step:,}", fontsize=9)
    every = np.arange(estimate.shape[1])
    right.plot(every, estimate.T, color=style.PALETTE[0], lw=0.4, alpha=0.15)
    right.plot(every, estimate[prompt], color=style.COLOURS["positive"], lw=2)
    right.plot([layer], [estimate[prompt, layer]], "o", **here)
    right.axhline(target[prompt], color=style.COLOURS["positive"], lw=1.1, ls="--", label="its right answer")
    right.axvline(layer, color=style.INK, lw=0.6)
    right.set(xlabel="layer", ylabel="expected digit", ylim=(-0.2, 9.2), xticks=every)
    right.set_title(f"mean error {errors(estimate, target)[layer]:.2f} digits", fontsize=9)
    fig.legend(loc="outside upper center", ncols=4, fontsize=7.5)
    return fig


def show_read_out(get: Get, few: bool) -> None:
    """The read-out of the largest model under two sliders: training step and layer."""
    m = mixed(get)[-1]
    # the prompt whose first estimate is farthest off, among those that the trained model answers to within half a digit; else the one that it answers best
    off = np.abs(m.target[:, None] - m.final)
    prompt = int(np.where(off[:, -1] < 0.5, off[:, 0], -off[:, -1]).argmax())
    last, depth = int(m.steps[-1]), m.arrays["lines_estimate"].shape[-1] - 1
    steps = sorted({*(int(s) for s in m.steps if s in (1024, 2048, 4096)), last})
    layers = sorted({0, depth // 2, depth - 1, depth})
    show(
        lambda step, layer: read_out_frame(m, step, layer, prompt),
        [
            Slider("step", "training step", steps[-2:] if few else steps),
            Slider("layer", "layer", layers[-2:] if few else layers, live=(0, depth, 1)),
        ],
        start={"step": last, "layer": depth},
        title=f"What the model of {in_words(m.name)} would answer, layer by layer",
        description="The estimates reach the right answers in the last layers. Try: layer 0: one answer for all prompts.",
        alt=lambda step, layer: f"Estimates after layer {layer} at training step {step} against the right answers.",
        play="layer",
    )


def table(get: Get) -> Table:
    """Sections 8 and 8.4 at the end of training, means over the seeds of a size."""

    def row(name: str, runs: list[Model]) -> dict[str, str]:
        aligned = [m.aligned() for m in runs]
        a = {key: np.mean([getattr(one, key) for one in aligned]) for key in aligned[0]._fields}
        first, *_, last = np.mean([errors(m.final, m.target) for m in runs], 0)
        return {
            "model": name,
            "slope": f"{a['slope']:.3f}",
            "r2": f"{a['r2']:.3f}",
            "signs": f"{a['signs']:.2f}",
            "error": f"{first:.2f}, {last:.2f}",
            "shuffled": f"{np.mean([m.aligned(which='shuffled').reduction for m in runs]):+.2f}",
            "rates": f"{a['rho_pred']:.3f} / {a['rho_obs']:.3f}",
            "contracting": f"{100 * a['contracting']:.0f} %",
        }

    rows = [row(name, runs) for name, runs in by_size(mixed(get)).items()]
    rows += [row(f"{name}, no regression", runs) for name, runs in by_size([m for _, m in controls(get)]).items()]
    columns = {
        "model": "model",
        "slope": r"slope $\alpha$",
        "r2": "$r^2$",
        "signs": "signs agree",
        "error": "error, first layer and last",
        "shuffled": "reduction, with the context's answers shuffled",
        "rates": r"$\rho_{\mathrm{pred}}$ / $\rho_{\mathrm{obs}}$",
        "contracting": "prompts that contract",
    }
    return Table(rows, columns, "Steps along the residual", folded=True)
