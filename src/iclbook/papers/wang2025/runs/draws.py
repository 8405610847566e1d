"""Studies whose unit is a draw of everything: W_e, training contexts, held-out contexts, initialisation and minibatches; and those on the authors' own W_e.

Other studies share one W_e, one training set and one test set among their seeds, so their intervals say nothing about those. Names: ``new<u>_...`` for unit
u, ``long<u>`` for figures 10 and 11 at the published code's length, ``published<u>_...`` for the authors' W_e with contexts of unit u.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....models.functional_gd import FunctionalGD
from ....models.kernels import KERNELS
from ....models.trained_tf import TrainedBlocks, TrainedStep
from ....profiles import check_profile
from ....tasks import Batch
from ....tasks.categorical import Anchors, Categorical, Quadrants
from ....training import FixedSet, Group, Run
from ....training.study import Study
from .contexts import TEST, VALIDATION, Contexts
from .published import PublishedAnchors
from .sizes import GD_BATCH, GD_RATE, SIZES, TF_BATCH, TF_RATE, gamma_of, recorded
from .specs import GD_PARAMETERS, TF_PARAMETERS, classifiers

#: Seed of a unit's W_e and of its contexts: far from those of the other studies.
FIRST = 100
#: Blocks of figure 4 that are trained on new draws.
DEPTHS = (1, 2, 3)
#: The published code: minibatches, learning rate, passes through the training contexts.
CODE_BATCH, CODE_RATE, EPOCHS = 512, 0.001, 5000
#: Groups of figures 10 and 11: the name, the initialisation, whether the true W_e is held.
STARTS = (
    ("code", "code", False),
    ("glorot", "glorot", False),
    ("true", "code", True),
    ("true-glorot", "glorot", True),
)


@dataclass(frozen=True)
class Units:
    """How much is drawn at a profile.

    Attributes:
        units: draws of everything; ``inits`` initialisations of each (one of the quadrants' models and on the authors' W_e).
        epochs: passes through the training contexts at the published code's length.
        published: draws of contexts on the authors' W_e.
    """

    units: int
    inits: int
    epochs: int
    published: int


UNITS = {"paper": Units(5, 2, EPOCHS, 10), "smoke": Units(2, 1, 4, 2)}


@dataclass(frozen=True)
class UnitContexts(Contexts):
    """Contexts of one unit, whose held-out contexts are its own too."""

    unit: int = 0

    def probes(self, n: int) -> dict[str, Batch]:
        """Validation and test contexts of the unit."""
        first = contexts_seed(self.unit)
        return {
            "validation": self.draw(n, first + VALIDATION),
            "test": self.draw(n, first + TEST),
        }


def contexts_seed(unit: int) -> int:
    """Seed of a unit's training contexts; validation and test follow."""
    return 10 * (FIRST + unit)


def _study(
    name: str, prompts: UnitContexts, L: int, groups: Sequence[Group], steps: int, batch: int, **options
) -> Study:
    data = FixedSet(prompts, L, seed=contexts_seed(prompts.unit), epochs=options.get("epochs", False))
    record = options.get("record", recorded(steps))
    return Study("wang2025", name, data, tuple(groups), steps, batch, record, compile_from=None)


def _runs(unit: int, inits: int, rate: float) -> tuple[Run, ...]:
    """Initialisations of a unit, no two units with the same, each with minibatches of its own."""
    return tuple(Run(unit * inits + i, rate=rate) for i in range(inits))


def _gd(
    name: str, kernel: str, prompts: UnitContexts, runs: Sequence[Run], held_out: int, blocks: int = 1
) -> Group:
    kwargs = {
        "n_classes": prompts.task.n_classes,
        "width": prompts.task.width,
        "n_blocks": blocks,
        "kernel": kernel,
        "vector_rate": True,
        "gamma": gamma_of(kernel),
    }
    return classifiers(name, FunctionalGD, kwargs, runs, prompts, held_out)


def _tf(name: str, kernel: str, prompts: UnitContexts, runs: Sequence[Run], held_out: int) -> Group:
    task = prompts.task
    kwargs = {"d": task.d, "n_classes": task.n_classes, "width": task.width, "kernel": kernel}
    return classifiers(name, TrainedStep, kwargs, runs, prompts, held_out)


def new_unit(profile: str, unit: int) -> list[Study]:
    """Figures 3, 4, 5 (left) and 8 on a draw of their own."""
    return [*_anchors(profile, unit), *_squares(profile, unit)]


def _anchors(profile: str, unit: int) -> list[Study]:
    """Figures 3, 4 and 5 (left): one block of each kind, several blocks, and two whole ones."""
    s, n, task = SIZES[profile], UNITS[profile], Anchors(embed_seed=FIRST + unit)
    tokens, cached = UnitContexts(task, unit=unit), UnitContexts(task, "inner", True, unit)
    gd, tf = (_runs(unit, n.inits, rate) for rate in (GD_RATE, TF_RATE))
    kernels = [_gd(k, k, tokens, gd, s.held_out) for k in ("softmax", "rbf", "linear")]
    trained = [_tf(k, k, tokens, tf, s.held_out) for k in ("softmax", "rbf")]
    depths = [_gd(f"softmax-{k}", "softmax", cached, gd, s.held_out, k) for k in DEPTHS]
    kwargs = {"d": task.d, "n_classes": task.n_classes, "width": task.width, "n_blocks": 2}
    two = [classifiers("tf", TrainedBlocks, kwargs, tf, tokens, s.held_out)]
    return [
        _study(f"new{unit}_gd", tokens, s.L[-1], kernels, s.gd, GD_BATCH),
        _study(f"new{unit}_tf", tokens, s.L[-1], trained, s.tf, TF_BATCH),
        _study(f"new{unit}_deep", cached, s.L[1], depths, s.deep, GD_BATCH),
        _study(f"new{unit}_two_tf", tokens, s.L[1], two, s.tf_deep, TF_BATCH),
    ]


def _squares(profile: str, unit: int) -> list[Study]:
    """Figure 8: all kernels on the quadrants."""
    s = SIZES[profile]
    quadrants = UnitContexts(Quadrants(N=s.quad_N, embed_seed=FIRST + unit), unit=unit)
    gd, tf = (_runs(unit, UNITS[profile].inits, rate)[:1] for rate in (GD_RATE, TF_RATE))
    functional = [_gd(k, k, quadrants, gd, s.held_out) for k in KERNELS]
    trained = [_tf(k, k, quadrants, tf, s.held_out) for k in KERNELS]
    return [
        _study(f"new{unit}_quad_gd", quadrants, s.quad_L, functional, s.quad // 2, GD_BATCH),
        _study(f"new{unit}_quad_tf", quadrants, s.quad_L, trained, s.quad, TF_BATCH),
    ]


def at_length(profile: str, name: str, prompts: UnitContexts, groups: Sequence[Group], L: int) -> Study:
    """A study on L contexts at the published code's length, recorded 50 times on the way."""
    batch = min(CODE_BATCH, L // 4)
    steps = UNITS[profile].epochs * (L // batch)
    every = np.unique(np.linspace(min(24, steps), steps, 50).round().astype(int))
    return _study(name, prompts, L, groups, steps, batch, epochs=True, record=tuple(int(k) for k in every))


def long_unit(profile: str, unit: int) -> Study:
    """Figures 10 and 11 on a draw of their own: Trained TF with softmax attention from two starts, with W_e learned and with the true W_e held."""
    s = SIZES[profile]
    task = Quadrants(N=s.quad_N, embed_seed=FIRST + unit)
    prompts = UnitContexts(task, unit=unit)
    run, sizes = Run(unit, rate=CODE_RATE), {"d": task.d, "n_classes": task.n_classes, "width": task.width}
    groups = []
    for name, init, held in STARTS:
        kwargs = {**sizes, "kernel": "softmax", "init": init, **({"known": task} if held else {})}
        one = replace(run, factors=(("embed", 0.0),)) if held else run
        groups.append(classifiers(name, TrainedStep, kwargs, (one,), prompts, s.held_out, TF_PARAMETERS))
    return at_length(profile, f"long{unit}", prompts, groups, s.quad_L)


def square(profile: str) -> list[Study]:
    """Figures 8 and 9, one study a kernel: GD and Trained TF from five starts each, at the published code's length, on one draw of everything else."""
    s, found = SIZES[profile], []
    prompts = UnitContexts(Quadrants(N=s.quad_N), unit=0)
    runs = tuple(Run(seed, rate=CODE_RATE) for seed in range(s.seeds))
    task = prompts.task
    sizes = {"n_classes": task.n_classes, "width": task.width}
    for kernel in KERNELS:
        gd = {**sizes, "kernel": kernel, "vector_rate": True, "gamma": gamma_of(kernel)}
        tf = {**sizes, "d": task.d, "kernel": kernel, "init": "code"}
        groups = [
            classifiers("gd", FunctionalGD, gd, runs, prompts, s.held_out, GD_PARAMETERS),
            classifiers("tf", TrainedStep, tf, runs, prompts, s.held_out, TF_PARAMETERS),
        ]
        found.append(at_length(profile, f"square_{kernel}", prompts, groups, s.quad_L))
    return found


def published_unit(profile: str, unit: int) -> list[Study]:
    """One block on the authors' W_e with contexts of a unit, at the published code's length: N = 10, N = 125, and N = 125 with the distance as printed."""
    s = SIZES[profile]
    readings: dict[str, Categorical] = {
        "narrow": PublishedAnchors(),
        "wide": PublishedAnchors(N=s.wide_N),
        "printed": PublishedAnchors(N=s.wide_N, squared=False),
    }
    found = []
    for reading, task in readings.items():
        prompts = UnitContexts(task, "inner", unit=unit)
        group = _gd("softmax", "softmax", prompts, (Run(unit, rate=CODE_RATE),), s.held_out)
        found.append(at_length(profile, f"published{unit}_{reading}", prompts, [group], s.L[1]))
    return found


def draw_studies(profile: str) -> dict[str, Study]:
    """All of them, by name."""
    n = UNITS[check_profile(profile)]
    every = [study for u in range(n.units) for study in (*new_unit(profile, u), long_unit(profile, u))]
    every += [study for u in range(n.published) for study in published_unit(profile, u)]
    every += square(profile)
    return {study.name: study for study in every}
