"""Groups of runs that train on one long sequence each, all of it at every step, with the closed-form gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ....errors import UserError
from ....random import DATA, generator
from ....tasks import Batch
from ....tasks.sticky_chain import Sequence as SymbolSequence
from ....tasks.sticky_chain import StickyChain
from ....training import Group, Run
from ....training.optimisers import State, Tensors
from ....training.study import GroupSpec
from ..theory.causal import predict, step

#: Trained matrices, in the order of the recorded gradient norms.
MATRICES = ("W_Q", "W_K", "W_V", "W_O")
#: Section 7.2's initial weights: unstated; here the published program's 0.1 N(0, 1).
INIT_SCALE = 0.1


@dataclass(frozen=True)
class Arm:
    """One way to train: a rate and factors on it for some matrices."""

    name: str
    rate: float = 0.01
    factors: tuple[tuple[str, float], ...] = ()


SGD = Arm("sgd")
EM = Arm("em", factors=(("W_V", 10.0),))


@dataclass(frozen=True)
class FullBatch:
    """What the trainer sees of a task whose data are drawn once: nothing new at any step.

    Attributes:
        chain: where each run's sequence comes from.
    """

    chain: StickyChain

    @property
    def normals(self) -> int:
        """One, unused: the trainer draws at least something."""
        return 1

    def batch(self, normals: Tensor) -> Batch:
        """An empty shell; the sequences are held by the group."""
        return Batch(normals, normals, normals)


class Data(NamedTuple):
    """A run's sequence with one-hot targets, and a second one of the same symbols' means that is never trained on."""

    train: SymbolSequence
    target: Tensor
    held_out: SymbolSequence


def data(chain: StickyChain, seed: int) -> Data:
    """The sequences of a data seed, drawn on the CPU so that every device trains on the same."""
    gen = generator(seed, DATA)
    train = chain.sequence(torch.randn(chain.normals, generator=gen))
    held_out = chain.sequence(torch.randn(chain.normals, generator=gen), train.means)
    return Data(train, nn.functional.one_hot(train.y, chain.n).to(train.x), held_out)


def mean_cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """Mean over positions of ``-log p_{i, y_i}``: names the loss in descriptions; its gradients are the closed forms."""
    logits = model(batch.context)
    return -(logits.log_softmax(-1) * batch.target).sum(-1).mean()


def arms_of(runs: Sequence[Run], arms: tuple[Arm, ...]) -> list[Arm]:
    """The arm of every run: arms slowest. Of a few runs cut out of such a list, the first arm of the run's rate."""
    seeds, left = divmod(len(runs), len(arms))
    if not left and [r.seed for r in runs[:seeds]] * len(arms) == [r.seed for r in runs]:
        return [arm for arm in arms for _ in range(seeds)]
    return [next(arm for arm in arms if arm.rate == run.rate) for run in runs]


class ArmGroup(Group):
    """Runs of several arms on the same sequences, arms slowest. Gradients by :func:`iclbook.papers.agarwal2025.theory.causal.step`, run after run:
    one sequence already fills a core, so nothing is gained by stacking, and ``(T, T)`` arrays are never made."""

    chain: StickyChain
    arms: tuple[Arm, ...]

    def prepare(self, chain: StickyChain, arms: tuple[Arm, ...]) -> ArmGroup:
        """Draw the data; the group itself."""
        self.chain, self.arms = chain, arms
        self._data = {seed: data(chain, seed) for seed in dict.fromkeys(r.data_seed for r in self.runs)}
        return self

    def _of(self, r: int, like: Tensor) -> Data:
        seed = self.runs[r].data_seed
        found = self._data[seed]
        if found.target.device != like.device or found.target.dtype != like.dtype:
            moved = [part.to(like) for part in (found.train.x, found.target, found.held_out.x)]
            y = [part.y.to(like.device) for part in (found.train, found.held_out)]
            found = Data(
                SymbolSequence(moved[0], y[0], found.train.means),
                moved[1],
                SymbolSequence(moved[2], y[1], found.train.means),
            )
            self._data[seed] = found
        return found

    def rates(self, params: Tensors) -> Tensors:
        """Learning rates of each arm, ``name -> (R, 1, 1)``."""
        rates = super().rates(params)
        for name, rate in rates.items():
            factors = [dict(arm.factors).get(name, 1.0) for arm in arms_of(self.runs, self.arms)]
            rates[name] = rate * torch.tensor(factors).to(rate).reshape(-1, 1, 1)
        return rates

    def gradients(self, params: Tensors, batch: Batch) -> tuple[Tensors, Tensor]:
        """Gradients ``name -> (R, ...)`` and mean losses ``(R,)``; ``batch`` is the empty shell."""
        steps = []
        for r in range(len(self.runs)):
            weights = [params[name][r] for name in MATRICES]
            own = self._of(r, weights[0])
            steps.append(step(own.train.x, own.target, *weights))
        grads = {name: torch.stack([getattr(s, name) for s in steps]) for name in MATRICES}
        return grads, torch.stack([s.loss for s in steps])

    def circuits(self, params: Tensors) -> Tensors:
        """Measurements of every run ``(R,)``: on its own sequence ``nll``, ``entropy`` (of the predictions), ``accuracy``, ``spread`` (mean relative entropy
        of attention) and ``kl`` = KL(this || first arm of the same seed); ``held_out``, the loss on the second sequence; ``norms`` ``(R, 4)`` of the gradients.
        Nats throughout."""
        found: dict[str, list[Tensor]] = {}
        first: dict[int, Tensor] = {}
        grads, _ = self.gradients(params, Batch(*[torch.empty(0)] * 3))
        for r, run in enumerate(self.runs):
            weights = [params[name][r] for name in MATRICES]
            own = self._of(r, weights[0])
            logits, spread = predict(own.train.x, *weights)
            logs = logits.log_softmax(-1)
            fresh = predict(own.held_out.x, *weights).logits.log_softmax(-1)
            reference = first.setdefault(run.data_seed, logs)
            row = {
                "nll": -logs.gather(1, own.train.y[:, None]).mean(),
                "entropy": -(logs.exp() * logs).sum(1).mean(),
                "accuracy": (logits.argmax(1) == own.train.y).to(logs).mean(),
                "spread": spread[1:].mean(),
                "kl": (logs.exp() * (logs - reference)).sum(1).mean(),
                "held_out": -fresh.gather(1, own.held_out.y[:, None]).mean(),
                "norms": torch.stack([grads[name][r].norm() for name in MATRICES]),
            }
            for name, value in row.items():
                found.setdefault(name, []).append(value)
        return {name: torch.stack(values) for name, values in found.items()}


class AlternatingGroup(ArmGroup):
    """Section 5.3's manual EM: the value matrix steps with routing frozen, then the others step with gradients computed anew. Two gradients a step."""

    def step(
        self, params: Tensors, state: State, batch: Batch, rates: Tensors, t: Tensor
    ) -> tuple[Tensors, State, Tensor]:
        """One alternation of all runs; losses before it."""
        grads, losses = self.gradients(params, batch)
        params = params | {"W_V": params["W_V"] - rates["W_V"] * grads["W_V"]}
        grads, _ = self.gradients(params, batch)
        others = {name: params[name] - rates[name] * grads[name] for name in MATRICES if name != "W_V"}
        return params | others, state, losses


@dataclass(frozen=True)
class ArmSpec(GroupSpec):
    """Arms trained on the same sequences from the same initial weights, described by plain values."""

    arms: tuple[Arm, ...] = (SGD, EM)
    chain: StickyChain = field(default_factory=StickyChain)
    alternating: bool = False

    def build(self) -> Group:
        """The group itself, with its data."""
        kind = AlternatingGroup if self.alternating else ArmGroup
        model = self.model(**dict(self.kwargs))
        made = kind(self.name, model, self.runs, self.optimiser, dict(self.rate_factors), self.loss)
        return made.prepare(self.chain, self.arms)

    def describe(self) -> tuple:
        """The group as plain values, the arms included."""
        return (*super().describe(), self.arms, self.chain, self.alternating)


def arm_runs(arms: tuple[Arm, ...], seeds: tuple[int, ...]) -> tuple[Run, ...]:
    """Every seed for every arm, arms slowest."""
    if not arms or not seeds:
        raise UserError("no arms or no seeds", "Give at least one of each.")
    return tuple(Run(seed, arm.rate, INIT_SCALE) for arm in arms for seed in seeds)


def bayes_losses(chain: StickyChain, seeds: tuple[int, ...]) -> list[float]:
    """Loss in nats of the best possible prediction on each seed's own training sequence."""
    return [chain.bayes_loss(data(chain, seed).train) for seed in seeds]
