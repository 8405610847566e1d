"""Several layers of softmax attention without MLPs: the architectures of nagy2026, sections 9.5 and 9.5.1."""

import math

import torch
from torch import Tensor

from .module import Model, affine, attended

#: As in torch.nn.LayerNorm.
NORM_EPS = 1e-5


class DeepAttention(Model):
    """``n_layers`` residual layers of multi-head softmax attention on the tokens ``(x_l, y_l)`` and ``(x_q, 0)``.

    Every token attends to every token; there are no positions. The prediction is a linear function of the query's last state. With layer
    norm and biases the baseline of section 9.5 (2 layers, width 32) has exactly 8,801 parameters, and 4 layers of width 24 with sink and
    layer scale exactly 9,989 (:mod:`iclbook.papers.nagy2026.section_9_5`).

    Args:
        d, width: covariates, and width of the residual stream, a multiple of ``n_heads``.
        layer_norm: normalise each layer's input, with gain and bias.
        sink: SM1, a learned token in front of the prompt that every token may attend to.
        layer_scale: SM2, a learned factor on what each layer adds to the stream, 1 at the start.
        orthogonality: SM4/SM5, weight of :meth:`penalty`.
        dropout: share of each layer's output that is dropped; needs ``n_layers * width`` rows of uniform numbers under the tokens (without them,
            as in evaluation, nothing is dropped).
    """

    def __init__(
        self,
        d: int,
        width: int = 32,
        n_heads: int = 2,
        n_layers: int = 2,
        layer_norm: bool = True,
        sink: bool = False,
        layer_scale: bool = False,
        orthogonality: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        assert width % n_heads == 0, (width, n_heads)
        self.d, self.width, self.n_heads, self.n_layers = d, width, n_heads, n_layers
        self.layer_norm, self.orthogonality, self.dropout = layer_norm, orthogonality, dropout
        self.has_sink, self.has_scale = sink, layer_scale
        self._add("embed", width, d + 1, fan_in=d + 1)
        self._add("embed_bias", width, fan_in=d + 1)
        self._add("read", width, fan_in=width)
        self._add("read_bias", 1, fan_in=width)
        for name in ("query", "key", "value", "output"):
            self._add(name, n_layers, width, width, fan_in=width)
            self._add(f"{name}_bias", n_layers, width, fan_in=width)
        if layer_norm:
            self._add("gain", n_layers, width, value=1.0)
            self._add("shift", n_layers, width)
        if sink:
            self._add("sink", width, sd=0.02)
        if layer_scale:
            self._add("scale", n_layers, value=1.0)

    # -- forward ------------------------------------------------------------------------------------------------------

    def forward(self, context: Tensor, query: Tensor) -> Tensor:
        """Predictions ``(1, B)`` for tokens ``(L, d + 1, B)`` and query covariates ``(d, B)``."""
        return self._run(context, query)[0]

    def _run(self, context: Tensor, query: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Predictions ``(1, B)`` and, for each layer, the attention ``(H, T, B)`` of the query token."""
        d = self.d
        asked = torch.cat([query[:d], torch.zeros_like(query[:1])])[None]
        tokens = torch.cat([context[:, : d + 1], asked]).transpose(0, 1)  # (d + 1, T, B)
        state = affine(self.embed, tokens, self.embed_bias)  # (width, T, B)
        if self.has_sink:
            state = torch.cat([self.sink[:, None, None].expand(-1, 1, state.shape[-1]), state], dim=1)
        masks = self._masks(context, query)
        attention = []
        for layer in range(self.n_layers):
            inputs = self._normalised(layer, state) if self.layer_norm else state
            if layer < self.n_layers - 1:
                update, weights = self._attend(layer, inputs)
                attention.append(weights[:, -1])
            else:  # of the last layer only the query's row is read
                update, weights = self._attend_query(layer, inputs)
                state = state[:, -1:]
                attention.append(weights)
            if self.has_scale:
                update = self.scale[layer] * update
            if masks is not None:
                update = update * masks[layer][:, -state.shape[1] :]
            state = state + update
        return self.read @ state[:, -1] + self.read_bias[:, None], attention

    def _normalised(self, layer: int, state: Tensor) -> Tensor:
        centred = state - state.mean(0, keepdim=True)
        scaled = centred * torch.rsqrt((centred**2).mean(0, keepdim=True) + NORM_EPS)
        return self.gain[layer, :, None, None] * scaled + self.shift[layer, :, None, None]

    def _attend(self, layer: int, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Output ``(width, T, B)`` and weights ``(H, T, T, B)``: of every token (second axis) to every token (third)."""
        scale = math.sqrt(self.n_heads / self.width)  # of queries, in the matrices that give them
        stacked = torch.cat([scale * self.query[layer], self.key[layer], self.value[layer]])
        biases = torch.cat([scale * self.query_bias[layer], self.key_bias[layer], self.value_bias[layer]])
        q, k, v = affine(stacked, inputs, biases).unflatten(0, (3, self.n_heads, -1))  # (H, dh, T, B)
        mixed, weights = attended(q, k, v)
        return affine(self.output[layer], mixed.flatten(0, 1), self.output_bias[layer]), weights

    def _attend_query(self, layer: int, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Attention of the query alone, ``(width, 1, B)`` and ``(H, T, B)``, without forming keys and values of all tokens.

        Keys' biases add the same number to all scores of a row and drop out; values' biases are added once, as weights sum to 1.
        """
        heads = (self.n_heads, -1)
        q = (self.query[layer] @ inputs[:, -1] + self.query_bias[layer, :, None]).unflatten(0, heads)  # (H, dh, B)
        folded = self.key[layer].unflatten(0, heads).transpose(1, 2) @ q  # (H, width, B)
        scores = (folded[:, :, None] * inputs).sum(1) / math.sqrt(q.shape[1])  # (H, T, B)
        weights = torch.softmax(scores, dim=1)
        averaged = (weights[:, None] * inputs).sum(2)  # (H, width, B)
        mixed = (self.value[layer].unflatten(0, heads) @ averaged).flatten(0, 1)  # (width, B)
        mixed = mixed + self.value_bias[layer, :, None]
        return (self.output[layer] @ mixed + self.output_bias[layer, :, None])[:, None], weights

    def _masks(self, context: Tensor, query: Tensor) -> Tensor | None:
        """A factor ``(n_layers, width, T, B)`` for the layers' outputs, or None where the tokens carry no dropout rows; the sink is not dropped."""
        d = self.d
        if not self.dropout or query.shape[0] == d:
            return None
        rows = torch.cat([context[:, d + 1 :], query[None, d:]]).transpose(0, 1)  # (rows, T, B)
        kept = (rows[: self.n_layers * self.width] >= self.dropout).to(rows) / (1 - self.dropout)
        kept = torch.cat([torch.ones_like(kept[:, :1]), kept], dim=1) if self.has_sink else kept
        return kept.unflatten(0, (self.n_layers, self.width))

    # -- what the figures show ----------------------------------------------------------------------------------------

    def penalty(self) -> Tensor:
        """Orthogonality regulariser (SM4/SM5), in the usual form, for the paper does not define it: mean over layers, pairs of heads and {Q, K, V} of
        ``|W_h W_h'^T|_F^2``, weighted."""
        if not self.orthogonality or self.n_heads == 1:
            return self.embed.new_zeros(())
        total = self.embed.new_zeros(())
        for name in ("query", "key", "value"):
            heads = getattr(self, name).unflatten(1, (self.n_heads, -1))  # (layers, H, dh, width)
            for a in range(self.n_heads):
                for b in range(a):
                    total = total + ((heads[:, a] @ heads[:, b].transpose(-1, -2)) ** 2).sum((-1, -2)).mean()
        return self.orthogonality * total / (3 * self.n_heads * (self.n_heads - 1) / 2)

    def circuits(self) -> dict[str, Tensor]:
        """``scale`` ``(n_layers,)`` with SM2, else nothing."""
        return {"scale": self.scale.clone()} if self.has_scale else {}

    def measured_on(self, prompts: dict[str, tuple[Tensor, Tensor, Tensor]]) -> dict[str, Tensor]:
        """On each set of prompts ``(context, query, target)`` ``error_<name>`` (mean squared error) and, with a sink, ``sink`` ``(n_layers,)``:
        the query's attention to it on the first set, averaged over heads."""
        found: dict[str, Tensor] = {}
        for name, (context, query, target) in prompts.items():
            prediction, attention = self._run(context, query)
            found[f"error_{name}"] = ((prediction - target) ** 2).mean()
            if self.has_sink and "sink" not in found:
                found["sink"] = torch.stack([weights[:, 0].mean() for weights in attention])
        return found
