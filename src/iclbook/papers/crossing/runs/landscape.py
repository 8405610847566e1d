"""Losses of the papers' models on finite sets of prompts, as functions of one vector of parameters: value and gradient, in double precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ....tasks import Batch

Array = np.ndarray
Loss = Callable[[nn.Module, Batch], Tensor]
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
    model: nn.Module, batch: Batch, loss: Loss, held: tuple[str, ...] = (), values: Look | None = None
) -> Landscape:
    """The landscape of a module's parameters on a fixed batch.

    Args:
        model: in double precision; its parameters named in ``held`` keep the values that they have.
        batch: prompts, in double precision.
        loss: ``loss(model, batch)``, a number.
        values: what the model's attention averages.
    """
    of = _OfModule(model, batch, loss, held, values)
    routing = np.concatenate([np.full(p.numel(), name in ROUTING) for name, p in of.moving.items()])
    return Landscape(
        of.start, of.evaluate, of.look if values else None, routing if values else None, of.hessian
    )


class _OfModule:
    """The functions of :class:`Landscape` for a module; arguments as for :func:`of_module`."""

    def __init__(
        self, model: nn.Module, batch: Batch, loss: Loss, held: tuple[str, ...], values: Look | None
    ) -> None:
        self.model, self.batch, self.loss = model, batch, loss
        self.moving = {name: p for name, p in model.named_parameters() if name not in held}
        self.sizes = [p.numel() for p in self.moving.values()]
        self._seeing = _Seeing(model, loss, values)
        self._looked = torch.func.vmap(self._seen)

    def start(self, seed: int) -> Array:
        return np.random.default_rng(seed).standard_normal(sum(self.sizes))

    def _put(self, theta: Array) -> None:
        flat = torch.from_numpy(np.ascontiguousarray(theta, dtype=float))
        with torch.no_grad():
            for p, part in zip(self.moving.values(), flat.split(self.sizes), strict=True):
                p.copy_(part.view(p.shape))

    def _slope(self, value: Tensor, **options: bool) -> Tensor:
        moving = list(self.moving.values())
        return flat_of(torch.autograd.grad(value, moving, materialize_grads=True, **options))

    def evaluate(self, theta: Array) -> tuple[float, Array]:
        self._put(theta)
        value = self.loss(self.model, self.batch)
        return float(value.detach()), self._slope(value).numpy()

    def hessian(self, theta: Array) -> Array:
        self._put(theta)
        gradient = self._slope(self.loss(self.model, self.batch), create_graph=True)
        every, moving = torch.eye(len(gradient), dtype=gradient.dtype), list(self.moving.values())
        rows = torch.autograd.grad(gradient, moving, every, is_grads_batched=True, materialize_grads=True)
        return flat_of(rows, 1).numpy()

    def _seen(self, parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        named = {f"model.{name}": p for name, p in zip(self.moving, parts, strict=True)}
        return torch.func.functional_call(self._seeing, named, (self.batch,))

    @torch.no_grad()
    def look(self, states: Array) -> tuple[Array, Array]:
        flat = torch.from_numpy(np.ascontiguousarray(states, dtype=float)).split(self.sizes, 1)
        parts = [part.unflatten(1, p.shape) for part, p in zip(flat, self.moving.values(), strict=True)]
        attention, averaged = self._looked(parts)
        return attention.numpy(), averaged.numpy()


def flat_of(parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors side by side, flat from ``axis`` on."""
    return torch.cat([part.flatten(axis) for part in parts], axis)


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
