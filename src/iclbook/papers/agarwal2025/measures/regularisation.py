"""Section 8.2 of agarwal2025 on short chains: LayerNorm on values, attention dropout, the learning rate. Plain autograd."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from .... import random
from ....models.single_head import SingleHead
from ....statistics import bootstrap_error, share_error
from ....tasks import Batch
from ....tasks.sticky_chain import StickyChain
from ....training import Group, History, Run, Sgd, Trainer
from ..runs.full_batch import INIT_SCALE, data
from ..theory.causal import predict

#: Unstated: shares of attention weights dropped, and the uniform rate. Of 1, 0.5 and 0.3 the last is the first at which no run's loss ever rises above
#: its start: at 1 a run with dropout overflows on some processors and not on others.
DROPOUTS, RATE = (0.2, 0.5), 0.3


@dataclass(frozen=True)
class DroppedSequences:
    """A run's short sequence at every step, and uniform numbers that drop attention weights; a kind of :mod:`iclbook.training.data`.

    Attributes:
        chain: of the sequence.
    """

    chain: StickyChain

    @property
    def words(self) -> int:
        """One for each pair of positions."""
        return (self.chain.T - 1) ** 2

    def fixed(self, seeds: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Inputs ``(S, T - 1, d)`` and targets ``(S, T - 1)``."""
        every = [data(self.chain, seed).train for seed in seeds]
        return torch.stack([seq.x for seq in every]), torch.stack([seq.y for seq in every])

    def draw(self, keys: Tensor, steps: Tensor, batch_size: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """No normals and words ``(S, K, words)``; a step sees one sequence whatever ``batch_size`` says."""
        return random.numbers(self, keys, steps, random.DATA, (), dtype)

    def batch(self, numbers: tuple[Tensor, Tensor], fixed: tuple[Tensor, Tensor]) -> Batch:
        """Inputs, uniform numbers ``(S, T - 1, T - 1)`` and targets."""
        normals, words = numbers
        side = self.chain.T - 1
        return Batch(fixed[0], random.uniform(words, normals.dtype).unflatten(-1, (side, side)), fixed[1])


@dataclass(frozen=True)
class DroppedLoss:
    """Mean cross-entropy with this share of attention weights dropped; the others are scaled so that the mean context is unchanged."""

    share: float = 0.0

    def __call__(self, model: nn.Module, batch: Batch) -> Tensor:
        """Of one sequence."""
        keep = (batch.query >= self.share).to(batch.query) / (1 - self.share) if self.share else None
        return cross_entropy(model(batch.context, keep), batch.target)


def groups(seeds: Sequence[int]) -> tuple[Group, ...]:
    """Every seed plain, with normalised values, and with each share of attention dropped."""
    runs = tuple(Run(seed, RATE, INIT_SCALE) for seed in seeds)
    kinds = {
        "plain": ({}, 0.0),
        "normed": ({"value_norm": True}, 0.0),
        **{f"dropped{share}": ({}, share) for share in DROPOUTS},
    }
    return tuple(
        Group(name, SingleHead, kwargs, runs, Sgd(), DroppedLoss(share))
        for name, (kwargs, share) in kinds.items()
    )


def trained(
    chain: StickyChain, seeds: Sequence[int], steps: int, records: Iterable[int] = ()
) -> dict[str, History]:
    """All groups on one short sequence for each seed, recorded at the end and after these steps; circuits are the weights.

    Raises:
        UserError: a loss is no longer finite.
    """
    return Trainer(
        DroppedSequences(chain),
        groups(seeds),
        steps,
        1,
        records,
        "cpu",
        compile=False,
        label="regularisation: ",
    ).train(progress=False)


def at(history: History, run: int, step: int = -1, value_norm: bool = False) -> SingleHead:
    """The model of a run at a recorded step, the last by default."""
    row = -1 if step < 0 else int(np.flatnonzero(history.steps == step)[0])
    model = SingleHead(value_norm=value_norm)
    model.load_state_dict({name: torch.from_numpy(p[row, run]) for name, p in history.circuits.items()})
    return model


@torch.no_grad()
def _usage_evenness(model: SingleHead, x: Tensor) -> float:
    """Entropy of the column sums of attention over that of equal sums."""
    usage = model.attention(x).sum(0) / len(x)
    return float(-torch.xlogy(usage, usage).sum() / np.log(len(x)))


@torch.no_grad()
def _spread(model: SingleHead, x: Tensor) -> float:
    return float(predict(x, model.W_Q, model.W_K, model.W_V, model.W_O).spread[1:].mean())


@torch.no_grad()
def _norm_spread(model: SingleHead, x: Tensor) -> float:
    """Standard deviation of the norms of the values over their mean, float64: single precision would leave its own rounding where they are all alike."""
    sizes = deepcopy(model).double().values(x).norm(dim=-1)
    return float(sizes.std() / sizes.mean())


def gradients(model: SingleHead, x: Tensor, y: Tensor) -> tuple[float, dict[str, Tensor]]:
    """Loss and its gradients by name."""
    loss = cross_entropy(model(x), y)
    named = dict(model.named_parameters())
    return float(loss.detach()), dict(
        zip(named, torch.autograd.grad(loss, list(named.values())), strict=True)
    )


def _moved(model: SingleHead, grads: dict[str, Tensor], rate: float) -> dict[str, Tensor]:
    """Parameters after one step."""
    return {name: (p - rate * grads[name]).detach() for name, p in model.named_parameters()}


def _directions_moved(start: SingleHead, x: Tensor, y: Tensor) -> Tensor:
    """Change of the values' directions ``(T, d_v)`` in one small step from the start, float64."""
    model = deepcopy(start).double()
    after = deepcopy(model)
    after.load_state_dict(_moved(model, gradients(model, x, y)[1], 1e-4))
    with torch.no_grad():
        return normalize(after.values(x), dim=-1) - normalize(model.values(x), dim=-1)


def measure(seeds: Sequence[int], T: int = 200, steps: int = 300) -> dict[str, object]:
    """Section 8.2's claims, over seeds."""
    chain = StickyChain("code", T=T)
    found = trained(chain, seeds, steps)
    norms, cosines, even, spread = [], [], [], []
    for run, seed in enumerate(seeds):
        seq = data(chain, seed).train
        plain, normed = at(found["plain"], run), at(found["normed"], run, value_norm=True)
        dropped = [at(found[f"dropped{share}"], run) for share in DROPOUTS]
        x = seq.x.double()
        norms.append(_norm_spread(normed, x) / _norm_spread(plain, x))
        starts = [at(found["plain"], run, 0), at(found["normed"], run, 0, value_norm=True)]
        moved = [_directions_moved(start, x, seq.y) for start in starts]
        cosines.append(torch.nn.functional.cosine_similarity(*moved, dim=-1))
        even.append([_usage_evenness(model, seq.x) > _usage_evenness(plain, seq.x) for model in dropped])
        spread.append([_spread(model, seq.x) > _spread(plain, seq.x) for model in dropped])
    return {
        "reg/seeds": len(seeds),
        "reg/norm_spread": float(np.median(norms)),
        "reg/direction": float(torch.cat(cosines).median()),
        "reg/direction_se": bootstrap_error(np.median, torch.stack(cosines).numpy()),
        "reg/dropout_even": np.mean(even, 0).tolist(),
        "reg/dropout_even_se": _errors(even),
        "reg/dropout_spread": np.mean(spread, 0).tolist(),
        "reg/dropout_spread_se": _errors(spread),
    }


def _errors(happens: list[list[bool]]) -> list[float]:
    """Standard error of the share of seeds at each dropout rate; ``happens`` has one list of rates for each seed."""
    return [share_error(int(hits), len(happens)) for hits in np.sum(happens, 0)]
