"""Which runs each table of section 9 needs at each profile, on which prompts they are measured; every setting that the paper leaves open is listed here."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ...models.deep_attention import DeepAttention
from ...models.spectral_attention import MASKS, SpectralAttention
from ...project import check_profile
from ...random import generator
from ...tasks import Batch
from ...tasks.spectral_regression import SpectralRegression, StoredPrompts
from ...training import Adam, FixedSet, Group, Run, Sgd, Study, squared_error
from ...training.groups import Optimiser

#: Seed and purpose of the prompts on which models are measured; purposes 0 and 1 belong to training.
PROBE_SEED, PROBE_PURPOSE = 2026, 2


def penalised_error(model: nn.Module, batch: Batch) -> Tensor:
    """Mean squared error plus the model's regulariser."""
    return squared_error(model, batch) + model.penalty()


@dataclass(frozen=True)
class Probes:
    """Prompts that every run is measured on, drawn once.

    Attributes:
        task: where they come from (its own context length and spectrum), without dropout.
        n: how many.
        lengths: names and numbers of context tokens to measure at.
        low: also measure on queries whose covariates are zero but for this many of the smallest eigenvalues (0: do not).
    """

    task: SpectralRegression
    n: int
    lengths: tuple[int, ...]
    low: int = 0

    def draw(self) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
        """Name -> ``(context, query, target)``: ``n<length>`` for each length, and ``low``."""
        task = self.task
        normals = torch.randn(task.normals, self.n, generator=generator(PROBE_SEED, PROBE_PURPOSE))
        batch = task.batch(normals)
        found = {f"n{length}": (batch.context[:length], batch.query, batch.target) for length in self.lengths}
        if self.low:
            first = task.L * task.d
            normals[first : first + task.d - self.low] = 0  # the query's other covariates
            found["low"] = tuple(task.batch(normals))
        return found


@dataclass(frozen=True)
class OnProbes:
    """Observes a model's circuits and its errors on probes."""

    probes: Probes

    def held_out(self) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
        """The probes."""
        return self.probes.draw()

    def __call__(self, model: nn.Module, held_out: dict[str, tuple[Tensor, Tensor, Tensor]]) -> dict[str, Tensor]:
        """Circuits, and what ``measured_on`` says of every probe."""
        return model.circuits() | model.measured_on(held_out)


#: Prompts that are drawn and answered at once by all runs of a group.
CHUNK = 128


@dataclass(frozen=True)
class InBlocks:
    """Observes the errors of :class:`SpectralAttention` with the whole context on many prompts, by blocks, whose spread shows what prompts leave open.

    Attributes:
        task: where the prompts come from.
        blocks, size: how many blocks, of how many prompts each.
    """

    task: SpectralRegression
    blocks: int
    size: int

    def held_out(self) -> None:
        """Nothing: prompts are drawn as they are answered, the same at every record and for every group."""

    def of_runs(self, ensemble: Any, params: dict[str, Tensor], seen: Batch, held_out: None) -> dict[str, Tensor]:
        """``error`` ``(R, blocks)``."""
        heads = []
        for r in range(len(ensemble.runs)):
            ensemble.model.load_state_dict({name: values[r] for name, values in params.items()})
            heads.append(ensemble.model.heads())
        circuits = [torch.stack(parts) for parts in zip(*heads, strict=True)]
        normals, chunk = generator(PROBE_SEED, PROBE_PURPOSE), min(CHUNK, self.size)
        errors = []
        for _ in range(self.blocks * self.size // chunk):
            batch = self.task.batch(torch.randn(self.task.normals, chunk, generator=normals).to(circuits[0]))
            answers = answers_of_runs(*circuits, ensemble.model.activation, batch)
            errors.append(((answers - batch.target[0]) ** 2).mean(1))
        return {"error": torch.stack(errors, 1).unflatten(1, (self.blocks, -1)).mean(2)}


def answers_of_runs(kq: Tensor, ov: Tensor, direct: Tensor, activation: str, batch: Batch) -> Tensor:
    """Predictions ``(R, B)`` of R models from their circuits :meth:`SpectralAttention.heads`: matrix products, in place of one model after the other."""
    n_runs, n_heads, _ = ov.shape
    tokens = batch.context.permute(2, 0, 1).contiguous()  # (B, L, d + 1)
    folded = torch.einsum("rhij,jb->birh", kq, batch.query).flatten(2)  # (B, d + 1, R H)
    scores, values = tokens @ folded, tokens @ ov.flatten(0, 1).T  # (B, L, R H)
    weights = scores.softmax(1) if activation == "softmax" else scores / tokens.shape[1]
    mixed = (weights * values).sum(1).unflatten(1, (n_runs, n_heads)).sum(2)
    return mixed.T + direct @ batch.query


#: Sections 9.1 and 9.2: stated. Context 16 is that of section 9.2's table; weights N(0, I) because an untrained model's error there, 27.1, is
#: near the sum of the eigenvalues, 22.2.
SPECTRUM = (10.0, 10.0, 1.0, 1.0, 0.1, 0.1, 0.01, 0.01)
#: Section 9.6, "wide_spectrum": unstated; here the spectrum above with twice the decades.
WIDE_SPECTRUM = (100.0, 100.0, 1.0, 1.0, 0.01, 0.01, 0.0001, 0.0001)
#: Section 9.6's configurations: name -> (width, heads, weight of the regulariser).
CONFIGURATIONS = {
    "tiny_strong": (16, 4, 1.0),
    "small_strong": (32, 4, 1.0),
    "small_medium": (32, 4, 0.5),
    "base_strong": (64, 4, 1.0),
    "8heads_tiny": (32, 8, 1.0),
}
#: Sections 9.5 and 9.5.1: variance of each weight. With unit weights the error of 2.187 at d = 16 would be below what 12 noiseless examples allow
#: (4), and with 1/d above the error of the answer 0 (1).
WEIGHT_VAR = 0.25
#: The variance of each weight that section 9.5's "6.4 x" and "19.5 x" below the "mean baseline" imply at d = 4, if that is the answer 0:
#: 6.4 * 0.184 / 4.
IMPLIED_VAR = 0.295
#: Section 9.5: "dropout 0.1".
DROPOUT = 0.1
#: Weight of the orthogonality regulariser, unstated.
ORTHOGONALITY = 0.01
#: Section 9.5.1's variants (all without layer norm): name -> arguments of the model.
SHALLOW = {"width": 32, "n_layers": 2}
DEEP = {"width": 24, "n_layers": 4}
VARIANTS: dict[str, dict[str, Any]] = {
    "baseline": SHALLOW,
    "depth": DEEP,
    "sink": DEEP | {"sink": True},
    "scale": DEEP | {"layer_scale": True},
    "ortho": DEEP | {"orthogonality": ORTHOGONALITY},
    "full": DEEP | {"sink": True, "layer_scale": True, "orthogonality": ORTHOGONALITY},
}


_study = partial(Study, "nagy2026", compile_from=1000)  # steps from which compiling pays, with many runs a group


def _runs(seeds: int, rates: Sequence[float], first: int = 0) -> tuple[Run, ...]:
    """Runs of all seeds from ``first`` on at all rates, the rates slowest. Runs of one seed see the same data at every rate and in every group."""
    return tuple(Run(seed, rate=rate) for rate in rates for seed in range(first, first + seeds))


def _group(
    name: str, model: type, kwargs: dict[str, Any], runs: tuple[Run, ...], watched: OnProbes | InBlocks, **more: Any
) -> Group:
    return Group(name, model, kwargs, runs, loss=penalised_error, observe=watched, **more)


def _settings(
    seeds: int, adam: Sequence[float], sgd: Sequence[float]
) -> Iterator[tuple[str, dict[str, str], tuple[Run, ...], Optimiser]]:
    """Settings that sections 9.1 and 9.2 leave open: name, attention, runs at every rate, optimiser."""
    for activation in ("softmax", "linear"):
        yield f"{activation}-adam", {"activation": activation}, _runs(seeds, adam), Adam()
        yield f"{activation}-sgd", {"activation": activation}, _runs(seeds, sgd), Sgd()


def masks(
    steps: int, seeds: int, adam: Sequence[float], sgd: Sequence[float], blocks: int, size: int, more: tuple[int, int]
) -> list[Study]:
    """Section 9.1: four masks (stated: 3000 steps, batch 64) over what is not stated: softmax or linear attention, optimiser, rate. And ``more`` seeds (first,
    how many) of softmax attention with Adam at 0.001: with 20, the change by spectral masks is as large as its uncertainty."""
    task = SpectralRegression(SPECTRUM)
    watched, d = InBlocks(task, blocks, size), {"d": task.d}
    groups = [
        _group(f"{mask}-{name}", SpectralAttention, d | {"mask": mask} | kind, runs, watched, optimiser=optimiser)
        for mask in MASKS
        for name, kind, runs, optimiser in _settings(seeds, adam, sgd)
    ]
    first, count = more
    further = [
        _group(mask, SpectralAttention, d | {"mask": mask}, _runs(count, (1e-3,), first), watched) for mask in MASKS
    ]
    return [_study("masks", task, groups, steps, 64, (24,)), _study("masks_more", task, further, steps, 64, (24,))]


def alignment(steps: int, seeds: int, sgd: Sequence[float], probes: int, record: tuple[int, ...]) -> Study:
    """Section 9.2: the unmasked model of section 9.1, trained longer (stated: 20,000 steps)."""
    task = SpectralRegression(SPECTRUM)
    watched = OnProbes(Probes(task, probes, (task.L,)))
    groups = [
        _group(name, SpectralAttention, {"d": task.d} | kind, runs, watched, optimiser=optimiser)
        for name, kind, runs, optimiser in _settings(seeds, (1e-3,), sgd)
    ]
    return _study("alignment", task, groups, steps, 64, record)


def diversity(
    wide: bool, steps: int, seeds: int, rates: Sequence[float], probes: int, record: tuple[int, ...]
) -> Study:
    """Section 9.6, rounds 1 and 2: every configuration without and with the diversity regulariser, softmax attention, Adam.

    The configuration with a spectrum of its own (``wide``) is a study of its own. Baselines of equal width and heads are one group.
    """
    task = SpectralRegression(WIDE_SPECTRUM if wide else SPECTRUM)
    watched = OnProbes(Probes(task, probes, (task.L,)))
    chosen = {"wide_spectrum": (32, 4, 0.5)} if wide else CONFIGURATIONS
    groups: dict[str, Group] = {}
    for name, (width, heads, weight) in chosen.items():
        for label, diverse in ((f"base_w{width}_h{heads}", 0.0), (name, weight)):
            kwargs = {"d": task.d, "width": width, "n_heads": heads, "diversity": diverse}
            groups[label] = _group(label, SpectralAttention, kwargs, _runs(seeds, rates), watched)
    return _study("diversity_wide" if wide else "diversity", task, list(groups.values()), steps, 64, record)


def balanced(steps: int, seeds: int, rates: Sequence[float], probes: int, record: tuple[int, ...]) -> Study:
    """Section 9.6, round 3: all covariates contribute equally; baseline, regularised, and the oracle whose heads are masked to bands."""
    task = SpectralRegression(SPECTRUM, balanced=True)
    watched = OnProbes(Probes(task, probes, (task.L,), low=2))
    wide = {"d": task.d, "width": 64, "n_heads": 4}
    conditions = {"baseline": {}, "diverse": {"diversity": 1.0}, "oracle": {"mask": "spectral"}}
    groups = [
        _group(name, SpectralAttention, wide | extra, _runs(seeds, rates), watched)
        for name, extra in conditions.items()
    ]
    return _study("balanced", task, groups, steps, 64, record)


def guided(
    steps: int, runs: tuple[Run, ...], more: tuple[Run, ...], probes: int, record: tuple[int, ...]
) -> list[Study]:
    """Section 9.5: baseline and theory-guided model with layer norm and dropout, on 4,000 prompts; ``more`` runs on new ones at each step, and on 4,000 with the
    implied variance of the weights."""

    def study(name: str, runs: tuple[Run, ...], fresh: bool = False, weight_var: float = WEIGHT_VAR) -> Study:
        plain = SpectralRegression((1.0,) * 4, L=12, weight_var=weight_var)
        dropped = dataclasses.replace(plain, dropout_rows=DEEP["n_layers"] * DEEP["width"])
        watched, common = OnProbes(Probes(plain, probes, (12, 8, 5))), {"d": 4, "dropout": DROPOUT}
        groups = [
            _group("baseline", DeepAttention, common | SHALLOW, runs, watched),
            _group("guided", DeepAttention, common | VARIANTS["full"], runs, watched),
        ]
        return _study(name, dropped if fresh else FixedSet(StoredPrompts(dropped), 4000), groups, steps, 32, record)

    return [
        study("guided", runs),
        study("guided_fresh", more, fresh=True),
        study("guided_v295", more, weight_var=IMPLIED_VAR),
    ]


def ablation(
    d: int,
    steps: int,
    seeds: int,
    grid_seeds: int,
    adam: Sequence[float],
    sgd: Sequence[float],
    probes: int,
    record: tuple[int, ...],
) -> Study:
    """Section 9.5.1 at one input dimension: six variants without layer norm (Adam 1e-3), and the first two over other optimisers and rates."""
    task = SpectralRegression((1.0,) * d, L=12, weight_var=WEIGHT_VAR)
    watched, common = OnProbes(Probes(task, probes, (12,))), {"d": d, "layer_norm": False}
    groups = [
        _group(name, DeepAttention, common | kwargs, _runs(seeds, (1e-3,)), watched)
        for name, kwargs in VARIANTS.items()
    ]
    for name in ("baseline", "depth"):
        kwargs = common | VARIANTS[name]
        groups.append(_group(f"{name}-adam", DeepAttention, kwargs, _runs(grid_seeds, adam), watched))
        runs = _runs(grid_seeds, sgd)  # the larger rate is at the edge
        groups.append(_group(f"{name}-sgd", DeepAttention, kwargs, runs, watched, optimiser=Sgd(), may_diverge=True))
    return _study(f"ablation_d{d}", task, groups, steps, 32, record)


#: Recorded steps of the ablation: depth starts slower, so all of training is recorded.
ABLATION_STEPS = (24, 100, 200, 300, 400, 500, 600, 800, 1000, 1250, 1500, 1750, 2000)
GUIDED_STEPS = (24, 250, 500, 1000, 1500, 2000, 3000, 4000)


def studies(profile: str) -> dict[str, Study]:
    """Studies of the paper at a profile, by name."""
    if check_profile(profile) == "paper":
        every = [
            *masks(3000, 20, (3e-4, 1e-3, 3e-3), (3e-4, 1e-3), 32, 4096, (20, 80)),
            alignment(20_000, 20, (1e-3, 3e-4, 1e-4, 5e-5), 4096, (24, 100, 250, *range(500, 20_001, 500))),
            *(ablation(d, 2000, 20, 6, (3e-4, 3e-3), (3e-2, 1e-1), 2048, ABLATION_STEPS) for d in (4, 8, 16)),
            *guided(4000, _runs(20, (1e-3,)) + _runs(10, (3e-3,)), _runs(10, (1e-3,)), 2048, GUIDED_STEPS),
            diversity(False, 5000, 20, (1e-3, 3e-3), 8192, (24, 3000)),
            diversity(True, 3000, 20, (1e-3, 3e-3), 8192, (24,)),
            balanced(3000, 20, (1e-3, 3e-3), 8192, (24,)),
        ]
    else:
        every = [
            *masks(12, 3, (1e-3,), (1e-3,), 4, 64, (3, 3)),
            alignment(40, 3, (1e-3, 3e-4), 256, (10, 12, 20, 30)),
            *(ablation(d, 12, 3, 1, (1.5e-2,), (1e-1,), 128, (3, 6)) for d in (4, 8, 16)),
            *guided(9, _runs(3, (3e-3,)), _runs(3, (3e-3,)), 128, (3, 6)),
            diversity(False, 16, 3, (3e-3,), 256, (8,)),
            diversity(True, 16, 3, (1e-3,), 256, (8,)),
            balanced(16, 3, (3e-3,), 256, (8,)),
        ]
    return {study.name: study for study in every}
