"""A group at work: parameters of all its runs stacked along a leading axis, stepped together; by autograd, compiled by torch, or in C.

In C, each step draws one stream's numbers and then takes the gradients of all runs that read them, while these numbers lie in the core's cache: for models
that have their gradient in C for a task's prompts (``Attention.in_c``). All others go through autograd, which the tests compare this with.
"""

import importlib.util
import os
import shutil
import tempfile
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.utils._pytree import tree_leaves, tree_map_only

from .. import native
from ..errors import UserError
from ..random import DATA, INIT, generator
from ..tasks import Batch
from .data import Stream
from .groups import Adam, Group, State, Tensors, squared_error


class Call(nn.Module):
    """Turns ``function(model, ...)`` into a module call, which is what functional_call can re-parametrise."""

    def __init__(self, model: nn.Module, function: Any) -> None:
        super().__init__()
        self.model = model
        self._function = function

    def forward(self, *args: Any) -> Any:
        return self._function(self.model, *args)


class Ensemble:
    """The runs of a group, with their parameters and the state of their optimiser.

    Args:
        group: the runs.
        steps: of the whole training, which schedules refer to.
        streams: data seeds of all groups of the training, in the order of the batch's leading axis.
        device, dtype: of the parameters.
    """

    def __init__(
        self, group: Group, steps: int, streams: Sequence[int], device: torch.device, dtype: torch.dtype
    ) -> None:
        self.group, self.steps, self.runs = group, steps, group.runs
        self.model = group.build()
        self._scored = Call(self.model, lambda model, *parts: group.loss(model, Batch(*parts)))
        self._observed = Call(self.model, group.observe)
        stacks: dict[str, list[Tensor]] = {}
        for run in group.runs:  # drawn on the CPU, so that every device starts from the same point
            self.model.initialise(generator(run.seed, INIT), run.init_scale)
            for name, p in self.model.named_parameters():
                stacks.setdefault(name, []).append(p.detach().clone())
        #: Stacks ``name -> (R, ...)``, and learning rates shaped to broadcast against them.
        self.params = {name: torch.stack(ps).to(device=device, dtype=dtype) for name, ps in stacks.items()}
        self.rates: Tensors = {}
        for name, p in self.params.items():
            values = [run.rate * dict(run.factors).get(name, 1.0) for run in group.runs]
            self.rates[name] = torch.tensor(values, dtype=dtype, device=device).reshape(-1, *[1] * (p.dim() - 1))
        self.state: State = group.optimiser.init(self.params)
        self.loss_sum = torch.zeros(len(self.runs), device=device, dtype=dtype)
        #: Which stream each run reads, ``(R,)``.
        self.streams_read = torch.tensor([streams.index(run.data_seed) for run in self.runs], device=device)
        # whether run r reads stream r, so that nothing is copied
        self.reads_in_order = self.streams_read.tolist() == list(range(len(streams)))

    def seen(self, batch: Batch) -> Batch:
        """Each run's part of a batch whose leading axis are the streams."""
        if self.reads_in_order:
            return batch
        return Batch(*(part[self.streams_read] for part in batch))

    def gradients(self, params: Tensors, batch: Batch) -> tuple[Tensors, Tensor]:
        """Gradients ``name -> (R, ...)`` and losses ``(R,)`` of all runs; ``batch`` has a leading run axis."""
        closed = self.group.gradient
        if closed is not None:
            each = [
                closed({k: p[r] for k, p in params.items()}, Batch(*(part[r] for part in batch)))
                for r in range(len(self.runs))
            ]
            grads = {k: torch.stack([g[k] for g, _ in each]) for k in params}
            return grads, torch.stack([loss for _, loss in each])

        def one_run(p: Tensors, *parts: Tensor) -> Tensor:
            return functional_call(self._scored, {f"model.{k}": v for k, v in p.items()}, parts)

        if torch.compiler.is_compiling():
            return vmap(grad_and_value(one_run))(params, *batch)
        # the same without torch.func's gradient, whose first call imports the tracer: a second of every process
        with torch.enable_grad():
            leaves = {k: p.detach().requires_grad_() for k, p in params.items()}
            losses = vmap(one_run)(leaves, *batch)
            if not losses.requires_grad:  # a loss that reads no parameter
                return {k: torch.zeros_like(p) for k, p in params.items()}, losses
            grads = torch.autograd.grad(losses.sum(), list(leaves.values()), materialize_grads=True)
        return dict(zip(leaves, grads, strict=True)), losses.detach()

    def step(
        self, params: Tensors, state: State, batch: Batch, rates: Tensors, t: Tensor
    ) -> tuple[Tensors, State, Tensor]:
        """One optimiser step of all runs, t = 1 the first: new parameters, new state, losses ``(R,)`` before the step. Pure."""
        update, schedule = self.group.optimiser.update, self.group.schedule
        if schedule is not None:
            factor = schedule.factor(t, self.steps)
            rates = {k: r * factor for k, r in rates.items()}
        first, state = None, {part: dict(of) for part, of in state.items()}
        for block in self.group.blocks or (tuple(params),):
            grads, losses = self.gradients(params, batch)
            first = losses if first is None else first
            mine = {part: {k: of[k] for k in block} for part, of in state.items()}
            moved, mine = update({k: params[k] for k in block}, grads, mine, rates, t)
            params = params | moved
            for part, of in mine.items():
                state[part] |= of
        return params, state, first

    def observed(self, params: Tensors, batch: Batch, held_out: Any) -> Tensors:
        """Measurements of all runs, ``name -> (R, ...)``, some of the ``batch`` that they see, and the parameters to keep at every record."""
        observe = self.group.observe
        if hasattr(observe, "of_runs"):
            values = observe.of_runs(self, params, batch, held_out)
        else:

            def one_run(p: Tensors) -> Tensors:
                weights = {f"model.{k}": v for k, v in p.items()}
                return functional_call(self._observed, weights, (held_out,))

            values = vmap(one_run)(params)
        return values if self.group.keep_at else values | {name: params[name] for name in self.group.keep}

    def leaves(self) -> list[Tensor]:
        """Parameters, optimiser state and sum of losses since the last record, each with the runs first."""
        return tree_leaves([self.params, self.state, self.loss_sum])


def placed(tree: Any, device: torch.device, dtype: torch.dtype) -> Any:
    """Tensors in tuples and dicts on a device, those of floating point with this dtype."""
    return tree_map_only(Tensor, lambda x: x.to(device, dtype if x.is_floating_point() else None), tree)


# -- where and how steps are taken ----------------------------------------------------------------------------------------


def pick_device(name: str = "auto") -> torch.device:
    """The device for ``"auto"`` (CUDA when there is one), ``"cpu"`` or ``"cuda"``."""
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


def compile_method(method: types.MethodType) -> Callable:
    """torch.compile for a bound method, of a code object of its own.

    Compiled code is cached by code object, and after eight recompilations of one the rest silently runs uncompiled: without the copy,
    the ninth trainer of a process would be slow.

    Compiled code is kept in a folder for every instruction set, unless the caller chose one: torch's inductor looks it up by the traced program alone, while
    the width of its vectors follows ATEN_CPU_CAPABILITY. Code found from a process with narrower vectors is compiled with wider ones and writes past the end
    of its arrays (torch 2.13).
    """
    flags = os.environ.get("TORCHINDUCTOR_CPP_ENABLE_FLOATING_POINT_CONTRACT_FLAG", "default")
    name = f"torchinductor_{os.getuid()}_{torch.backends.cpu.get_cpu_capability()}_{flags}".lower()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(tempfile.gettempdir(), name))
    # What the processor says of itself is believed; otherwise inductor compiles and loads a probe for every instruction set.
    os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")
    f = method.__func__
    own = types.FunctionType(f.__code__.replace(), f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    return torch.compile(types.MethodType(own, method.__self__), dynamic=False)


def steps_in_c(
    data: Any, ensembles: Sequence[Ensemble], keys: Tensor, batch_size: int, dtype: torch.dtype
) -> Callable[[int, Tensor], None] | None:
    """``step(number, t)``: step ``number`` = 1, 2, ... of all runs of all groups, in place; ``t`` is the number as optimisers want it.

    ``None`` where a group has no gradient in C on these data, or nothing can be compiled. ``keys`` are those of the data streams, ``(S, 2)``.
    """
    able = dtype is torch.float32 and native.can_draw(keys) and native.library("adam.c") is not None
    if not able or type(data) is not Stream:
        return None
    grads = [{k: torch.zeros_like(p) for k, p in e.params.items()} for e in ensembles]
    gradients = [in_c(data.task, e, g, batch_size) for e, g in zip(ensembles, grads, strict=True)]
    if None in gradients:
        return None
    updates = [_update(e, g) for e, g in zip(ensembles, grads, strict=True)]
    readers = [[(e.streams_read == stream).nonzero().flatten() for stream in range(len(keys))] for e in ensembles]
    normals = torch.empty(1, 1, data.task.normals * batch_size)

    def step(number: int, t: Tensor) -> None:
        at = torch.tensor([number])
        for stream, key in enumerate(keys.split(1)):
            native.fill("normals", normals, key, at, DATA)
            for add, runs in zip(gradients, readers, strict=True):
                if len(runs[stream]):
                    add(normals, runs[stream])
        for ensemble, update in zip(ensembles, updates, strict=True):
            schedule = ensemble.group.schedule
            update(t, 1.0 if schedule is None else float(schedule.factor(t, ensemble.steps)))

    return step


def in_c(task: Any, ensemble: Ensemble, grads: Tensors, batch_size: int) -> Callable[[Tensor, Tensor], None] | None:
    """The gradients of a group in C on a task's prompts, if there are any: into ``grads``, losses onto ``loss_sum``."""
    group = ensemble.group
    autograd = group.loss is squared_error and group.gradient is None and not group.blocks
    # a subclass with a batch of its own inherits a layout that does not describe it
    describes = {"layout", "batch"} <= vars(type(task)).keys()
    if not (autograd and describes and hasattr(ensemble.model, "in_c")):
        return None
    return ensemble.model.in_c(task.layout(), batch_size, ensemble.params, grads, ensemble.loss_sum)


def _update(ensemble: Ensemble, grads: Tensors) -> Callable[[Tensor, float], None]:
    """``update(t, factor)``: the optimiser's step with a factor on all rates, in place; Adam's in C."""
    params, state, optimiser = ensemble.params, ensemble.state, ensemble.group.optimiser
    if type(optimiser) is Adam:
        rates = {k: r.flatten() for k, r in ensemble.rates.items()}
        return native.adam(optimiser, params, state["first"], state["second"], grads, rates)

    def update(t: Tensor, factor: float) -> None:
        rates = {k: r * factor for k, r in ensemble.rates.items()}
        torch._foreach_copy_(
            tree_leaves([params, state]), tree_leaves(optimiser.update(params, grads, state, rates, t))
        )

    return update
