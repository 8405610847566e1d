"""Runs, groups of runs, losses, optimisers and schedules as plain data: everything that decides the numbers of an ensemble, beside its data.

Optimisers are pure functions of stacked parameters, so that every run can have its own rate: ``params``, ``grads`` are dicts ``name -> (R, ...)``; ``rates`` is a
dict ``name -> (R, 1, ...)`` of the same rank, so a rate can differ per run and per parameter group. State is a dict of such dicts. ``t`` counts steps from 1
(a 0-dim tensor, so compiled code is reused).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..random import exact_sqrt
from ..tasks import Batch

Tensors = dict[str, Tensor]
State = dict[str, Tensors]


@dataclass(frozen=True)
class Sgd:
    """Plain gradient descent."""

    def init(self, params: Tensors) -> State:
        return {}

    def update(self, params: Tensors, grads: Tensors, state: State, rates: Tensors, t: Tensor) -> tuple[Tensors, State]:
        """``p - rate * g``."""
        return {k: p - rates[k] * grads[k] for k, p in params.items()}, state


@dataclass(frozen=True)
class Momentum:
    """Heavy-ball momentum as in torch.optim.SGD (no damping): ``v <- momentum v + g``, ``p <- p - rate v``."""

    momentum: float = 0.9

    def init(self, params: Tensors) -> State:
        return {"velocity": {k: torch.zeros_like(p) for k, p in params.items()}}

    def update(self, params: Tensors, grads: Tensors, state: State, rates: Tensors, t: Tensor) -> tuple[Tensors, State]:
        velocity = {k: self.momentum * v + grads[k] for k, v in state["velocity"].items()}
        return {k: p - rates[k] * velocity[k] for k, p in params.items()}, {"velocity": velocity}


@dataclass(frozen=True)
class Adam:
    """Adam with torch.optim.Adam's defaults (Kingma and Ba 2015, Algorithm 1)."""

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    def init(self, params: Tensors) -> State:
        return {m: {k: torch.zeros_like(p) for k, p in params.items()} for m in ("first", "second")}

    def update(self, params: Tensors, grads: Tensors, state: State, rates: Tensors, t: Tensor) -> tuple[Tensors, State]:
        first = {k: torch.lerp(grads[k], m, self.beta1) for k, m in state["first"].items()}
        second = {k: self.beta2 * v + (1 - self.beta2) * grads[k] ** 2 for k, v in state["second"].items()}
        of_first, of_second = self.corrections(t)
        new = {}
        for k, p in params.items():
            denominator = exact_sqrt(second[k]) / of_second + self.eps
            new[k] = p - rates[k] / of_first * first[k] / denominator
        return new, {"first": first, "second": second}

    def corrections(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """The bias corrections ``1 - beta1^t`` and ``sqrt(1 - beta2^t)`` at step ``t``, in its precision.

        Powers are taken in double precision and rounded once: torch's powers of float32 numbers differ between instruction sets.
        """
        betas = (torch.full_like(t, beta) for beta in (self.beta1, self.beta2))
        first, second = (1 - (beta.double() ** t.double()).to(t.dtype) for beta in betas)
        return first, exact_sqrt(second)


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
        if self.clip is not None:
            norm = exact_sqrt(sum((g**2).flatten(1).sum(1) for g in grads.values()))  # (R,)
            factor = (self.clip / (norm + 1e-6)).clamp_max(1.0)
            grads = {k: g * factor.reshape(-1, *[1] * (g.dim() - 1)) for k, g in grads.items()}
        return super().update(shrunk, grads, state, rates, t)


Optimiser = Sgd | Momentum | Adam


@dataclass(frozen=True)
class OneCycle:
    """A cosine rise from ``start`` to 1 over the share ``rise`` of the steps, then a cosine down to ``end`` (Smith and Topin 2018; the shape of
    torch.optim.lr_scheduler.OneCycleLR, whose defaults these are).
    """

    rise: float = 0.3
    start: float = 1 / 25
    end: float = 1 / 25e4

    def factor(self, t: Tensor, steps: int) -> Tensor:
        """Factor on the rates at step ``t`` (1 is the first, 0-dim tensor) of ``steps``."""
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

    def factor(self, t: Tensor, steps: int) -> Tensor:
        """Factor on the rates at step ``t`` (1 is the first, 0-dim tensor) of ``steps``."""
        top = max(1.0, self.rise * steps)
        down = torch.clamp((t - top) / max(1.0, steps - top), 0, 1)
        return torch.minimum(t / top, self.end + (1 - self.end) * (1 + torch.cos(math.pi * down)) / 2)


def squared_error(model: nn.Module, batch: Batch) -> Tensor:
    """Mean over the batch of ``|y_q - yhat|^2`` summed over tasks (he2025, population loss)."""
    return ((model(batch.context, batch.query) - batch.target) ** 2).sum(0).mean()


def cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """Mean negative log-likelihood (nats) of the query's category; the model gives logits ``(C, B)``, ``batch.target`` ``(1, B)`` holds its index."""
    logits = model(batch.context, batch.query)
    return torch.nn.functional.cross_entropy(logits.transpose(0, 1), batch.target[0].long())


def next_token(model: nn.Module, batch: Batch) -> Tensor:
    """Mean negative log-likelihood (nats) of the tokens that follow; logits ``(T, B, V)``, ``batch.target (T, B)`` is negative where nothing follows."""
    logits, follows = model(batch.context), batch.target >= 0
    lost = logits.logsumexp(-1) - logits.gather(-1, batch.target.clamp_min(0)[..., None])[..., 0]  # (T, B)
    return (lost * follows).sum() / follows.sum()


@dataclass(frozen=True)
class Run:
    """One training run. Its trajectory depends on these numbers only, not on the runs beside it.

    Attributes:
        seed: seeds the initial parameters, and the data unless ``stream`` is given.
        rate: learning rate.
        init_scale: factor on the initial parameters.
        stream: seed of the data; runs with the same stream see the same batches (common random numbers, drawn once).
        factors: factors on the rate of named parameters; 0 freezes one.
    """

    seed: int
    rate: float = 1e-3
    init_scale: float = 1.0
    stream: int | None = None
    factors: tuple[tuple[str, float], ...] = ()

    @property
    def data_seed(self) -> int:
        return self.seed if self.stream is None else self.stream


@dataclass(frozen=True)
class Observation:
    """Measurements of a run at the recorded steps: here the model's own ``circuits()``. Others have the same two methods and are frozen dataclasses, too:
    an observation is part of a study's description.

    One with a method ``of_runs(ensemble, params, seen, held_out)`` is asked for all runs of a group at once instead.
    """

    def held_out(self) -> Any:
        """Data to measure on, drawn once: tensors in tuples and dicts, or nothing."""

    def __call__(self, model: nn.Module, held_out: Any) -> Tensors:
        """Measurements of one run by name, each of a fixed shape; nothing of a model without circuits."""
        return model.circuits() if hasattr(model, "circuits") else {}


@dataclass(frozen=True)
class Group:
    """Runs of one architecture that train side by side, at least one.

    Args:
        name: key of the group's arrays in results.
        model, kwargs: a class of modules, each written for one run, with a method ``initialise(generator, scale)``, and its arguments.
        loss: ``loss(model, batch) -> scalar`` of one run.
        schedule: factor on all rates over the steps; constant by default.
        keep: names of parameters that are recorded beside what ``observe`` gives, at every record.
        keep_at: recorded steps at which they are kept instead, see :attr:`iclbook.training.History.kept`.
        gradient: closed form ``gradient(params, batch) -> (gradients, loss)`` of one run, taken run after run in place of autograd on the loss of all runs;
            for data that fill a core by themselves.
        blocks: sets of parameters that step one after the other, each with gradients computed anew; all at once by default.
        labels: what tells the group from others of its study, such as ``{"n_heads": 6}``, for :meth:`iclbook.store.Results.by`; they decide no number.
        may_diverge: whether numbers that are not finite are a result; otherwise the trainer refuses them. It decides no number, so descriptions leave
            it out.
    """

    name: str
    model: type[nn.Module]
    kwargs: tuple[tuple[str, Any], ...] | Mapping[str, Any]
    runs: tuple[Run, ...]
    optimiser: Optimiser = field(default_factory=Adam)
    loss: Callable[[nn.Module, Batch], Tensor] = squared_error
    schedule: OneCycle | Cosine | None = None
    observe: Observation = field(default_factory=Observation)
    keep: tuple[str, ...] = ()
    keep_at: tuple[int, ...] = field(default=(), kw_only=True)
    gradient: Callable[[Tensors, Batch], tuple[Tensors, Tensor]] | None = None
    blocks: tuple[tuple[str, ...], ...] = ()
    labels: tuple[tuple[str, Any], ...] | Mapping[str, Any] = field(default=(), kw_only=True)
    may_diverge: bool = field(default=False, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        for name in ("kwargs", "labels"):
            object.__setattr__(self, name, tuple(sorted(dict(getattr(self, name)).items())))
        object.__setattr__(self, "runs", tuple(self.runs))
        assert self.runs, f"group {self.name!r} has no runs"

    def build(self) -> nn.Module:
        """A module of this group."""
        model = self.model(**dict(self.kwargs))
        names = {name for name, _ in model.named_parameters()}
        asked = {name for run in self.runs for name, _ in run.factors} | {*self.keep, *sum(self.blocks, ())}
        assert asked <= names, f"group {self.name!r} has no parameter {sorted(asked - names)}"
        return model
