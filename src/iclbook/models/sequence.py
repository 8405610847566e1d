"""The small sequence models of the wind tunnel (agarwal2025, section 9): what they share (embedding, residual layers, readout, measures on probes), and
their mixers: attention, a selective state-space model, an LSTM, a multilayer perceptron.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import silu, softplus

from .module import Model, affine, attended

NORM_EPS = 1e-6


def rms_norm(gain: Tensor, x: Tensor) -> Tensor:
    """``x (D, T, B)`` scaled to root mean square 1 along D, times ``gain (D,)``."""
    return gain[:, None, None] * x * torch.rsqrt((x**2).mean(0, keepdim=True) + NORM_EPS)


class SequenceModel(Model):
    """Residual layers ``x + mix(norm(x))``, then ``x + feed_forward(norm(x))``, between a linear embedding and a linear readout.

    A subclass adds the parameters of its mixer with :meth:`_add` and defines :meth:`_mix`, the only place where tokens meet.

    Args:
        token_width, classes: numbers in a token, and outcomes that are predicted.
        first, stride: predictions are read at tokens ``first, first + stride, ...``.
        width, hidden: of the residual stream, and of the feed-forward part; 0 leaves it out.
    """

    #: Tokens of the longest sequence that the model can read.
    longest: float = math.inf

    def __init__(
        self,
        token_width: int,
        classes: int,
        first: int = 0,
        stride: int = 1,
        width: int = 24,
        n_layers: int = 2,
        hidden: int = 48,
    ) -> None:
        super().__init__()
        self.first, self.stride = first, stride
        self.width, self.n_layers, self.hidden = width, n_layers, hidden
        self._add("embed", width, token_width, fan_in=token_width)
        self._add("read", classes, width, fan_in=width)
        self._add("gain", n_layers, width, value=1.0)
        self._add("last_gain", width, value=1.0)
        if hidden:
            self._add("gain_ff", n_layers, width, value=1.0)
            self._add("up", n_layers, hidden, width, fan_in=width)
            self._add("down", n_layers, width, hidden, fan_in=hidden)

    def _mix(self, layer: int, x: Tensor) -> Tensor:
        """Mixing of positions, causal: ``(width, T, B) -> (width, T, B)``."""
        raise NotImplementedError

    def stream(self, tokens: Tensor) -> list[Tensor]:
        """Residual stream ``(width, T, B)`` before each layer and after the last, for tokens ``(T, D, B)``."""
        return self._layers(affine(self.embed, tokens.transpose(0, 1)))

    def _layers(self, x: Tensor) -> list[Tensor]:
        found = [x]
        for layer in range(self.n_layers):
            x = x + self._mix(layer, rms_norm(self.gain[layer], x))
            if self.hidden:
                inner = silu(affine(self.up[layer], rms_norm(self.gain_ff[layer], x)))
                x = x + affine(self.down[layer], inner)
            found.append(x)
        return found

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits ``(K, classes, B)`` at the places where predictions are read, for tokens ``(T, D, B)``."""
        x = self.stream(tokens)[-1][:, self.first :: self.stride]
        return affine(self.read, rms_norm(self.last_gain, x)).transpose(0, 1)

    # -- what the figures show ----------------------------------------------------------------------------------------

    def measured_on(self, probes: dict[str, tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
        """For each probe, tokens ``(T, D, B)`` and exact distributions ``(K, classes, B)``, at each place: ``mae_`` mean absolute difference of the
        entropies of model and exact distribution, ``kl_`` mean KL(exact || model), ``entropy_`` mean entropy of the model's distribution; all in bits,
        ``(K,)``."""
        found = {}
        for name, (tokens, exact) in probes.items():
            if tokens.shape[0] > self.longest:
                continue
            log_p = torch.log_softmax(self(tokens), 1)  # (K, classes, B)
            ours = -(log_p.exp() * log_p).sum(1) / math.log(2)  # (K, B)
            theirs = -torch.special.xlogy(exact, exact).sum(1) / math.log(2)
            found[f"mae_{name}"] = (ours - theirs).abs().mean(-1)
            found[f"kl_{name}"] = (-(exact * log_p).sum(1) / math.log(2) - theirs).mean(-1)
            found[f"entropy_{name}"] = ours.mean(-1)
        return found


#: About as many points of the value manifold are kept for the figure.
SHOWN = 300


def thinned(points: Tensor) -> Tensor:
    """Points ``(..., n)``, thinned evenly to about :data:`SHOWN`."""
    return points[..., :: max(1, points.shape[-1] // SHOWN)]


def oriented(points: Tensor) -> Tensor:
    """Components ``(m, n)`` with the sign that makes each one's largest entry positive: eigenvectors have no sign of their own."""
    largest = points.gather(-1, points.abs().argmax(-1, keepdim=True))
    return points * torch.sign(largest)


class CausalTransformer(SequenceModel):
    """Pre-norm transformer with causal softmax attention (agarwal2025, equations 1 to 6, in every head).

    Order enters as a learned slope per head: a score is lowered by ``slope * (i - j)``. Unlike a table of positions it reads sequences of any
    length. Each layer has ``n_heads`` heads, which divide ``width``.
    """

    def __init__(self, token_width: int, classes: int, n_heads: int = 4, **sizes: Any) -> None:
        super().__init__(token_width, classes, **sizes)
        assert self.width % n_heads == 0, n_heads
        self.n_heads = n_heads
        for name in ("query", "key", "value", "output"):
            self._add(name, self.n_layers, self.width, self.width, fan_in=self.width)
        self._add("slope", self.n_layers, n_heads, value=torch.linspace(0, 1, n_heads))  # from no preference to 1

    def heads(self, name: str, layer: int, x: Tensor) -> Tensor:
        """Queries, keys or values ``(H, dh, T, B)`` of one layer for its normalised input ``(width, T, B)``."""
        return affine(getattr(self, name)[layer], x).unflatten(0, (self.n_heads, -1))

    def attention(self, layer: int, x: Tensor) -> tuple[Tensor, Tensor]:
        """Heads' outputs ``(H, dh, T, B)``, and weights ``(H, T, T, B)`` of every token (second axis) on every token (third)."""
        q, k, v = (self.heads(name, layer, x) for name in ("query", "key", "value"))
        place = torch.arange(x.shape[1], device=x.device)
        back = (place[:, None] - place[None, :])[None, :, :, None]  # (1, T, T, 1)
        bias = (-self.slope[layer, :, None, None, None] * back).masked_fill(back < 0, -torch.inf)
        return attended(q * q.shape[1] ** -0.5, k, v, bias)

    def _mix(self, layer: int, x: Tensor) -> Tensor:
        return affine(self.output[layer], self.attention(layer, x)[0].flatten(0, 1))

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

        ``pc1_value``, ``pc1_output``: share of the variance along the first component. ``r_value``, ``r_output``: absolute correlation of that component with
        the entropy of the exact distribution. ``pc_value``, ``pc_output`` ``(2, n)``: first two components at the places that :func:`thinned` keeps.
        """
        layer = self.n_layers - 1
        x = rms_norm(self.gain[layer], self.stream(tokens)[layer])
        values, mixed = self.heads("value", layer, x), self.attention(layer, x)[0]
        entropy = -torch.special.xlogy(exact, exact).sum(1).flatten()  # (K B,)
        found = {}
        for name, part in (("value", values), ("output", mixed)):
            points = part.flatten(0, 1)[:, self.first :: self.stride].flatten(1)  # (width, K B)
            points = points - points.mean(1, keepdim=True)
            spread, axes = torch.linalg.eigh(points @ points.T / points.shape[1])
            along = axes[:, -2:].flip(-1).T @ points  # (2, K B)
            found[f"pc1_{name}"] = spread[-1] / spread.sum()
            found[f"r_{name}"] = torch.corrcoef(torch.stack([along[0], entropy]))[0, 1].abs()
            found[f"pc_{name}"] = oriented(thinned(along))
        return found


def selective_scan(x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """``h_t = exp(A Delta_t) h_{t-1} + Delta_t B_t x_t``, ``o_t = C_t h_t`` from ``h_0 = 0`` (equations 49, 50), for every channel: ``(W, T, ...)``.

    Args:
        x, delta: ``(W, T, ...)`` inputs and step sizes of W channels.
        a: ``(W, N)`` rates of the N states of each channel.
        b, c: ``(N, T, ...)`` input and output projections, shared by the channels.
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
    50 do not have, is left out. Each channel has ``n_states`` states, N.
    """

    def __init__(self, token_width: int, classes: int, n_states: int = 4, **sizes: Any) -> None:
        super().__init__(token_width, classes, **sizes)
        n, w = self.n_layers, self.width
        for name in ("inward", "gate", "step", "output"):
            self._add(name, n, w, w, fan_in=w)
        # step sizes spread evenly in the logarithm from 0.01 to 1 over the channels
        self._add("step_bias", n, w, value=torch.log(torch.expm1(torch.logspace(math.log10(0.01), 0, w))))
        self._add("to_b", n, n_states, w, fan_in=w)
        self._add("to_c", n, n_states, w, fan_in=w)
        self._add("rate", n, w, n_states, value=torch.log(torch.arange(1.0, n_states + 1)))  # 1, 2, ..., N as in Mamba

    def parts(self, layer: int, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """``(x, Delta, A, B, C)`` of one layer for its normalised input ``(width, T, B)``, in the shapes of :func:`selective_scan`."""
        inner = affine(self.inward[layer], x)
        delta = softplus(affine(self.step[layer], inner, self.step_bias[layer]))
        b, c = affine(self.to_b[layer], inner), affine(self.to_c[layer], inner)
        return inner, delta, -torch.exp(self.rate[layer]), b, c

    def _mix(self, layer: int, x: Tensor) -> Tensor:
        return affine(self.output[layer], selective_scan(*self.parts(layer, x)) * silu(affine(self.gate[layer], x)))


def lstm_scan(drive: Tensor, recurrent: Tensor) -> dict[str, Tensor]:
    """``c_t = f_t c_{t-1} + i_t g_t``, ``h_t = o_t tanh(c_t)`` from zero, with gates ``sigma(recurrent h_{t-1} + drive_t)``.

    Gives ``i, f, g, o, c, h``, each ``(W, T, ...)``. ``drive (4W, T, ...)`` is what the inputs give to input gate, forget gate, candidate and output gate, in
    this order; ``recurrent`` is ``(4W, W)``.
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
    """Residual layers of LSTM cells; the feed-forward part is left out by default, since the gates have as many parameters."""

    def __init__(self, token_width: int, classes: int, hidden: int = 0, **sizes: Any) -> None:
        super().__init__(token_width, classes, hidden=hidden, **sizes)
        self._add("drive", self.n_layers, 4 * self.width, self.width, fan_in=self.width)
        self._add("recurrent", self.n_layers, 4 * self.width, self.width, fan_in=self.width)
        forget = torch.tensor([0.0, 1.0, 0.0, 0.0]).repeat_interleave(self.width)  # 1 for the forget gate, otherwise 0
        self._add("bias", self.n_layers, 4 * self.width, value=forget)

    def _mix(self, layer: int, x: Tensor) -> Tensor:
        return lstm_scan(affine(self.drive[layer], x, self.bias[layer]), self.recurrent[layer])["h"]


class PrefixMlp(SequenceModel):
    """The prefix stands in a row of ``length`` places, those to come being zero; a matrix over all places, then residual feed-forward layers.

    Such a network cannot read sequences of more than ``length`` tokens. (One that reads a single token can do no better than the prior: it needs no training.)
    """

    def __init__(self, token_width: int, classes: int, length: int, **sizes: Any) -> None:
        super().__init__(token_width, classes, **sizes)
        self.longest = length
        self._add("prefix", self.width, length, token_width, fan_in=length * token_width)
        self._add("start", self.width, length, fan_in=length)

    def _mix(self, layer: int, x: Tensor) -> Tensor:
        """Positions meet in the first matrix only."""
        return torch.zeros_like(x)

    def stream(self, tokens: Tensor) -> list[Tensor]:
        """As in :class:`SequenceModel`; the embedding adds a matrix over all places so far, summed up along the sequence."""
        n = tokens.shape[0]
        assert n <= self.longest, n
        each = torch.einsum("wtd,tdb->wtb", self.prefix[:, :n], tokens)
        place = self.start[:, :n, None]  # which place is asked for
        return self._layers(affine(self.embed, tokens.transpose(0, 1)) + each.cumsum(1) + place)
