"""One attention head between inputs and logits, no residual and no layer norm (agarwal2025, sections 2 and 7)."""

import math

import torch
from torch import Tensor, nn

from .module import Model


class SingleHead(Model):
    """Single-head attention, equations 1 to 8, written for one sequence.

    Args:
        d_x, d_k, d_v, n_classes: dimensions of inputs, of queries and keys, of values, and number of classes.
        causal: position i attends to j <= i; otherwise to all positions.
        bias: the output bias ``b`` of equation 7.
        value_norm: normalise every value to mean 0 and variance 1 over its coordinates (section 8.2, without learned gain).
    """

    def __init__(
        self,
        d_x: int = 20,
        d_k: int = 10,
        d_v: int = 15,
        n_classes: int = 8,
        causal: bool = True,
        bias: bool = False,
        value_norm: bool = False,
    ) -> None:
        super().__init__()
        self.causal, self.bias, self.value_norm = causal, bias, value_norm
        self.d_x, self.d_k, self.d_v, self.n_classes = d_x, d_k, d_v, n_classes
        for name, shape in {"W_Q": (d_k, d_x), "W_K": (d_k, d_x), "W_V": (d_v, d_x), "W_O": (n_classes, d_v)}.items():
            self._add(name, *shape, sd=1.0)
        if bias:
            self._add("b", n_classes)

    def attention(self, x: Tensor) -> Tensor:
        """``alpha`` ``(T, T)``, equation 5, of inputs ``(T, d_x)``."""
        scores = (x @ self.W_Q.T) @ (x @ self.W_K.T).T / math.sqrt(self.d_k)  # (T, T)
        if self.causal:
            future = torch.ones_like(scores, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(future, -math.inf)
        return scores.softmax(-1)

    def values(self, x: Tensor) -> Tensor:
        """``v`` ``(T, d_v)``, equation 3."""
        v = x @ self.W_V.T
        return nn.functional.layer_norm(v, (self.d_v,)) if self.value_norm else v

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """Logits ``(T, C)``; ``keep`` ``(T, T)`` multiplies the attention weights (attention dropout)."""
        alpha = self.attention(x)
        logits = (alpha if keep is None else alpha * keep) @ self.values(x) @ self.W_O.T
        return logits + self.b if self.bias else logits

    def circuits(self) -> dict[str, Tensor]:
        """The weights themselves."""
        return dict(self.named_parameters())
