"""Base class of models: parameters with their initial distribution."""

import math

import torch
from torch import Tensor, nn


class Model(nn.Module):
    """A module that draws its parameters in the order in which they were added."""

    def __init__(self) -> None:
        super().__init__()
        self._starts: dict[str, tuple[float, float, float | Tensor]] = {}

    def _add(self, name: str, *shape: int, fan_in: float = 0, sd: float = 0, value: float | Tensor = 0.0) -> None:
        """A parameter: uniform within ``1/sqrt(fan_in)`` (PyTorch's default for linear layers), or normal with deviation ``sd``, or ``value``."""
        self.register_parameter(name, nn.Parameter(torch.zeros(shape) + value))
        self._starts[name] = fan_in, sd, value

    @torch.no_grad()
    def initialise(self, generator: torch.Generator, scale: float = 1.0) -> None:
        """Draw all parameters; ``scale`` multiplies every bound and deviation."""
        for name, (fan_in, sd, value) in self._starts.items():
            p = getattr(self, name)
            if fan_in:
                bound = scale / math.sqrt(fan_in)
                p.uniform_(-bound, bound, generator=generator)
            elif sd:
                p.normal_(0.0, scale * sd, generator=generator)
            else:
                p.copy_(torch.as_tensor(value, dtype=p.dtype))


def affine(weight: Tensor, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """``weight x + bias`` for ``x (D, T, B)``: one matrix product over all tokens of all sequences."""
    out = (weight @ x.flatten(1)).unflatten(-1, x.shape[1:])
    return out if bias is None else out + bias[:, None, None]


def attended(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | float = 0.0) -> tuple[Tensor, Tensor]:
    """Softmax attention ``(H, dh, T, B)`` of scaled queries ``(H, dh, T, B)`` to keys and values ``(H, dh, S, B)``, and its weights ``(H, T, S, B)``.

    ``bias`` is added to the scores; -inf hides a key. Code that is compiled for a processor takes every product along the batch, which fills its vectors
    where small matrices do not, and divides once a query.
    """
    if not (torch.compiler.is_compiling() and q.device.type == "cpu"):
        weights = torch.softmax(torch.einsum("hctb,hcsb->htsb", q, k) + bias, 2)
        return torch.einsum("htsb,hcsb->hctb", weights, v), weights
    scores = (q[:, :, :, None] * k[:, :, None]).sum(1) + bias
    weights = torch.exp(scores - scores.detach().amax(2, keepdim=True))
    share = 1 / weights.sum(2)  # (H, T, B)
    return (weights[:, None] * v[:, :, None]).sum(3) * share[:, None], weights * share[:, :, None]
