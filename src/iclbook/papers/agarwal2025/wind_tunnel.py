"""The reduced wind tunnel of agarwal2025 (sections 6 and 9.4): errors of trained models and of answers that learn nothing, and the geometry of keys and values."""

import math
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats
from scipy.optimize import brentq

from ...claims import printed
from ...drawing import style
from ...numbers import number
from ...statistics import Estimate, ratio_error
from ...store import Results
from ...tasks.wind_tunnel import BijectionElimination, HmmFiltering, entropy_bits, memoryless, posteriors
from ...training import Study
from .figure_9 import frame_values, way_left
from .figures_6_to_8 import COLOUR
from .runs import probe_numbers

#: Models of the studies: name, colour and marker in figures.
LOOKS = {
    "transformer": ("transformer", COLOUR["attention"], "o"),
    "ssm": ("selective SSM", style.PALETTE[4], "s"),
    "lstm": ("LSTM", style.PALETTE[5], "^"),
    "prefix_mlp": ("MLP on the prefix", style.PALETTE[6], "D"),
}

# -- answers that need no training ----------------------------------------------------------------------------------------


def hmm_answers(task: HmmFiltering, n: int) -> dict[str, np.ndarray]:
    """Error of the entropy in bits at each place of each of n sequences, ``(K, n)``, of answers that need no training: ``uniform`` ignores everything, ``constant``
    has the best entropy over all places, ``memoryless`` is ``p(s_t | o_t)``, and ``turned`` is the filter with its transition matrix the wrong way round."""
    transition, emission, seen = task.draw(*probe_numbers(task, n))
    exact = entropy_bits(posteriors(transition, emission, seen))  # (K, n)
    found = {
        "uniform": math.log2(task.states) - exact,
        "constant": exact - exact.median(),
        "memoryless": entropy_bits(memoryless(emission, seen)) - exact,
        "turned": entropy_bits(posteriors(transition.transpose(0, 1), emission, seen)) - exact,
    }
    return {name: part.abs().numpy() for name, part in found.items()}


def prior_error(task: BijectionElimination) -> np.ndarray:
    """Error of the uniform answer at each place, ``log2(V) - log2(V - k + 1)`` for distinct keys: ``(K,)``. A key alone says no more."""
    return math.log2(task.symbols) - np.log2(task.symbols - np.arange(task.length))


def lstm_baseline_records() -> dict[str, object]:
    """Errors of ``uniform`` and ``memoryless`` of :func:`hmm_answers` on the first 15 and all 20 observations of Paper I's published task; printed ones over these."""
    answers, says = hmm_answers(HmmFiltering(5, 5, 20), 12_000), printed("agarwal2025")
    means = {name: np.array([own[:15].mean(0), own.mean(0)]) for name, own in answers.items()}  # (2, n)
    no_memory = means["memoryless"].mean(1)
    return {
        "lstm_baseline/uniform": Estimate.mean(means["uniform"]),
        "lstm_baseline/memoryless": no_memory,
        "lstm_baseline/printed_ratios": [says[f"tunnel/{m}"] / no_memory[1] for m in list(LOOKS)[:3]],
    }


# -- trained models -------------------------------------------------------------------------------------------------------


def error(results: Results, model: str, probes: str = "train") -> np.ndarray:
    """Error of the entropy in bits, mean over places, of every run at the end: ``(R,)``."""
    return results[f"{model}/mae_{probes}"][-1].mean(-1)


def late_gain(results: Results, model: str) -> float:
    """Share of its final error that a model has lost over the last quarter of its steps, from the record nearest to where that begins: near 0 if it has settled."""
    steps, curve = results[f"{model}/steps"], results[f"{model}/mae_train"].mean((1, 2))
    start = int(np.abs(steps - 0.75 * steps[-1]).argmin())
    return float(curve[start] / curve[-1] - 1)


def key_cosines(bijection: Results) -> np.ndarray:
    """Mean over heads of the mean absolute cosine between the first layer's keys of different symbols x and y: ``(2, T, R)``."""
    return np.stack([bijection[f"transformer/key_cosine_{which}"].mean(-1) for which in "xy"])


def random_cosine(dimension: float) -> float:
    """Mean absolute cosine of two random directions, ``Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2))``."""
    return math.exp(math.lgamma(dimension / 2) - math.lgamma((dimension + 1) / 2)) / math.sqrt(math.pi)


def key_cosine_records() -> dict[str, object]:
    """Cosines of random vectors at the widths of the published program, and the dimension at which they have the printed 0.08."""
    dimension = brentq(lambda d: random_cosine(d) - 0.08, 2, 1e4, xtol=1e-12)
    return {"key_cosine/widths": [random_cosine(192), random_cosine(256)], "key_cosine/dimension": dimension}


def random_key_cosine(study: Study) -> float:
    """Mean absolute cosine of random vectors as wide as a head."""
    (transformer,) = (group.build() for group in study.groups if group.name == "transformer")
    return random_cosine(transformer.width // transformer.n_heads)


def tunnel_records(hmm: Results, bijection: Results, studies: Mapping[str, Study]) -> dict[str, object]:
    """Errors, their ratios to that of the best answer which uses one token only (the filter without memory, the prior), and geometry at the last step."""
    answers = {name: float(part.mean()) for name, part in hmm_answers(studies["tunnel_hmm"].data, 4000).items()}
    prior = float(prior_error(studies["tunnel_bijection"].data).mean())
    found: dict[str, object] = {f"tunnel/hmm/{name}": answers[name] for name in ("uniform", "constant", "memoryless")}
    for task, results in (("hmm", hmm), ("bijection", bijection)):
        found |= {f"tunnel/{task}/{model}": float(error(results, model).mean()) for model in LOOKS}
    for model in ("transformer", "ssm", "lstm"):
        found[f"tunnel/hmm_long/{model}"] = float(error(hmm, model, "long").mean())
        found[f"tunnel/hmm/{model}_ratio"] = Estimate.mean(error(hmm, model) / answers["memoryless"])
    for model in ("lstm", "prefix_mlp"):
        found[f"tunnel/bijection/{model}_ratio"] = Estimate.mean(error(bijection, model) / prior)
    built = [group.build() for group in studies["tunnel_hmm"].groups]
    before, after = (key_cosines(bijection)[:, record] for record in (0, -1))  # (2, R)
    for part in ("value", "output"):
        for name in ("pc1", "r"):
            seeds = [results[f"transformer/{name}_{part}"][-1] for results in (hmm, bijection)]
            found[f"tunnel/{part}/{name}"] = Estimate.mean(np.array(seeds))
    return found | {
        "tunnel/hmm/turned_ratio": answers["turned"] / answers["memoryless"],
        "tunnel/hmm/lstm_over_transformer": found["tunnel/hmm/lstm"] / found["tunnel/hmm/transformer"],
        "tunnel/hmm/p_lstm": float(stats.ttest_rel(error(hmm, "lstm"), error(hmm, "transformer")).pvalue),
        "tunnel/bijection/prior": prior,
        "tunnel/bijection/transformer_ratio": float((error(bijection, "transformer") / prior).mean()),
        "tunnel/falling": [late_gain(hmm, model) for model in LOOKS],
        "tunnel/seeds": int(hmm["transformer/loss"].shape[1]),
        "tunnel/parameters": [sum(p.numel() for p in model.parameters()) for model in built],
        "tunnel/minutes": sum(results.provenance["seconds"] for results in (hmm, bijection)) / 60,
        # the same model before training has keys of the same dimension, of the same inputs
        "tunnel/keys/trained": after.mean(1),
        "tunnel/keys/initial": before.mean(1),
        "tunnel/keys/random": random_key_cosine(studies["tunnel_bijection"]),
        "tunnel/keys/ratio": Estimate(after.mean(1) / before.mean(1), list(map(ratio_error, after, before))),
    }


def unfurling_left(results: Results) -> dict[str, np.ndarray]:
    """Way left ``(records, R)`` of the last layer's maps and values (by their sketches) and of the error."""
    own = results.group("transformer")
    return {
        "attention": way_left(own["maps"]),
        "values": way_left(own["values"]),
        "error": way_left(own["error"][..., None]),
    }


def unfurling_values(results: Results) -> dict[str, object]:
    """Section 6.1's order: what is near its end first, and whether values come to follow the posterior's entropy late."""
    own = results.group("transformer")
    steps, r = own["steps"], own["r"]
    return frame_values(unfurling_left(results), steps, "unfurling", "error") | {
        "unfurling/entropy": Estimate.mean(own["spread"][-1] - own["spread"][0]),
        "unfurling/late_r": Estimate.mean(r[-1] - r[np.abs(steps - steps[-1] / 2).argmin()]),
    }


# -- figures --------------------------------------------------------------------------------------------------------------


def _line(ax: Axes, x: np.ndarray, runs: np.ndarray, model: str) -> None:
    """Mean over seeds as a line, and their range as a bar beside its end; ``runs`` is ``(R, len(x))``."""
    name, colour, marker = LOOKS[model]
    ax.plot(x, runs.mean(0), marker=marker, markevery=3 if len(x) > 20 else 1, ms=4, lw=1.3, color=colour, label=name)
    beside = x[-1] * (1.02 + 0.015 * list(LOOKS).index(model))
    ax.plot([beside] * 2, [runs[:, -1].min(), runs[:, -1].max()], color=colour, lw=2.5, solid_capstyle="butt")


def plot_errors_by_place(results: Mapping[str, Results], studies: Mapping[str, Study]) -> Figure:
    """Error of the predictive entropy at every place, beyond the training length too."""
    fig, axes = style.figure(2, height=3.4, width_ratios=(1.5, 1))
    longest = {}
    for ax, (name, own) in zip(axes, results.items(), strict=True):
        for model in LOOKS:
            which = "long" if f"{model}/mae_long" in own.arrays else "train"
            runs = own[f"{model}/mae_{which}"][-1]
            _line(ax, np.arange(1, runs.shape[1] + 1), runs, model)
        longest[name] = dict(studies[name].groups[0].observe.probes)["long"]
        trained, end = studies[name].data.length + 0.5, longest[name].length + 0.5
        ax.axvspan(trained, end, color=style.GRID, alpha=0.45, lw=0, zorder=0)
        ax.text(trained + 0.1, 0.985, " not trained", transform=ax.get_xaxis_transform(), va="top", fontsize=8)
    longer, base = longest["tunnel_hmm"], hmm_answers(longest["tunnel_hmm"], 2000)
    for answer, dash, label in (("memoryless", (1, 1.6), "no memory"), ("uniform", (4, 2), "uniform answer")):
        places, height = np.arange(1, longer.length + 1), base[answer].mean(-1)
        axes[0].plot(places, height, color=style.INK, lw=1, ls=(0, dash), label=label)
    for model in list(LOOKS)[:3]:  # errors in bits of models of Paper I's size
        look = {"color": LOOKS[model][1], "mec": style.INK, "mew": 0.6, "ms": 6, "clip_on": False}
        axes[0].plot(1.1 * longer.length, printed("agarwal2025")[f"tunnel/{model}"], "<", **look)
    axes[0].plot([], [], "<", mfc="none", mec=style.INK, label="paper, larger models")
    axes[0].plot([], [], "|", ms=9, mew=2.5, color=style.INK, label="range over seeds")
    prior = prior_error(longest["tunnel_bijection"])
    axes[1].plot(np.arange(1, len(prior) + 1), prior, color=style.INK, lw=1, ls=(0, (4, 2)))
    axes[0].set(xlabel="observation t", title="hidden Markov models", ylim=(0, 0.46))
    axes[1].set(xlabel="pair k", title="bijection elimination", ylim=(0, 0.52))
    for ax in axes:
        ax.set_ylabel("error of the entropy (bits)")
    axes[1].text(3.6, 0.455, f"uniform answer: up to {number(float(prior.max()), 2)} bits", fontsize=8)
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, columnspacing=1)
    return fig


def plot_geometry(results: Mapping[str, Results], studies: Mapping[str, Study]) -> Figure:
    """What the paper prints of keys and of attention-weighted values beside the transformer's, a dot for each seed: all of it lies between 0 and 1."""
    says, (before, *_, after) = printed("agarwal2025"), key_cosines(results["tunnel_bijection"]).swapaxes(0, 1)
    rows = {"keys, untrained: |cosine|": (before, None), "keys, trained: |cosine|": (after, says["tunnel/key_cosine"])}
    for name, own in zip(("HMM", "bijection"), results.values(), strict=True):
        share, r = (own[f"transformer/{kind}_output"][-1] for kind in ("pc1", "r"))
        rows |= {f"{name}: first component": (share, says["tunnel/first_component"])}
        rows |= {f"{name}: |r| with entropy": (np.abs(r), says["tunnel/entropy_r"])}
    fig, ax = style.figure(height=0.34 * len(rows) + 0.9)
    for y, (values, band) in enumerate(rows.values()):
        ax.plot(np.ravel(values), [-y] * np.size(values), "o", color=COLOUR["attention"], alpha=0.7, ms=5)
        if band is not None:
            ax.plot(band, [-y, -y], color=style.COLOURS["paper"], lw=7, alpha=0.8, solid_capstyle="butt")
    random = random_key_cosine(studies["tunnel_bijection"])
    ax.plot([random] * 2, [0, -1], "|", color=style.INK, ms=16, mew=1.6, label="random vectors")
    ax.plot([], [], "o", color=COLOUR["attention"], label="our transformer, each seed")
    ax.plot([], [], color=style.COLOURS["paper"], lw=7, alpha=0.8, label="printed")
    ax.set_yticks([-y for y in range(len(rows))], rows)
    ax.set(xlabel="mean |cosine|, share or |r|", xlim=(0, 1.02), ylim=(0.5 - len(rows), 0.5))
    fig.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig
