"""GD against Trained TF on the data of appendix E (figures 3, 4 and 5, left): accuracy and NLL against contexts, blocks and steps, and over new draws."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...claims import printed
from ...drawing import style
from ...numbers import number
from ...statistics import Estimate, bootstrap_error, t_of_mean
from ...store import Results
from .contexts import best_records, stopped
from .studies import SIZES

#: How a notebook or a test hands in results: ``get(study) -> Results``.
Get = Callable[[str], Results]
#: Arrays of figure 4: data (``narrow``, ``authors``) -> number of blocks -> name.
ByDepth = Mapping[str, Mapping[int, Mapping[str, np.ndarray]]]
#: What is scored (``accuracy``, ``nll``, ``train``) and model -> scores ``(R,)`` for each number of contexts.
Sweep = Mapping[tuple[str, str], Sequence[np.ndarray]]
#: An NLL counts as reached within this of the value at the largest number of contexts (nats).
REACHED = 0.05
#: "Close agreement" of the authors' two curves of figure 5 (nats): what is left between them at their largest number of contexts, .034, rounded up.
AUTHORS_AGREE = 0.04
#: Number of contexts that stands for "at none of the numbers tried".
NEVER = 10**9
WHAT = {"accuracy": "test accuracy", "nll": "test NLL (nats)"}
#: Initialisations behind the authors' printed means.
AUTHORS_RUNS = 5


# -- against the number of contexts -----------------------------------------------------------------------------------


#: Figure 3's models: beginning of the study's name, which L follows, and group.
ONE_BLOCK = {
    "GD softmax": ("published_inner", "softmax"),
    "GD RBF": ("published_squared", "rbf"),
    "GD linear": ("published_inner", "linear"),
    "GD softmax, scalar alpha": ("published_inner", "softmax-scalar"),
    "TF softmax": ("published_tf", "softmax"),
    "TF RBF": ("published_tf_rbf", "rbf"),
}
#: Those of figure 5, left.
TWO_BLOCKS = {"GD": ("published_blocks", "softmax-2"), "TF": ("published_two_tf", "tf")}


def swept(get: Get, L: Sequence[int], models: Mapping[str, tuple[str, str]]) -> Sweep:
    """Scores of models, ``name -> (beginning of the study's name, group)``, at the best validation record; ``train``: the minibatch loss up to there."""
    return {
        (what, model): [stopped(get(f"{study}_L{n}").group(group), name) for n in L]
        for what, name in (("accuracy", "accuracy_test"), ("nll", "nll_test"), ("train", "loss"))
        for model, (study, group) in models.items()
    }


def means(runs: Sequence[np.ndarray]) -> list[float]:
    """Mean over runs for each number of contexts."""
    return [float(each.mean()) for each in runs]


def reached(L: Sequence[int], near: np.ndarray) -> int:
    """The smallest number of contexts from which on all are ``near (len(L),)``; :data:`NEVER` if none."""
    return next((n for i, n in enumerate(L) if near[i:].all()), NEVER)


def apart(get: Get, what: str, one: tuple[str, str], other: tuple[str, str]) -> Estimate:
    """Mean of ``one - other``, each a study and a group, over their starts, which are paired, and over test contexts, which they share: the errors of both."""
    first, second = (stopped(get(study).group(group), f"{what}_parts") for study, group in (one, other))  # (R, PARTS)
    n = min(len(first), len(second))
    return Estimate.crossed(first[:n] - second[:n])


def figure_3(get: Get, L: Sequence[int], sweep: Sweep) -> dict[str, Any]:
    """Figure 3: how far Trained TF is behind GD at the largest L, from which L on each is near GD's best, and Trained TF beside the authors' printed values."""
    last = {model: (f"{study}_L{L[-1]}", group) for model, (study, group) in ONE_BLOCK.items()}
    says, block = printed("wang2025"), get("published_block").group("tf")
    found: dict[str, Any] = {
        "fig3/seeds": [len(sweep["accuracy", model][0]) for model in ("GD softmax", "TF RBF")],
        "fig3/L": list(L),
        "fig3/softmax_accuracy": means(sweep["accuracy", "GD softmax"]),
        "fig3/softmax_accuracy_tf": means(sweep["accuracy", "TF softmax"]),
        "fig3/linear_accuracy": float(sweep["accuracy", "GD linear"][-1].mean()),
        "fig3/linear_behind": apart(get, "accuracy", last["GD softmax"], last["GD linear"]),
        "q-alpha/one_block": float(
            (sweep["nll", "GD softmax, scalar alpha"][-1] - sweep["nll", "GD softmax"][-1]).mean()
        ),
    }
    for what in WHAT:
        layer, gd = (sweep[what, model][0] for model in ("TF softmax", "GD softmax"))
        for reading, runs in (("printed", layer), ("program", stopped(block, f"{what}_test"))):
            # theirs is a mean of as many starts, which they do not show apart: it errs as ours does
            ours = Estimate.runs(runs)
            found[f"fig3/{reading}_{what}"] = ours.widened(ours.error) - says[f"authors/one_tf_{what}"]
        found[f"fig3/other_{what}"] = float(gd.mean() - says[f"authors/one_tf_{what}"])
    for kernel in ("softmax", "RBF"):
        gd, tf, key = f"GD {kernel}", f"TF {kernel}", f"fig3/{kernel.lower()}"
        found[f"{key}_accuracy_gap"] = apart(get, "accuracy", last[gd], last[tf])
        found[f"{key}_nll_gap"] = apart(get, "nll", last[tf], last[gd])
        for model, name in ((gd, "reach"), (tf, "reach_tf")):
            near = np.less_equal(means(sweep["nll", model]), sweep["nll", gd][-1].mean() + REACHED)
            found[f"{key}_{name}"] = reached(L, near)
    return found


def figure_5(L: Sequence[int], deep: Sweep, sweep: Sweep) -> dict[str, Any]:
    """Figure 5, left: Trained TF against GD; ``q-gap``: whether it lags for want of data (``overfit``) or of optimisation (``unfitted``), NLL."""
    gd, tf = deep["nll", "GD"], deep["nll", "TF"]
    few = len(gd[0])  # starts at the smallest L; the largest has more
    found: dict[str, Any] = {
        "fig5/L": list(L),
        "fig5/seeds": [len(runs) for runs in gd],
        "fig5/gd_nll": means(gd),
        "fig5/tf_nll": means(tf),
        # runs of one number start from one seed and share minibatches
        "fig5/authors_first_gap": Estimate.runs(tf[0] - gd[0]),
        "fig5/authors_last_gap": Estimate.runs(tf[-1] - gd[-1]),
        "fig5/authors_gd_cost": Estimate.runs(gd[0] - gd[-1][:few]),
    }
    for name, s, model, free in (("one", sweep, "GD softmax", "TF softmax"), ("two", deep, "GD", "TF")):
        overfit = [new.mean() - own.mean() for new, own in zip(s["nll", free], s["train", free], strict=True)]
        behind = s["nll", free][-1] - s["nll", model][-1]
        found |= {
            f"q-gap/{name}_unfitted_large": float(s["train", free][-1].mean() - s["train", model][-1].mean()),
            f"q-gap/{name}_overfit_small": float(overfit[0]),
            f"q-gap/{name}_overfit_large": float(overfit[-1]),
            f"q-gap/{name}_test_large": float(behind.mean()),
            f"q-gap/{name}_test_large_t": float(t_of_mean(behind)) if np.ptp(behind) > 0 else 0.0,
        }
    return found


def of_printed_values() -> dict[str, Any]:
    """Figures 4 and 5 (left) by the values that the authors' notebook prints; its spreads are those of a population (``np.std``) of five."""
    says = printed("wang2025")
    nll, accuracy, L = says["authors/nll"], says["authors/accuracy"], says["authors/L"]
    gaps = np.subtract(says["authors/two_tf_nll"], says["authors/two_gd_nll"])
    error = np.hypot(*(says["authors/nll_sd"][k] for k in (2, 5))) / np.sqrt(AUTHORS_RUNS - 1)
    return {
        "fig4/printed_late": Estimate(nll[2] - nll[5], float(error)),
        "fig4/printed_more": (nll[0] - nll[-1]) / nll[0] - (accuracy[-1] - accuracy[0]) / accuracy[0],
        "fig5/printed_gap": float(gaps[-1]),
        "fig5/printed_enough": reached(L, gaps <= AUTHORS_AGREE),
        "fig5/printed_more": float(gaps[0] - (says["authors/one_tf_nll"] - nll[0])),
    }


# -- against the number of blocks -------------------------------------------------------------------------------------


def by_depth(get: Get, L: Sequence[int]) -> ByDepth:
    """Figure 4: arrays of the group of each number of blocks, with N = 10 and, at the smallest L, with N = 125 on the authors' data."""
    every = {"narrow": get("deep_gd"), "authors": get(f"published_blocks_L{L[0]}")}
    blocks = {
        name: sorted({int(key.split("/")[0].removeprefix("softmax-")) for key in one.arrays})
        for name, one in every.items()
    }
    return {name: {k: one.group(f"softmax-{k}") for k in blocks[name]} for name, one in every.items()}


def figure_4(found: ByDepth, more: Results) -> dict[str, Any]:
    """Figure 4: scores by number of blocks, gains of each further block and of the deepest over three; ``at_end``: runs that had not converged."""
    values: dict[str, Any] = {}
    for name, by in found.items():
        accuracy, nll = ({k: stopped(arrays, f"{what}_test") for k, arrays in by.items()} for what in WHAT)
        gains = [Estimate.runs(nll[k] - nll[k + 1]) for k in nll if k + 1 in nll]
        values |= {
            f"fig4/{name}_accuracy": means(list(accuracy.values())),
            f"fig4/{name}_nll": means(list(nll.values())),
            f"fig4/{name}_seeds": len(nll[1]),
            f"fig4/{name}_gain": Estimate.runs(accuracy[2] - accuracy[1]),
            f"fig4/{name}_steps": Estimate.stack(gains),
        }
    theirs, first = found["authors"], values["fig4/authors_steps"]
    again = {k: more.group(f"softmax-{k}") for k in (3, max(theirs))}
    late = [stopped(by[3], "nll_test") - stopped(by[max(theirs)], "nll_test") for by in (theirs, again)]
    last = [best_records(arrays) == len(arrays["steps"]) - 1 for arrays in theirs.values()]
    return values | {
        "fig4/authors_first_steps": Estimate(first.value[:2], first.error[:2]),
        "fig4/authors_late": Estimate.runs(np.concatenate(late)),
        "fig4/authors_at_end": int(np.sum(last)),
        "fig4/authors_runs": int(np.size(last)),
    }


# -- over draws of W_e, contexts and initialisation -------------------------------------------------------------------


def new_draws(get: Get, profile: str) -> dict[str, Any]:
    """Figures 3 to 5 (left) on new draws of everything. Errors are those of units' means; the spread's is that of its difference from the inner one."""

    def of(study: str, group: str, what: str) -> np.ndarray:  # (units, inits)
        units = range(SIZES[profile].units)
        return np.stack([stopped(get(f"new{u}_{study}").group(group), f"{what}_test") for u in units])

    def gain(what: str, better: tuple[str, str], worse: tuple[str, str]) -> np.ndarray:
        """By how much the better model is ahead on each unit, ``(units,)``: in accuracy, or in NLL saved."""
        return (of(*better, what) - of(*worse, what)).mean(1) * (1 if what == "accuracy" else -1)

    one, two, three = (("wide", f"softmax-{k}") for k in (1, 2, 3))
    gains = {
        "second_gain": ("accuracy", two, one),
        "second_nll_gain": ("nll", two, one),
        "third_nll_gain": ("nll", three, two),
        "two_block_gap": ("nll", ("deep", "softmax-2"), ("two_tf", "tf")),
    }
    for kernel, what in itertools.product(("softmax", "rbf"), WHAT):
        gains[f"{kernel}_{what}_gap"] = (what, ("gd", kernel), ("tf", kernel))
    found: dict[str, Any] = {f"q-new-draws/{name}": Estimate.runs(gain(*each)) for name, each in gains.items()}
    for name, what in (("linear_gap", "accuracy"), ("linear_nll_gap", "nll")):
        found[f"q-new-draws/{name}"] = float(gain(what, ("gd", "softmax"), ("gd", "linear")).mean())
    accuracy = of("deep", "softmax-1", "accuracy")

    def spreads(values: np.ndarray) -> tuple[float, float]:  # between units, and within them (0 for one initialisation)
        within = np.sqrt(values.var(1, ddof=1).mean()) if values.shape[1] > 1 else 0.0
        return float(values.mean(1).std(ddof=1)), float(within)

    units, inits = spreads(accuracy)
    error = bootstrap_error(lambda values: np.subtract(*spreads(values)), accuracy)
    return found | {"q-draw-spread/units": Estimate(units, error), "q-draw-spread/inits": inits}


def on_the_authors_contexts(get: Get, profile: str) -> dict[str, Estimate]:
    """One block on the authors' W_e and contexts at their program's length, less their printed .702 and 1.058: three readings of the data. What is left to
    differ are five initialisations and their minibatches, here and there; both spreads count in the error, and theirs is printed as that of a population
    (``np.std``), so it is widened by ``sqrt(5 / 4)``."""
    says, found = printed("wang2025"), {}
    readings = {
        "q-published/narrow_": "published_narrow",
        "q-published/wide_": f"published_inner_L{SIZES[profile].L[0]}",
        "q-printed-kernel/": "published_printed",
    }
    for (key, study), what in itertools.product(readings.items(), WHAT):
        ours = Estimate.runs(stopped(get(study).group("softmax"), f"{what}_test"))
        theirs = Estimate(says[f"authors/{what}"][0], says[f"authors/{what}_sd"][0] / np.sqrt(AUTHORS_RUNS - 1))
        found[f"{key}{what}"] = ours - theirs
    return found


def _bars(ax: Axes, x: Any, values: Any, label: str, **how: Any) -> None:
    """Mean over runs with one standard deviation of each of ``values``, arrays ``(R,)``."""
    sd = [v.std(ddof=1) if len(v) > 1 else 0.0 for v in values]
    ax.errorbar(x, [v.mean() for v in values], sd, ms=4, capsize=2, **how)[0].set_label(label)


GD = {"color": style.PALETTE[0], "marker": "o"}
TF = {"color": style.PALETTE[1], "marker": "s", "ls": "--"}
#: Top of the axis of NLL, where GD and Trained TF can be told apart (nats).
NLL_TOP = 1.85


def plot_sweep(L: Sequence[int], s: Sweep, oracle: tuple[Estimate, Estimate]) -> Figure:
    """Figure 3: accuracy and NLL against L for both kernels; crosses: the authors' notebook; dotted: the best possible accuracy and NLL on their W_e."""
    fig, axes = style.figure(2, 2, height=4.6, sharex=True, sharey="row")
    says, look = printed("wang2025"), {"color": style.COLOURS["paper"], "zorder": 4}
    for column, kernel in enumerate(("RBF", "softmax")):
        for ax, (what, label) in zip(axes[:, column], WHAT.items(), strict=True):
            _bars(ax, L, s[what, f"GD {kernel}"], label="GD", **GD)
            _bars(ax, L, s[what, f"TF {kernel}"], label="Trained TF", **TF)
            if kernel == "softmax":
                _bars(ax, L, s[what, "GD linear"], color=style.PALETTE[6], marker="^", label="GD, linear attention")
                crosses = {"GD": says[f"authors/{what}"][0], "Trained TF": says[f"authors/one_tf_{what}"]}
                ax.plot([2048] * 2, list(crosses.values()), "X", ms=7, label="authors' notebook", **look)
                beside = {"GD": (6, 9 if what == "accuracy" else -10), "Trained TF": (7, 0)}  # off the curve of GD
                for name, value in crosses.items():
                    where = {"xytext": beside[name], "textcoords": "offset points", "va": "center"}
                    ax.annotate(name, (2048, value), fontsize=8.5, **where, **look)
            style.log_ticks(ax, "x", L)
            ax.minorticks_off()
            ax.set(xlim=(L[0] / 1.35, L[-1] * 1.3), ylabel="" if column else label, title=f"{kernel} attention")
        for ax, best in zip(axes[:, column], oracle, strict=True):
            ax.axhline(best.value, color=style.COLOURS["theory"], ls=":", lw=1.3, label="best possible")
        axes[1, column].set(xlabel="training contexts L", ylim=(0.45, NLL_TOP))
    if (linear := float(np.mean(means(s["nll", "GD linear"])))) > NLL_TOP:
        where = {"xycoords": "axes fraction", "ha": "right", "va": "top", "fontsize": 8.5}
        axes[1, 1].annotate(f"linear attention: {linear:.1f} ↑", (0.99, 0.98), color=style.PALETTE[6], **where)
    fig.legend(*axes[0, 1].get_legend_handles_labels(), loc="outside upper center", ncols=5, fontsize=8)
    return fig


def plot_two_blocks(L: Sequence[int], s: Sweep) -> Figure:
    """Figure 5, left, beside the values that the authors' notebook prints."""
    fig, axes = style.figure(2, height=2.8)
    says = printed("wang2025")
    for ax, (what, label) in zip(axes, WHAT.items(), strict=True):
        _bars(ax, L, s[what, "GD"], label="GD", **GD)
        _bars(ax, L, s[what, "TF"], label="Trained TF", **TF)
        for key, model, dashes in (("gd", "GD", "-"), ("tf", "Trained TF", "--")):
            how = {"marker": "x", "lw": 1, "color": style.COLOURS["paper"], "label": f"{model}, authors' notebook"}
            ax.plot(says["authors/L"], says[f"authors/two_{key}_{what}"], dashes, **how)
        style.log_ticks(ax, "x", L)
        ax.minorticks_off()
        ax.set(xlabel="training contexts L", ylabel=label)
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8)
    return fig


def plot_fits(get: Get, contexts: Sequence[int]) -> Figure:
    """Two blocks: mean NLL on new contexts (solid) and on the training contexts (dashed) along training, one panel for each L; how far Trained TF is behind."""
    fig, axes = style.figure(len(contexts), height=2.8, sharey=True)
    deep = swept(get, contexts, TWO_BLOCKS)
    for i, (ax, L) in enumerate(zip(axes, contexts, strict=True)):
        for (study, group), colour, name in zip(TWO_BLOCKS.values(), style.PALETTE, ("GD", "Trained TF"), strict=False):
            g = get(f"{study}_L{L}").group(group)
            for what, dashes, on in (("nll_test", "-", "new"), ("loss", "--", "training")):
                means = g[what][1:].mean(1)
                ax.plot(g["steps"][1:], means, color=colour, ls=dashes, label=f"{name}, {on} contexts")
        new, training = (deep[what, "TF"][i].mean() - deep[what, "GD"][i].mean() for what in ("nll", "train"))
        behind = f"Trained TF minus GD:\n{number(new)} on new,\n{number(training)} on training contexts"
        ax.annotate(behind, (0.98, 0.97), xycoords="axes fraction", ha="right", va="top", fontsize=8)
        ax.set(xscale="log", xlabel="minibatches", title=f"L = {L:,}", ylim=(0.6, 3))
    axes[0].set_ylabel("NLL (nats)")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=8)
    return fig


def plot_depths(found: ByDepth) -> Figure:
    """Figure 4: accuracy and NLL along training for each number of blocks, printed scores as dashes; and both at the best validation record."""
    fig, grid = style.figure(2, 2, height=4.8)
    colours, says = style.plt.cm.viridis_r(np.linspace(0.25, 1, 6)), printed("wang2025")
    readings = (("narrow", "N = 10", style.PALETTE[0], "o"), ("authors", "N = 125", style.PALETTE[2], "s"))
    for (what, label), along, ax in zip(WHAT.items(), *grid, strict=True):
        ends = []
        for (k, arrays), colour in zip(found["authors"].items(), colours, strict=False):
            name = f"{k} block{'s' * (k > 1)}"
            scores = arrays[f"{what}_test"][1:].mean(1)
            along.plot(arrays["steps"][1:], scores, color=colour, label=name)
            ends.append(float(scores[-1]))
        style.log_ticks(along, "x", (30, 300, 3000))
        end = arrays["steps"][-1] * 1.3
        along.set(xlabel="minibatches", ylabel=label, title="along training, N = 125", xlim=(22, end * 1.15))
        along.margins(y=0.2)
        along.set_ylim(along.get_ylim())
        # from three blocks on the curves lie on each other and share a name
        names = (("1 block", ends[0]), ("2", ends[1]), (f"3 to {k} blocks", float(np.mean(ends[2:]))))
        for (name, height), colour in zip(names, colours[[0, 1, -1]], strict=True):
            where = {"xycoords": along.get_yaxis_transform(), "xytext": (4, 0), "textcoords": "offset points"}
            along.annotate(name, (1, height), color=colour, va="center", fontsize=8.5, **where)
        for k, score in enumerate(says[f"authors/{what}"]):
            (dash,) = along.plot(end, score, "_", ms=9, mew=2, color=style.COLOURS["paper"], label=f"printed, {k + 1}")
        along.legend([dash], ["printed"], fontsize=8, loc="lower right" if what == "accuracy" else "upper right")
        for reading, name, colour, marker in readings:
            values = [stopped(arrays, f"{what}_test") for arrays in found[reading].values()]
            _bars(ax, list(found[reading]), values, color=colour, marker=marker, label=name)
        paper = {"fmt": "x--", "lw": 1, "color": style.COLOURS["paper"], "capsize": 2}
        ax.errorbar(range(1, 7), says[f"authors/{what}"], says[f"authors/{what}_sd"], **paper)[0].set_label("printed")
        ax.set(xlabel="blocks", xticks=range(1, 7), ylabel=label, title="at the lowest validation NLL")
        ax.set_ylim(ax.get_ylim())
        style.name_ends(ax)
    return fig
