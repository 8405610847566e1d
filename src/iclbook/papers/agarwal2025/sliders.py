"""The chapter's sliders: attention of a toy run, and the schedule against SGD on a chain short enough to train while one waits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ...drawing import style
from ...models.single_head import SingleHead
from ...random import INIT, generator
from ...sliders import Slider, show
from ...tasks.sticky_chain import StickyChain
from . import toy_runs
from .chain_runs import INIT_SCALE, MATRICES, data
from .figures_1_5 import plot_attention_at
from .table_1 import COLOUR, DASH


@dataclass(frozen=True)
class Race:
    """Loss in nats at every step of the schedule, of SGD at the base rate and of the schedule's value rate for everything; and the Bayes floor."""

    schedule: np.ndarray
    sgd: np.ndarray
    uniform: np.ndarray
    floor: float


@lru_cache(maxsize=64)
def races(
    settings: tuple[tuple[float, float], ...], T: int = 150, steps: int = 300, rate: float = 0.02, seed: int = 42
) -> tuple[Race, ...]:
    """The EM-like schedule with a ratio of rates against SGD on a chain that stays with a chance, for several ``(ratio, stay)`` at once; runs that they
    share are trained once."""
    chains = {stay: StickyChain("nearer", stay, T) for _, stay in settings}
    # schedule, SGD, larger rate for all: the base rate, and the factor on that of values
    arms = {(ratio, stay): ((rate, ratio), (rate, 1.0), (rate * ratio, 1.0)) for ratio, stay in settings}
    runs = list(dict.fromkeys((stay, arm) for (_, stay), of in arms.items() for arm in reversed(of)))
    found = losses([chains[stay] for stay, _ in runs], steps, [arm for _, arm in runs], seed)
    loss = dict(zip(runs, found, strict=True))
    floors = {stay: chain.bayes_loss(data(chain, seed).train) for stay, chain in chains.items()}
    return tuple(Race(*(loss[stay, arm] for arm in of), floors[stay]) for (_, stay), of in arms.items())


def losses(chains: Sequence[StickyChain], steps: int, arms: Sequence[tuple[float, float]], seed: int) -> np.ndarray:
    """Losses ``(R, steps)`` before each step of runs on chains of one length, at rates and ratios ``(rate, ratio)``: that of values is so much larger."""
    made = {chain: data(chain, seed) for chain in chains}
    x, target = torch.stack([made[c].train.x for c in chains]), torch.stack([made[c].target for c in chains])
    model = SingleHead(d_x=chains[0].d, n_classes=chains[0].n)
    model.initialise(generator(seed, INIT), INIT_SCALE)
    weights = [getattr(model, name).detach().repeat(len(chains), 1, 1) for name in MATRICES]
    rates = [
        torch.tensor([rate * (ratio if name == "W_V" else 1.0) for rate, ratio in arms])[:, None, None]
        for name in MATRICES
    ]
    found = []
    for _ in range(steps):
        loss, slopes = mean_step(x, target, *weights)
        found.append(loss)
        weights = [w - r * slope for w, r, slope in zip(weights, rates, slopes, strict=True)]
    return torch.stack(found, 1).double().numpy()


def mean_step(
    x: Tensor, target: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Mean loss ``(R,)`` and its gradients for runs of short causal sequences, as :func:`.causal.step` has them of one long sequence.

    Args:
        x: inputs ``(R, T, d_x)``.
        target: one-hot targets ``(R, T, C)``.
        W_Q, W_K, W_V, W_O: weights, runs first.
    """
    T, scale = x.shape[1], 1 / math.sqrt(W_Q.shape[1])
    q, k, v = x @ W_Q.mT * scale, x @ W_K.mT, x @ W_V.mT
    brings = v @ W_O.mT  # what each key adds to the logits of a query
    future = torch.full((T, T), -torch.inf).triu(1)
    alpha = torch.baddbmm(future, q, k.mT).softmax(-1)  # (R, T, T)
    # products with few columns are slow, so all are taken as their transposes, of few rows
    logits = (brings.mT @ alpha.mT).mT
    logs = logits.log_softmax(-1)
    error = (logs.exp() - target) / T  # equation 13
    # b_ij = error_i . brings_j and E b = error_i . logits_i: equation 23
    ds = torch.baddbmm((error * logits).sum(-1, keepdim=True), error, brings.mT, beta=-1).mul_(alpha)
    dq, dk, used = k.mT @ ds.mT, q.mT @ ds, error.mT @ alpha  # (R, ., T) each
    slopes = dq @ x * scale, dk @ x, W_O.mT @ (used @ x), used @ v
    return -(logs * target).sum((1, 2)) / T, slopes


def plot_race(race: Race, ratio: float, stay: float) -> Figure:
    """Loss of the schedule, of SGD and of one larger rate on a short chain."""
    fig, ax = style.figure(height=2.9)
    steps = np.arange(len(race.sgd))
    ax.plot(steps, race.schedule, color=COLOUR["em"], label="schedule")
    ax.plot(steps, race.sgd, color=COLOUR["sgd"], ls=DASH["sgd"], label="SGD")
    ax.plot(steps, race.uniform, color=style.PALETTE[2], ls=(0, (1, 1.2)), label="larger rate for all")
    ax.axhline(race.floor, color=style.INK, ls=(0, (1, 1.6)), lw=1.2, label="Bayes floor")
    ax.set(xlabel="step", ylabel="loss (nats)", ylim=(0, 2.55))
    ax.legend(loc="upper center", ncols=4, fontsize=8)
    ax.set(title=f"$\\eta_V / \\eta$ = {ratio:g}, chance to stay {stay:g}")
    return fig


def show_attention(few: bool) -> None:
    """Attention of a toy run by initial scale and training step; ``few`` draws the ends of each slider only."""
    steps, scales = ((0, 100), (0.1, 1.0)) if few else ((0, 20, 40, 60, 80, 100), (0.1, 0.3, 0.6, 1.0))
    runs: dict[float, toy_runs.Ensemble] = {}

    def run(scale: float) -> toy_runs.Ensemble:
        if scale not in runs:
            runs[scale] = toy_runs.train(range(12), scale, 0.1)
        return runs[scale]

    def frame(scale: float, step: float) -> Figure:
        others = {other: run(other).loss[:, 5] for other in scales}
        return plot_attention_at(run(scale), 5, round(step), scale, others)

    show(
        frame,
        [
            Slider("scale", "initial scale", scales, live=(0.03, 1.5, 0.1), log=True),
            Slider("step", "training step", steps, live=(0, 100, 1)),
        ],
        start={"scale": scales[-2], "step": steps[len(steps) // 2]},
        title="Attention of a toy run",
        description="One seed, learning rate 0.1. Larger initial entries learn sooner, up to a point; grey: the other scales. Try: the smallest scale, and the step.",
        alt=lambda scale, step: f"Attention map and loss at step {step} from initial scale {scale}.",
        play="step",
    )


def show_race(few: bool) -> None:
    """The schedule, SGD and one rate for everything on a short chain, by the ratio of rates and the chance to stay."""
    ratios, stays = ((1.0, 10.0), (0.0, 0.3)) if few else ((1.0, 3.0, 10.0, 30.0), (0.0, 0.3, 0.6, 0.9))
    settings = tuple(itertools.product(ratios, stays))
    known = dict(zip(settings, races(settings), strict=True))

    def frame(ratio: float, stay: float) -> Figure:
        found = known.get((ratio, stay)) or races(((ratio, stay),))[0]
        return plot_race(found, ratio, stay)

    show(
        frame,
        [
            Slider("ratio", "ratio η_V / η", ratios, live=(1.0, 100.0, 0.1), log=True),
            Slider("stay", "chance to stay", stays, live=(0.0, 0.95, 0.05)),
        ],
        start={"ratio": 10.0, "stay": 0.3},
        title="The schedule on a short chain",
        description=(
            "150 symbols, base rate 0.02, one seed; below the floor they are learned by heart. "
            "Try: ratio 30: the schedule gains on SGD, its value rate for all (green) far more."
        ),
        alt=lambda ratio, stay: f"Loss against step for rate ratio {ratio} on a chain that stays with chance {stay}.",
    )
