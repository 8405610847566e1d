"""Which runs each figure of he2025 needs, at each profile."""

from __future__ import annotations

from typing import Any

from ....models import Attention, ReducedAttention
from ....profiles import check_profile
from ....tasks import LinearRegression, MultiTaskRegression
from ....training import Adam, Momentum, Run, log_and_linear_steps
from ....training.optimisers import AdamW
from ....training.study import Group, Study
from ..measures.evaluation import error_by_length, final_multitask_error
from .descent import descent_computations

#: Covariance of the non-isotropic experiment: the paper states none, so a first-order autoregressive one, whose inverse is tridiagonal.
AR_COEFFICIENT = 0.5
COVARIANCE = tuple(tuple(AR_COEFFICIENT ** abs(i - j) for j in range(5)) for i in range(5))

#: Constants C of ``1 + Cx`` in figure 4.2 that are tried beside 1 and the published code's 0.41.
SMALL_C = (0.1, 0.3)
#: Heads of Figures 2.1-2.8, and one more; those trained with the published code's score scale, too.
HEADS = (1, 2, 3, 4, 8)
CODED = (1, 2, 3, 4)


def _attention(name: str, d: int, n_heads: int, runs: tuple[Run, ...], **kwargs: Any) -> Group:
    pole = kwargs.get("activation") == "affine"  # the sum that normalises its weights may pass through zero
    return Group(name, Attention, {"d": d, "n_heads": n_heads, **kwargs}, runs, may_diverge=pole)


def _seeds(n: int, rate: float = 1e-3) -> tuple[Run, ...]:
    return tuple(Run(seed, rate=rate) for seed in range(n))


def isotropic(
    steps: int,
    seeds: int,
    heads: tuple[int, ...],
    batch_size: int = 256,
    rate: float = 1e-3,
    affine_rate: float | None = None,
) -> Study:
    """Figures 2.1-2.8, 4.1 and 4.2: all models on the isotropic task, on common data per seed.

    ``h<H>`` are the models as printed, ``code_h<H>`` divide scores by sqrt(d+1) as the published code does, ``linear`` is one-head linear
    attention, ``affine``, ``square``, ``tanh`` the other activations with two heads.
    Eight heads, which the paper does not show, are an extra with one seed.
    ``affine_rate`` is the affine activation's own rate: the sum that normalises its weights passes through zero where scores are large, and near
    that pole rounding decides a step. A short run stays clear of it at a low rate.
    """
    runs = _seeds(seeds, rate)
    groups = [_attention(f"h{h}", 5, h, runs if h < 8 else runs[:1]) for h in heads]
    groups += [_attention(f"code_h{h}", 5, h, runs, score_scale="code") for h in CODED]
    groups.append(_attention("linear", 5, 1, runs, activation="linear"))
    rates = {"affine": affine_rate or rate, "square": rate, "tanh": rate}
    groups += [_attention(name, 5, 2, _seeds(seeds, r), activation=name) for name, r in rates.items()]
    return Study(
        "he2025", "isotropic", LinearRegression(), tuple(groups), steps, batch_size, measure=error_by_length
    )


def reduced(steps: int, seeds: int, batch_size: int = 256, rate: float = 1e-3) -> Study:
    """The model of two numbers per head on the true loss, from a small start (Mechanistic Interpretation)."""
    runs = tuple(Run(seed, rate=rate, init_scale=0.1) for seed in range(seeds))
    groups = tuple(Group(f"h{h}", ReducedAttention, {"n_heads": h}, runs) for h in (1, 2, 4))
    return Study("he2025", "reduced", LinearRegression(), groups, steps, batch_size)


def activations_coded(steps: int, seeds: int, batch_size: int = 256, rate: float = 1e-3) -> Study:
    """Figure 4.2 with the published code's score scale, which multiplies the paper's unstated C by 1/sqrt(d+1)."""
    runs = _seeds(seeds, rate)
    groups = tuple(
        _attention(name, 5, 2, runs, activation=name, score_scale="code")
        for name in ("affine", "square", "tanh")
    )
    return Study("he2025", "activations_coded", LinearRegression(), groups, steps, batch_size)


def activations_small(steps: int, seeds: int, batch_size: int = 256, rate: float = 1e-3) -> Study:
    """Figure 4.2's ``1 + Cx`` with a smaller constant C: the sum of its weights then starts farther from its zero."""
    runs = _seeds(seeds, rate)
    groups = tuple(
        _attention(f"affine_c{c}", 5, 2, runs, activation="affine", score_scale=c) for c in SMALL_C
    )
    return Study("he2025", "activations_small", LinearRegression(), groups, steps, batch_size)


def nonisotropic(steps: int, seeds: int, batch_size: int = 256) -> Study:
    """Figure 3.1: two softmax heads and one linear head on covariates with covariance :data:`COVARIANCE`."""
    runs = _seeds(seeds)
    groups = (_attention("h2", 5, 2, runs), _attention("linear", 5, 1, runs, activation="linear"))
    task = LinearRegression(covariance=COVARIANCE)
    return Study("he2025", "nonisotropic", task, groups, steps, batch_size)


def multitask(setting: str, steps: int, seeds: int, batch_size: int = 256) -> Study:
    """Figures 3.2-3.5, H = 1..4, in the ``text``'s setting (one shared beta, noise 0.1, L=40) or the published ``code``'s.

    The code draws one beta ~ N(0, I) per task, has L=48, context noise 0.4 and no noise on the target, and scales its scores.
    """
    if setting == "text":
        task, scale = MultiTaskRegression(), "none"
    else:
        task = MultiTaskRegression(L=48, noise_var=0.4, target_noise_var=0.0, shared_beta=False, beta_var=1.0)
        scale = "code"
    runs = _seeds(seeds)
    groups = tuple(_attention(f"h{h}", 6, h, runs, n_tasks=2, score_scale=scale) for h in (1, 2, 3, 4))
    return Study(
        "he2025", f"multitask_{setting}", task, groups, steps, batch_size, measure=final_multitask_error
    )


def seeds(steps: int, n_seeds: int, batch_size: int) -> Study:
    """How often a run ends without a negative head or with a dummy head: the full model from many initialisations.

    Runs share four data streams, so what varies between runs of one stream is the initialisation alone. Fewer steps and smaller batches than
    the paper's, because there are hundreds of runs.
    """
    runs = tuple(Run(seed, stream=seed % 4) for seed in range(n_seeds))
    groups = tuple(_attention(f"h{h}", 5, h, runs) for h in (2, 3, 4))
    marks = tuple(
        sorted(
            {round(steps * f) for f in (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)} | {1, 4, 16, 24}
        )
    )
    return Study("he2025", "seeds", LinearRegression(), groups, steps, batch_size, record=marks)


def noise(batch_size: int, steps: int, n_seeds: int) -> Study:
    """Is gamma a minimiser or a noise level? Two heads at three learning rates, for one batch size."""
    groups = tuple(
        _attention(f"rate_{rate:g}", 5, 2, tuple(Run(seed, rate=rate) for seed in range(n_seeds)))
        for rate in (3e-4, 1e-3, 3e-3)
    )
    return Study("he2025", f"noise_b{batch_size}", LinearRegression(), groups, steps, batch_size)


#: The data of :func:`variations`.
VARIED = {
    "optimisers": LinearRegression(),
    "d10": LinearRegression(d=10),
    "noisy": LinearRegression(noise_var=0.5),
}


def variations(which: str, steps: int, n_seeds: int, batch_size: int = 256) -> Study:
    """Does the pattern depend on optimiser or data? Two heads under heavy-ball momentum and AdamW, or under Adam on other :data:`VARIED` data."""
    task = VARIED[which]
    ways = {"adam": (Adam(), 1e-3)}
    if which == "optimisers":
        ways = {"momentum": (Momentum(), 1e-2), "adamw": (AdamW(), 1e-3)}
    groups = tuple(
        Group(name, Attention, {"d": task.d, "n_heads": 2}, _seeds(n_seeds, rate), optimiser=optimiser)
        for name, (optimiser, rate) in ways.items()
    )
    record = (
        tuple(log_and_linear_steps(steps, n_linear=50)) if which == "d10" else None
    )  # its file stays below 2 MB
    return Study("he2025", f"variations_{which}", task, groups, steps, batch_size, record)


def studies(profile: str) -> dict[str, Any]:
    """All studies of the paper at a profile, by name."""
    if check_profile(profile) == "paper":
        every = [
            isotropic(500_000, 4, HEADS),
            reduced(500_000, 4),
            activations_coded(500_000, 4),
            activations_small(500_000, 4),
            nonisotropic(500_000, 4),
            multitask("text", 500_000, 4),
            multitask("code", 500_000, 4),
            seeds(40_000, 200, 64),
            noise(64, 100_000, 4),
            noise(256, 100_000, 4),
            noise(1024, 100_000, 4),
            *(variations(which, 100_000, 16 if which == "d10" else 4) for which in VARIED),
        ]
    else:
        every = [
            isotropic(220, 2, HEADS[:4], batch_size=64, rate=5e-3, affine_rate=5e-4),
            reduced(200, 2, batch_size=64, rate=5e-3),
            activations_coded(100, 1, batch_size=64, rate=2e-3),
            activations_small(60, 1, batch_size=64, rate=2e-3),
            nonisotropic(200, 2, batch_size=64),
            multitask("text", 100, 1, batch_size=64),
            multitask("code", 100, 1, batch_size=64),
            seeds(100, 8, 64),
            noise(64, 100, 2),
            noise(256, 60, 1),
            noise(1024, 30, 1),
            *(variations(which, 60, 1, batch_size=64) for which in VARIED),
        ]
    return {study.name: study for study in every} | descent_computations()
