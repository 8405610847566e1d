"""What the small sequence models of the wind tunnel share: embedding, residual layers, readout, and measures on probes."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

NORM_EPS = 1e-6


def affine(weight: Tensor, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """``weight x + bias`` for ``x (D, T, B)``: one matrix product over all tokens of all sequences."""
    out = (weight @ x.flatten(1)).unflatten(-1, x.shape[1:])
    return out if bias is None else out + bias[:, None, None]


def rms_norm(gain: Tensor, x: Tensor) -> Tensor:
    """``x (D, T, B)`` scaled to root mean square 1 along D, times ``gain (D,)``."""
    return gain[:, None, None] * x * torch.rsqrt((x**2).mean(0, keepdim=True) + NORM_EPS)


class SequenceModel(nn.Module):
    """Residual layers ``x + mix(norm(x))``, then ``x + feed_forward(norm(x))``, between a linear embedding and a linear readout.

    A subclass adds the parameters of its mixer with :meth:`_add` and defines :meth:`_mix`, the only place where tokens meet.

    Args:
        token_width: numbers in a token.
        classes: outcomes that are predicted.
        first, stride: predictions are read at tokens ``first, first + stride, ...``.
        width: of the residual stream.
        n_layers: at least 1.
        hidden: width of the feed-forward part; 0 leaves it out.
    """

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
        assert min(token_width, classes, stride, width, n_layers) >= 1
        assert min(first, hidden) >= 0, (first, hidden)
        self.first, self.stride = first, stride
        self.width, self.n_layers, self.hidden = width, n_layers, hidden
        self._fan_in: dict[str, int] = {}
        self._add("embed", (width, token_width), token_width)
        self._add("read", (classes, width), width)
        self._add("gain", (n_layers, width))
        self._add("last_gain", (width,))
        if hidden:
            self._add("gain_ff", (n_layers, width))
            self._add("up", (n_layers, hidden, width), width)
            self._add("down", (n_layers, width, hidden), hidden)

    def _add(self, name: str, shape: tuple[int, ...], fan_in: int | None = None) -> None:
        """A parameter; with ``fan_in`` it is drawn uniformly within ``1/sqrt(fan_in)``, else it starts at 1."""
        self.register_parameter(name, nn.Parameter(torch.ones(shape)))
        if fan_in is not None:
            self._fan_in[name] = fan_in

    def initialise(self, generator: torch.Generator, scale: float = 1.0) -> None:
        """PyTorch's default for linear layers without biases, times ``scale``; gains are 1."""
        with torch.no_grad():
            for name, p in self.named_parameters():
                if name in self._fan_in:
                    bound = scale / math.sqrt(self._fan_in[name])
                    p.uniform_(-bound, bound, generator=generator)
                else:
                    p.fill_(1.0)
            self._initialise_mixer()

    def _initialise_mixer(self) -> None:
        """Start of the mixer's parameters that are not random."""

    def _mix(self, layer: int, x: Tensor) -> Tensor:
        """What tokens tell each other: ``(width, T, B) -> (width, T, B)``, causal."""
        raise NotImplementedError

    def stream(self, tokens: Tensor) -> list[Tensor]:
        """Residual stream ``(width, T, B)`` before each layer and after the last, for tokens ``(T, D, B)``."""
        return self._layers(affine(self.embed, tokens.transpose(0, 1)))

    def _layers(self, x: Tensor) -> list[Tensor]:
        found = [x]
        for layer in range(self.n_layers):
            x = x + self._mix(layer, rms_norm(self.gain[layer], x))
            if self.hidden:
                inner = torch.nn.functional.silu(affine(self.up[layer], rms_norm(self.gain_ff[layer], x)))
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
            if not self.reads(tokens.shape[0]):
                continue
            log_p = torch.log_softmax(self(tokens), 1)  # (K, classes, B)
            ours = -(log_p.exp() * log_p).sum(1) / math.log(2)  # (K, B)
            theirs = -torch.special.xlogy(exact, exact).sum(1) / math.log(2)
            found[f"mae_{name}"] = (ours - theirs).abs().mean(-1)
            found[f"kl_{name}"] = (-(exact * log_p).sum(1) / math.log(2) - theirs).mean(-1)
            found[f"entropy_{name}"] = ours.mean(-1)
        return found

    def reads(self, length: int) -> bool:
        """Whether the model can read sequences of this many tokens."""
        return length >= 1
