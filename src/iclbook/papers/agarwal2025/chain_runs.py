"""Training of one head on the sticky chain (agarwal2025, sections 7.2 and 8.2): sequences of a run's own, closed-form gradients, and what is observed."""

from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from ... import random
from ...draw import numpy_rng
from ...tasks import Batch
from ...tasks.sticky_chain import StickyChain
from ...training import Group, History, Run, Study
from .closed_forms import Weights, causal_predict, causal_step

#: Trained matrices of section 7.2 in the order of the recorded gradient norms, with their shapes.
MATRICES = ("W_Q", "W_K", "W_V", "W_O")
SHAPES = ((10, 20), (10, 20), (15, 20), (8, 15))
#: Section 7.2's initial weights: unstated; here the published program's 0.1 N(0, 1).
INIT_SCALE = 0.1
SEQUENCES = 2
FRESH_T = 300
#: One way to train: its name, a rate, and factors on it for some matrices.
Arm = namedtuple("Arm", "name rate factors", defaults=(0.01, ()))
SGD = Arm("sgd")
EM = Arm("em", factors=(("W_V", 10.0),))


def arm_runs(arms: Sequence[Arm], seeds: Sequence[int], init_scale: float = INIT_SCALE) -> tuple[Run, ...]:
    """Runs of all seeds for all arms, arms slowest."""
    return tuple(Run(seed, arm.rate, init_scale, factors=arm.factors) for arm in arms for seed in seeds)


def runs_of(group: Group, arms: Sequence[Arm]) -> dict[str, list[int]]:
    """Which runs of a group train as which of these arms, by the arm's name; an arm without runs is left out."""
    found = {
        arm.name: [r for r, run in enumerate(group.runs) if (run.rate, run.factors) == (arm.rate, arm.factors)]
        for arm in arms
    }
    return {name: runs for name, runs in found.items() if runs}


#: A run's sequence with one-hot targets, and a second one of the same symbols' means that is never trained on.
Data = namedtuple("Data", "train target held_out")


@lru_cache(maxsize=64)
def data(chain: StickyChain, seed: int) -> Data:
    """The sequences of a data seed, drawn on the CPU so that every device trains on the same; not to be written to."""
    train = chain.sequence(*random.drawn(chain, seed, SEQUENCES, ()))
    held_out = chain.sequence(*random.drawn(chain, seed, SEQUENCES, (), 1), train.means)
    return Data(train, one_hot(train.y, chain.n).to(train.x), held_out)


@dataclass(frozen=True)
class OwnSequences:
    """A run's own sequence of a chain, all of it at every step, for :class:`iclbook.training.FullBatch`."""

    chain: StickyChain

    def dataset(self, seed: int) -> Batch:
        """Inputs ``(2, T - 1, d)`` and one-hot targets ``(2, T - 1, n)`` of the trained and of the held-out sequence."""
        own = data(self.chain, seed)
        held_out = one_hot(own.held_out.y, self.chain.n).to(own.target)
        x = torch.stack([own.train.x, own.held_out.x])
        return Batch(x, x[:0], torch.stack([own.target, held_out]))


def mean_cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """Mean over positions of ``-log p_{i, y_i}`` on the trained sequence; :func:`closed_gradient` is its gradient."""
    return -(model(batch.context[0]).log_softmax(-1) * batch.target[0]).sum(-1).mean()


def closed_gradient(params: dict[str, Tensor], batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
    """Gradients and loss of one run by :func:`.closed_forms.causal_step`."""
    loss, *slopes = causal_step(batch.context[0], batch.target[0], *(params[name] for name in MATRICES))
    return dict(zip(MATRICES, slopes, strict=True)), loss


@dataclass(frozen=True)
class OnSequences:
    """Observes every run on its own sequence and its held-out one; with ``weights`` those as well, ``(R, 820)``, the matrices flattened one after the other."""

    weights: bool = False

    def held_out(self) -> None:
        """Nothing beyond what the runs see."""

    def of_runs(self, ensemble: Any, params: dict[str, Tensor], seen: Batch, held_out: None) -> dict[str, Tensor]:
        """Measurements of every run ``(R,)``, in nats: on its own sequence ``nll``, ``entropy`` (of the predictions), ``accuracy``, ``spread`` (mean relative entropy of
        attention) and ``kl`` = KL(this || first run of the same seed); ``held_out``, the loss on the second sequence; ``norms`` ``(R, 4)`` of the gradients."""
        rows, first = [], {}
        grads, _ = ensemble.gradients(params, seen)
        for r, run in enumerate(ensemble.runs):
            own = [params[name][r] for name in MATRICES]
            (x, x_new), (y, y_new) = seen.context[r], seen.target[r].argmax(-1)
            logits, spread = causal_predict(x, *own)
            logs = logits.log_softmax(-1)
            fresh = causal_predict(x_new, *own).logits.log_softmax(-1)
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
            rows.append(row)
        kept = {"weights": torch.cat([params[n].flatten(1) for n in MATRICES], 1)} if self.weights else {}
        return {name: torch.stack([row[name] for row in rows]) for name in rows[0]} | kept


def unpack(flat: np.ndarray) -> Weights:
    """Recorded weights ``(..., 820)`` as matrices in float64; the bias is zero."""
    flat = torch.as_tensor(flat).double()
    parts = flat.split([rows * columns for rows, columns in SHAPES], -1)
    matrices = [part.unflatten(-1, shape) for part, shape in zip(parts, SHAPES, strict=True)]
    return Weights(*matrices, flat.new_zeros(*flat.shape[:-1], SHAPES[-1][0]))


def sampled_positions(T: int) -> np.ndarray:
    """The 200 positions (or all, if fewer) whose values are followed, section 7.2's "sample of 200 v's": the same for every run."""
    return np.sort(numpy_rng(0).choice(T, min(200, T), replace=False))


def value_paths(chain: StickyChain, seed: int, w: Weights) -> np.ndarray:
    """Values ``(records, 200, d_v)`` of a seed's run at the sampled positions, from its weights at the records."""
    x = data(chain, seed).train.x.double()
    return (x[sampled_positions(len(x))] @ w.W_V.mT).numpy()


def trajectories(study: Study, histories: dict[str, History]) -> dict[str, np.ndarray]:
    """Of every run's sampled values ``length`` of the displacement and ``straight``, displacement over path, ``(R, 200)``; and ``pc1`` ``(R,)``, share of the first
    principal component (about the origin) in the displacements."""
    (spec,) = study.groups
    weights = histories[spec.name].circuits["weights"]  # (records, R, 820)
    rows = []
    for r, run in enumerate(spec.runs):
        paths = value_paths(study.data.task.chain, run.data_seed, unpack(weights[:, r]))
        moves = paths[-1] - paths[0]
        length, spread = np.linalg.norm(moves, axis=1), np.linalg.svd(moves, compute_uv=False) ** 2
        straight = length / np.linalg.norm(np.diff(paths, axis=0), axis=2).sum(0)
        rows.append((length, straight, spread[0] / spread.sum()))
    found = zip(("length", "straight", "pc1"), zip(*rows, strict=True), strict=True)
    return {f"{spec.name}/{name}": np.array(own, dtype=np.float32) for name, own in found}


@dataclass(frozen=True)
class FreshSequences:
    """A new sequence of length :data:`FRESH_T` at every step, with the means of the run's own long sequence of ``chain``; a kind of :mod:`iclbook.training.data`."""

    chain: StickyChain

    def fixed(self, seeds: Sequence[int]) -> tuple[Tensor]:
        """Means ``(S, n, d)``."""
        return (torch.stack([data(self.chain, seed).train.means for seed in seeds]),)

    def draw(self, keys: Tensor, steps: Tensor, batch_size: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """Standard normals ``(S, K, normals)`` and words ``(S, K, words)``; a step sees one sequence whatever ``batch_size`` says."""
        return random.numbers(replace(self.chain, T=FRESH_T), keys, steps, random.DATA, (), dtype)

    def batch(self, numbers: tuple[Tensor, ...], fixed: tuple[Tensor]) -> Batch:
        """Inputs ``(S, 1, T - 1, d)`` and one-hot targets ``(S, 1, T - 1, n)``."""
        short = replace(self.chain, T=FRESH_T)
        every = [short.sequence(*own) for own in zip(*numbers, *fixed, strict=True)]
        x = torch.stack([seq.x for seq in every])[:, None]
        y = one_hot(torch.stack([seq.y for seq in every]), self.chain.n)[:, None]
        return Batch(x, x[..., :0], y.to(x))


@dataclass(frozen=True)
class AboveFloor:
    """Observes ``gap``: loss on the run's held-out sequence of ``chain`` minus its Bayes floor, nats."""

    chain: StickyChain

    def held_out(self) -> None:
        """Nothing: held-out sequences belong to the seeds."""

    def of_runs(self, ensemble: Any, params: dict[str, Tensor], seen: Batch, held_out: None) -> dict[str, Tensor]:
        """``gap`` ``(R,)``."""
        found = []
        for r, run in enumerate(ensemble.runs):
            own = data(self.chain, run.data_seed).held_out
            logits = causal_predict(own.x.to(params["W_V"]), *(params[name][r] for name in MATRICES)).logits
            found.append(cross_entropy(logits, own.y.to(logits.device)) - self.chain.bayes_loss(own))
        return {"gap": torch.stack(found)}


@dataclass(frozen=True)
class DroppedSequences:
    """A run's own short sequence of ``chain`` at every step, and uniform numbers that drop attention weights; a kind of :mod:`iclbook.training.data`."""

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
        keep = (batch.query >= self.share).to(batch.query) / (1 - self.share) if self.share else None
        return cross_entropy(model(batch.context, keep), batch.target)
