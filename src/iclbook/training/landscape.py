"""Losses as functions of one vector of parameters, for gradient flows: value, gradient and second derivatives, in double precision."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

from ..draw import numpy_rng
from ..tasks import Batch
from .ensemble import Call

Array = np.ndarray
#: ``loss(model, batch)``, a number; ``values(model, batch)``, what attention averages, ``(..., keys, ...)``: values as the answer sees them.
OnBatch = Callable[[nn.Module, Batch], Tensor]
#: Names of parameters that make scores.
ROUTING = ("query", "key", "W_Q", "W_K")


@dataclass(frozen=True)
class Landscape:
    """A loss as a function of parameters.

    Attributes:
        start: ``start(seed)``: parameters ``(n,)`` at scale 1, to be multiplied by a scale; standard normal for a module (:class:`Family`).
        evaluate: ``evaluate(theta) -> (loss, gradient)``, float64.
        attention_and_values: of ``(states (T, n)) -> (attention (T, ...), values (T, ...))`` on the prompts, flat, where the model has both.
        routing: ``(n,)``, which parameters make scores; none where the model has no queries and keys of its own.
        hessian: ``hessian(theta) -> (n, n)``, second derivatives of a loss whose valleys are so narrow that its flow is stiff.
    """

    start: Callable[[int], Array]
    evaluate: Callable[[Array], tuple[float, Array]]
    attention_and_values: Callable[[Array], tuple[Array, Array]] | None = None
    routing: Array | None = None
    hessian: Callable[[Array], Array] | None = None

    def value(self, theta: Array) -> float:
        """Loss at ``theta (n,)``."""
        return self.evaluate(theta)[0]

    def gradient(self, theta: Array) -> Array:
        """Its gradient ``(n,)``."""
        return self.evaluate(theta)[1]


class _FirstSoftmax(TorchFunctionMode):
    """While it is active, keeps the ``weights`` of the first softmax that a model takes."""

    weights: Tensor | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if self.weights is None and func in (torch.softmax, Tensor.softmax):
            self.weights = out
        return out


class Family:
    """Landscapes of one module's parameters, one for each batch of a shape.

    The operations of loss and gradient are recorded when they are first asked for, and repeated without Python between them: a small model's loss and gradient
    in a fifth of the time, bit for bit. The module must take the same operations on all batches of this shape.

    Args:
        model: its parameters named in ``held`` do not move.
        loss, values: of the model on a batch; ``values`` where its attention is to be looked at.
        stiff: whether its landscapes have a hessian.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: OnBatch,
        held: Sequence[str] = (),
        values: OnBatch | None = None,
        stiff: bool = False,
    ) -> None:
        def seen(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
            with _FirstSoftmax() as first:
                loss(model, batch)
            return first.weights.flatten(), values(model, batch).flatten()

        model.double().requires_grad_(False)
        self.shapes = {name: p.shape for name, p in model.named_parameters() if name not in held}
        self.held = {name: p for name, p in model.named_parameters() if name in held}
        self.sizes = [shape.numel() for shape in self.shapes.values()]
        self.routing = np.concatenate([np.full(s.numel(), name in ROUTING) for name, s in self.shapes.items()])
        self.stiff, self.sees = stiff, values is not None
        self._loss, self._seen = Call(model, loss), Call(model, seen)
        self._record: Callable[..., tuple[Tensor, Tensor]] | None = None

    def __call__(self, batch: Batch, *held: Tensor) -> Landscape:
        """The landscape on a batch in double precision, with other values of what is held."""
        inputs = (*batch, *(held or self.held.values()))
        return Landscape(
            lambda seed: numpy_rng(seed).standard_normal(sum(self.sizes)),
            partial(self.evaluate, inputs),
            partial(self.attention_and_values, inputs) if self.sees else None,
            self.routing,
            partial(self.hessian, inputs) if self.stiff else None,
        )

    def _at(self, call: Call, flat: Tensor, inputs: tuple[Tensor, ...]) -> Any:
        """Value of a function at parameters ``flat (n,)``; inputs are the batch's three parts, then what is held."""
        parts = zip(self.shapes.items(), flat.split(self.sizes), strict=True)
        named = {f"model.{name}": part.view(shape) for (name, shape), part in parts}
        named |= {f"model.{name}": p for name, p in zip(self.held, inputs[3:], strict=True)}
        return torch.func.functional_call(call, named, (Batch(*inputs[:3]),))

    def slope(self, flat: Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient and loss at ``flat (n,)``, by automatic differentiation."""
        return torch.func.grad_and_value(lambda flat: self._at(self._loss, flat, inputs))(flat)

    @torch.no_grad()
    def evaluate(self, inputs: tuple[Tensor, ...], theta: Array) -> tuple[float, Array]:
        """Loss and gradient at ``theta (n,)``, from the record."""
        every = (_flat(theta), *inputs)
        if self._record is None:
            graph = make_fx(lambda *these: self.slope(*these))(*every)
            with warnings.catch_warnings():
                # torch.jit.trace is deprecated; torch.export, which replaces it, sums in another order
                warnings.simplefilter("ignore", DeprecationWarning)
                self._record = torch.jit.trace(lambda *these: graph(*these), every, check_trace=False)
        slope, value = self._record(*every)
        return float(value), slope.numpy()

    def hessian(self, inputs: tuple[Tensor, ...], theta: Array) -> Array:
        """Second derivatives ``(n, n)`` at ``theta (n,)``."""
        return torch.func.hessian(lambda flat: self._at(self._loss, flat, inputs))(_flat(theta)).numpy()

    @torch.no_grad()
    def attention_and_values(self, inputs: tuple[Tensor, ...], states: Array) -> tuple[Array, Array]:
        """Attention and values at ``states (T, n)``, flat."""
        attention, averaged = torch.func.vmap(lambda flat: self._at(self._seen, flat, inputs))(_flat(states))
        return attention.numpy(), averaged.numpy()


def _flat(theta: Array) -> Tensor:
    return torch.from_numpy(np.array(theta, dtype=float))
