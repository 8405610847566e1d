"""Losses of the papers' models on finite sets of prompts, as functions of one vector of parameters: value and gradient, in double precision."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

from ....draw import numpy_rng
from ....tasks import Batch

Array = np.ndarray
Loss = Callable[[nn.Module, Batch], Tensor]
Pair = tuple[Tensor, Tensor]
#: ``look(model, batch)``: what attention averages, ``(..., keys, ...)``: values as the answer sees them.
Look = Callable[[nn.Module, Batch], Tensor]


class Softmaxes(TorchFunctionMode):
    """While it is active, keeps the weights of every softmax that a model takes.

    Attributes:
        weights: in the order of the forward pass.
    """

    def __init__(self) -> None:
        super().__init__()
        self.weights: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in (torch.softmax, Tensor.softmax):
            self.weights.append(out)
        return out


@dataclass(frozen=True)
class Landscape:
    """A loss as a function of parameters.

    Attributes:
        start: ``start(seed)``: parameters ``(n,)`` at scale 1, to be multiplied by a scale; standard normal for a module (:func:`of_module`).
        evaluate: ``evaluate(theta) -> (loss, gradient)``, float64.
        look: ``look(states (T, n)) -> (attention (T, ...), values (T, ...))`` on the prompts, flat, where the model has both.
        routing: ``(n,)``, which parameters make scores; none where the model has no queries and keys of its own.
        hessian: ``hessian(theta) -> (n, n)``, second derivatives of the loss, where automatic differentiation gives them.
    """

    start: Callable[[int], Array]
    evaluate: Callable[[Array], tuple[float, Array]]
    look: Callable[[Array], tuple[Array, Array]] | None = None
    routing: Array | None = None
    hessian: Callable[[Array], Array] | None = None

    def value(self, theta: Array) -> float:
        """Loss at ``theta (n,)``."""
        return self.evaluate(theta)[0]

    def gradient(self, theta: Array) -> Array:
        """Its gradient ``(n,)``."""
        return self.evaluate(theta)[1]


#: Names of parameters that make scores.
ROUTING = ("query", "key", "W_Q", "W_K")


class _Seeing(nn.Module):
    """A module whose output is what its attention does: weights of the first softmax, and what they average, both flat."""

    def __init__(self, model: nn.Module, loss: Loss, values: Look | None) -> None:
        super().__init__()
        self.model, self.loss, self.values = model, loss, values

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        with Softmaxes() as seen:
            self.loss(self.model, batch)
        return seen.weights[0].flatten(), self.values(self.model, batch).flatten()


def of_module(
    model: nn.Module,
    batch: Batch,
    loss: Loss,
    held: tuple[str, ...] = (),
    values: Look | None = None,
    recording: Recording | None = None,
) -> Landscape:
    """The landscape of a module's parameters on a fixed batch.

    Args:
        model: in double precision; its parameters named in ``held`` keep the values that they have.
        batch: prompts, in double precision.
        loss: ``loss(model, batch)``, a number.
        values: what the model's attention averages.
        recording: of the same model's loss on a batch of the same shape; a new one by default.
    """
    of = _OfModule(model, batch, loss, held, values, recording or Recording())
    routing = np.concatenate([np.full(p.numel(), name in ROUTING) for name, p in of.moving.items()])
    return Landscape(of.start, of.evaluate, of.look if values else None, routing if values else None, of.hessian)


class _Losing(nn.Module):
    """A module whose output is its loss on a batch."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch: Batch) -> Tensor:
        return self.loss(self.model, batch)


class Recording:
    """The operations that a function of tensors takes, backward passes included, repeated without Python between them: a small model's loss and gradient
    in a fifth of the time, bit for bit. For functions that take the same operations on all tensors of these shapes; recorded when first called.
    """

    def __init__(self) -> None:
        self._repeat: Callable[..., tuple[Tensor, ...]] | None = None

    def __call__(self, function: Callable[..., tuple[Tensor, ...]], *inputs: Tensor) -> tuple[Tensor, ...]:
        if self._repeat is None:
            flat = make_fx(lambda *these: function(*these))(*inputs)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # what follows it sums in another order
                self._repeat = torch.jit.trace(lambda *these: flat(*these), inputs, check_trace=False)
        return self._repeat(*inputs)


class _OfModule:
    """The functions of :class:`Landscape` for a module; arguments as for :func:`of_module`."""

    def __init__(
        self,
        model: nn.Module,
        batch: Batch,
        loss: Loss,
        held: tuple[str, ...],
        values: Look | None,
        recording: Recording,
    ) -> None:
        self.model, self.batch, self.recording = model.requires_grad_(False), batch, recording
        self.moving = {name: p for name, p in model.named_parameters() if name not in held}
        self.held = {f"model.{name}": p for name, p in model.named_parameters() if name in held}
        self.sizes = [p.numel() for p in self.moving.values()]
        self._losing, self._seeing = _Losing(model, loss), _Seeing(model, loss, values)
        self._looked = torch.func.vmap(self._seen)

    def start(self, seed: int) -> Array:
        return numpy_rng(seed).standard_normal(sum(self.sizes))

    def _loss(self, flat: Tensor, batch: Batch, held: Sequence[Tensor]) -> Tensor:
        parts = zip(self.moving.items(), flat.split(self.sizes), strict=True)
        named = {f"model.{name}": part.view(p.shape) for (name, p), part in parts}
        named |= zip(self.held, held, strict=True)
        return torch.func.functional_call(self._losing, named, (batch,))

    @torch.enable_grad()
    def slope(self, flat: Tensor, context: Tensor, query: Tensor, target: Tensor, *held: Tensor) -> Pair:
        """Loss and gradient at ``flat (n,)`` on a batch, with what is held, by automatic differentiation."""
        flat = flat.detach().requires_grad_()
        value = self._loss(flat, Batch(context, query, target), held)
        (slope,) = torch.autograd.grad(value, flat, materialize_grads=True)
        return value.detach(), slope

    @torch.no_grad()
    def evaluate(self, theta: Array) -> tuple[float, Array]:
        value, slope = self.recording(self.slope, _flat(theta), *self.batch, *self.held.values())
        return float(value), slope.numpy()

    def hessian(self, theta: Array) -> Array:
        flat = _flat(theta).requires_grad_()
        (gradient,) = torch.autograd.grad(self._loss(flat, self.batch, [*self.held.values()]), flat, create_graph=True)
        every = torch.eye(len(gradient), dtype=gradient.dtype)
        (rows,) = torch.autograd.grad(gradient, flat, every, is_grads_batched=True, materialize_grads=True)
        return rows.numpy()

    def _seen(self, parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        named = {f"model.{name}": p for name, p in zip(self.moving, parts, strict=True)}
        return torch.func.functional_call(self._seeing, named, (self.batch,))

    @torch.no_grad()
    def look(self, states: Array) -> tuple[Array, Array]:
        flat = _flat(states).split(self.sizes, 1)
        parts = [part.unflatten(1, p.shape) for part, p in zip(flat, self.moving.values(), strict=True)]
        attention, averaged = self._looked(parts)
        return attention.numpy(), averaged.numpy()


def _flat(theta: Array) -> Tensor:
    return torch.from_numpy(np.array(theta, dtype=float))


def antithetic(batch: Batch, n_tasks: int = 1) -> Batch:
    """Every prompt four times: as it is, query and answer negated, all answers negated, both. Regression's own symmetries, which random prompts have
    on average only: whatever is odd in the query or in the weights of the task then averages to exactly zero.

    Args:
        batch: of regression, ``context (L, d + N, B)``, ``query (d, B)``, ``target (N, B)``.
        n_tasks: N, answers in a token.
    """
    flip = torch.ones(batch.context.shape[1], 1, dtype=batch.context.dtype)
    flip[-n_tasks:] = -1
    contexts = [batch.context, batch.context, batch.context * flip, batch.context * flip]
    queries = [batch.query, -batch.query, batch.query, -batch.query]
    targets = [batch.target, -batch.target, -batch.target, batch.target]
    return Batch(torch.cat(contexts, -1), torch.cat(queries, -1), torch.cat(targets, -1))


def mirrored(batch: Batch) -> Batch:
    """Every prompt of categories twice: as it is, and all covariates negated, a symmetry of their distribution. Means of covariates then tell nothing.

    Args:
        batch: ``context (N, d + 1, B)`` with the category last, ``query (d, B)``, ``target (1, B)``.
    """
    flip = -torch.ones(batch.context.shape[1], 1, dtype=batch.context.dtype)
    flip[-1] = 1
    contexts, queries = [batch.context, batch.context * flip], [batch.query, -batch.query]
    return Batch(torch.cat(contexts, -1), torch.cat(queries, -1), batch.target.repeat(1, 2))
