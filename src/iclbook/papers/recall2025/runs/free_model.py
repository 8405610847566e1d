"""The whole two-layer model with a free second layer, trained end to end from random weights (recall2025, "small transformers trained end-to-end")."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from ....models import RecallTransformer
from ....tasks import AssociativeRecall

#: Steps between two records, and held-out sequences at each, the same at all.
EVERY, HELD_OUT = 20, 512


@dataclass(frozen=True)
class FreeModel:
    """What is trained: A1, A2 and A3 are lifted, and A0 unless it is kept.

    Attributes:
        order, n_responses: of the task; as many heads as the order.
        a0: heads see a window of the order.
        rate: learning rate of Adam, or of SGD with ``momentum`` if one is given.
        scale: standard deviation of all initial parameters.
        shuffled: the right answers are those of other sequences of the batch (a control that has nothing to learn).
    """

    order: int = 3
    n_responses: int = 2
    a0: bool = True
    rate: float = 3e-3
    momentum: float | None = None
    scale: float = 0.1
    batch: int = 64
    shuffled: bool = False

    @property
    def task(self) -> AssociativeRecall:
        """The task of this order and response set."""
        return AssociativeRecall(self.order, self.n_responses)

    def model(self) -> RecallTransformer:
        """An untrained model."""
        return RecallTransformer(
            self.order, self.n_responses, self.order, a0=self.a0, a1=False, a2=False, a3=False
        )

    def draw(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """``count`` sequences ``(count, l)`` and the token ``(count,)`` that is to be predicted for each."""
        queries, maps = self.task.sample(count, rng)
        right = self.order + maps[np.arange(count), queries]
        if self.shuffled:
            right = np.roll(right, 1)
        return self.task.sequences(queries, maps), right


@dataclass(frozen=True)
class FreeRun:
    """A training of several seeds side by side, recorded every ``EVERY`` steps.

    Attributes:
        steps: ``(T,)``.
        loss: ``(T, S)`` dot-product loss of every seed on held-out sequences.
        normalised: ``(T, S)`` loss of the output divided by its sum over responses: its plateaus are those of the simplified model.
        w: ``(T, S, K, width)`` first-layer scores.
    """

    steps: np.ndarray
    loss: np.ndarray
    normalised: np.ndarray
    w: np.ndarray


def train(setting: FreeModel, seeds: int, steps: int) -> FreeRun:
    """Train ``seeds`` models, each on its own fresh batches, on the dot-product loss."""
    models = [setting.model() for _ in range(seeds)]
    for seed, model in enumerate(models):
        model.initialise(torch.Generator().manual_seed(seed), setting.scale)
    w, beta = (
        torch.stack([getattr(m, name).detach() for m in models]).requires_grad_() for name in ("w", "beta")
    )  # the optimisers work entry by entry: as many as seeds
    if setting.momentum is None:
        optimiser = torch.optim.Adam([w, beta], setting.rate)
    else:
        optimiser = torch.optim.SGD([w, beta], setting.rate, setting.momentum)
    rngs = [np.random.default_rng(seed) for seed in range(seeds)]
    tokens, right = setting.draw(HELD_OUT, np.random.default_rng(10_000))
    held_out = (
        torch.tensor(tokens).expand(seeds, -1, -1),
        torch.tensor(right).expand(seeds, -1),
    )
    kept = []
    for step in range(steps + 1):
        if step % EVERY == 0:
            with torch.no_grad():
                kept.append((*losses(models[0], w, beta, *held_out), w.detach().clone()))
        drawn = [setting.draw(setting.batch, rng) for rng in rngs]
        batch = (torch.tensor(np.stack(part)) for part in zip(*drawn, strict=True))
        optimiser.zero_grad()
        losses(models[0], w, beta, *batch)[0].sum().backward()
        optimiser.step()
    columns = (torch.stack(column).numpy() for column in zip(*kept, strict=True))
    return FreeRun(np.arange(0, steps + 1, EVERY), *columns)


def losses(
    like: RecallTransformer, w: torch.Tensor, beta: torch.Tensor, tokens: torch.Tensor, right: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Dot-product losses of models with A1, A2 and A3 lifted, all in one pass; the model's own code costs three times as much.

    Args:
        like: a model of their kind.
        w, beta: parameters ``(seeds, K, width)`` and ``(seeds, (K + 1) S, (K + 1) S)``.
        tokens: ``(seeds, B, l)``.
        right: the token to predict ``(seeds, B)``.

    Returns:
        ``(seeds,)`` loss, and that of the output divided by its sum over responses.
    """
    symbols, length = like.vocabulary, like.length
    offset = torch.arange(length)[:, None] - torch.arange(length)[None, :]  # (l, l)
    low = 1 if like.a0 else 0
    place = torch.arange(low, low + w.shape[-1])
    picks = (offset.flatten() == place[:, None]).to(w.dtype)  # (width, l l)
    seen = picks.sum(0).unflatten(0, (length, length)) > 0
    raw = (w @ picks).unflatten(-1, (length, length)).masked_fill(~seen, -1e300)
    attention = torch.softmax(raw, -1) * seen.any(-1)[:, None]  # (seeds, K, l, l)
    x = nn.functional.one_hot(tokens, symbols).to(w.dtype)  # (seeds, B, l, S)
    last = attention[:, None, :, -1] @ x  # (seeds, B, K, S)
    asked = (torch.cat([x[:, :, -1:], last], 2).flatten(2) @ beta).unflatten(-1, (-1, symbols))
    worth = asked @ x.mT  # (seeds, B, K + 1, l): what each token is worth to each block of the query
    # the heads' averages of worth, as one product over heads and places together
    averaged = worth[:, :, 1:].flatten(2) @ attention.permute(0, 1, 3, 2).flatten(1, 2)  # (seeds, B, l)
    s = torch.softmax(worth[:, :, 0] + averaged, -1)
    found = (s * (tokens == right[..., None])).sum(-1)  # (seeds, B)
    responses = (s * (tokens >= like.order)).sum(-1)
    return 1 - found.mean(-1), 1 - (found / responses).mean(-1)
