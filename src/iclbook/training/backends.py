"""How steps are taken: on which device, compiled by torch, or in C.

In C, each step draws one stream's numbers and then takes the gradients of all runs that read them, while these numbers lie in the core's cache: for models
that have their gradient in C for a task's prompts (``Attention.in_c``). All others go through autograd (:mod:`iclbook.training.ensemble`), which the tests
compare this with.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
import types
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from .. import native
from ..errors import UserError
from ..random import DATA
from .data import Data, Stream
from .ensemble import Ensemble, leaves
from .groups import squared_error
from .optimisers import Adam, Tensors


def pick_device(name: str = "auto") -> torch.device:
    """The device for ``"auto"`` (CUDA when there is one), ``"cpu"`` or ``"cuda"``.

    Raises:
        UserError: unknown name, or CUDA asked for where there is none.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise UserError(f"unknown device {name!r}", "Choose auto, cpu or cuda.")
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("no CUDA device was found", "Leave out --device, or use --device cpu.")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def can_compile(device: torch.device) -> bool:
    """Whether torch.compile has a back end here: Triton on a GPU, a C++ compiler on a CPU."""
    if device.type == "cuda":
        return importlib.util.find_spec("triton") is not None
    return any(shutil.which(c) for c in (os.environ.get("CXX", ""), "g++", "clang++") if c)


def _keep_compiled_code_apart() -> None:
    """A folder of compiled code for every instruction set, unless the caller chose one.

    Torch's inductor looks up what it compiled by the traced program alone, while the width of the vectors in the code follows ATEN_CPU_CAPABILITY: code
    found from a process with narrower vectors is compiled with wider ones and writes past the end of its arrays (torch 2.13).
    """
    flags = os.environ.get("TORCHINDUCTOR_CPP_ENABLE_FLOATING_POINT_CONTRACT_FLAG", "default")
    name = f"torchinductor_{os.getuid()}_{torch.backends.cpu.get_cpu_capability()}_{flags}".lower()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(tempfile.gettempdir(), name))
    # What the processor says of itself is believed; otherwise inductor compiles and loads a probe for every instruction set.
    os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")


def compile_method(method: types.MethodType) -> Callable:
    """torch.compile for a bound method, of a code object of its own.

    Compiled code is cached by code object, and after eight recompilations of one the rest silently runs uncompiled: without the copy,
    the ninth trainer of a process would be slow.
    """
    _keep_compiled_code_apart()
    f = method.__func__
    own = types.FunctionType(f.__code__.replace(), f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    return torch.compile(types.MethodType(own, method.__self__), dynamic=False)


class Gradients(Protocol):
    """A model's gradient in C, such as :class:`iclbook.models.attention.AttentionStep`; only models import these, so that it counts for their studies alone."""

    def bind(self, params: Tensors, grads: Tensors, losses: Tensor) -> None:
        """Say where parameters and gradients of all runs are, ``name -> (R, ...)``, and the sums of their losses ``(R,)``."""
        ...

    def __call__(self, normals: Tensor, runs: Tensor) -> None:
        """Take the gradients of these runs on one stream's numbers, in place, and add their losses."""
        ...


class CSteps:
    """Steps of all groups of a training, in place.

    Args:
        ensembles: the groups.
        gradients: of each of them.
        keys: of the data streams, ``(S, 2)``.
        n_normals: standard normals that a stream's batch consumes.
    """

    def __init__(
        self, ensembles: Sequence[Ensemble], gradients: Sequence[Gradients], keys: Tensor, n_normals: int
    ) -> None:
        self._normals = torch.empty(1, 1, n_normals)
        self._keys = keys.split(1)
        self._groups = [_CGroup(*pair) for pair in zip(ensembles, gradients, strict=True)]

    @classmethod
    def of(
        cls, data: Data, ensembles: Sequence[Ensemble], keys: Tensor, batch_size: int, dtype: torch.dtype
    ) -> CSteps | None:
        """The steps of these groups on these data; ``None`` where a group has no gradient in C, or nothing can be compiled."""
        able = dtype is torch.float32 and native.can_draw(keys) and native.can_step()
        if not able or type(data) is not Stream:
            return None
        gradients = [in_c(data.task, e, batch_size) for e in ensembles]
        return None if None in gradients else cls(ensembles, gradients, keys, data.task.normals * batch_size)

    def step(self, number: int, t: Tensor) -> None:
        """Step ``number`` = 1, 2, ... of all runs; ``t`` is the number as optimisers want it."""
        at = torch.tensor([number])
        for stream, key in enumerate(self._keys):
            native.fill("normals", self._normals, key, at, DATA)
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


class _CGroup:
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
            self._update = native.AdamStep(ensemble.group.optimiser, *stacks, rates=rates)

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
        moved = update(ensemble.params, self._grads, ensemble.state, rates, t)
        torch._foreach_copy_(leaves([ensemble.params, ensemble.state]), leaves(moved))
