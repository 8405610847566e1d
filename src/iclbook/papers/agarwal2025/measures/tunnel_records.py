"""What the trained runs of the wind tunnel show, and what models that learn nothing would show (agarwal2025, sections 6 and 9.4)."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy import stats

from ....statistics import ratio_error, standard_error
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
    """Error of the entropy in bits at each place of each sequence, ``(K, n)``, of three answers that need no training.

    Returns:
        ``uniform`` ignores everything, ``constant`` has the entropy that does best over all places, ``memoryless`` is ``p(s_t | o_t)``, the exact
        answer of a model that reads the matrices and never looks back at observations.
    """
    transition, emission, seen = task.draw(*probe_numbers(task, n))
    exact = entropy_bits(posteriors(transition, emission, seen))  # (K, n)
    found = {
        "uniform": math.log2(task.states) - exact,
        "constant": exact - exact.median(),
        "memoryless": entropy_bits(memoryless(emission, seen)) - exact,
    }
    return {name: part.abs().numpy() for name, part in found.items()}


def hmm_baselines(task: HmmFiltering, n: int = SCORED) -> dict[str, np.ndarray]:
    """The same at each place, ``(K,)``: means over sequences."""
    return {name: torch.from_numpy(part).mean(-1).numpy() for name, part in hmm_answers(task, n).items()}


def lstm_baseline_records(n: int = SCORED) -> Values:
    """The answers of :func:`hmm_baselines` at the sizes of Paper I's published code: 5 states, 5 symbols, the first 15 and all 20 observations."""
    answers = hmm_answers(HmmFiltering(5, 5, 20), n)
    found: Values = {}
    for name, part in answers.items():
        places = torch.from_numpy(part).mean(-1).numpy()
        found[f"lstm_baseline/{name}"] = [float(places[:15].mean()), float(places.mean())]
    uniform = answers["uniform"]
    return found | {
        "lstm_baseline/uniform_se": [float(standard_error(part.mean(0))) for part in (uniform[:15], uniform)]
    }


def tunnel_records(hmm: Results, bijection: Results, studies: dict[str, Study]) -> Values:
    """Errors, ratios and geometry of the last step, as the ledger names them."""
    baselines = hmm_baselines(studies["tunnel_hmm"].data, 4000)
    found: Values = {f"tunnel/hmm/{name}": float(part.mean()) for name, part in baselines.items()}
    for label, results in (("hmm", hmm), ("bijection", bijection)):
        for model in MODELS:
            found[f"tunnel/{label}/{model}"] = float(error(results, model).mean())
            if f"{model}/mae_long" in results.arrays:
                found[f"tunnel/{label}_long/{model}"] = float(error(results, model, "long").mean())
    for a, b in (("lstm", "transformer"), ("lstm", "ssm")):
        found[f"tunnel/hmm/{a}_over_{b}"] = found[f"tunnel/hmm/{a}"] / found[f"tunnel/hmm/{b}"]
    found["tunnel/hmm/p_lstm"] = float(stats.ttest_rel(error(hmm, "lstm"), error(hmm, "transformer")).pvalue)
    found["tunnel/bijection/prior"] = float(prior_error(studies["tunnel_bijection"].data).mean())
    for a in ("prior", "prefix_mlp"):
        over = found[f"tunnel/bijection/{a}"] / found["tunnel/bijection/transformer"]
        found[f"tunnel/bijection/{a}_over_transformer"] = over
    found["tunnel/seeds"] = int(hmm["transformer/loss"].shape[1])
    found["tunnel/parameters"] = parameter_counts(studies["tunnel_hmm"])
    found["tunnel/minutes"] = sum(r.provenance["seconds"] for r in (hmm, bijection)) / 60
    return (
        found
        | tunnel_errors(hmm, bijection, studies)
        | key_records(bijection)
        | manifold_records(hmm, bijection)
    )


def tunnel_errors(hmm: Results, bijection: Results, studies: dict[str, Study]) -> Values:
    """Standard errors over seeds of the errors and ratios that decide."""
    transformer, ssm, lstm = (error(hmm, model) for model in ("transformer", "ssm", "lstm"))
    below = error(bijection, "transformer")
    prior = np.full(len(below), prior_error(studies["tunnel_bijection"].data).mean())
    return {
        "tunnel/hmm/transformer_se": float(standard_error(transformer)),
        "tunnel/hmm/ssm_se": float(standard_error(ssm)),
        "tunnel/hmm/lstm_over_transformer_se": ratio_error(lstm, transformer),
        "tunnel/hmm/lstm_over_ssm_se": ratio_error(lstm, ssm),
        "tunnel/bijection/lstm_se": float(standard_error(error(bijection, "lstm"))),
        "tunnel/bijection/prior_over_transformer_se": ratio_error(prior, below),
        "tunnel/bijection/prefix_mlp_over_transformer_se": ratio_error(error(bijection, "prefix_mlp"), below),
    }


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
    """Keys of x and of y against random vectors; p is one-sided, for keys more orthogonal than random ones."""
    random = random_key_cosine(bijection)
    every = [key_cosines(bijection, which) for which in "xy"]
    return {
        "tunnel/keys/trained": [float(c[-1].mean()) for c in every],
        "tunnel/keys/initial": [float(c[0].mean()) for c in every],
        "tunnel/keys/random": random,
        "tunnel/keys/ratio": [float(c[-1].mean() / random) for c in every],
        "tunnel/keys/ratio_se": [float(standard_error(c[-1]) / random) for c in every],
        "tunnel/keys/p": [float(stats.ttest_1samp(c[-1], random, alternative="less").pvalue) for c in every],
    }


def transformer_width(results: Results) -> int:
    """Width of the transformer, which its description names."""
    (group,) = [g for g in results.provenance["config"]["groups"] if g["name"] == "transformer"]
    return dict(group["kwargs"])["width"]


def manifold_records(hmm: Results, bijection: Results) -> Values:
    """Share of the first component and its correlation with the posterior's entropy, mean over seeds, on both tasks."""
    found: Values = {}
    for part in ("value", "output"):
        for name in ("pc1", "r"):
            seeds = [r[f"transformer/{name}_{part}"][-1] for r in (hmm, bijection)]
            found[f"tunnel/{part}/{name}"] = [float(runs.mean()) for runs in seeds]
            found[f"tunnel/{part}/{name}_se"] = [float(standard_error(runs)) for runs in seeds]
    return found


def parameter_counts(study: Study) -> list[int]:
    """Parameters of every architecture, in the order of :data:`MODELS`."""
    by_name = {g.name: g.model(**dict(g.kwargs)) for g in study.groups}
    return [sum(p.numel() for p in by_name[name].parameters()) for name in MODELS]
