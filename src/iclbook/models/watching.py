"""What a classifier reports of itself while it trains: accuracy and NLL on prompts it watches, and its parameters."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..tasks.batch import Batch

#: Watched prompts are scored this many at a time, which bounds the memory of deep models with many keys.
CHUNK = 512


def cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """Mean negative log-likelihood (nats) of the query's category; ``batch.target`` ``(1, B)`` holds its index."""
    return torch.nn.functional.cross_entropy(
        model(batch.context, batch.query).transpose(0, 1), batch.target[0].long()
    )


class Watching(nn.Module):
    """A classifier ``forward(context, query) -> logits (C, B)`` that measures itself on watched prompts.

    Its ``circuits()`` are ``nll_<name>`` and ``accuracy_<name>`` for every watched set of prompts, and its parameters.
    """

    def __init__(self) -> None:
        super().__init__()
        self._probes: dict[str, Batch] = {}
        self._reported: tuple[str, ...] | None = None

    def watch(self, probes: dict[str, Batch], parameters: tuple[str, ...] | None = None) -> None:
        """Prompts on which :meth:`circuits` measures, by name, and the parameters that it reports (all when ``None``)."""
        self._probes, self._reported = dict(probes), parameters

    def circuits(self) -> dict[str, Tensor]:
        """Scores on the watched prompts, and parameters."""
        found = {
            name: p.clone()
            for name, p in self.named_parameters()
            if self._reported is None or name in self._reported
        }
        place = next(self.parameters())
        for name, probe in self._probes.items():
            batch = Batch(*(part.to(place.device, place.dtype) for part in probe))
            chunks = zip(*(part.split(CHUNK, dim=-1) for part in batch), strict=True)
            logits = torch.cat([self(context, query) for context, query, _ in chunks], dim=1)  # (C, B)
            target = batch.target[0].long()
            found[f"nll_{name}"] = torch.nn.functional.cross_entropy(logits.transpose(0, 1), target)
            found[f"accuracy_{name}"] = (logits.argmax(0) == target).to(logits.dtype).mean()
        return found
