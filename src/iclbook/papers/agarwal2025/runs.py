"""Trainings and sweeps of agarwal2025 at each profile; what the paper leaves open is listed here."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ... import random
from ...models.sequence import CausalTransformer, Lstm, PrefixMlp, SelectiveSsm, SequenceModel, rms_norm
from ...models.single_head import SingleHead
from ...project import check_profile
from ...tasks import Batch
from ...tasks.sticky_chain import StickyChain
from ...tasks.wind_tunnel import BijectionElimination, HmmFiltering
from ...training import Adam, Computation, FullBatch, Group, Run, Sgd, Study
from . import chain_runs, toy_runs
from .chain_runs import EM, INIT_SCALE, MATRICES, SGD, Arm, OnSequences

#: The published program's seeds (the paper says "5 random seeds"). Its random numbers come from another generator, so they name our runs only.
PAPER_SEEDS = (42, 2024, 1337, 7777, 9999)
#: As stated. Unstated and taken from the published program: no output bias, the MEAN of the cross-entropy, full batch, means N(0, I), metrics on the training sequence.
SIZES = {"d_x": 20, "d_k": 10, "d_v": 15, "n_classes": 8}
#: The fair trial, all on the published chain. Uniform rates, then ten times on one kind of matrix.
UNIFORM = tuple(Arm(f"uniform{rate:g}", rate) for rate in (0.02, 0.1))
LARGEST = Arm("uniform1", 1.0)
SINGLE = (Arm("o10", factors=(("W_O", 10.0),)), Arm("qk10", factors=(("W_Q", 10.0), ("W_K", 10.0))))
ADAM = (Arm("adam0.001", 0.001),)
#: Every arm on a sequence of its own.
ARMS = (SGD, EM, *UNIFORM, LARGEST, *SINGLE, *ADAM)
#: Initial weights half as large: the initial scale is unstated and decides how far SGD's runs differ.
SMALL_START = 0.05
#: Section 8.2, unstated: shares of attention weights dropped, and the rate. At 1 a run with dropout overflows on some processors and not on others.
DROPOUTS, DROPOUT_RATE = (0.2, 0.5), 0.3


def _group(name: str, arms: Sequence[Arm], seeds: Sequence[int], init_scale: float = INIT_SCALE, **more: Any) -> Group:
    """Arms on the same sequences from the same initial weights."""
    runs = chain_runs.arm_runs(arms, seeds, init_scale)
    chosen = {"optimiser": Sgd(), "gradient": chain_runs.closed_gradient, "observe": OnSequences()} | more
    return Group(name, SingleHead, SIZES, runs, loss=chain_runs.mean_cross_entropy, **chosen)


def on_chain(
    name: str, chain: StickyChain, groups: tuple[Group, ...], steps: int, measure: Any = None, every: int = 40
) -> Study:
    """Groups on one sequence a run. Never compiled: the gradients are matrix products already."""
    data, record = FullBatch(chain_runs.OwnSequences(chain)), (10, *range(every, steps + 1, every))
    return Study("agarwal2025", name, data, groups, steps, 1, record, measure, compile_from=None)


def pairs(name: str, chain: StickyChain, seeds: Sequence[int], steps: int, **more: Any) -> Study:
    """SGD and the EM-like schedule on one chain."""
    return on_chain(name, chain, (_group("runs", (SGD, EM), seeds, **more),), steps)


def fair(name: str, chain: StickyChain, seeds: Sequence[int], steps: int) -> Study:
    """Rivals of the schedule; ``alternating`` is section 5.3's manual EM: the value matrix steps with routing frozen, then the others with new gradients."""
    groups = (
        _group("descent", (*UNIFORM, *SINGLE), seeds),
        _group("alternating", (EM,), seeds, blocks=(("W_V",), ("W_Q", "W_K", "W_O"))),
        _group("adam", ADAM, seeds, optimiser=Adam()),
    )
    return on_chain(name, chain, groups, steps)


def onward(chain: StickyChain, seeds: Sequence[int], steps: int, every: int) -> Study:
    """SGD up to the schedule's final loss, on each seed's sequence from its own initial weights and from another seed's, with weights kept."""
    own = _group("own", (Arm("uniform0.2", 0.2),), seeds, keep=MATRICES)
    others = (*seeds[1:], seeds[0])
    starts = tuple(replace(run, seed=other, stream=run.seed) for run, other in zip(own.runs, others, strict=True))
    return on_chain("onward", chain, (own, replace(own, name="other", runs=starts)), steps, every=every)


def fresh(chain: StickyChain, seeds: Sequence[int], steps: int) -> Study:
    """Adam on a fresh sequence at every step, with weights kept."""
    more = {"optimiser": Adam(), "observe": chain_runs.AboveFloor(chain), "keep": MATRICES}
    group = _group("runs", (Arm("fresh", 0.003),), seeds, **more)
    data, record = chain_runs.FreshSequences(chain), tuple(range(steps // 20, steps, steps // 20))
    return Study("agarwal2025", "fresh", data, (group,), steps, 1, record, compile_from=None)


def regularisation(seeds: Sequence[int], steps: int, record: tuple[int, ...] = ()) -> Study:
    """Section 8.2 on one short sequence a seed: plain, with LayerNorm on values, and with each share of attention dropped; circuits are the weights."""
    runs = tuple(Run(seed, DROPOUT_RATE, INIT_SCALE) for seed in seeds)
    kinds = {"plain": ({}, 0.0), "normed": ({"value_norm": True}, 0.0)}
    kinds |= {f"dropped{share}": ({}, share) for share in DROPOUTS}
    groups = tuple(
        Group(name, SingleHead, kwargs, runs, Sgd(), chain_runs.DroppedLoss(share))
        for name, (kwargs, share) in kinds.items()
    )
    data = chain_runs.DroppedSequences(StickyChain("code", T=200))
    return Study("agarwal2025", "regularisation", data, groups, steps, 1, record, compile_from=None)


def chain_studies(profile: str) -> list[Study]:
    """The trainings of sections 7.2 and 8.2 at a profile; smoke has long enough a chain and short enough a run that rate 1 does not yet magnify rounding."""
    paper = profile == "paper"
    T, steps, seeds = (2000, 1000, PAPER_SEEDS) if paper else (600, 30, PAPER_SEEDS[:2])
    code, text = StickyChain("code", T=T), StickyChain("nearer", T=T)
    kept = _group("runs", (SGD, EM, LARGEST), seeds, observe=OnSequences(weights=True))
    every = [
        on_chain("shown", code, (kept,), steps, chain_runs.trajectories),
        fair("fair", code, PAPER_SEEDS[:2], steps),
        pairs("chain_text", text, PAPER_SEEDS[:3], steps),
        pairs("small_start", code, seeds, steps, init_scale=SMALL_START),
        onward(code, seeds, *((300, 10) if paper else (10, 1))),
        fresh(code, seeds, 1500 if paper else 100),
        regularisation((*seeds, *range(20)), 300, (20,)) if paper else regularisation(seeds, 30),
    ]
    if paper:  # the same trainings for more seeds; one study is one checkpoint, and these take long
        last = tuple(s for s in range(15, 51) if s not in PAPER_SEEDS)
        every += [
            pairs("chain_code", code, tuple(range(15)), steps),
            fair("fair_more", code, PAPER_SEEDS[2:], steps),
            pairs("chain_text_more", text, (*PAPER_SEEDS[3:], *range(15)), steps),
            pairs("chain_code_last", code, last, steps),
            # the two rivals that five seeds do not decide
            on_chain("rivals", code, (_group("descent", SINGLE, range(5)),), steps),
            pairs("chain_text_last", text, last, steps),
        ]
    return every


#: Seed and purpose of the probes; purposes 0 and 1 belong to training.
PROBE_SEED, PROBE_PURPOSE = 2025, 3
Task = HmmFiltering | BijectionElimination


def soft_cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """Mean over places and sequences of ``-sum_c target_c log p_c``, in nats."""
    return -(batch.target * torch.log_softmax(model(batch.context), 1)).sum(1).mean()


def probe_numbers(task: Task, n: int) -> tuple[Tensor, ...]:
    """Normals and words ``(..., n)`` of fixed sequences, no training's."""
    return random.drawn(task, PROBE_SEED, PROBE_PURPOSE, (n,), dtype=torch.float64)


def probe(task: Task, n: int) -> tuple[Tensor, Tensor]:
    """Tokens ``(T, D, n)`` and exact distributions ``(K, C, n)`` of fixed sequences."""
    numbers = probe_numbers(task, n)
    return task.batch(*numbers).context, task.exact(*numbers)


@dataclass(frozen=True)
class OnProbes:
    """Observes a sequence model on ``probes``, sets of ``n`` fixed sequences by name and task. Of transformers only: values are measured on the probe ``manifold``,
    and where tokens are V = ``symbols`` indicators for x and V for y, their keys are compared."""

    probes: tuple[tuple[str, Task], ...]
    n: int = 512
    symbols: int = 0
    manifold: str = ""

    def held_out(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Name -> tokens and exact distributions."""
        return {name: probe(task, self.n) for name, task in self.probes}

    def __call__(self, model: SequenceModel, held_out: dict[str, tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
        """Errors on every probe; of a transformer also ``key_cosine_<set>`` ``(H,)`` and the geometry of its values."""
        found = model.measured_on(held_out)
        if isinstance(model, CausalTransformer):
            if self.symbols:
                x, y = torch.eye(2 * self.symbols).to(model.embed).chunk(2)
                found |= {"key_cosine_x": model.key_cosine(x), "key_cosine_y": model.key_cosine(y)}
            if self.manifold:
                found |= model.manifold(*held_out[self.manifold])
        return found


@dataclass(frozen=True)
class OnMaps:
    """Observes what section 6.1 speaks of in a transformer's last layer, on ``n`` fixed sequences of a task. The first ``few`` are sketched by ``width`` numbers, a
    Gaussian random projection: it keeps distances between records to a share of about ``1 / sqrt(2 width)``."""

    task: Task
    n: int = 256
    few: int = 16
    width: int = 128

    def held_out(self) -> tuple[Tensor, ...]:
        """Tokens, exact distributions and the projection."""
        rows = self.few * self.task.length * max(4 * self.task.tokens, 24)  # 4 heads, 24 wide
        matrix = torch.randn(rows, self.width, generator=random.generator(PROBE_SEED, PROBE_PURPOSE))
        return *probe(self.task, self.n), matrix / self.width**0.5

    def __call__(self, model: CausalTransformer, held_out: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """``error`` of the entropy in bits, ``spread`` of attention (entropy over the largest possible, mean over heads, places and sequences), sketches
        ``(width,)`` of the ``maps`` and of the ``values`` at the places of prediction, and ``r`` and ``pc1`` of attention-weighted values."""
        tokens, exact, matrix = held_out
        layer, places = model.n_layers - 1, slice(model.first, None, model.stride)
        x = rms_norm(model.gain[layer], model.stream(tokens)[layer])
        maps = model.attention(layer, x)[1][:, places]  # (H, K, T, n)
        visible = torch.arange(1, x.shape[1] + 1).to(x)[places, None]
        most = visible.log().clamp(min=1e-9)  # one visible key has no entropy
        geometry = model.manifold(tokens, exact)
        states = {"maps": maps, "values": model.heads("value", layer, x)[:, :, places]}
        flat = {name: state[..., : self.few].flatten() for name, state in states.items()}
        return {name: state @ matrix[: len(state)] for name, state in flat.items()} | {
            "error": model.measured_on({"train": (tokens, exact)})["mae_train"].mean(),
            "spread": (-torch.special.xlogy(maps, maps).sum(2) / most).mean(),
            "r": geometry["r_output"],
            "pc1": geometry["pc1_output"],
        }


def architectures(task: Task) -> dict[str, tuple[type[nn.Module], dict[str, Any]]]:
    """The models on a task, of about equal parameter counts: name -> (class, arguments)."""
    sizes = {name: getattr(task, name) for name in ("token_width", "classes", "first", "stride")}
    return {
        "transformer": (CausalTransformer, sizes | {"width": 24, "hidden": 48}),
        "ssm": (SelectiveSsm, sizes | {"width": 24, "hidden": 48}),
        "lstm": (Lstm, sizes | {"width": 24}),
        "prefix_mlp": (PrefixMlp, sizes | {"width": 24, "hidden": 48, "length": task.tokens}),
    }


def tunnel(name: str, task: Task, longer: Task, seeds: int, steps: int, batch: int, record: tuple[int, ...]) -> Study:
    """Trainings of all architectures on one task; runs of one seed see the same sequences in every group."""
    keyed = {"symbols": task.symbols} if isinstance(task, BijectionElimination) else {}
    observe = OnProbes((("train", task), ("long", longer)), 4 * batch, manifold="train", **keyed)
    runs = tuple(Run(seed, rate=5e-3) for seed in range(seeds))
    groups = tuple(
        Group(model_name, model, kwargs, runs, Adam(), soft_cross_entropy, observe=observe)
        for model_name, (model, kwargs) in architectures(task).items()
    )
    return Study("agarwal2025", name, task, groups, steps, batch, record)


def unfurling(full: Study) -> Study:
    """The transformers of a wind tunnel alone, the same runs, followed by :class:`OnMaps`."""
    (group,) = [g for g in full.groups if g.name == "transformer"]
    group, every = replace(group, observe=OnMaps(full.data)), max(1, full.steps // 20)
    record = (*full.record[:4], *range(every, full.steps, every))
    return replace(full, name="unfurling", groups=(group,), record=record)


def tunnel_studies(profile: str) -> list[Study]:
    """The two tasks at a profile. Steps, batch and rate are not the paper's: they are what one busy core allowed."""
    if profile == "paper":
        seen, later = (20, 50, 100, 200), (400, 800, 1600, 3200, 4800)
        hmm = (HmmFiltering(3, 3, 10), HmmFiltering(3, 3, 30), 5, 6400, 64, (*seen, *later))
        bijection = (BijectionElimination(8, 6), BijectionElimination(8, 8), 5, 2000, 64, (*seen, 500, 1000, 1500))
    else:
        hmm = HmmFiltering(2, 2, 6), HmmFiltering(2, 2, 9), 2, 12, 16, (8,)
        bijection = BijectionElimination(4, 3), BijectionElimination(4, 4), 2, 12, 16, (8,)
    full = [tunnel("tunnel_hmm", *hmm), tunnel("tunnel_bijection", *bijection)]
    return [*full, unfurling(full[1])]


def studies(profile: str) -> dict[str, Study | Computation]:
    """Studies of the paper at a profile, by name, and the sweep of the toy."""
    seeds = 800 if check_profile(profile) == "paper" else 30
    # another machine may bring a run to another end: what one replica in twenty decides otherwise, 64 of them miss one time in 27
    toy = Computation("agarwal2025", "toy", toy_runs.sweep, ("frozen", "trained"), 0, seeds, 1e-6, replicas=64)
    return {part.name: part for part in (*chain_studies(profile), *tunnel_studies(profile), toy)}
