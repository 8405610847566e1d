"""What the trained runs of the wind tunnel show, and what models that learn nothing would show (agarwal2025, sections 6 and 9.4)."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy import stats

from ....claims import printed
from ....statistics import ratio_error, standard_error, widened_error
from ....store import Results
from ....tasks.bijection_elimination import BijectionElimination
from ....tasks.hmm_filtering import HmmFiltering, entropy_bits, memoryless, posteriors
from ....training.study import Study
from ..runs.tunnel_specs import probe_numbers
from .routing import Values, random_cosine

MODELS = ("transformer", "ssm", "lstm", "prefix_mlp")
#: Sequences on which the answers of models that learn nothing are scored.
SCORED = 12_000


def error(results: Results, model: str, probe: str = "train") -> np.ndarray:
    """Error of the entropy in bits, mean over places, of every run at the end: ``(R,)``."""
    return results[f"{model}/mae_{probe}"][-1].mean(-1)


def hmm_answers(task: HmmFiltering, n: int = SCORED) -> dict[str, np.ndarray]:
    """Error of the entropy in bits at each place of each sequence, ``(K, n)``, of four answers that need no training.

    Returns:
        ``uniform`` ignores everything, ``constant`` has the entropy that does best over all places, ``memoryless`` is ``p(s_t | o_t)``, the exact
        answer of a model that reads the matrices and never looks back at observations, and ``turned`` the filter that takes the transition matrix the wrong
        way round: memory that does not track.
    """
    transition, emission, seen = task.draw(*probe_numbers(task, n))
    exact = entropy_bits(posteriors(transition, emission, seen))  # (K, n)
    found = {
        "uniform": math.log2(task.states) - exact,
        "constant": exact - exact.median(),
        "memoryless": entropy_bits(memoryless(emission, seen)) - exact,
        "turned": entropy_bits(posteriors(transition.transpose(0, 1), emission, seen)) - exact,
    }
    return {name: part.abs().numpy() for name, part in found.items()}


def hmm_baselines(task: HmmFiltering, n: int = SCORED) -> dict[str, np.ndarray]:
    """The same at each place, ``(K,)``: means over sequences."""
    return {name: torch.from_numpy(part).mean(-1).numpy() for name, part in hmm_answers(task, n).items()}


def lstm_baseline_records(n: int = SCORED) -> Values:
    """The answers of :func:`hmm_baselines` at the sizes of Paper I's published code: 5 states, 5 symbols, the first 15 and all 20 observations."""
    answers = hmm_answers(HmmFiltering(5, 5, 20), n)
    uniform = answers["uniform"]

    def means(name: str) -> list[float]:
        places = torch.from_numpy(answers[name]).mean(-1).numpy()
        return [float(places[:15].mean()), float(places.mean())]

    says = printed("agarwal2025")
    return {
        "lstm_baseline/uniform": means("uniform"),
        "lstm_baseline/uniform_se": [float(standard_error(part.mean(0))) for part in (uniform[:15], uniform)],
        "lstm_baseline/memoryless": means("memoryless"),
        "lstm_baseline/printed_ratios": [
            says[f"tunnel/{model}"] / means("memoryless")[1] for model in ("transformer", "ssm", "lstm")
        ],
    }


def tunnel_records(hmm: Results, bijection: Results, studies: dict[str, Study]) -> Values:
    """Errors, their ratios to answers without memory, and geometry of the last step, as the ledger names them."""
    task = studies["tunnel_hmm"].data
    answers = {k: float(part.mean()) for k, part in hmm_baselines(task, 4000).items()}
    filtering = {model: float(error(hmm, model).mean()) for model in MODELS}
    eliminating = {model: float(error(bijection, model).mean()) for model in MODELS}
    return {
        "tunnel/hmm/uniform": answers["uniform"],
        "tunnel/hmm/constant": answers["constant"],
        "tunnel/hmm/memoryless": answers["memoryless"],
        "tunnel/hmm/transformer": filtering["transformer"],
        "tunnel/hmm/ssm": filtering["ssm"],
        "tunnel/hmm/lstm": filtering["lstm"],
        "tunnel/hmm/prefix_mlp": filtering["prefix_mlp"],
        "tunnel/hmm_long/transformer": float(error(hmm, "transformer", "long").mean()),
        "tunnel/hmm_long/ssm": float(error(hmm, "ssm", "long").mean()),
        "tunnel/hmm_long/lstm": float(error(hmm, "lstm", "long").mean()),
        "tunnel/hmm/lstm_over_transformer": filtering["lstm"] / filtering["transformer"],
        "tunnel/hmm/p_lstm": float(stats.ttest_rel(error(hmm, "lstm"), error(hmm, "transformer")).pvalue),
        "tunnel/bijection/prior": float(prior_error(studies["tunnel_bijection"].data).mean()),
        "tunnel/bijection/transformer": eliminating["transformer"],
        "tunnel/bijection/ssm": eliminating["ssm"],
        "tunnel/bijection/lstm": eliminating["lstm"],
        "tunnel/bijection/prefix_mlp": eliminating["prefix_mlp"],
        "tunnel/seeds": int(hmm["transformer/loss"].shape[1]),
        "tunnel/parameters": parameter_counts(studies["tunnel_hmm"]),
        "tunnel/minutes": sum(r.provenance["seconds"] for r in (hmm, bijection)) / 60,
        **memory_ratios(hmm, bijection, answers, studies["tunnel_bijection"].data),
        **key_records(bijection),
        **manifold_records(hmm, bijection),
    }


def memory_ratios(
    hmm: Results, bijection: Results, answers: dict[str, float], task: BijectionElimination
) -> Values:
    """Errors over that of the best answer which uses one token only: the filter without memory, and the prior. 1 is what a model has that carries nothing
    along. For the control, the filter with the transition matrix turned; for the wording, what the last quarter of the recorded training still gained, as a share of the end."""
    below, prior = answers["memoryless"], float(prior_error(task).mean())
    transformer, ssm, lstm = (error(hmm, model) / below for model in ("transformer", "ssm", "lstm"))
    counted, prefix, attended = (
        error(bijection, model) / prior for model in ("lstm", "prefix_mlp", "transformer")
    )
    return {
        "tunnel/hmm/turned_ratio": answers["turned"] / below,
        "tunnel/hmm/transformer_ratio": float(transformer.mean()),
        "tunnel/hmm/transformer_ratio_se": widened_error(transformer),
        "tunnel/hmm/ssm_ratio": float(ssm.mean()),
        "tunnel/hmm/ssm_ratio_se": widened_error(ssm),
        "tunnel/hmm/lstm_ratio": float(lstm.mean()),
        "tunnel/hmm/lstm_ratio_se": widened_error(lstm),
        "tunnel/bijection/lstm_ratio": float(counted.mean()),
        "tunnel/bijection/lstm_ratio_se": widened_error(counted),
        "tunnel/bijection/prefix_mlp_ratio": float(prefix.mean()),
        "tunnel/bijection/prefix_mlp_ratio_se": widened_error(prefix),
        "tunnel/bijection/transformer_ratio": float(attended.mean()),
        "tunnel/falling": [late_gain(hmm, model) for model in MODELS],
    }


def late_gain(results: Results, model: str) -> float:
    """How much of its final error a model has lost over the last quarter of its steps, from the record nearest to where that begins: near 0 if it has settled."""
    steps, curve = results[f"{model}/steps"], results[f"{model}/mae_train"].mean((1, 2))
    start = int(np.abs(steps - 0.75 * steps[-1]).argmin())
    return float(curve[start] / curve[-1] - 1)


def prior_error(task: BijectionElimination) -> np.ndarray:
    """Error of the uniform answer at each place, ``log2(V) - log2(V - k + 1)`` for distinct keys: ``(K,)``. A key alone says no more."""
    left = task.symbols - np.arange(task.length)
    return math.log2(task.symbols) - np.log2(left)


def key_cosines(bijection: Results, which: str) -> np.ndarray:
    """Mean over heads of the mean absolute cosine between the first layer's keys of different symbols ``x`` or ``y``: ``(T, R)``."""
    return bijection[f"transformer/key_cosine_{which}"].mean(-1)


def random_key_cosine(bijection: Results) -> float:
    """The same for random vectors as wide as a head."""
    return random_cosine(transformer_width(bijection) // bijection["transformer/key_cosine_x"].shape[-1])


def key_records(bijection: Results) -> Values:
    """Keys of x and of y against those of the same model before training, paired by seed: random vectors of the same dimension and the same inputs."""
    every = [key_cosines(bijection, which) for which in "xy"]
    return {
        "tunnel/keys/trained": [float(c[-1].mean()) for c in every],
        "tunnel/keys/initial": [float(c[0].mean()) for c in every],
        "tunnel/keys/random": random_key_cosine(bijection),
        "tunnel/keys/ratio": [float(c[-1].mean() / c[0].mean()) for c in every],
        "tunnel/keys/ratio_se": [ratio_error(c[-1], c[0]) for c in every],
    }


def transformer_width(results: Results) -> int:
    """Width of the transformer, which its description names."""
    (group,) = [g for g in results.provenance["config"]["groups"] if g["name"] == "transformer"]
    return dict(group["kwargs"])["width"]


def manifold_records(hmm: Results, bijection: Results) -> Values:
    """Share of the first component and its correlation with the posterior's entropy, mean over seeds, on both tasks."""

    def last(name: str, mean: str, error: str) -> Values:
        seeds = [r[f"transformer/{name}"][-1] for r in (hmm, bijection)]
        return {mean: [float(s.mean()) for s in seeds], error: [float(standard_error(s)) for s in seeds]}

    return {
        **last("pc1_value", "tunnel/value/pc1", "tunnel/value/pc1_se"),
        **last("r_value", "tunnel/value/r", "tunnel/value/r_se"),
        **last("pc1_output", "tunnel/output/pc1", "tunnel/output/pc1_se"),
        **last("r_output", "tunnel/output/r", "tunnel/output/r_se"),
    }


def parameter_counts(study: Study) -> list[int]:
    """Parameters of every architecture, in the order of :data:`MODELS`."""
    by_name = {g.name: g.model(**dict(g.kwargs)) for g in study.groups}
    return [sum(p.numel() for p in by_name[name].parameters()) for name in MODELS]
