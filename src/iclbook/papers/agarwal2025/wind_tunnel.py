"""The reduced wind tunnel of agarwal2025 (sections 6 and 9.4): errors of trained models and of answers that learn nothing, and the geometry of keys and values."""

import math
from collections.abc import Mapping

import numpy as np
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


def hmm_answers(task: HmmFiltering, n: int) -> dict[str, np.ndarray]:
    """Error of the entropy in bits at each place of n sequences, ``(K, n)``: ``uniform`` ignores everything, ``constant`` has the best entropy over all places,
    ``memoryless`` is ``p(s_t | o_t)``, and ``turned`` is the filter with its transition matrix the wrong way round."""
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


def error(results: Results, model: str, probes: str = "train") -> np.ndarray:
    """Error of the entropy in bits, mean over places, of every run at the end: ``(R,)``."""
    return results[f"{model}/mae_{probes}"][-1].mean(-1)


def random_cosine(dimension: float) -> float:
    """Mean absolute cosine of two random directions, ``Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2))``."""
    return math.exp(math.lgamma(dimension / 2) - math.lgamma((dimension + 1) / 2)) / math.sqrt(math.pi)


def key_cosine_records() -> dict[str, object]:
    """Cosines of random vectors at the widths of the published program, and the dimension at which they have the printed 0.08."""
    dimension = brentq(lambda d: random_cosine(d) - 0.08, 2, 1e4, xtol=1e-12)
    return {"key_cosine/widths": [random_cosine(192), random_cosine(256)], "key_cosine/dimension": dimension}


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
    built = {group.name: group.build() for group in studies["tunnel_hmm"].groups}
    cosines = [bijection[f"transformer/key_cosine_{which}"].mean(-1) for which in "xy"]  # mean over heads, (T, R) each
    before, after = np.array(cosines)[:, [0, -1]].swapaxes(0, 1)  # (2, R) each
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
        "tunnel/seeds": int(hmm["transformer/loss"].shape[1]),
        "tunnel/parameters": [sum(p.numel() for p in model.parameters()) for model in built.values()],
        "tunnel/minutes": sum(results.provenance["seconds"] for results in (hmm, bijection)) / 60,
        # the same model before training has keys of the same dimension, of the same inputs
        "tunnel/keys/trained": after.mean(1),
        "tunnel/keys/initial": before.mean(1),
        "tunnel/keys/random": random_cosine(built["transformer"].width // built["transformer"].n_heads),
        "tunnel/keys/ratio": Estimate(after.mean(1) / before.mean(1), list(map(ratio_error, after, before))),
    }


def unfurling_left(results: Results) -> dict[str, np.ndarray]:
    """Way left ``(records, R)`` of the last layer's maps and values (by their sketches) and of the error."""
    own = results.group("transformer")
    states = {"attention": own["maps"], "values": own["values"], "error": own["error"][..., None]}
    return {name: way_left(of) for name, of in states.items()}


def unfurling_values(results: Results) -> dict[str, object]:
    """Section 6.1's order: what is near its end first, and whether values come to follow the posterior's entropy late."""
    own = results.group("transformer")
    steps, r = own["steps"], own["r"]
    return frame_values(unfurling_left(results), steps, "unfurling") | {
        "unfurling/entropy": Estimate.mean(own["spread"][-1] - own["spread"][0]),
        "unfurling/late_r": Estimate.mean(r[-1] - r[np.abs(steps - steps[-1] / 2).argmin()]),
    }


def plot_errors_by_place(results: Mapping[str, Results], studies: Mapping[str, Study]) -> Figure:
    """Error of the predictive entropy at every place, beyond the training length too: means over seeds, and their range as a bar beside the last place."""
    fig, axes = style.figure(2, height=3.4, width_ratios=(1.5, 1))
    longest = {}
    for ax, (name, own) in zip(axes, results.items(), strict=True):
        for n, (model, (label, colour, marker)) in enumerate(LOOKS.items()):
            which = "long" if f"{model}/mae_long" in own.arrays else "train"
            runs = own[f"{model}/mae_{which}"][-1]  # (R, places)
            places = np.arange(1, runs.shape[1] + 1)
            look = {"marker": marker, "markevery": 3 if len(places) > 20 else 1, "ms": 4, "lw": 1.3, "label": label}
            ax.plot(places, runs.mean(0), color=colour, **look)
            beside, ends = [places[-1] * (1.02 + 0.015 * n)] * 2, [runs[:, -1].min(), runs[:, -1].max()]
            ax.plot(beside, ends, color=colour, lw=2.5, solid_capstyle="butt")
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
