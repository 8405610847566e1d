"""An LSTM in plain torch (agarwal2025, section 9.2, equations 51 and 52)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .sequence import SequenceModel, affine


def lstm_scan(drive: Tensor, recurrent: Tensor) -> dict[str, Tensor]:
    """``c_t = f_t c_{t-1} + i_t g_t``, ``h_t = o_t tanh(c_t)`` from zero, with gates ``sigma(recurrent h_{t-1} + drive_t)``.

    Args:
        drive: ``(4W, T, ...)`` what the inputs give to the input gate, forget gate, candidate and output gate, in this order.
        recurrent: ``(4W, W)``.

    Returns:
        ``i``, ``f``, ``g``, ``o``, ``c``, ``h``, each ``(W, T, ...)``.
    """
    width = recurrent.shape[1]
    cell = hidden = torch.zeros_like(drive[:width, 0])  # (W, ...)
    found: dict[str, list[Tensor]] = {name: [] for name in "ifgoch"}
    for drive_t in drive.unbind(1):  # not drive[:, t], whose gradient would be a whole array of zeros at every step
        sums = drive_t + torch.tensordot(recurrent, hidden, 1)
        i, f, g, o = sums.unflatten(0, (4, width)).unbind(0)
        i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
        cell = f * cell + i * g
        hidden = o * torch.tanh(cell)
        for name, value in zip("ifgoch", (i, f, g, o, cell, hidden), strict=True):
            found[name].append(value)
    return {name: torch.stack(values, 1) for name, values in found.items()}


class Lstm(SequenceModel):
    """Residual layers of LSTM cells; the feed-forward part is left out by default, since the gates have as many parameters.

    Args:
        sizes: as in :class:`SequenceModel`.
    """

    def __init__(self, token_width: int, classes: int, hidden: int = 0, **sizes: Any) -> None:
        super().__init__(token_width, classes, hidden=hidden, **sizes)
        self._add("drive", (self.n_layers, 4 * self.width, self.width), self.width)
        self._add("recurrent", (self.n_layers, 4 * self.width, self.width), self.width)
        self._add("bias", (self.n_layers, 4 * self.width))

    def _initialise_mixer(self) -> None:
        """Biases 0, but 1 for the forget gate."""
        self.bias.zero_()
        self.bias[:, self.width : 2 * self.width] = 1.0

    def _mix(self, layer: int, x: Tensor) -> Tensor:
        return lstm_scan(affine(self.drive[layer], x, self.bias[layer]), self.recurrent[layer])["h"]
