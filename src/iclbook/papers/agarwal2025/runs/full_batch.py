"""Runs that train on one long sequence each, all of it at every step, with the closed-form gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .... import random
from ....errors import UserError
from ....tasks import Batch
from ....tasks.sticky_chain import Sequence as SymbolSequence
from ....tasks.sticky_chain import StickyChain
from ....training import Group, Run
from ..theory.causal import predict, step

#: Trained matrices, in the order of the recorded gradient norms.
MATRICES = ("W_Q", "W_K", "W_V", "W_O")
#: Section 7.2's initial weights: unstated; here the published program's 0.1 N(0, 1).
INIT_SCALE = 0.1
#: Purpose of the numbers of a run's long sequences.
SEQUENCES = 2


@dataclass(frozen=True)
class Arm:
    """One way to train: a rate and factors on it for some matrices."""

    name: str
    rate: float = 0.01
    factors: tuple[tuple[str, float], ...] = ()


SGD = Arm("sgd")
EM = Arm("em", factors=(("W_V", 10.0),))


class Data(NamedTuple):
    """A run's sequence with one-hot targets, and a second one of the same symbols' means that is never trained on."""

    train: SymbolSequence
    target: Tensor
    held_out: SymbolSequence


def data(chain: StickyChain, seed: int) -> Data:
    """The sequences of a data seed, drawn on the CPU so that every device trains on the same."""
    train = chain.sequence(*random.drawn(chain, seed, SEQUENCES, ()))
    held_out = chain.sequence(*random.drawn(chain, seed, SEQUENCES, (), 1), train.means)
    return Data(train, nn.functional.one_hot(train.y, chain.n).to(train.x), held_out)


@dataclass(frozen=True)
class OwnSequences:
    """A run's sequence, all of it at every step, for :class:`iclbook.training.FullBatch`.

    Attributes:
        chain: where each run's sequence comes from.
    """

    chain: StickyChain

    def dataset(self, seed: int) -> Batch:
        """Inputs ``(2, T - 1, d)`` and one-hot targets ``(2, T - 1, n)`` of the trained and of the held-out sequence."""
        own = data(self.chain, seed)
        held_out = nn.functional.one_hot(own.held_out.y, self.chain.n).to(own.target)
        x = torch.stack([own.train.x, own.held_out.x])
        return Batch(x, x[:0], torch.stack([own.target, held_out]))


def mean_cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """Mean over positions of ``-log p_{i, y_i}`` on the trained sequence; :func:`closed_gradient` is its gradient."""
    return -(model(batch.context[0]).log_softmax(-1) * batch.target[0]).sum(-1).mean()


def closed_gradient(params: dict[str, Tensor], batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
    """Gradients and loss of one run by :func:`iclbook.papers.agarwal2025.theory.causal.step`: ``(T, T)`` arrays are never made."""
    got = step(batch.context[0], batch.target[0], *(params[name] for name in MATRICES))
    return {name: getattr(got, name) for name in MATRICES}, got.loss


@dataclass(frozen=True)
class OnSequences:
    """Observes every run on its own sequence and on its held-out one.

    Attributes:
        weights: record the weights as well, ``weights`` ``(R, 820)``, the matrices flattened one after the other.
    """

    weights: bool = False

    def held_out(self) -> None:
        """Nothing beyond what the runs see."""

    def of_runs(
        self, ensemble: Any, params: dict[str, Tensor], seen: Batch, held_out: None
    ) -> dict[str, Tensor]:
        """Measurements of every run ``(R,)``: on its own sequence ``nll``, ``entropy`` (of the predictions), ``accuracy``, ``spread`` (mean relative entropy
        of attention) and ``kl`` = KL(this || first run of the same seed); ``held_out``, the loss on the second sequence; ``norms`` ``(R, 4)`` of the gradients.
        Nats throughout."""
        found: dict[str, list[Tensor]] = {}
        first: dict[int, Tensor] = {}
        grads, _ = ensemble.gradients(params, seen)
        for r, run in enumerate(ensemble.runs):
            own = [params[name][r] for name in MATRICES]
            (x, x_new), (y, y_new) = seen.context[r], seen.target[r].argmax(-1)
            logits, spread = predict(x, *own)
            logs = logits.log_softmax(-1)
            fresh = predict(x_new, *own).logits.log_softmax(-1)
            reference = first.setdefault(run.data_seed, logs)
            row = {
                "nll": -logs.gather(1, y[:, None]).mean(),
                "entropy": -(logs.exp() * logs).sum(1).mean(),
                "accuracy": (logits.argmax(1) == y).to(logs).mean(),
                "spread": spread[1:].mean(),
                "kl": (logs.exp() * (logs - reference)).sum(1).mean(),
                "held_out": -fresh.gather(1, y_new[:, None]).mean(),
                "norms": torch.stack([grads[name][r].norm() for name in MATRICES]),
            }
            for name, value in row.items():
                found.setdefault(name, []).append(value)
        kept = (
            {"weights": torch.cat([params[name].flatten(1) for name in MATRICES], 1)} if self.weights else {}
        )
        return {name: torch.stack(values) for name, values in found.items()} | kept


def arm_runs(
    arms: tuple[Arm, ...], seeds: tuple[int, ...], init_scale: float = INIT_SCALE
) -> tuple[Run, ...]:
    """Every seed for every arm, arms slowest."""
    if not arms or not seeds:
        raise UserError("no arms or no seeds", "Give at least one of each.")
    return tuple(Run(seed, arm.rate, init_scale, factors=arm.factors) for arm in arms for seed in seeds)


def runs_of(group: Group, arms: Sequence[Arm]) -> dict[str, list[int]]:
    """Which runs of a group train as which of these arms, by the arm's name; an arm without runs is left out."""
    found = {
        arm.name: [
            r for r, run in enumerate(group.runs) if (run.rate, run.factors) == (arm.rate, arm.factors)
        ]
        for arm in arms
    }
    return {name: runs for name, runs in found.items() if runs}
