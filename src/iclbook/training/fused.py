"""Steps in C: a stream's numbers, then the gradients of all runs that read them, while they lie in the core's cache.

For models that have their gradient in C for a task's prompts (``Attention.in_c``). All others go through autograd
(:mod:`iclbook.training.ensemble`), which the tests compare this with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from ..native import counter
from ..native.adam import AdamStep, can_step
from ..random import DATA
from .data import Data, Stream
from .ensemble import Ensemble
from .losses import squared_error
from .optimisers import Adam, Tensors


class Gradients(Protocol):
    """A model's gradient in C, such as :class:`iclbook.native.attention.AttentionStep`; only models import these, so that it counts for their studies alone."""

    def bind(self, params: Tensors, grads: Tensors, losses: Tensor) -> None:
        """Say where parameters and gradients of all runs are, ``name -> (R, ...)``, and the sums of their losses ``(R,)``."""
        ...

    def __call__(self, normals: Tensor, runs: Tensor) -> None:
        """Take the gradients of these runs on one stream's numbers, in place, and add their losses."""
        ...


class Fused:
    """Steps of all groups of a training, in place.

    Args:
        ensembles: the groups.
        gradients: of each of them.
        keys: of the data streams, ``(S, 2)``.
        n_normals: standard normals that a stream's batch consumes.
    """

    def __init__(
        self,
        ensembles: Sequence[Ensemble],
        gradients: Sequence[Gradients],
        keys: Tensor,
        n_normals: int,
    ) -> None:
        self._normals = torch.empty(1, 1, n_normals)
        self._keys = keys.split(1)
        self._groups = [_Group(*pair) for pair in zip(ensembles, gradients, strict=True)]

    @classmethod
    def of(
        cls, data: Data, ensembles: Sequence[Ensemble], keys: Tensor, batch_size: int, dtype: torch.dtype
    ) -> Fused | None:
        """The steps of these groups on these data; ``None`` where a group has no gradient in C, or nothing can be compiled."""
        able = dtype is torch.float32 and counter.can_draw(keys) and can_step()
        if not able or type(data) is not Stream:
            return None
        gradients = [in_c(data.task, e, batch_size) for e in ensembles]
        return None if None in gradients else cls(ensembles, gradients, keys, data.task.normals * batch_size)

    def step(self, number: int, t: Tensor) -> None:
        """Step ``number`` = 1, 2, ... of all runs; ``t`` is the number as optimisers want it."""
        at = torch.tensor([number])
        for stream, key in enumerate(self._keys):
            counter.fill("normals", self._normals, key, at, DATA)
            for group in self._groups:
                group.add_gradients(stream, self._normals)
        for group in self._groups:
            group.update(t)


def in_c(task: Any, ensemble: Ensemble, batch_size: int) -> Gradients | None:
    """The gradient of a group in C on a task's prompts, if there is one."""
    group = ensemble.group
    autograd = group.loss is squared_error and group.gradient is None and not group.blocks
    # a subclass with a batch of its own inherits a layout that does not describe it
    describes = {"layout", "batch"} <= vars(type(task)).keys()
    if not (autograd and describes and hasattr(ensemble.model, "in_c")):
        return None
    return ensemble.model.in_c(task.layout(), batch_size)


class _Group:
    """A group whose gradients and optimiser know where everything lies."""

    def __init__(self, ensemble: Ensemble, gradients: Gradients) -> None:
        self._ensemble, self._gradients = ensemble, gradients
        self._grads = {k: torch.zeros_like(p) for k, p in ensemble.params.items()}
        gradients.bind(ensemble.params, self._grads, ensemble.loss_sum)
        read = ensemble.streams_read
        self._runs = {stream: (read == stream).nonzero().flatten() for stream in read.unique().tolist()}
        self._update = self._by_torch
        if type(ensemble.group.optimiser) is Adam:
            stacks = ensemble.params, *(ensemble.state[m] for m in ("first", "second")), self._grads
            rates = {k: r.flatten() for k, r in ensemble.rates.items()}
            self._update = AdamStep(ensemble.group.optimiser, *stacks, rates=rates)

    def add_gradients(self, stream: int, normals: Tensor) -> None:
        """Gradients of the runs that read this stream; their losses are added up."""
        runs = self._runs.get(stream)
        if runs is not None:
            self._gradients(normals, runs)

    def update(self, t: Tensor) -> None:
        """The optimiser's step."""
        schedule = self._ensemble.group.schedule
        self._update(t, 1.0 if schedule is None else float(schedule.factor(t, self._ensemble.steps)))

    def _by_torch(self, t: Tensor, factor: float) -> None:
        ensemble = self._ensemble
        rates = {k: r * factor for k, r in ensemble.rates.items()}
        update = ensemble.group.optimiser.update
        params, state = update(ensemble.params, self._grads, ensemble.state, rates, t)
        for name, value in params.items():
            ensemble.params[name].copy_(value)
        for part, of in state.items():
            for name, value in of.items():
                ensemble.state[part][name].copy_(value)
