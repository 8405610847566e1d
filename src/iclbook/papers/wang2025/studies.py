"""Which runs make which figure of wang2025 at each profile; every setting that the paper leaves open is listed here.

Open in the text and taken here: minibatches of 256 (GD) and 128 (Trained TF) contexts drawn with replacement; Adam with rates 0.03 and 0.01, which needs
fewer steps than the published code's 0.001; scores at the best validation record out of 12; GD starts from ``W_e ~ N(0, 1)``, ``alpha = 1``, ``gamma = 1``
(inner products) or 1/2; Trained TF from ``0.002 / K * N(0, 1)``, its ``W_e`` from N(0, 1). Studies at the published code's own length (``square_...``,
``long...``, ``published_...`` of one block) have its 5,000 epochs of minibatches of 512 at its rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from ...models.functional_gd import FunctionalGD, HardErasureGD
from ...models.kernels import KERNELS
from ...models.trained_tf import TrainedBlocks, TrainedStep
from ...project import check_profile
from ...tasks.categorical import Anchors, Quadrants
from ...training import FixedSet, Group, Run
from ...training.groups import Cosine
from ...training.study import Study
from .contexts import (
    FIRST,
    GD_PARAMETERS,
    TF_PARAMETERS,
    Contexts,
    PublishedAnchors,
    PublishedContexts,
    UnitContexts,
    classifiers,
    in_parts,
)
from .language import language_studies

GD_RATE, TF_RATE = 0.03, 0.01
GD_BATCH, TF_BATCH = 256, 128
#: The published code: minibatches and learning rate.
CODE_BATCH, CODE_RATE = 512, 0.001
#: Trained TF's rate in its longest training, with N = 125.
LONG_RATE = 0.003
#: Blocks of figure 4 that are trained on new draws.
DEPTHS = (1, 2, 3)
#: Groups of figures 10 and 11: the name, the initialisation, whether the true W_e is held.
STARTS = (("code", "code", False), ("glorot", "glorot", False), ("true", "code", True), ("true-glorot", "glorot", True))


@dataclass(frozen=True)
class Sizes:
    """What differs between the profiles; the defaults are those of the paper profile.

    Attributes:
        L: numbers of training contexts of figures 3 and 5 (left); ``one_L`` of figure 4, ``many_L`` of new draws, ``quad_L`` of figures 8 to 11.
        seeds: initialisations of figures 3, 4, 8; ``few`` of the costly runs.
        gd, tf, deep, tf_deep, wide, astray: steps of one-block GD, one-block TF, deep GD, two-block TF, GD at N = 125,
            deep GD with the softmax erasure.
        depths: numbers of blocks of figure 4.
        held_out: validation contexts, and as many test contexts; ``wide_held_out`` at N = 125.
        wide_N, quad_N: context sizes.
        units: draws of everything; ``inits`` initialisations of each.
        epochs: passes through the training contexts at the published code's length.
        long: minibatches of Trained TF in figure 5 (left).
    """

    L: tuple[int, ...] = (2048, 8192, 32768)
    one_L: int = 2048
    many_L: int = 32768
    quad_L: int = 2048
    seeds: int = 5
    few: int = 3
    gd: int = 800
    tf: int = 2000
    deep: int = 400
    tf_deep: int = 2000
    wide: int = 4000
    astray: int = 300
    depths: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    held_out: int = 2048
    wide_held_out: int = 1024
    wide_N: int = 125
    quad_N: int = 100
    units: int = 5
    inits: int = 2
    epochs: int = 5000
    long: int = 10_000


SIZES = {
    "paper": Sizes(),
    "smoke": Sizes(
        L=(256, 512), one_L=1024, many_L=1024, quad_L=256, wide_N=25, quad_N=30,
        seeds=2, few=1, units=2, inits=1, depths=(1, 2, 3), held_out=256, wide_held_out=64,
        gd=40, tf=40, deep=12, tf_deep=12, wide=4, astray=4, long=12, epochs=4,
    ),
}  # fmt: skip


def runs_of(seeds: Iterable[int], rate: float, stream: int | None = None) -> tuple[Run, ...]:
    """Initialisations; with a ``stream`` all runs see the same minibatches, otherwise each its own."""
    return tuple(Run(seed, rate=rate, stream=stream) for seed in seeds)


def gd_group(
    name: str,
    kernel: str,
    contexts: Contexts,
    runs: Sequence[Run],
    held_out: int,
    blocks: int = 1,
    vector: bool = True,
    keep: tuple[str, ...] = (),
    model: type[nn.Module] = FunctionalGD,
) -> Group:
    """Runs of functional GD; ``vector`` as the published code has the step alpha."""
    kwargs = {
        "n_classes": contexts.task.n_classes,
        "width": contexts.task.width,
        "n_blocks": blocks,
        "kernel": kernel,
        "vector_rate": vector,
        "gamma": 0.5 if kernel == "rbf" else 1.0,
    }
    return classifiers(name, model, kwargs, runs, contexts, held_out, keep)


def tf_group(
    name: str,
    contexts: Contexts,
    runs: Sequence[Run],
    held_out: int,
    keep: tuple[str, ...] = (),
    model: type[nn.Module] = TrainedStep,
    **more: Any,
) -> Group:
    """Runs of Trained TF."""
    task = contexts.task
    kwargs = {"d": task.d, "n_classes": task.n_classes, "width": task.width, **more}
    return classifiers(name, model, kwargs, runs, contexts, held_out, keep)


def study(
    name: str, contexts: Contexts, L: int, groups: Sequence[Group], steps: int, batch: int, full: bool = False
) -> Study:
    """A study on L contexts, recorded 12 times in log-spaced steps; at ``full`` length in epochs, recorded 50 times in even steps. Never compiled, for these
    trainings are too short for it to pay."""
    space, records = (np.linspace, 50) if full else (np.geomspace, 12)
    record = np.unique(space(min(24, steps), steps, records).round()).astype(int)  # 24 is what a replay repeats
    data = FixedSet(contexts, L, seed=contexts.seed, epochs=full)
    return Study("wang2025", name, data, tuple(groups), steps, batch, tuple(record.tolist()), compile_from=None)


def at_length(s: Sizes, name: str, contexts: Contexts, groups: Sequence[Group], L: int) -> Study:
    """A study on L contexts at the published code's length."""
    batch = min(CODE_BATCH, L // 4)
    return study(name, contexts, L, groups, s.epochs * (L // batch), batch, full=True)


# -- the figures' own data --------------------------------------------------------------------------------------------


def figure_3(L: int, s: Sizes) -> list[Study]:
    """Figure 3 at one number of contexts on the authors' W_e and contexts with N = 125, which drew it: GD (softmax, with a scalar step too, and linear; RBF) and
    Trained TF (softmax; RBF in minibatches a quarter as large), all in as many minibatches as 5,000 epochs of the smallest number. GD and Trained TF of one
    seed share minibatches."""
    task = PublishedAnchors(N=s.wide_N)
    inner, squared, tokens = (PublishedContexts(task, view) for view in ("inner", "squared", "tokens"))
    many, few = (runs_of(range(n), CODE_RATE) for n in (s.seeds, s.few))
    batch = min(CODE_BATCH, s.L[0] // 4)
    steps = s.epochs * (s.L[0] // batch)
    by_inner = [
        gd_group("softmax", "softmax", inner, many, s.held_out),
        gd_group("softmax-scalar", "softmax", inner, many, s.held_out, vector=False),
        gd_group("linear", "linear", inner, many, s.held_out),
    ]
    rbf = gd_group("rbf", "rbf", squared, many, s.held_out)
    free, free_rbf = (
        tf_group(k, tokens, runs, s.held_out, kernel=k, init="code") for k, runs in (("softmax", many), ("rbf", few))
    )
    return [
        study(f"published_inner_L{L}", inner, L, in_parts(by_inner), steps, batch, full=True),
        study(f"published_squared_L{L}", squared, L, in_parts([rbf]), steps, batch, full=True),
        study(f"published_tf_L{L}", tokens, L, in_parts([free]), steps, batch, full=True),
        study(f"published_tf_rbf_L{L}", tokens, L, in_parts([free_rbf]), steps, batch // 4, full=True),
    ]


def published_block(s: Sizes) -> Study:
    """Trained TF with one block as the published program builds it, with an erasing head and cross-attention, where the authors' notebook prints its scores. Its
    validation NLL is lowest within the first 2,000 epochs."""
    tokens, runs = PublishedContexts(PublishedAnchors(N=s.wide_N)), runs_of(range(s.few), CODE_RATE)
    block = tf_group("tf", tokens, runs, s.held_out, model=TrainedBlocks, n_blocks=1)
    batch = min(CODE_BATCH, s.L[0] // 4)
    return study("published_block", tokens, s.L[0], [block], 2 * s.epochs // 5 * (s.L[0] // batch), batch, full=True)


def published_depths(s: Sizes) -> Study:
    """Figure 4 on the authors' W_e and contexts with N = 125, which drew it: one block and more, from the same starts on the same minibatches."""
    contexts = PublishedContexts(PublishedAnchors(N=s.wide_N), "inner", True)
    runs = runs_of(range(s.few), GD_RATE, 0)
    groups = [gd_group(f"softmax-{k}", "softmax", contexts, runs, s.wide_held_out, k) for k in s.depths]
    return study("published_depths", contexts, s.one_L, groups, s.wide, 64)


def figure_4(s: Sizes) -> Study:
    """Figure 4 with N = 10: GD with softmax attention and 1 to 6 blocks; two blocks with a scalar step as well."""
    contexts, runs = Contexts(Anchors(), "inner", True), runs_of(range(s.seeds), GD_RATE, 0)
    groups = [gd_group(f"softmax-{k}", "softmax", contexts, runs, s.held_out, k) for k in s.depths]
    groups.append(gd_group("scalar-2", "softmax", contexts, runs, s.held_out, 2, vector=False))
    return study("deep_gd", contexts, s.one_L, groups, s.deep, GD_BATCH)


def figure_5_left(L: int, s: Sizes) -> list[Study]:
    """Figure 5, left, at one number of contexts on the authors' W_e and contexts with N = 125, which drew it; GD as in figure 4."""
    task = PublishedAnchors(N=s.wide_N)
    cached, tokens = PublishedContexts(task, "inner", True), PublishedContexts(task)
    gd = gd_group("gd", "softmax", cached, runs_of(range(s.few), GD_RATE, 0), s.wide_held_out, 2)
    tf_runs = runs_of(range(s.few), LONG_RATE, 0)
    tf = tf_group("tf", tokens, tf_runs, s.wide_held_out, model=TrainedBlocks, n_blocks=2)
    return [
        study(f"published_two_gd_L{L}", cached, L, [gd], s.wide, 64),
        study(f"published_two_tf_L{L}", tokens, L, [tf], s.long, 64),
    ]


def square(s: Sizes) -> list[Study]:
    """Figures 8 and 9, one study a kernel: GD and Trained TF from five starts each, at the published code's length, on one draw of everything else."""
    prompts, runs = UnitContexts(Quadrants(N=s.quad_N)), runs_of(range(s.seeds), CODE_RATE)
    found = []
    for k in KERNELS:
        gd = gd_group("gd", k, prompts, runs, s.held_out, keep=GD_PARAMETERS)
        tf = tf_group("tf", prompts, runs, s.held_out, TF_PARAMETERS, kernel=k, init="code")
        found.append(at_length(s, f"square_{k}", prompts, [gd, tf], s.quad_L))
    return found


def erased(s: Sizes) -> Study:
    """Three blocks on the quadrants with the exact erasure and with the softmax head's limit (N = 100, where it erases the wrong position)."""
    contexts, runs = (Contexts(Quadrants(N=s.quad_N), "inner", True), runs_of(range(s.few - 1 or 1), GD_RATE, 0))
    models = {"exact-3": FunctionalGD, "astray-3": HardErasureGD}
    groups = [
        gd_group(name, "softmax", contexts, runs, s.wide_held_out, 3, model=model) for name, model in models.items()
    ]
    return study("erased", contexts, s.quad_L, groups, s.astray, 64)


# -- draws of everything: W_e, contexts, initialisation and minibatches -----------------------------------------------


def new_unit(s: Sizes, unit: int) -> list[Study]:
    """Figures 3, 4 and 5 (left) on a draw of their own: one block of each kind, several blocks of GD (with N = 125 too), and two blocks of Trained TF."""
    task = Anchors(embed_seed=FIRST + unit)
    tokens, cached = UnitContexts(task, unit=unit), UnitContexts(task, "inner", True, unit)
    seeds = range(unit * s.inits, (unit + 1) * s.inits)
    gd, tf = runs_of(seeds, GD_RATE), runs_of(seeds, TF_RATE)
    kernels = [gd_group(k, k, tokens, gd, s.held_out) for k in ("softmax", "rbf", "linear")]
    free = [tf_group(k, tokens, tf, s.held_out, kernel=k) for k in ("softmax", "rbf")]
    many = UnitContexts(replace(task, N=s.wide_N), "inner", True, unit)
    depths = [gd_group(f"softmax-{k}", "softmax", cached, gd, s.held_out, k) for k in DEPTHS]
    wide = [
        replace(gd_group(f"softmax-{k}", "softmax", many, gd, s.wide_held_out, k), schedule=Cosine(end=0.01))
        for k in DEPTHS
    ]
    two = [tf_group("tf", tokens, tf, s.held_out, model=TrainedBlocks, n_blocks=2)]
    return [
        study(f"new{unit}_gd", tokens, s.many_L, kernels, s.gd, GD_BATCH),
        study(f"new{unit}_tf", tokens, s.many_L, free, s.tf, TF_BATCH),
        study(f"new{unit}_deep", cached, s.one_L, depths, s.deep, GD_BATCH),
        study(f"new{unit}_wide", many, s.one_L, wide, s.wide, 64),
        study(f"new{unit}_two_tf", tokens, s.one_L, two, s.tf_deep, TF_BATCH),
    ]


def long_unit(s: Sizes, unit: int) -> Study:
    """Figures 10 and 11 on a draw of their own: Trained TF with softmax attention from two starts, with W_e learned and with the true W_e held."""
    task = Quadrants(N=s.quad_N, embed_seed=FIRST + unit)
    prompts, run = UnitContexts(task, unit=unit), Run(unit, rate=CODE_RATE)
    groups = []
    for name, init, held in STARTS:
        one = replace(run, factors=(("embed", 0.0),)) if held else run
        known = {"known": task} if held else {}
        groups.append(tf_group(name, prompts, (one,), s.held_out, TF_PARAMETERS, kernel="softmax", init=init, **known))
    return at_length(s, f"long{unit}", prompts, groups, s.quad_L)


def published(s: Sizes) -> list[Study]:
    """One block on the authors' W_e and contexts at their program's length: N = 10, and N = 125 with the distance as printed."""
    readings = {"narrow": PublishedAnchors(), "printed": PublishedAnchors(N=s.wide_N, squared=False)}
    found = []
    for reading, task in readings.items():
        prompts, runs = PublishedContexts(task, "inner"), runs_of(range(s.seeds), CODE_RATE)
        group = gd_group("softmax", "softmax", prompts, runs, s.held_out)
        found.append(at_length(s, f"published_{reading}", prompts, [group], s.one_L))
    return found


def synthetic_studies(profile: str) -> dict[str, Study]:
    """All studies on synthetic data and on text at a profile, by name."""
    s = SIZES[check_profile(profile)]
    every = [
        *(one for L in s.L for one in figure_3(L, s)),
        figure_4(s),
        published_block(s),
        published_depths(s),
        *(one for L in s.L for one in figure_5_left(L, s)),
        erased(s),
        *(one for u in range(s.units) for one in (*new_unit(s, u), long_unit(s, u))),
        *published(s),
        *square(s),
    ]
    return {one.name: one for one in every} | language_studies(profile)


#: Key of a figure's minutes -> beginnings of the names of its studies.
MINUTES = {
    "time/fig3": ("published_inner", "published_squared", "published_tf", "published_block"),
    "time/fig4": ("deep_gd", "published_depths"),
    "time/fig5-left": ("published_two_",),
    "time/fig5-right": ("glyph_networks", "images_unseen", "images_linear"),
    "time/fig8-9": ("square",),
    "time/fig10-11": ("long",),
    "time/draws": ("new",),
    "time/published": ("published_narrow", "published_printed"),
}


def minutes(seconds: dict[str, float]) -> dict[str, float]:
    """Minutes of training behind each figure and of all, from those of every study; a study that serves two figures counts in both, once in the total."""
    every = {key: sum(s for n, s in seconds.items() if n.startswith(starts)) / 60 for key, starts in MINUTES.items()}
    return every | {"time/all": sum(seconds.values()) / 60}
