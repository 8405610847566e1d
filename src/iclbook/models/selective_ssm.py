"""A selective state-space model in plain torch (agarwal2025, section 9.2, equations 48 to 50)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import silu, softplus

from .sequence import SequenceModel, affine


def selective_scan(x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """``h_t = exp(A Delta_t) h_{t-1} + Delta_t B_t x_t``, ``o_t = C_t h_t`` from ``h_0 = 0`` (equations 49, 50), for every channel.

    Args:
        x, delta: ``(W, T, ...)`` inputs and step sizes of W channels.
        a: ``(W, N)`` rates of the N states of each channel.
        b, c: ``(N, T, ...)`` input and output projections, shared by the channels.

    Returns:
        ``(W, T, ...)``.
    """
    rest = (1,) * (x.dim() - 2)
    decay = torch.exp(a.reshape(*a.shape, 1, *rest) * delta[:, None])  # (W, N, T, ...)
    drive = (delta * x)[:, None] * b  # (W, N, T, ...)
    state = torch.zeros_like(drive[:, :, 0])  # (W, N, ...)
    out = []
    # unbind: the gradient of an index would be a whole array of zeros at every step
    for decay_t, drive_t, c_t in zip(decay.unbind(2), drive.unbind(2), c.unbind(1), strict=True):
        state = decay_t * state + drive_t
        out.append((c_t * state).sum(1))
    return torch.stack(out, 1)


class SelectiveSsm(SequenceModel):
    """Layers of a gated selective scan: ``Delta, B, C`` are linear in the current token, ``Delta`` through a softplus.

    As in Mamba, rates are ``A = -exp(rate)`` and the output is gated by a second projection; Mamba's short convolution, which equations 48 to
    50 do not have, is left out.

    Args:
        n_states: N, states of each channel.
        sizes: as in :class:`SequenceModel`.
    """

    def __init__(self, token_width: int, classes: int, n_states: int = 4, **sizes: Any) -> None:
        super().__init__(token_width, classes, **sizes)
        assert n_states >= 1, n_states
        self.n_states = n_states
        n, w = self.n_layers, self.width
        for name in ("inward", "gate", "step", "output"):
            self._add(name, (n, w, w), w)
        self._add("step_bias", (n, w))
        self._add("to_b", (n, n_states, w), w)
        self._add("to_c", (n, n_states, w), w)
        self._add("rate", (n, w, n_states))

    def _initialise_mixer(self) -> None:
        """Rates 1, 2, ..., N as in Mamba; step sizes spread evenly in the logarithm from 0.01 to 1 over the channels."""
        self.rate.copy_(torch.log(torch.arange(1.0, self.n_states + 1)).expand_as(self.rate))
        steps = torch.logspace(math.log10(0.01), 0, self.width)
        self.step_bias.copy_(torch.log(torch.expm1(steps)).expand_as(self.step_bias))

    def parts(self, layer: int, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """``(x, Delta, A, B, C)`` of one layer for its normalised input ``(width, T, B)``, in the shapes of :func:`selective_scan`."""
        inner = affine(self.inward[layer], x)
        delta = softplus(affine(self.step[layer], inner, self.step_bias[layer]))
        b, c = affine(self.to_b[layer], inner), affine(self.to_c[layer], inner)
        return inner, delta, -torch.exp(self.rate[layer]), b, c

    def _mix(self, layer: int, x: Tensor) -> Tensor:
        return affine(self.output[layer], selective_scan(*self.parts(layer, x)) * silu(affine(self.gate[layer], x)))
