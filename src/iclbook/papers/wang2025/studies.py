"""Which runs make which figure of wang2025 at each profile; every setting that the paper leaves open is listed here.

Open in the text and taken here: minibatches of 256 (GD) and 128 (Trained TF) contexts drawn with replacement; Adam with rates 0.03 and 0.01, which needs
fewer steps than the published code's 0.001; scores at the best validation record out of 12; GD starts from ``W_e ~ N(0, 1)``, ``alpha = 1``, ``gamma = 1``
(inner products) or 1/2; Trained TF from ``0.002 / K * N(0, 1)``, its ``W_e`` from N(0, 1). Studies at the published code's own length (``square_...``,
``long...``, ``published_...`` of one block) have its 5,000 epochs of minibatches of 512 at its rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from torch import nn

from ...models.functional_gd import FunctionalGD, HardErasureGD
from ...models.kernels import KERNELS
from ...models.trained_tf import TrainedBlocks, TrainedStep
from ...project import check_profile
from ...store import Results
from ...tasks.categorical import Anchors, Quadrants
from ...training import FixedSet, Group, Run
from ...training.groups import Cosine
from ...training.study import Study
from .contexts import (
    FIRST,
    GD_PARAMETERS,
    TF_PARAMETERS,
    Contexts,
    InParts,
    PublishedAnchors,
    PublishedContexts,
    UnitContexts,
    classifiers,
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


#: What differs between the profiles: name -> paper, smoke.
_SIZES: dict[str, tuple[Any, Any]] = {
    # numbers of training contexts: of figures 3 and 5 (left), of figure 4, of new draws, of figures 8 to 11
    "L": ((2048, 8192, 32768), (256, 512)),
    "one_L": (2048, 1024),
    "many_L": (32768, 1024),
    "quad_L": (2048, 256),
    # initialisations of figures 3, 4 and 8, and of the costly runs
    "seeds": (5, 2),
    "few": (3, 1),
    # minibatches: of one-block GD and TF, deep GD, two-block TF, GD at N = 125, deep GD with the softmax erasure, two-block TF in figure 5
    "gd": (800, 40),
    "tf": (2000, 40),
    "deep": (400, 12),
    "tf_deep": (2000, 12),
    "wide": (4000, 4),
    "astray": (300, 4),
    "long": (10_000, 12),
    # passes through the training contexts at the published code's length
    "epochs": (5000, 4),
    # numbers of blocks of figure 4
    "depths": ((1, 2, 3, 4, 5, 6), (1, 2, 3)),
    # validation contexts, and as many test contexts: in general, and at N = 125
    "held_out": (2048, 256),
    "wide_held_out": (1024, 64),
    # context sizes
    "wide_N": (125, 25),
    "quad_N": (100, 30),
    # draws of everything, and initialisations of each
    "units": (5, 2),
    "inits": (2, 1),
}
Sizes = SimpleNamespace
SIZES = {p: Sizes(**{name: both[i] for name, both in _SIZES.items()}) for i, p in enumerate(("paper", "smoke"))}


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
    by_inner = [
        gd_group("softmax", "softmax", inner, many, s.held_out),
        gd_group("softmax-scalar", "softmax", inner, many, s.held_out, vector=False),
        gd_group("linear", "linear", inner, many, s.held_out),
    ]
    found = []
    for name, contexts, groups, size in (
        ("inner", inner, by_inner, batch),
        ("squared", squared, [gd_group("rbf", "rbf", squared, many, s.held_out)], batch),
        ("tf", tokens, [tf_group("softmax", tokens, many, s.held_out, kernel="softmax", init="code")], batch),
        ("tf_rbf", tokens, [tf_group("rbf", tokens, few, s.held_out, kernel="rbf", init="code")], batch // 4),
    ):
        scored = [replace(group, observe=InParts(contexts, s.held_out)) for group in groups]
        steps = s.epochs * (s.L[0] // batch)
        found.append(study(f"published_{name}_L{L}", contexts, L, scored, steps, size, full=True))
    return found


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
    """Figure 4 with N = 10: GD with softmax attention and 1 to 6 blocks."""
    contexts, runs = Contexts(Anchors(), "inner", True), runs_of(range(s.seeds), GD_RATE, 0)
    groups = [gd_group(f"softmax-{k}", "softmax", contexts, runs, s.held_out, k) for k in s.depths]
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

    def groups(kernel: str) -> list[Group]:
        gd = gd_group("gd", kernel, prompts, runs, s.held_out, keep=GD_PARAMETERS)
        return [gd, tf_group("tf", prompts, runs, s.held_out, TF_PARAMETERS, kernel=kernel, init="code")]

    return [at_length(s, f"square_{k}", prompts, groups(k), s.quad_L) for k in KERNELS]


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
    found, runs = [], runs_of(range(s.seeds), CODE_RATE)
    for reading, task in readings.items():
        prompts = PublishedContexts(task, "inner")
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


#: Key of a figure's minutes -> beginnings of the names of its studies; every name begins with the empty one.
MINUTES = {
    "time/fig3": ("published_inner", "published_squared", "published_tf", "published_block"),
    "time/fig4": ("deep_gd", "published_depths"),
    "time/fig5-left": ("published_two_",),
    "time/fig5-right": ("glyph_networks", "images_unseen", "images_linear"),
    "time/fig8-9": ("square",),
    "time/fig10-11": ("long",),
    "time/draws": ("new",),
    "time/published": ("published_narrow", "published_printed"),
    "time/all": ("",),
    "images/minutes": ("glyph_networks", "images"),
}


def minutes(results: Mapping[str, Results]) -> dict[str, float]:
    """Minutes of training behind each figure and of all; a study that serves two figures counts in both."""
    return {
        key: sum(r.provenance["seconds"] for name, r in results.items() if name.startswith(starts)) / 60
        for key, starts in MINUTES.items()
    }
