"""GD against Trained TF on the data of appendix E (figures 3, 4 and 5, left): accuracy and NLL against contexts, blocks and steps, and over draws of everything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...claims import printed
from ...drawing import style
from ...statistics import Estimate, bootstrap_error, standard_error, t_of_mean
from ...store import Results
from .contexts import Scores, scores, stopped_parts
from .studies import SIZES

#: How a notebook or a test hands in results: ``get(study) -> Results``.
Get = Callable[[str], Results]
#: An NLL counts as reached within this of the value at the largest number of contexts (nats).
REACHED = 0.05
#: Number of contexts that stands for "at none of the numbers tried".
NEVER = 10**9
WHAT = {"accuracy": "test accuracy", "nll": "test NLL (nats)"}
#: Initialisations behind the authors' printed means.
AUTHORS_RUNS = 5


def estimate(differences: np.ndarray) -> Estimate:
    """Mean of paired differences over runs ``(R,)`` with its standard error; 0 for the single run that the smoke profile has of costly models."""
    error = float(standard_error(differences)) if len(differences) > 1 else 0.0
    return Estimate(float(np.mean(differences)), error)


def t_of_runs(differences: np.ndarray) -> float:
    """Mean of paired differences ``(R,)`` over its standard error; 0 for a single run or runs without spread."""
    return float(t_of_mean(differences)) if np.ptp(differences) > 0 else 0.0


# -- against the number of contexts -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sweep:
    """Early-stopped scores against the number of contexts: ``accuracy[model]``, ``nll[model]``, ``train[model]`` of shape ``(len(L), R)``.

    ``train`` is the mean minibatch loss over the recorded stretch that ends at the best validation record, where ``accuracy`` and ``nll`` are taken.
    """

    L: tuple[int, ...]
    accuracy: dict[str, np.ndarray]
    nll: dict[str, np.ndarray]
    train: dict[str, np.ndarray]


def _sweep(get: Get, L: tuple[int, ...], models: Mapping[str, tuple[str, str]]) -> Sweep:
    """``models``: name -> beginning of the study's name, which L follows, and group."""
    found: dict[str, dict[str, np.ndarray]] = {"accuracy": {}, "nll": {}, "train": {}}
    for model, (study, group) in models.items():
        results = [get(f"{study}_L{n}") for n in L]
        kept = [scores(one, group) for one in results]
        for what in WHAT:
            found[what][model] = np.stack([s.stopped(what) for s in kept])
        losses = [
            np.take_along_axis(one[f"{group}/loss"], s.best[None], axis=0)[0]
            for one, s in zip(results, kept, strict=True)
        ]
        found["train"][model] = np.stack(losses).astype(float)
    return Sweep(L, **found)


#: Figure 3's models: beginning of the study's name, which L follows, and group.
MODELS = {
    "GD softmax": ("published_inner", "softmax"),
    "GD RBF": ("published_squared", "rbf"),
    "GD linear": ("published_inner", "linear"),
    "GD softmax, scalar alpha": ("published_inner", "softmax-scalar"),
    "TF softmax": ("published_tf", "softmax"),
    "TF RBF": ("published_tf_rbf", "rbf"),
}


def one_block(get: Get, profile: str) -> Sweep:
    """Figure 3."""
    return _sweep(get, SIZES[profile].L, MODELS)


def two_blocks(get: Get, profile: str) -> Sweep:
    """Figure 5, left."""
    models = {"GD": ("published_two_gd", "gd"), "TF": ("published_two_tf", "tf")}
    return _sweep(get, SIZES[profile].L, models)


def reached(L: tuple[int, ...], nll: np.ndarray, target: float) -> int:
    """The smallest number of contexts from which on the mean NLL stays within :data:`REACHED` of the target; :data:`NEVER` if none.

    A number of contexts of the grid: the true one lies above the grid's point before it.
    """
    below = nll.mean(1) <= target + REACHED
    index = next((i for i in range(len(L)) if below[i:].all()), None)
    return NEVER if index is None else int(L[index])


def apart(get: Get, what: str, one: tuple[str, str], other: tuple[str, str]) -> Estimate:
    """Mean of ``one - other``, each a study and a group, over their starts, which are paired, and over test contexts, which they share: the errors of both."""
    first, second = (stopped_parts(get(study), group, what) for study, group in (one, other))  # (R, PARTS)
    n = min(len(first), len(second))
    gap = first[:n] - second[:n]
    return Estimate(float(gap.mean()), np.hypot(estimate(gap.mean(1)).error, standard_error(gap.mean(0))))


def figure_3(get: Get, sweep: Sweep) -> dict[str, Any]:
    """Figure 3: how far Trained TF is behind GD at the largest L, from which L on each is near GD's best, and Trained TF beside the authors' printed values."""
    accuracy, nll = sweep.accuracy, sweep.nll
    last = {model: (f"{study}_L{sweep.L[-1]}", group) for model, (study, group) in MODELS.items()}
    says, block = printed("wang2025"), scores(get("published_block"), "tf")
    found: dict[str, Any] = {
        "fig3/seeds": [accuracy["GD softmax"].shape[1], accuracy["TF RBF"].shape[1]],
        "fig3/L": list(sweep.L),
        "fig3/softmax_accuracy": accuracy["GD softmax"].mean(1).tolist(),
        "fig3/softmax_accuracy_tf": accuracy["TF softmax"].mean(1).tolist(),
        "fig3/linear_accuracy": float(accuracy["GD linear"][-1].mean()),
        "fig3/linear_behind": apart(get, "accuracy", last["GD softmax"], last["GD linear"]),
        "q-alpha/one_block": float((nll["GD softmax, scalar alpha"] - nll["GD softmax"])[-1].mean()),
    }
    for what in WHAT:
        layer, gd = (getattr(sweep, what)[model][0] for model in ("TF softmax", "GD softmax"))
        for reading, runs in (("printed", layer), ("coded", block.stopped(what))):
            found[f"fig3/{reading}_{what}"] = estimate(runs) - says[f"authors/one_tf_{what}"]
        found[f"fig3/other_{what}"] = float(gd.mean() - says[f"authors/one_tf_{what}"])
    for kernel in ("softmax", "RBF"):
        gd, tf, key = f"GD {kernel}", f"TF {kernel}", f"fig3/{kernel.lower()}"
        found[f"{key}_accuracy_gap"] = apart(get, "accuracy", last[gd], last[tf])
        found[f"{key}_nll_gap"] = apart(get, "nll", last[tf], last[gd])
        found[f"{key}_reach"] = reached(sweep.L, nll[gd], nll[gd][-1].mean())
        found[f"{key}_reach_tf"] = reached(sweep.L, nll[tf], nll[gd][-1].mean())
    return found


def figure_5(sweep: Sweep) -> dict[str, Any]:
    """Figure 5, left: two blocks, Trained TF against GD at the smallest and at the largest L."""
    gd, tf = sweep.nll["GD"], sweep.nll["TF"]
    between = tf - gd  # runs of one number start from one seed and share minibatches
    return {
        "fig5/L": list(sweep.L),
        "fig5/seeds": [gd.shape[1], tf.shape[1]],
        "fig5/gd_nll": gd.mean(1).tolist(),
        "fig5/tf_nll": tf.mean(1).tolist(),
        "fig5/first_gap": estimate(between[0]),
        "fig5/last_gap": estimate(between[-1]),
        "fig5/gd_cost": estimate(gd[0] - gd[-1]),
    }


def of_printed_values() -> dict[str, float]:
    """Figures 4 and 5 (left) by the values that the authors' notebook prints, at one and at two blocks of Trained TF."""
    says = printed("wang2025")
    nll, accuracy, L = says["authors/nll"], says["authors/accuracy"], says["authors/L"]
    gaps = np.subtract(says["authors/two_tf_nll"], says["authors/two_gd_nll"])
    near = next(i for i in range(len(L)) if (gaps[i:] <= 0.075).all())
    return {
        "fig4/printed_more": (nll[0] - nll[-1]) / nll[0] - (accuracy[-1] - accuracy[0]) / accuracy[0],
        "fig5/printed_gap": float(gaps[-1]),
        "fig5/printed_reach": L[near],
        "fig5/printed_more": float(gaps[0] - (says["authors/one_tf_nll"] - nll[0])),
    }


def gap(sweep: Sweep, deep: Sweep) -> dict[str, Any]:
    """Is the gap of Trained TF data (it fits its contexts better than new ones) or optimisation (it does not fit them)? NLL at the best validation record."""
    found: dict[str, Any] = {}
    for name, s, gd, tf in (("one", sweep, "GD softmax", "TF softmax"), ("two", deep, "GD", "TF")):
        overfit, apart = s.nll[tf] - s.train[tf], (s.nll[tf] - s.nll[gd])[-1]
        found |= {
            f"q-gap/{name}_unfitted_large": float(s.train[tf][-1].mean() - s.train[gd][-1].mean()),
            f"q-gap/{name}_overfit_small": float(overfit[0].mean()),
            f"q-gap/{name}_overfit_large": float(overfit[-1].mean()),
            f"q-gap/{name}_test_large": float(apart.mean()),
            f"q-gap/{name}_test_large_t": t_of_runs(apart),
        }
    return found


# -- against the number of blocks -------------------------------------------------------------------------------------


def by_depth(get: Get, profile: str) -> dict[str, dict[int, Scores]]:
    """Figure 4: scores along training for each number of blocks, ``N = 10`` (narrow), and ``N = 125`` on the authors' W_e (wide)."""
    s = SIZES[profile]
    narrow = {k: scores(get("deep_gd"), f"softmax-{k}") for k in s.depths}
    wide = {k: scores(get("published_depths"), f"softmax-{k}") for k in s.depths}
    return {"narrow": narrow, "wide": wide}


def figure_4(found: Mapping[str, Mapping[int, Scores]]) -> dict[str, Any]:
    """Figure 4: scores by number of blocks at both context sizes, and what the second block and deeper models gain (paired by seed).

    ``at_end`` is the share of the runs that are best at their last record, which have not converged.
    """

    values: dict[str, Any] = {}
    for name, by in found.items():
        accuracy, nll = ({k: s.stopped(what) for k, s in by.items()} for what in WHAT)
        later = [nll[k].mean() for k in by if k > 1]
        values |= {
            f"fig4/{name}_accuracy": [float(each.mean()) for each in accuracy.values()],
            f"fig4/{name}_nll": [float(each.mean()) for each in nll.values()],
            f"fig4/{name}_seeds": [len(each) for each in nll.values()],
            f"fig4/{name}_gain": estimate(accuracy[2] - accuracy[1]),
            f"fig4/{name}_nll_gain": estimate(nll[1] - nll[2]),
            f"fig4/{name}_late_gain": float(later[0] - min(later)),
        }
    wide = found["wide"]
    values["fig4/wide_third_gain"] = estimate(wide[2].stopped("nll") - wide[3].stopped("nll"))
    values["fig4/wide_at_end"] = float(np.mean([(s.best == len(s.steps) - 1).mean() for s in wide.values()]))
    return values


# -- over draws of W_e, contexts and initialisation -------------------------------------------------------------------


def new_draws(get: Get, profile: str) -> dict[str, Any]:
    """Figures 3, 4 and 5 (left) on new draws of everything. Errors are those of the units' means, which hold what the initialisations add."""

    def of(study: str, group: str, what: str) -> np.ndarray:  # (units, inits)
        units = range(SIZES[profile].units)
        return np.stack([scores(get(f"new{u}_{study}"), group).stopped(what) for u in units])

    def mean(values: np.ndarray) -> Estimate:
        return Estimate.mean(values.mean(1))

    found: dict[str, Any] = {}
    for kernel in ("softmax", "rbf"):
        for what, sign in (("accuracy", 1), ("nll", -1)):
            apart = sign * (of("gd", kernel, what) - of("tf", kernel, what))
            found[f"q-new-draws/{kernel}_{what}_gap"] = mean(apart)
    softmax, linear = ({what: of("gd", kernel, what).mean() for what in WHAT} for kernel in ("softmax", "linear"))
    found["q-new-draws/linear_gap"] = float(softmax["accuracy"] - linear["accuracy"])
    found["q-new-draws/linear_nll_gap"] = float(linear["nll"] - softmax["nll"])
    depth = {(k, what): of("wide", f"softmax-{k}", what) for k in (1, 2, 3) for what in WHAT}
    return found | {
        "q-new-draws/second_gain": mean(depth[2, "accuracy"] - depth[1, "accuracy"]),
        "q-new-draws/second_nll_gain": mean(depth[1, "nll"] - depth[2, "nll"]),
        "q-new-draws/third_nll_gain": mean(depth[2, "nll"] - depth[3, "nll"]),
        "q-new-draws/two_block_gap": mean(of("two_tf", "tf", "nll") - of("deep", "softmax-2", "nll")),
        **spreads(of("deep", "softmax-1", "accuracy")),
    }


def spreads(values: np.ndarray) -> dict[str, float]:
    """Standard deviation between units and within them (0 for one initialisation), from ``(units, inits)``; the error is that of their difference."""

    def within(values: np.ndarray) -> float:
        return float(np.sqrt(values.var(1, ddof=1).mean())) if values.shape[1] > 1 else 0.0

    def between(values: np.ndarray) -> float:
        return float(values.mean(1).std(ddof=1))

    return {
        "q-draw-spread/units": between(values),
        "q-draw-spread/inits": within(values),
        "q-draw-spread/units_se": bootstrap_error(lambda drawn: between(drawn) - within(drawn), values),
    }


def on_the_authors_contexts(get: Get, profile: str) -> dict[str, Estimate]:
    """One block on the authors' W_e and contexts at their program's length, less their printed .702 and 1.058: three readings of the data.

    What is left to differ are five initialisations and their minibatches, here and there; both spreads count in the error.
    """
    says, found = printed("wang2025"), {}
    readings = {
        "q-published/narrow_": "published_narrow",
        "q-published/wide_": f"published_inner_L{SIZES[profile].L[0]}",
        "q-printed-kernel/": "published_printed",
    }
    for key, study in readings.items():
        ran = scores(get(study), "softmax")
        for what in WHAT:
            ours = ran.stopped(what)
            error = says[f"authors/{what}_sd"][0] / np.sqrt(AUTHORS_RUNS)
            found[f"{key}{what}"] = Estimate.mean(ours) - Estimate(says[f"authors/{what}"][0], error)
    return found


# -- figures ----------------------------------------------------------------------------------------------------------


def _bars(ax: Axes, x: Any, values: Any, **how: Any) -> None:
    """Mean over runs with one standard deviation of each of ``values``, arrays ``(R,)``."""
    sd = [v.std(ddof=1) if len(v) > 1 else 0.0 for v in values]
    ax.errorbar(x, [v.mean() for v in values], sd, ms=4, capsize=2, **how)


def _contexts_axis(ax: Axes, L: tuple[int, ...]) -> None:
    ax.set_xscale("log")
    ax.set_xticks(L, [f"{n:,}" for n in L])
    ax.minorticks_off()
    ax.set_xlabel("training contexts L")


GD = {"color": style.PALETTE[0], "marker": "o"}
TF = {"color": style.PALETTE[1], "marker": "s", "ls": "--"}


def plot_sweep(s: Sweep, oracle: float) -> Figure:
    """Figure 3: accuracy and NLL against L for RBF (left) and softmax (right); crosses: the authors' notebook."""
    fig, axes = style.figure(2, 2, height=4.6, sharex=True, sharey="row")
    says = printed("wang2025")
    crosses = {what: [says[f"authors/{what}"][0], says[f"authors/one_tf_{what}"]] for what in WHAT}
    for column, kernel in enumerate(("RBF", "softmax")):
        for row, what in enumerate(WHAT):
            ax, values = axes[row, column], getattr(s, what)
            _bars(ax, s.L, values[f"GD {kernel}"], label="GD", **GD)
            _bars(ax, s.L, values[f"TF {kernel}"], label="Trained TF", **TF)
            if column == 1:
                _bars(ax, s.L, values["GD linear"], color=style.PALETTE[6], marker="^", label="GD, linear")
                look = {"color": style.COLOURS["paper"]}
                ax.plot([2048] * len(crosses[what]), crosses[what], "X", ms=7, zorder=4, label="paper", **look)
                for name, value in zip(("GD", "Trained TF"), crosses[what], strict=True):
                    where = {"xytext": (-7, 0), "textcoords": "offset points", "ha": "right", "va": "center"}
                    ax.annotate(name, (2048, value), fontsize=8, **where, **look)
            _contexts_axis(ax, s.L)
            ax.set_xlim(s.L[0] / 2.6, s.L[-1] * 1.3)
            ax.set_xlabel("training contexts L" if row else "")
        axes[0, column].set_title(f"{kernel} attention")
        axes[0, column].axhline(oracle, color=style.COLOURS["theory"], ls=":", lw=1.3, label="best possible")
        axes[1, column].set_ylim(0.9, 3.3)
    for row, label in enumerate(WHAT.values()):
        axes[row, 0].set_ylabel(label)
    fig.legend(*axes[0, 1].get_legend_handles_labels(), loc="outside upper center", ncols=5, fontsize=8)
    return fig


def plot_two_blocks(s: Sweep) -> Figure:
    """Figure 5, left, beside the values that the authors' notebook prints."""
    fig, axes = style.figure(2, height=2.8)
    says = printed("wang2025")
    for ax, (what, label) in zip(axes, WHAT.items(), strict=True):
        _bars(ax, s.L, getattr(s, what)["GD"], label="GD, 2 blocks", **GD)
        _bars(ax, s.L, getattr(s, what)["TF"], label="Trained TF, 2 blocks", **TF)
        for key, model, dashes in (("gd", "GD", "-"), ("tf", "Trained TF", "--")):
            how = {"marker": "x", "lw": 1, "color": style.COLOURS["paper"], "label": f"authors' code, {model}"}
            ax.plot(says["authors/L"], says[f"authors/two_{key}_{what}"], dashes, **how)
        _contexts_axis(ax, s.L)
        ax.set_ylabel(label)
    for text, height, look in (("GD", 0.83, GD), ("Trained TF", 0.33, TF), ("× authors' notebook", 0.08, how)):
        axes[0].annotate(text, (0.3, height), xycoords="axes fraction", color=look["color"], fontsize=9)
    return fig


def plot_fits(get: Get, profile: str) -> Figure:
    """Two blocks: mean NLL on new contexts (solid) and on the training contexts (dashed) along training, one panel for each L."""
    numbers = SIZES[profile].L
    fig, axes = style.figure(len(numbers), height=2.8, sharey=True)
    for ax, L in zip(axes, numbers, strict=True):
        for model, colour, name in (("gd", style.PALETTE[0], "GD"), ("tf", style.PALETTE[1], "Trained TF")):
            g = get(f"published_two_{model}_L{L}").group(model)
            for what, dashes, on in (("nll_test", "-", "new"), ("loss", "--", "training")):
                means = g[what][1:].mean(1)
                ax.plot(g["steps"][1:], means, color=colour, ls=dashes, label=f"{name}, {on} contexts")
        ax.set(xscale="log", xlabel="minibatches", title=f"L = {L:,}", ylim=(0.6, 4))
    axes[0].set_ylabel("NLL (nats)")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=8)
    return fig


def plot_depths(found: Mapping[str, Mapping[int, Scores]]) -> Figure:
    """Figure 4: top, scores at the best validation record against the number of blocks, both N; bottom, accuracy and NLL along training (N = 10)."""
    fig, grid = style.figure(2, 2, height=4.8)
    colours, says = style.plt.cm.viridis_r(np.linspace(0.25, 1, 6)), printed("wang2025")
    readings = (("narrow", "N = 10", style.PALETTE[0], "o"), ("wide", "N = 125", style.PALETTE[2], "s"))
    for (what, label), ax, along in zip(WHAT.items(), *grid, strict=True):
        for (k, s), colour in zip(found["narrow"].items(), colours, strict=False):
            along.plot(s.steps[1:], getattr(s, what)[1:].mean(1), color=colour, label=f"{k}")
        style.log_ticks(along, "x", (30, 100, 300))
        along.set(xlabel="minibatches", ylabel=label, title="along training, N = 10")
        for reading, name, colour, marker in readings:
            values = [s.stopped(what) for s in found[reading].values()]
            _bars(ax, list(found[reading]), values, color=colour, marker=marker, label=name)
        paper = {"fmt": "x--", "lw": 1, "color": style.COLOURS["paper"], "capsize": 2, "label": "authors' code"}
        ax.errorbar(range(1, 7), says[f"authors/{what}"], says[f"authors/{what}_sd"], **paper)
        ax.set(xlabel="blocks", xticks=range(1, 7), ylabel=label)
    grid[1][1].legend(title="blocks", title_fontsize=8, fontsize=8, ncols=2)
    grid[0][0].legend(fontsize=8, loc="center right")
    return fig
