"""Which runs each figure of He et al. (2025) needs, at each profile."""

import dataclasses
from functools import partial
from typing import Any

import numpy as np
import torch

from ...models import Attention, ReducedAttention, attend
from ...project import check_profile
from ...random import generator
from ...tasks import LinearRegression, MultiTaskRegression
from ...training import Adam, AdamW, Computation, Cosine, Group, History, Momentum, Run, Study
from . import dynamics

# -- errors of trained circuits on fresh prompts, kept with the runs -----------------------------------------------------

#: Seed and purpose of evaluation prompts; purposes 0 and 1 belong to training.
EVAL_SEED, EVAL_PURPOSE = 2025, 2
#: Context lengths at which the published code evaluates.
LENGTHS = tuple(range(10, 101, 5))
EVAL_BATCH = 1024


def squared_errors(
    study: Study, histories: dict[str, History], length: int, n_batches: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Mean squared error ``(R,)`` of every run's final circuits on fresh prompts of one length, common to all runs, and its standard error, by group.
    Linear attention divides by the length of the context it sees."""
    task = dataclasses.replace(study.data, L=length)
    models = {group.name: group.build() for group in study.groups}
    g = generator(EVAL_SEED, EVAL_PURPOSE)
    sums = {name: np.zeros((2, h.loss.shape[1])) for name, h in histories.items()}
    normals = torch.empty(task.normals, EVAL_BATCH)
    for _ in range(n_batches):
        batch = task.batch(normals.normal_(generator=g))
        for name, history in histories.items():
            model = models[name]
            for r in range(history.loss.shape[1]):
                kq, ov = (torch.from_numpy(history.circuits[k][-1, r]) for k in ("kq", "ov"))
                yhat = attend(model.scale * kq, ov, batch.context, batch.query, model.activation)
                error = ((yhat - batch.target) ** 2).sum(0).double()
                sums[name][:, r] += error.sum().item(), (error**2).sum().item()
    n = n_batches * EVAL_BATCH
    moments = {name: both / n for name, both in sums.items()}
    return {k: (mean, np.sqrt(np.maximum(second - mean**2, 0) / n)) for k, (mean, second) in moments.items()}


def _size(study: Study) -> tuple[int, tuple[int, ...]]:
    """Batches of prompts, and lengths: fewer for short trainings."""
    return (64, LENGTHS) if study.steps >= 100_000 else (4, (10, 40, 100))


def error_by_length(study: Study, histories: dict[str, History]) -> dict[str, np.ndarray]:
    """ICL error of the final circuits against the context length (Figures 2.4, 2.5, 4.1): ``lengths`` ``(n,)``, ``error`` and ``error_se`` ``(n, R)``."""
    n_batches, lengths = _size(study)
    per_length = [squared_errors(study, histories, length, n_batches) for length in lengths]
    arrays = {f"{name}/lengths": np.array(lengths) for name in histories}
    for name in histories:
        arrays[f"{name}/error"], arrays[f"{name}/error_se"] = np.stack([found[name] for found in per_length], axis=1)
    return arrays


def final_multitask_error(study: Study, histories: dict[str, History]) -> dict[str, np.ndarray]:
    """Error of the final circuits at the training length, summed over tasks: ``<group>/error`` and ``error_se`` ``(R,)``."""
    errors = squared_errors(study, histories, study.data.L, _size(study)[0])
    names = ("error", "error_se")
    return {f"{group}/{name}": of for group, both in errors.items() for name, of in zip(names, both, strict=True)}


# -- studies ------------------------------------------------------------------------------------------------------------

#: Head counts of the paper, trained under both readings of the score scale.
PAPER_HEADS = (1, 2, 3, 4)
#: Head counts of Figure 2.4 as drawn here: one more number trains one more group. Above seven heads: one seed, at the paper profile only.
HEADS = (*PAPER_HEADS, 8)
#: Covariance of the non-isotropic experiment: the paper states none, so a first-order autoregressive one, whose inverse is tridiagonal.
COVARIANCE = tuple(tuple(0.5 ** abs(i - j) for j in range(5)) for i in range(5))
#: Constants C of ``1 + Cx`` in figure 4.2 that are tried beside 1 and the published code's 0.41.
SMALL_C = (0.1, 0.3)
#: Other activations than the softmax (Figure 4.2).
ACTIVATIONS = ("affine", "square", "tanh")
#: Learning rates and batch sizes of :func:`noise`.
RATES, BATCHES = (3e-4, 1e-3, 3e-3), (64, 256, 1024)


def _attention(name: str, d: int, n_heads: int, runs: tuple[Run, ...], **kwargs: Any) -> Group:
    pole = kwargs.get("activation") == "affine"  # the sum that normalises its weights may pass through zero
    kwargs["n_heads"] = n_heads
    return Group(name, Attention, {"d": d, **kwargs}, runs, labels=kwargs, may_diverge=pole)


def _seeds(n: int, rate: float = 1e-3) -> tuple[Run, ...]:
    return tuple(Run(seed, rate=rate) for seed in range(n))


def isotropic(
    heads: tuple[int, ...], steps: int, seeds: int, batch_size: int = 256, rate: float = 1e-3, affine_rate: float = 1e-3
) -> Study:
    """Figures 2.1-2.8, 4.1 and 4.2: all models on the isotropic task, on common data per seed.

    ``h<H>`` are the models as printed, ``code_h<H>`` divide scores by sqrt(d+1) as the published code does, ``linear`` is one-head linear
    attention, ``affine``, ``square``, ``tanh`` the other activations with two heads. At a low ``affine_rate`` a short run stays clear of the pole where the
    affine weights' sum passes through zero and rounding decides a step.
    """
    runs = _seeds(seeds, rate)
    groups = [_attention(f"h{h}", 5, h, runs if h < 8 else runs[:1]) for h in heads]
    groups += [_attention(f"code_h{h}", 5, h, runs, score_scale="code") for h in PAPER_HEADS]
    groups.append(_attention("linear", 5, 1, runs, activation="linear"))
    rates = dict.fromkeys(ACTIVATIONS, rate) | {"affine": affine_rate}
    groups += [_attention(name, 5, 2, _seeds(seeds, own), activation=name) for name, own in rates.items()]
    return Study("he2025", "isotropic", LinearRegression(), tuple(groups), steps, batch_size, measure=error_by_length)


def reduced(steps: int, seeds: int, batch_size: int = 256, rate: float = 1e-3) -> Study:
    """The model of two numbers per head on the true loss, from a small start (Mechanistic Interpretation)."""
    runs = tuple(Run(seed, rate=rate, init_scale=0.1) for seed in range(seeds))
    groups = tuple(Group(f"h{h}", ReducedAttention, {"n_heads": h}, runs) for h in (1, 2, 4))
    return Study("he2025", "reduced", LinearRegression(), groups, steps, batch_size)


def activations(name: str, steps: int, seeds: int, batch_size: int = 256, rate: float = 1e-3) -> Study:
    """Figure 4.2 with another C: ``activations_coded`` with the code's 1/sqrt(d+1), ``activations_small`` 1 + Cx with the smaller C
    of :data:`SMALL_C`, where the sum of its weights starts farther from zero."""
    if name == "activations_coded":
        of = {kind: {"activation": kind, "score_scale": "code"} for kind in ACTIVATIONS}
    else:
        of = {f"affine_c{c}": {"activation": "affine", "score_scale": c} for c in SMALL_C}
    groups = tuple(_attention(group, 5, 2, _seeds(seeds, rate), **settings) for group, settings in of.items())
    return Study("he2025", name, LinearRegression(), groups, steps, batch_size)


def nonisotropic(steps: int, seeds: int, batch_size: int = 256) -> Study:
    """Figure 3.1: two softmax heads and one linear head on covariates with covariance :data:`COVARIANCE`."""
    runs = _seeds(seeds)
    groups = (_attention("h2", 5, 2, runs), _attention("linear", 5, 1, runs, activation="linear"))
    task = LinearRegression(covariance=COVARIANCE)
    return Study("he2025", "nonisotropic", task, groups, steps, batch_size)


def multitask(setting: str, steps: int, seeds: int, batch_size: int = 256) -> Study:
    """Figures 3.2-3.5, in the ``text``'s setting (one shared beta, noise 0.1, L=40) or the published ``code``'s: one beta ~ N(0, I) per task, L=48,
    context noise 0.4, no noise on the target, and scaled scores."""
    if setting == "text":
        task, scale = MultiTaskRegression(), "none"
    else:
        task = MultiTaskRegression(L=48, noise_var=0.4, target_noise_var=0.0, shared_beta=False, beta_var=1.0)
        scale = "code"
    runs = _seeds(seeds)
    groups = tuple(_attention(f"h{h}", 6, h, runs, n_tasks=2, score_scale=scale) for h in PAPER_HEADS)
    return Study("he2025", f"multitask_{setting}", task, groups, steps, batch_size, measure=final_multitask_error)


def seeds_multitask(steps: int, n_seeds: int) -> Study:
    """How often four heads on two tasks, in the published code's setting, end as a pair for each task (Figure 3.4)."""
    like = multitask("code", steps, n_seeds, batch_size=64)
    (four,) = (group for group in like.groups if group.name == "h4")
    return dataclasses.replace(like, name="seeds_multitask", groups=(four,), record=(steps,), measure=None)


#: Data and groups' models of :func:`seeds`.
SEED_SWEEPS: dict[str, tuple[LinearRegression, dict[str, dict[str, Any]]]] = {
    "seeds": (LinearRegression(), {f"h{h}": {"n_heads": h} for h in PAPER_HEADS[1:]}),
    "seeds_d10": (LinearRegression(d=10), {"h2": {}}),
    "seeds_noisy": (LinearRegression(noise_var=0.5), {"h2": {}}),
    "seeds_optimisers": (LinearRegression(), {"momentum": {}, "adamw": {}}),
    "seeds_nonisotropic": (
        LinearRegression(covariance=COVARIANCE),
        {"h2": {}, "linear": {"n_heads": 1, "activation": "linear"}},
    ),
    "seeds_affine": (LinearRegression(), {"affine_c0.1": {"activation": "affine", "score_scale": SMALL_C[0]}}),
    "seeds_rates": (LinearRegression(), {f"rate_{rate:g}": {} for rate in RATES}),
}
#: Optimisers and learning rates of the groups that compare them; all others are trained by Adam at 0.001.
OPTIMISERS = {"momentum": (Momentum(), 1e-2), "adamw": (AdamW(), 1e-3)} | {
    f"rate_{rate:g}": (Adam(), rate) for rate in RATES
}


def seeds(name: str, steps: int, n_seeds: int) -> Study:
    """Frequency of runs that end without a negative head or with a dummy head: hundreds of short runs of the full model, on the data of :data:`SEED_SWEEPS`.

    Runs share four data streams, so what varies between runs of one stream is the initialisation alone. Only of the paper's own data is the trajectory kept.
    Other rates are tried at the paper's batch size, which is four times that of the other sweeps.
    """
    task, models = SEED_SWEEPS[name]
    groups = []
    for group, settings in models.items():
        optimiser, rate = OPTIMISERS.get(group, (Adam(), 1e-3))
        runs = tuple(Run(seed, rate=rate, stream=seed % 4) for seed in range(n_seeds))
        spec = _attention(group, task.d, runs=runs, **{"n_heads": 2, **settings})
        groups.append(dataclasses.replace(spec, optimiser=optimiser))
    marks = {24, steps}
    if name == "seeds":
        marks |= {round(steps * f) for f in (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75)} | {1, 4, 16}
    return Study(
        "he2025", name, task, tuple(groups), steps, 256 if name == "seeds_rates" else 64, record=tuple(sorted(marks))
    )


def noise(batch_size: int, steps: int, n_seeds: int) -> Study:
    """Is gamma a minimiser or a noise level? Two heads at three learning rates, for one batch size."""
    groups = tuple(_attention(f"rate_{rate:g}", 5, 2, _seeds(n_seeds, rate)) for rate in RATES)
    return Study("he2025", f"noise_b{batch_size}", LinearRegression(), groups, steps, batch_size)


def decay(steps: int, n_seeds: int) -> Study:
    """Where does gamma end as the noise goes? Two heads at the paper's rate, which falls by a cosine to a hundredth."""
    group = Group("h2", Attention, {"d": 5, "n_heads": 2}, _seeds(n_seeds), schedule=Cosine(end=0.01))
    return Study("he2025", "decay", LinearRegression(), (group,), steps)


def studies(profile: str) -> dict[str, Any]:
    """Studies of the paper at a profile, by name."""
    paper = check_profile(profile) == "paper"
    long, small = (500_000, 4), {"batch_size": 64}
    heads = HEADS if paper else tuple(h for h in HEADS if h < 8)
    seed_sweep = {name: (100_000 if name == "seeds_affine" else 40_000, 200) for name in SEED_SWEEPS}
    noises = zip(BATCHES, ((100, 2), (60, 1), (30, 1)), strict=True)
    # a study, its steps and seeds at paper and at smoke, and what else is smaller or faster at smoke
    sizes = (
        (partial(isotropic, heads), long, (220, 2), {**small, "rate": 5e-3, "affine_rate": 5e-4}),
        (reduced, long, (200, 2), {**small, "rate": 5e-3}),
        (partial(activations, "activations_coded"), long, (100, 1), {**small, "rate": 2e-3}),
        (partial(activations, "activations_small"), long, (60, 1), {**small, "rate": 2e-3}),
        (nonisotropic, long, (200, 2), small),
        *((partial(multitask, setting), long, (100, 1), small) for setting in ("text", "code")),
        *((partial(seeds, name), size, (100, 8), {}) for name, size in seed_sweep.items()),
        (seeds_multitask, (200_000, 40), (100, 8), {}),
        *((partial(noise, batch), (100_000, 4), size, {}) for batch, size in noises),
        (decay, long, (60, 1), {}),
    )
    every = [make(*size) if paper else make(*short, **other) for make, size, short, other in sizes]
    counts, starts = tuple(f"h{h}" for h in dynamics.COUNTS), dynamics.RUNS if paper else 150
    # as long at every profile: a pattern may never appear
    descent = Computation("he2025", "descent", dynamics.descend, counts, 0, starts, dynamics.WITHIN, counts)
    return {study.name: study for study in (*every, descent)}
