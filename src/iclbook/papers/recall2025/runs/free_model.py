"""The whole two-layer model with a free second layer, trained end to end from random weights (recall2025, "small transformers trained end-to-end")."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from .... import random
from ....models import RecallTransformer
from ....profiles import check_profile
from ....tasks import AssociativeRecall, Batch
from ....training import Run
from ....training.optimisers import Momentum
from ....training.study import Group, Study

#: Steps between two records, and held-out sequences at each, the same at all; what these are for, among the purposes of :mod:`iclbook.random`.
EVERY, HELD_OUT, PURPOSE = 20, 512, 50


def losses(model: RecallTransformer, batch: Batch) -> tuple[Tensor, Tensor]:
    """Dot-product loss of a model with A1, A2 and A3 lifted, and that of the output divided by its sum over responses; the model's own code, which knows all
    cases, costs three times as much.

    Args:
        model: with parameters ``w (K, width)`` and ``beta ((K + 1) S, (K + 1) S)``.
        batch: ``context (l, B)`` of tokens, ``target (1, B)``.
    """
    tokens, right = batch.context.T, batch.target.T  # (B, l), (B, 1)
    w, symbols, length = model.w, model.vocabulary, model.length
    place = torch.arange(length, device=w.device)
    offset = place[:, None] - place[None, :]  # (l, l)
    low = 1 if model.a0 else 0
    window = torch.arange(low, low + w.shape[-1], device=w.device)
    picks = (offset.flatten() == window[:, None]).to(w.dtype)  # (width, l l)
    seen = picks.sum(0).unflatten(0, (length, length)) > 0
    raw = (w @ picks).unflatten(-1, (length, length)).masked_fill(~seen, -1e300)
    attention = torch.softmax(raw, -1) * seen.any(-1)[:, None]  # (K, l, l)
    x = (tokens[..., None] == torch.arange(symbols, device=w.device)).to(w.dtype)  # (B, l, S)
    last = attention[:, -1] @ x  # (B, K, S)
    asked = (torch.cat([x[:, -1:], last], 1).flatten(1) @ model.beta).unflatten(-1, (-1, symbols))
    worth = asked @ x.mT  # (B, K + 1, l): what each token is worth to each block of the query
    # the heads' averages of worth, as one product over heads and places together
    averaged = worth[:, 1:].flatten(1) @ attention.permute(0, 2, 1).flatten(0, 1)  # (B, l)
    s = torch.softmax(worth[:, 0] + averaged, -1)
    found = (s * (tokens == right)).sum(-1)  # (B,)
    responses = (s * (tokens >= model.order)).sum(-1)
    return 1 - found.mean(), 1 - (found / responses).mean()


def dot_product_loss(model: nn.Module, batch: Batch) -> Tensor:
    """The first of :func:`losses`."""
    return losses(model, batch)[0]


@lru_cache(maxsize=4)
def held_out(task: AssociativeRecall) -> Batch:
    """Sequences that no run trains on."""
    return task.batch(*random.drawn(task, 0, PURPOSE, (HELD_OUT,)))


@dataclass(frozen=True)
class OnSequences:
    """Observes both losses on held-out sequences, and the first layer's scores ``w (K, width)``."""

    task: AssociativeRecall

    def held_out(self) -> tuple[Tensor, ...]:
        """The sequences."""
        return tuple(held_out(self.task))

    def __call__(self, model: nn.Module, held_out: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """``held_loss``, ``normalised`` and ``w``."""
        loss, normalised = losses(model, Batch(*held_out))
        return {"held_loss": loss, "normalised": normalised, "w": model.w}


def _study(name: str, order: int, a0: bool, scales: dict[str, float], seeds: int, steps: int) -> Study:
    """SGD with momentum, as in section 3, from several initial scales."""
    task = AssociativeRecall(order, 4)
    kwargs = {
        "order": order,
        "n_responses": 4,
        "n_heads": order,
        "a0": a0,
        "a1": False,
        "a2": False,
        "a3": False,
    }
    groups = tuple(
        Group(
            label,
            RecallTransformer,
            kwargs,
            tuple(Run(seed, rate=0.3, init_scale=scale) for seed in range(seeds)),
            Momentum(0.9),
            dot_product_loss,
            observe=OnSequences(task),
        )
        for label, scale in scales.items()
    )
    marks = (1, *range(EVERY, steps + 1, EVERY))
    return Study("recall2025", name, task, groups, steps, 64, marks, dtype="float64")


def studies(profile: str) -> dict[str, Study]:
    """Order four with the window kept, from two scales, and order three with everything lifted."""
    if check_profile(profile) == "paper":
        seeds, window, lifted = 30, 900, 1500
    else:
        seeds, window, lifted = 2, 40, 80
    every = (
        _study("free_window", 4, True, {"large": 0.1, "small": 0.01}, seeds, window),
        _study("free_lifted", 3, False, {"lifted": 0.01}, seeds, lifted),
    )
    return {study.name: study for study in every}
