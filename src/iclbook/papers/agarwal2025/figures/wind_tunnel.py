"""The reduced wind tunnel of agarwal2025: error by place and by step, and the geometry of keys and values."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ....claims import printed
from ....drawing import style
from ....models.causal_transformer import shown
from ....store import Results
from ....tasks.hmm_filtering import entropy_bits
from ....training.study import Study
from ..measures.tunnel_records import MODELS, hmm_baselines, key_cosines, prior_error, random_key_cosine
from ..runs.tunnel_specs import probe

LOOKS = {
    "transformer": ("transformer", style.PALETTE[0], "o"),
    "ssm": ("selective SSM", style.PALETTE[2], "s"),
    "lstm": ("LSTM", style.PALETTE[3], "^"),
    "prefix_mlp": ("MLP on the prefix", style.PALETTE[1], "D"),
}


def _band(ax: Axes, x: np.ndarray, runs: np.ndarray, model: str, label: bool = True) -> None:
    """Mean over seeds as a line, range over seeds as a band; ``runs`` is ``(R, len(x))``."""
    name, colour, marker = LOOKS[model]
    ax.fill_between(x, runs.min(0), runs.max(0), color=colour, alpha=0.18, lw=0)
    ax.plot(x, runs.mean(0), marker=marker, ms=3.2, lw=1.3, color=colour, label=name if label else None)


def errors_by_place(results: dict[str, Results], studies: dict[str, Study]) -> Figure:
    """Error of the predictive entropy at every place, beyond the training length too."""
    fig, axes = style.figure(2, height=3.4, width_ratios=(1.5, 1))
    for ax, name in zip(axes, ("tunnel_hmm", "tunnel_bijection"), strict=True):
        task = studies[name].data
        for model in MODELS:
            for which in ("long", "train"):
                key = f"{model}/mae_{which}"
                if key in results[name].arrays:
                    runs = results[name][key][-1]
                    _band(ax, np.arange(1, runs.shape[1] + 1), runs, model)
                    break
        longest = max(task_.length for _, task_ in studies[name].groups[0].observe.probes)
        ax.axvspan(task.length + 0.5, longest + 0.5, color=style.GRID, alpha=0.45, lw=0, zorder=0)
        ax.text(
            task.length + 0.6, 0.985, " not trained", transform=ax.get_xaxis_transform(), va="top", fontsize=8
        )
    longer = dict(studies["tunnel_hmm"].groups[0].observe.probes)["long"]
    base = hmm_baselines(longer, 2000)
    places = np.arange(1, longer.length + 1)
    axes[0].plot(places, base["memoryless"], color=style.INK, lw=1, ls=(0, (1, 1.6)), label="no memory")
    axes[0].plot(places, base["uniform"], color=style.INK, lw=1, ls=(0, (4, 2)), label="uniform answer")
    says = printed("agarwal2025")  # errors in bits of models of Paper I's size
    for model, name in (
        ("transformer", "tunnel/transformer"),
        ("ssm", "tunnel/ssm"),
        ("lstm", "tunnel/lstm"),
    ):
        look = {"color": LOOKS[model][1], "mec": style.INK, "mew": 0.6, "ms": 6, "clip_on": False}
        axes[0].plot(longer.length + 0.9, says[name], "<", **look)
    axes[0].plot([], [], "<", mfc="none", mec=style.INK, label="paper, larger models")
    longest = dict(studies["tunnel_bijection"].groups[0].observe.probes)["long"]
    axes[1].plot(
        np.arange(1, longest.length + 1), prior_error(longest), color=style.INK, lw=1, ls=(0, (4, 2))
    )
    axes[0].set(xlabel="observation t", ylabel="error of the entropy (bits)", title="hidden Markov models")
    axes[1].set(xlabel="pair k", title="bijection elimination")
    axes[0].set_ylim(0, 0.46)
    axes[1].set_ylim(0, 1.15 * axes[1].get_ylim()[1])
    fig.legend(
        *axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, columnspacing=1, fontsize=8
    )
    return fig


def errors_by_step(results: dict[str, Results]) -> Figure:
    """Mean error over the places of the training length, against the training step."""
    fig, axes = style.figure(2, height=2.8)
    for ax, name in zip(axes, ("tunnel_hmm", "tunnel_bijection"), strict=True):
        for model in MODELS:
            error = results[name][f"{model}/mae_train"].mean(-1)  # (T, R)
            steps = results[name][f"{model}/steps"]
            _band(ax, np.maximum(steps, 10), error.T, model)
        ticks = [t for t in (10, 30, 100, 300, 1000, 3000) if t <= steps[-1]]
        style.log_ticks(ax, "x", ticks)
        ax.set(ylim=(0, None), xlabel="step (the start is drawn at 10)")
    axes[0].set(ylabel="error of the entropy (bits)", title="hidden Markov models")
    axes[1].set(title="bijection elimination")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return fig


def geometry(results: dict[str, Results], studies: dict[str, Study]) -> Figure:
    """Keys of the transformer on the bijection, and its last layer's attention-weighted values on both tasks (first seed)."""
    fig, axes = style.figure(3, height=2.9, width_ratios=(0.8, 1, 1))
    ax = axes[0]
    for which, shift, colour, marker in (
        ("x", -0.15, style.PALETTE[0], "o"),
        ("y", 0.15, style.PALETTE[3], "^"),
    ):
        cosine = key_cosines(results["tunnel_bijection"], which)  # (T, R)
        spread = shift + np.linspace(-0.09, 0.09, cosine.shape[1])
        ax.plot(spread, cosine[0], marker, ms=4, color=colour, label=f"keys of ${which}$")
        ax.plot(1 + spread, cosine[-1], marker, ms=4, color=colour)
    random = random_key_cosine(results["tunnel_bijection"])
    ax.axhline(random, color=style.INK, ls=(0, (1, 1.6)), lw=1.2, label="random vectors")
    ax.axhspan(0.05, 0.06, color=style.COLOURS["paper"], lw=0, alpha=0.7, label="printed")
    ax.set_xticks([0, 1], ["untrained", "trained"])
    ax.set(xlim=(-0.5, 1.5), ylim=(0, 1.4), ylabel="mean |cosine| of keys")
    ax.set_title(f"keys, {cosine.shape[1]} seeds")
    ax.legend(fontsize=7, loc="upper left", borderaxespad=0.1, handlelength=1.4)
    most = np.log2(studies["tunnel_bijection"].data.symbols)  # one colour scale for both
    for ax, name, title in (
        (axes[1], "tunnel_hmm", "HMM"),
        (axes[2], "tunnel_bijection", "bijection"),
    ):
        observe = studies[name].groups[0].observe
        exact = probe(dict(observe.probes)["train"], observe.n)[1]
        entropy = shown(entropy_bits(exact).flatten()).numpy()
        along = results[name]["transformer/pc_output"][-1, 0]  # (2, n)
        points = ax.scatter(
            along[0], along[1], c=entropy, s=7, cmap="cividis", linewidths=0, vmin=0, vmax=most
        )
        share = results[name]["transformer/pc1_output"][-1, 0]
        r = results[name]["transformer/r_output"][-1, 0]
        ax.set(xlabel=f"first component ({share:.0%})", title=f"{title}: |r| = {r:.2f}")
        ax.set_xticks([])
        ax.set_yticks([])
    axes[1].set_ylabel("second component")
    bar = fig.colorbar(points, ax=axes[2])
    bar.set_label("posterior entropy (bits)")
    bar.outline.set_visible(False)
    return fig
