"""Which runs make which figure of wang2025 at each profile; every setting that the paper leaves open is listed here.

Open in the text and taken here: minibatches of 256 (GD) and 128 (Trained TF) contexts drawn with replacement (the published code: epochs of
minibatches of 512); Adam with rates 0.03 and 0.01 (published code: 0.001), which needs fewer steps; scores at the best validation record out of
12; GD starts from ``W_e ~ N(0, 1)``, ``alpha = 1``, ``gamma = 1`` (inner products) or 1/2; Trained TF from ``0.002 / K * N(0, 1)``, its ``W_e`` from N(0, 1).
"""

from __future__ import annotations

from collections.abc import Sequence

from ....models.functional_gd import FunctionalGD
from ....models.inexact_gd import HardErasureGD
from ....models.kernels import KERNELS
from ....models.multi_kernel import MultiKernelGD
from ....models.trained_tf import TrainedBlocks, TrainedStep
from ....profiles import check_profile
from ....tasks.categorical import Anchors, Categorical, Quadrants
from ....training import FixedSet, Group, Run
from ....training.study import Study
from .contexts import Contexts
from .draws import draw_studies
from .sizes import GD_BATCH, GD_RATE, SIZES, TF_BATCH, TF_RATE, Sizes, gamma_of, recorded
from .specs import GD_PARAMETERS, TF_PARAMETERS, classifiers


def _runs(seeds: int, rate: float) -> tuple[Run, ...]:
    """Initialisations; all runs see the same minibatches."""
    return tuple(Run(seed, rate=rate, stream=0) for seed in range(seeds))


def _gd(
    name: str,
    kernel: str,
    contexts: Contexts,
    seeds: int,
    held_out: int,
    blocks: int = 1,
    vector: bool = True,
    keep: tuple[str, ...] = (),
    model: type = FunctionalGD,
) -> Group:
    task = contexts.task
    kwargs = {
        "n_classes": task.n_classes,
        "width": task.width,
        "n_blocks": blocks,
        "kernel": kernel,
        "vector_rate": vector,
        "gamma": gamma_of(kernel),
    }
    return classifiers(name, model, kwargs, _runs(seeds, GD_RATE), contexts, held_out, keep)


def _tf(
    name: str,
    kernel: str,
    contexts: Contexts,
    seeds: int,
    held_out: int,
    keep: tuple[str, ...] = (),
) -> Group:
    task = contexts.task
    kwargs = {"d": task.d, "n_classes": task.n_classes, "width": task.width, "kernel": kernel, "init": "code"}
    return classifiers(name, TrainedStep, kwargs, _runs(seeds, TF_RATE), contexts, held_out, keep)


def _study(name: str, contexts: Contexts, L: int, groups: Sequence[Group], steps: int, batch: int) -> Study:
    """Never compiled: these trainings are too short for it to pay."""
    data = FixedSet(contexts, L)
    return Study(
        "wang2025",
        name,
        data,
        tuple(groups),
        steps,
        batch,
        recorded(steps),
        compile_from=None,
    )


def one_block(task: Categorical, L: int, s: Sizes) -> list[Study]:
    """Figure 3 at one number of contexts: GD (softmax, linear, RBF; softmax with a scalar step too) and Trained TF (softmax, RBF)."""
    inner, squared, tokens = (Contexts(task, view) for view in ("inner", "squared", "tokens"))
    gd = [
        _gd("softmax", "softmax", inner, s.seeds, s.held_out),
        _gd("softmax-scalar", "softmax", inner, s.seeds, s.held_out, vector=False),
        _gd("linear", "linear", inner, s.seeds, s.held_out),
    ]
    tf = [_tf(kernel, kernel, tokens, s.seeds, s.held_out) for kernel in ("softmax", "rbf")]
    return [
        _study(f"gd_inner_L{L}", inner, L, gd, s.gd, GD_BATCH),
        _study(
            f"gd_squared_L{L}", squared, L, [_gd("rbf", "rbf", squared, s.seeds, s.held_out)], s.gd, GD_BATCH
        ),
        _study(f"tf_L{L}", tokens, L, tf, s.tf, TF_BATCH),
    ]


def wide(s: Sizes) -> list[Study]:
    """N = 125: one block of GD at L = 2048 and of Trained TF at the largest L, then several blocks of GD."""
    task, L = Anchors(N=s.wide_N), s.L[1]
    one, deep, tokens = Contexts(task, "inner"), Contexts(task, "inner", True), Contexts(task)
    several = [
        _gd(f"softmax-{k}", "softmax", deep, s.few - 1 or 1, s.wide_held_out, k)
        for k in s.wide_depths
        if k > 1
    ]
    return [
        _study("wide_gd", one, L, [_gd("softmax-1", "softmax", one, s.seeds, s.held_out)], s.gd, GD_BATCH),
        _study(
            "wide_tf",
            tokens,
            s.middle_L,
            [_tf("softmax", "softmax", tokens, s.few, s.wide_held_out)],
            s.tf // 2,
            64,
        ),
        _study("wide_deep", deep, L, several, s.wide, 64),
    ]


def draws(s: Sizes) -> list[Study]:
    """One block of GD at both context sizes on other draws of W_e (draw 0 is that of all other studies)."""
    out = []
    for draw in range(1, s.draws):
        for reading, n in (("narrow", Anchors().N), ("wide", s.wide_N)):
            contexts = Contexts(Anchors(N=n, embed_seed=draw), "inner")
            group = _gd("softmax-1", "softmax", contexts, s.few - 1 or 1, s.held_out)
            out.append(_study(f"draw{draw}_{reading}", contexts, s.L[1], [group], s.gd, GD_BATCH))
    return out


def deep(s: Sizes) -> Study:
    """Figure 4: GD with softmax attention and 1 to 6 blocks; two blocks with a scalar step as well."""
    contexts = Contexts(Anchors(), "inner", True)
    groups = [_gd(f"softmax-{k}", "softmax", contexts, s.seeds, s.held_out, k) for k in s.depths]
    groups.append(_gd("scalar-2", "softmax", contexts, s.seeds, s.held_out, 2, vector=False))
    return _study("deep_gd", contexts, s.L[1], groups, s.deep, GD_BATCH)


def two_blocks(L: int, s: Sizes) -> list[Study]:
    """Figure 5, left, at one number of contexts."""
    task = Anchors()
    cached, tokens = Contexts(task, "inner", True), Contexts(task)
    kwargs = {"d": task.d, "n_classes": task.n_classes, "width": task.width, "n_blocks": 2}
    tf = classifiers("tf", TrainedBlocks, kwargs, _runs(s.few, TF_RATE), tokens, s.held_out)
    gd = _gd("gd", "softmax", cached, s.seeds, s.held_out, 2)
    return [
        _study(f"two_gd_L{L}", cached, L, [gd], s.deep, GD_BATCH),
        _study(f"two_tf_L{L}", tokens, L, [tf], s.tf_deep, TF_BATCH),
    ]


def quadrants(s: Sizes) -> list[Study]:
    """Figures 8 and 9: five kernels, GD and Trained TF."""
    task, out = Quadrants(N=s.quad_N), []
    for view in ("inner", "squared", "absolute"):
        contexts = Contexts(task, view)
        kernels = [k for k in KERNELS if KERNELS[k] == view]
        groups = [_gd(k, k, contexts, s.seeds, s.held_out, keep=GD_PARAMETERS) for k in kernels]
        out.append(_study(f"quad_gd_{view}", contexts, s.quad_L, groups, s.quad // 2, GD_BATCH))
    tokens = Contexts(task)
    groups = [_tf(k, k, tokens, s.seeds, s.held_out, TF_PARAMETERS) for k in KERNELS]
    out.append(_study("quad_tf", tokens, s.quad_L, groups, s.quad, TF_BATCH))
    return out


def erased(s: Sizes) -> Study:
    """Deep GD on the quadrants with the exact erasure and with the softmax head's limit (N = 100, where it erases the wrong position)."""
    contexts = Contexts(Quadrants(N=s.quad_N), "inner", True)
    groups = [
        _gd(f"{name}-{k}", "softmax", contexts, s.few - 1 or 1, s.wide_held_out, k, model=model)
        for k in (3,)
        for name, model in (("exact", FunctionalGD), ("astray", HardErasureGD))
    ]
    return _study("erased", contexts, s.quad_L, groups, s.astray, 64)


def heads(s: Sizes) -> Study:
    """Appendix H: RBF kernels with diagonal Lambda_m in 1, 2 and 4 heads, without and with P_m."""
    task = Anchors()
    contexts = Contexts(task)
    groups = []
    for m in (1, 2, 4):
        for mixing in (False, True):
            kwargs = {
                "d": task.d,
                "n_classes": task.n_classes,
                "width": task.width,
                "n_heads": m,
                "mixing": mixing,
            }
            name = f"heads-{m}" + ("-mixed" if mixing else "")
            runs = _runs(s.few, GD_RATE)
            groups.append(classifiers(name, MultiKernelGD, kwargs, runs, contexts, s.held_out))
    return _study("heads", contexts, s.middle_L, groups, s.gd // 2, TF_BATCH)


def studies(profile: str) -> dict[str, Study]:
    """All studies of the paper at a profile, by name."""
    s = SIZES[check_profile(profile)]
    every = [
        *(study for L in s.L for study in one_block(Anchors(), L, s)),
        *quadrants(s),
        deep(s),
        *wide(s),
        *draws(s),
        *(study for L in s.deep_L for study in two_blocks(L, s)),
        erased(s),
        heads(s),
    ]
    return {study.name: study for study in every} | draw_studies(profile)
