"""A small causal transformer for the wind tunnel (agarwal2025, section 9.4), and the geometry of its keys and values."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .sequence import SequenceModel, affine, rms_norm

#: About as many points of the value manifold are kept for the figure.
SHOWN = 300


def shown(points: Tensor) -> Tensor:
    """Every so many of the points ``(..., n)``, evenly."""
    return points[..., :: max(1, points.shape[-1] // SHOWN)]


def oriented(points: Tensor) -> Tensor:
    """Components ``(m, n)`` with the sign that makes each one's largest entry positive: eigenvectors have no sign of their own."""
    largest = points.gather(-1, points.abs().argmax(-1, keepdim=True))
    return points * torch.sign(largest)


class CausalTransformer(SequenceModel):
    """Pre-norm transformer with causal softmax attention (agarwal2025, equations 1 to 6, in every head).

    Order enters as a learned slope per head: a score is lowered by ``slope * (i - j)``. Unlike a table of positions it reads sequences of any
    length.

    Args:
        n_heads: heads per layer; they divide ``width``.
        sizes: as in :class:`SequenceModel`.
    """

    def __init__(self, token_width: int, classes: int, n_heads: int = 4, **sizes: Any) -> None:
        super().__init__(token_width, classes, **sizes)
        assert n_heads >= 1, n_heads
        assert self.width % n_heads == 0, n_heads
        self.n_heads = n_heads
        for name in ("query", "key", "value", "output"):
            self._add(name, (self.n_layers, self.width, self.width), self.width)
        self._add("slope", (self.n_layers, n_heads))

    def _initialise_mixer(self) -> None:
        """Slopes from 0 (no preference) to 1."""
        self.slope.copy_(torch.linspace(0, 1, self.n_heads).expand_as(self.slope))

    def heads(self, name: str, layer: int, x: Tensor) -> Tensor:
        """Queries, keys or values ``(H, dh, T, B)`` of one layer for its normalised input ``(width, T, B)``."""
        return affine(getattr(self, name)[layer], x).unflatten(0, (self.n_heads, -1))

    def attention(self, layer: int, x: Tensor) -> Tensor:
        """Weights ``(H, T, T, B)`` of every token (second axis) on every token (third)."""
        q, k = self.heads("query", layer, x), self.heads("key", layer, x)
        place = torch.arange(x.shape[1], device=x.device)
        back = (place[:, None] - place[None, :])[None, :, :, None]  # (1, T, T, 1)
        scores = torch.einsum("hctb,hcsb->htsb", q, k) / math.sqrt(q.shape[1])
        scores = scores - self.slope[layer, :, None, None, None] * back
        return torch.softmax(scores.masked_fill(back < 0, -torch.inf), 2)

    def _mix(self, layer: int, x: Tensor) -> Tensor:
        mixed = torch.einsum("htsb,hcsb->hctb", self.attention(layer, x), self.heads("value", layer, x))
        return affine(self.output[layer], mixed.flatten(0, 1))

    # -- geometry -----------------------------------------------------------------------------------------------------

    def key_cosine(self, symbols: Tensor) -> Tensor:
        """Mean absolute cosine between the first layer's keys of different symbols, for each head; ``symbols (n, D)``."""
        x = rms_norm(self.gain[0], affine(self.embed, symbols.T[:, None]))  # (width, 1, n)
        keys = self.heads("key", 0, x)[:, :, 0]  # (H, dh, n)
        keys = keys / keys.norm(dim=1, keepdim=True)
        cosine = torch.einsum("hcn,hcm->hnm", keys, keys).abs()
        n = cosine.shape[-1]
        return (cosine.sum((1, 2)) - torch.einsum("hnn->h", cosine)) / (n * (n - 1))

    def manifold(self, tokens: Tensor, exact: Tensor) -> dict[str, Tensor]:
        """Principal components of the values v_j and of what attention makes of them, at the places of prediction, in the last layer.

        Returns:
            ``pc1_value``, ``pc1_output``: share of the variance along the first component; ``r_value``, ``r_output``: absolute correlation of
            that component with the entropy of the exact distribution; ``pc_value``, ``pc_output`` ``(2, n)``: first two components at the
            places that :func:`shown` keeps.
        """
        layer = self.n_layers - 1
        x = rms_norm(self.gain[layer], self.stream(tokens)[layer])
        values = self.heads("value", layer, x)
        mixed = torch.einsum("htsb,hcsb->hctb", self.attention(layer, x), values)
        entropy = -torch.special.xlogy(exact, exact).sum(1).flatten()  # (K B,)
        found = {}
        for name, part in (("value", values), ("output", mixed)):
            points = part.flatten(0, 1)[:, self.first :: self.stride].flatten(1)  # (width, K B)
            points = points - points.mean(1, keepdim=True)
            spread, axes = torch.linalg.eigh(points @ points.T / points.shape[1])
            along = axes[:, -2:].flip(-1).T @ points  # (2, K B)
            found[f"pc1_{name}"] = spread[-1] / spread.sum()
            found[f"r_{name}"] = torch.corrcoef(torch.stack([along[0], entropy]))[0, 1].abs()
            found[f"pc_{name}"] = oriented(shown(along))
        return found
