"""Optimisers as pure functions of stacked parameters, so that every run can have its own rate; and schedules of rates over the steps.

``params``, ``grads`` are dicts ``name -> (R, ...)``; ``rates`` is a dict ``name -> (R, 1, ...)`` of the same rank, so a rate can differ per
run and per parameter group. State is a dict of such dicts. ``t`` counts steps from 1 (a 0-dim tensor, so compiled code is reused).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

Tensors = dict[str, Tensor]
State = dict[str, Tensors]


class Optimiser(Protocol):
    """What the trainer needs of an optimiser."""

    def init(self, params: Tensors) -> State:
        """Fresh state."""
        ...

    def update(self, params: Tensors, grads: Tensors, state: State, rates: Tensors, t: Tensor) -> tuple[Tensors, State]:
        """New parameters and state; nothing is changed in place."""
        ...


@dataclass(frozen=True)
class Sgd:
    """Plain gradient descent."""

    def init(self, params: Tensors) -> State:
        """No state."""
        return {}

    def update(self, params: Tensors, grads: Tensors, state: State, rates: Tensors, t: Tensor) -> tuple[Tensors, State]:
        """``p - rate * g``."""
        return {k: p - rates[k] * grads[k] for k, p in params.items()}, state


@dataclass(frozen=True)
class Momentum:
    """Heavy-ball momentum as in torch.optim.SGD (no damping): ``v <- momentum v + g``, ``p <- p - rate v``."""

    momentum: float = 0.9

    def init(self, params: Tensors) -> State:
        """Zero velocity."""
        return {"velocity": {k: torch.zeros_like(p) for k, p in params.items()}}

    def update(self, params: Tensors, grads: Tensors, state: State, rates: Tensors, t: Tensor) -> tuple[Tensors, State]:
        """One heavy-ball step."""
        velocity = {k: self.momentum * v + grads[k] for k, v in state["velocity"].items()}
        return {k: p - rates[k] * velocity[k] for k, p in params.items()}, {"velocity": velocity}


@dataclass(frozen=True)
class Adam:
    """Adam with torch.optim.Adam's defaults (Kingma and Ba 2015, Algorithm 1)."""

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    def init(self, params: Tensors) -> State:
        """Zero moments."""
        return {m: {k: torch.zeros_like(p) for k, p in params.items()} for m in ("first", "second")}

    def update(self, params: Tensors, grads: Tensors, state: State, rates: Tensors, t: Tensor) -> tuple[Tensors, State]:
        """One Adam step with bias correction."""
        first = {k: torch.lerp(grads[k], m, self.beta1) for k, m in state["first"].items()}
        second = {k: self.beta2 * v + (1 - self.beta2) * grads[k] ** 2 for k, v in state["second"].items()}
        scale = torch.sqrt(1 - self.beta2**t)
        new = {}
        for k, p in params.items():
            denominator = second[k].sqrt() / scale + self.eps
            new[k] = p - rates[k] / (1 - self.beta1**t) * first[k] / denominator
        return new, {"first": first, "second": second}


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019; torch.optim.AdamW) of gradients clipped as torch.nn.utils.clip_grad_norm_ does.

    Attributes:
        decay: every parameter shrinks by ``rate * decay`` of itself at each step.
        clip: largest norm of a run's gradient, all its parameters together; ``None`` for any.
    """

    decay: float = 0.01
    clip: float | None = None

    def update(self, params: Tensors, grads: Tensors, state: State, rates: Tensors, t: Tensor) -> tuple[Tensors, State]:
        """One step: clip, shrink, then Adam's step."""
        shrunk = {k: p - rates[k] * self.decay * p for k, p in params.items()}
        return super().update(shrunk, grads if self.clip is None else clipped(grads, self.clip), state, rates, t)


def clipped(grads: Tensors, largest: float) -> Tensors:
    """Gradients ``name -> (R, ...)`` with the norm of each run's at most ``largest``."""
    norm = torch.sqrt(sum((g**2).flatten(1).sum(1) for g in grads.values()))  # (R,)
    factor = (largest / (norm + 1e-6)).clamp_max(1.0)
    return {k: g * factor.reshape(-1, *[1] * (g.dim() - 1)) for k, g in grads.items()}


class Schedule(Protocol):
    """What the trainer needs of a schedule."""

    def factor(self, t: Tensor, steps: int) -> Tensor:
        """Factor on the rates at step ``t`` (1 is the first, 0-dim tensor) of ``steps``."""
        ...


@dataclass(frozen=True)
class OneCycle:
    """A cosine rise from ``start`` to 1 over the share ``rise`` of the steps, then a cosine down to ``end`` (Smith and Topin 2018; the shape of
    torch.optim.lr_scheduler.OneCycleLR, whose defaults these are).
    """

    rise: float = 0.3
    start: float = 1 / 25
    end: float = 1 / 25e4

    def __post_init__(self) -> None:
        assert 0 < self.rise < 1, self

    def factor(self, t: Tensor, steps: int) -> Tensor:
        """As in :class:`Schedule`."""
        top = self.rise * steps - 1  # torch counts the first step as 0
        up, down = (t - 1) / top, (t - 1 - top) / (steps - 1 - top)
        rising = t - 1 <= top
        low = torch.where(rising, self.start, self.end)
        angle = math.pi * torch.where(rising, 1 - up, down)
        return low + (1 - low) * (1 + torch.cos(angle)) / 2


@dataclass(frozen=True)
class Cosine:
    """A straight rise to 1 over the share ``rise`` of the steps, then a cosine down to ``end`` at the last step."""

    end: float = 0.1
    rise: float = 0.0

    def __post_init__(self) -> None:
        assert 0 <= self.end <= 1, self
        assert 0 <= self.rise < 1, self

    def factor(self, t: Tensor, steps: int) -> Tensor:
        """As in :class:`Schedule`."""
        top = max(1.0, self.rise * steps)
        down = torch.clamp((t - top) / max(1.0, steps - top), 0, 1)
        return torch.minimum(t / top, self.end + (1 - self.end) * (1 + torch.cos(math.pi * down)) / 2)
