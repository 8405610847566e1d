"""Which runs make which figure of wang2025 at each profile; every setting that the paper leaves open is listed here.

Open in the text and taken here: minibatches of 256 (GD) and 128 (Trained TF) contexts drawn with replacement; Adam with rates 0.03 and 0.01, which needs
fewer steps than the published code's 0.001; scores at the best validation record out of 12; GD starts from ``W_e ~ N(0, 1)``, ``alpha = 1``, ``gamma = 1``
(inner products) or 1/2; Trained TF from ``0.002 / K * N(0, 1)``, its ``W_e`` from N(0, 1). Studies at the published code's own length (``square_...``,
``long...``, ``published_...`` of one block) have its 5,000 epochs of minibatches of 512 at its rate.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from torch import nn

from ...models.functional_gd import FunctionalGD, HardErasureGD
from ...models.kernels import KERNELS
from ...models.trained_tf import ProgramBlocks, TrainedBlocks, TrainedStep
from ...project import check_profile
from ...store import Results
from ...tasks.categorical import Anchors, Quadrants
from ...training import FixedSet, Group, Run
from ...training.groups import AdamW, Cosine, cross_entropy
from ...training.study import Study
from .contexts import (
    FIRST,
    GD_PARAMETERS,
    TF_PARAMETERS,
    Contexts,
    InParts,
    OnHeldOut,
    PublishedAnchors,
    PublishedContexts,
    UnitContexts,
)
from .figure_9_data import PublishedQuadrants
from .language import language_studies

GD_RATE, TF_RATE = 0.03, 0.01
GD_BATCH, TF_BATCH = 256, 128
#: The published code: minibatches and learning rate.
CODE_BATCH, CODE_RATE = 512, 0.001
#: Trained TF's rate in its longest training, with N = 125.
LONG_RATE = 0.003
#: Rate of the short trainings of figure 9, from which it falls.
MAP_RATE = 0.003
#: Blocks of figure 4 that are trained on new draws.
DEPTHS = (1, 2, 3)
#: What Trained TF learns with several blocks.
BLOCKS_PARAMETERS = ("W_Q", "W_K", "W_V", "P", "cross_Q", "cross_K", "cross_V", "cross_P", "embed")
#: Groups of figures 10 and 11: the name, the initialisation, whether the true W_e is held.
STARTS = (("code", "code", False), ("glorot", "glorot", False), ("true", "code", True), ("true-glorot", "glorot", True))


#: What differs between the profiles: name -> paper, smoke.
_SIZES: dict[str, tuple[Any, Any]] = {
    "L": ((2048, 8192, 32768), (256, 512)),  # numbers of training contexts of figures 3 and 5 (left)
    "one_L": (2048, 1024),  # training contexts of figure 4
    "many_L": (32768, 1024),  # of new draws
    "quad_L": (2048, 256),  # of figures 8 to 11
    "seeds": (5, 2),  # initialisations of figures 3, 4 and 8
    "share_seeds": (20, 3),  # of Trained TF with linear attention, whose share is asked
    "few": (3, 1),  # initialisations of the costly runs
    "late_seeds": (8, 2),  # of three and six blocks
    "gd": (800, 12),  # minibatches of one-block GD
    "tf": (2000, 12),  # of one-block TF
    "deep": (400, 6),  # of deep GD
    "tf_deep": (2000, 6),  # of two-block TF
    "wide": (4000, 4),  # of GD at N = 125
    "astray": (300, 4),  # of deep GD with the softmax erasure
    "long": ((1000, 6000, 10000), (6, 6)),  # of two-block TF at each L: with few contexts its NLL soon rises
    "map": (3000, 6),  # of figures 8 to 11 on the authors' W_e and on others
    "epochs": (5000, 4),  # passes through the training contexts at the published code's length
    "depths": ((1, 2, 3, 4, 5, 6), (1, 2, 3)),  # numbers of blocks of figure 4
    "held_out": (2048, 256),  # validation contexts, and as many test contexts
    "wide_held_out": (1024, 64),  # the same at N = 125 on new draws
    "wide_N": (125, 25),  # context sizes
    "quad_N": (100, 30),
    "units": (5, 2),  # draws of everything
    "inits": (2, 1),  # initialisations of each draw
}
Sizes = SimpleNamespace
SIZES = {p: Sizes(**{name: both[i] for name, both in _SIZES.items()}) for i, p in enumerate(("paper", "smoke"))}


def runs_of(seeds: Iterable[int], rate: float, stream: int | None = None) -> tuple[Run, ...]:
    """Initialisations; with a ``stream`` all runs see the same minibatches, otherwise each its own."""
    return tuple(Run(seed, rate=rate, stream=stream) for seed in seeds)


def group(
    name: str,
    model: type[nn.Module],
    observe: OnHeldOut,
    runs: Sequence[Run],
    keep: tuple[str, ...] = (),
    **kwargs: Any,
) -> Group:
    """Runs of a model of the contexts on which it is scored; GD has one block and a vector as its step alpha (as in the published code) by default."""
    task = observe.contexts.task
    if issubclass(model, FunctionalGD):
        gamma = 0.5 if kwargs["kernel"] == "rbf" else 1.0
        own = {"n_blocks": 1, "vector_rate": True, "gamma": gamma}
    else:
        own = {"d": task.d}
    sizes = {"n_classes": task.n_classes, "width": task.width}
    return Group(name, model, sizes | own | kwargs, runs, loss=cross_entropy, observe=observe, keep=keep)


def by_depth(
    contexts: OnHeldOut, runs: Sequence[Run], depths: Sequence[int], keep: tuple[str, ...] = ()
) -> list[Group]:
    """GD with softmax attention at several numbers of blocks."""
    return [group(f"softmax-{k}", FunctionalGD, contexts, runs, keep, kernel="softmax", n_blocks=k) for k in depths]


def study(name: str, L: int, groups: Sequence[Group], steps: int, batch: int, full: bool = False) -> Study:
    """A study on L of its groups' contexts, recorded 12 times in log-spaced steps or, at ``full`` length in epochs, 50 times."""
    space, records = (np.linspace, 50) if full else (np.geomspace, 12)
    record = np.unique(space(min(24, steps), steps, records).round()).astype(int)  # 24 is what a replay repeats
    contexts = groups[0].observe.contexts
    data = FixedSet(contexts, L, seed=contexts.seed, epochs=full)
    return Study("wang2025", name, data, tuple(groups), steps, batch, tuple(record.tolist()))


def at_length(s: Sizes, name: str, groups: Sequence[Group], L: int) -> Study:
    """A study on L contexts at the published code's length."""
    batch = min(CODE_BATCH, L // 4)
    return study(name, L, groups, s.epochs * (L // batch), batch, full=True)


# -- the figures' own data --------------------------------------------------------------------------------------------


def figure_3(L: int, s: Sizes) -> list[Study]:
    """Figure 3 at one number of contexts on the authors' W_e and contexts with N = 125, which drew it: GD and Trained TF, all in as many minibatches (of
    Trained TF with RBF a quarter as large) as 5,000 epochs of the smallest number. GD and Trained TF of one seed share minibatches."""
    task = PublishedAnchors(N=s.wide_N)
    inner, squared, tokens = (InParts(PublishedContexts(task, v), s.held_out) for v in ("inner", "squared", "tokens"))
    many, few = (runs_of(range(n), CODE_RATE) for n in (s.seeds, s.few))
    batch = min(CODE_BATCH, s.L[0] // 4)
    by_inner = [
        group("softmax", FunctionalGD, inner, many, kernel="softmax"),
        group("softmax-scalar", FunctionalGD, inner, many, kernel="softmax", vector_rate=False),
        group("linear", FunctionalGD, inner, many, kernel="linear"),
    ]
    studies = {
        "inner": (by_inner, batch),
        "squared": ([group("rbf", FunctionalGD, squared, many, kernel="rbf")], batch),
        "tf": ([group("softmax", TrainedStep, tokens, many, kernel="softmax", init="code")], batch),
        "tf_rbf": ([group("rbf", TrainedStep, tokens, few, kernel="rbf", init="code")], batch // 4),
    }
    steps = s.epochs * (s.L[0] // batch)
    return [study(f"published_{name}_L{L}", L, groups, steps, n, True) for name, (groups, n) in studies.items()]


def published_block(s: Sizes) -> Study:
    """Trained TF with one block as the published program builds and trains it, where the authors' notebook prints its scores: an erasing head and cross-attention,
    its initial law, gradients clipped at 0.001, Adam's second decay 0.98, a validation about every 100 epochs. Its validation NLL rises long before the end."""
    tokens = OnHeldOut(PublishedContexts(PublishedAnchors(N=s.wide_N)), s.held_out)
    block = group("tf", ProgramBlocks, tokens, runs_of(range(s.seeds), CODE_RATE), n_blocks=1)
    block = replace(block, optimiser=AdamW(beta2=0.98, decay=0.0, clip=0.001))
    batch = min(CODE_BATCH, s.L[0] // 4)
    found = study("published_block", s.L[0], [block], s.epochs // 4 * (s.L[0] // batch), batch, full=True)
    return replace(found, record=(found.record[0], *found.record[1::4]))


def figure_4(s: Sizes) -> Study:
    """Figure 4 with N = 10, GD with softmax attention and 1 to 6 blocks from the same starts on the same minibatches."""
    narrow = OnHeldOut(Contexts(Anchors(), "inner", True), s.held_out)
    return study("deep_gd", s.one_L, by_depth(narrow, runs_of(range(s.seeds), GD_RATE, 0), s.depths), s.deep, GD_BATCH)


def figures_4_and_5(L: int, s: Sizes) -> list[Study]:
    """Figures 4 and 5 (left) at one number of contexts on all of the authors' own data with N = 125, which drew them: GD with two blocks and, at the smallest
    number, with 1 to 6, all from the same starts on the same minibatches; Trained TF with two at a rate that falls; its parameters are kept at the last five
    records. At the largest number, where the two are compared, there are more starts."""
    seen = (PublishedContexts(PublishedAnchors(N=s.wide_N), *view) for view in (("inner", True), ()))
    cached, tokens = (OnHeldOut(contexts, s.held_out) for contexts in seen)
    seeds = range(s.seeds if s.L[-1] == L else s.few)
    gd_runs, tf_runs = (runs_of(seeds, rate, 0) for rate in (GD_RATE, LONG_RATE))
    gd = by_depth(cached, gd_runs, s.depths if s.L[0] == L else (2,), GD_PARAMETERS)
    tf = group("tf", TrainedBlocks, tokens, tf_runs, BLOCKS_PARAMETERS, n_blocks=2)
    free = study(f"published_two_tf_L{L}", L, [tf], s.long[s.L.index(L)], 64)
    free = replace(free, groups=(replace(tf, schedule=Cosine(end=0.01), keep_at=free.record[-5:]),))
    found = [study(f"published_blocks_L{L}", L, gd, s.wide, 64), free]
    if s.L[0] == L:  # further starts of the two numbers of blocks between which NLL still has to fall
        more = by_depth(cached, runs_of(range(s.few, s.late_seeds), GD_RATE, 0), sorted({3, s.depths[-1]}))
        found.append(study("published_blocks_more", L, more, s.wide, 64))
    return found


def square(s: Sizes) -> list[Study]:
    """Figures 8 and 9: GD and Trained TF with each kernel from five starts at the published length; Trained TF with linear attention from more."""
    prompts, runs = OnHeldOut(UnitContexts(Quadrants(N=s.quad_N)), s.held_out), runs_of(range(s.seeds), CODE_RATE)
    gd = {k: group("gd", FunctionalGD, prompts, runs, GD_PARAMETERS, kernel=k) for k in KERNELS}
    tf = {k: group("tf", TrainedStep, prompts, runs, TF_PARAMETERS, kernel=k, init="code") for k in KERNELS}
    more = replace(tf["linear"], name="more", runs=runs_of(range(s.seeds, s.share_seeds), CODE_RATE))
    return [at_length(s, f"square_{k}", [gd[k], tf[k], *([more] if k == "linear" else [])], s.quad_L) for k in KERNELS]


def in_short(s: Sizes, name: str, contexts: UnitContexts, runs: Sequence[Run], kernels: Sequence[str]) -> Study:
    """GD and Trained TF with each kernel on quadrants of one W_e, in shorter trainings than those of figure 8, with a rate that falls."""
    seen, falls, batch = OnHeldOut(contexts, s.held_out), Cosine(end=0.01), min(GD_BATCH, s.quad_L // 4)
    groups = []
    for k in kernels:
        ends = f"-{k}" if len(kernels) > 1 else ""
        groups += [
            group(f"gd{ends}", FunctionalGD, seen, runs, GD_PARAMETERS, kernel=k),
            group(f"tf{ends}", TrainedStep, seen, runs, TF_PARAMETERS, kernel=k, init="code"),
        ]
    return study(name, s.quad_L, [replace(each, schedule=falls) for each in groups], s.map, batch)


def in_short_studies(s: Sizes) -> list[Study]:
    """Figure 9 on the W_e that drew its context; figures 8, 10 and 11 on the W_e of the authors' own trainings and on draws of ours, one start each."""
    authors = {each: UnitContexts(PublishedQuadrants(N=s.quad_N, source=each)) for each in ("map", "training")}
    ours = [UnitContexts(Quadrants(N=s.quad_N, embed_seed=FIRST + u), unit=u) for u in range(s.units)]
    runs = runs_of(range(s.few), MAP_RATE)
    return [
        in_short(s, "published_map", authors["map"], runs, ("rbf",)),
        in_short(s, "published_quadrants", authors["training"], runs, tuple(KERNELS)),
        *(in_short(s, f"quadrants{u}", each, runs_of([u], MAP_RATE), tuple(KERNELS)) for u, each in enumerate(ours)),
    ]


def erased(s: Sizes) -> Study:
    """Three blocks on the quadrants with the exact erasure and with the softmax head's limit (N = 100, where it erases the wrong position)."""
    contexts = OnHeldOut(Contexts(Quadrants(N=s.quad_N), "inner", True), s.wide_held_out)
    runs, models = runs_of(range(s.few - 1 or 1), GD_RATE, 0), {"exact-3": FunctionalGD, "astray-3": HardErasureGD}
    groups = [group(name, model, contexts, runs, kernel="softmax", n_blocks=3) for name, model in models.items()]
    return study("erased", s.quad_L, groups, s.astray, 64)


# -- draws of everything: W_e, contexts, initialisation and minibatches -----------------------------------------------


def new_unit(s: Sizes, unit: int) -> list[Study]:
    """Figures 3, 4 and 5 (left) on a draw of their own: one block of each kind, several blocks of GD (with N = 125 too), and two blocks of Trained TF."""
    task = Anchors(embed_seed=FIRST + unit)
    tokens = OnHeldOut(UnitContexts(task, unit=unit), s.held_out)
    cached = OnHeldOut(UnitContexts(task, "inner", True, unit), s.held_out)
    many = OnHeldOut(UnitContexts(replace(task, N=s.wide_N), "inner", True, unit), s.wide_held_out)
    seeds = range(unit * s.inits, (unit + 1) * s.inits)
    gd, tf = runs_of(seeds, GD_RATE), runs_of(seeds, TF_RATE)
    kernels = [group(k, FunctionalGD, tokens, gd, kernel=k) for k in ("softmax", "rbf", "linear")]
    free = [group(k, TrainedStep, tokens, tf, kernel=k) for k in ("softmax", "rbf")]
    wide = [replace(each, schedule=Cosine(end=0.01)) for each in by_depth(many, gd, DEPTHS)]
    return [
        study(f"new{unit}_gd", s.many_L, kernels, s.gd, GD_BATCH),
        study(f"new{unit}_tf", s.many_L, free, s.tf, TF_BATCH),
        study(f"new{unit}_deep", s.one_L, by_depth(cached, gd, DEPTHS), s.deep, GD_BATCH),
        study(f"new{unit}_wide", s.one_L, wide, s.wide, 64),
        study(f"new{unit}_two_tf", s.one_L, [group("tf", TrainedBlocks, tokens, tf, n_blocks=2)], s.tf_deep, TF_BATCH),
    ]


def long_unit(s: Sizes, unit: int) -> Study:
    """Figures 10 and 11 on a draw of their own: Trained TF with softmax attention from two starts, with W_e learned and with the true W_e held."""
    task = Quadrants(N=s.quad_N, embed_seed=FIRST + unit)
    prompts, groups = OnHeldOut(UnitContexts(task, unit=unit), s.held_out), []
    for name, init, held in STARTS:
        run = Run(unit, rate=CODE_RATE, factors=(("embed", 0.0),) if held else ())
        known = {"known": task} if held else {}
        groups.append(group(name, TrainedStep, prompts, (run,), TF_PARAMETERS, kernel="softmax", init=init, **known))
    return at_length(s, f"long{unit}", groups, s.quad_L)


def published(s: Sizes) -> list[Study]:
    """One block on the authors' W_e and contexts at their program's length: N = 10, and N = 125 with the distance as printed."""
    readings = {"narrow": PublishedAnchors(), "printed": PublishedAnchors(N=s.wide_N, squared=False)}
    runs, kernel = runs_of(range(s.seeds), CODE_RATE), {"kernel": "softmax"}
    prompts = [OnHeldOut(PublishedContexts(task, "inner"), s.held_out) for task in readings.values()]
    groups = [group("softmax", FunctionalGD, each, runs, **kernel) for each in prompts]
    return [at_length(s, f"published_{name}", [each], s.one_L) for name, each in zip(readings, groups, strict=True)]


def synthetic_studies(profile: str) -> dict[str, Study]:
    """Studies on synthetic data and on text at a profile, by name."""
    s = SIZES[check_profile(profile)]
    every = [
        *(one for L in s.L for one in figure_3(L, s)),
        figure_4(s),
        published_block(s),
        *(one for L in s.L for one in figures_4_and_5(L, s)),
        erased(s),
        *(one for u in range(s.units) for one in (*new_unit(s, u), long_unit(s, u))),
        *published(s),
        *square(s),
        *in_short_studies(s),
    ]
    return {one.name: one for one in every} | language_studies(profile)


#: Key of a figure's minutes -> beginnings of the names of its studies; every name begins with the empty one.
MINUTES = {
    "time/fig3": ("published_inner", "published_squared", "published_tf", "published_block"),
    "time/fig4": ("deep_gd", "published_blocks_L2048", "published_blocks_more"),
    "time/fig5-left": ("published_blocks_L", "published_two_"),
    "time/fig5-right": ("glyph_networks", "images_unseen", "images_linear"),
    "time/fig8-9": ("square", "published_map", "published_quadrants", "quadrants"),
    "time/fig10-11": ("long",),
    "time/draws": ("new",),
    "time/published": ("published_narrow", "published_printed"),
    "time/all": ("",),
    "images/minutes": ("glyph_networks", "images"),
}


def minutes(results: Mapping[str, Results]) -> dict[str, float]:
    """Minutes of training behind each figure and of all, with groups that were added later; a study that serves two figures counts in both."""

    def seconds(r: Results) -> float:
        return r.provenance["seconds"] + sum(group["seconds"] for group in r.provenance.get("added", {}).values())

    return {
        key: sum(seconds(r) for name, r in results.items() if name.startswith(starts)) / 60
        for key, starts in MINUTES.items()
    }
