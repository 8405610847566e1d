"""Steps of ``native/gpu.cu``: many in one launch on a GPU, where NVRTC, which torch's CUDA builds carry, compiles it.

The numbers drawn are those of the steps in C, to the bit; trajectories differ from theirs by the rounding of other sums.
"""

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import UserError, one_line
from ..models.attention import LANES, MATRICES, Attention, _task
from ..native import FLOAT, HERE, LONG, POINTER
from ..tasks import Batch
from .data import Stream
from .ensemble import Ensemble
from .groups import Adam, squared_error
from .trainer import Trainer

#: Steps of one launch, between which a training can be interrupted.
LAUNCH = 512
#: Places of a batch from which a block takes neighbouring prompts (``SLICES`` of ``gpu.cu``), and the fewest neighbours.
SLICES, PAIR = 4, 2
#: Blocks that may share a run: a portable cluster of a GPU of compute capability 9.
PARTS = (8, 4, 2, 1)
#: Headers that the device's compiler has none of.
HEADERS = {"string.h": "", "stdint.h": "#pragma once\ntypedef int int32_t; typedef unsigned uint32_t;\n"}
HEADERS["stdint.h"] += "typedef long long int64_t; typedef unsigned long long uint64_t;\n"


#: ``struct training`` of ``gpu.cu`` after its task.
FIELDS = [(name, LONG) for name in ("normals", "B", "P", "H", "runs", "done", "steps")]
FIELDS += [(name, FLOAT) for name in ("scale", "beta1", "beta2", "rest", "eps")]
FIELDS += [("corrections", POINTER), ("keys", POINTER), ("stacks", POINTER * 12), ("rates", POINTER * 4)]
FIELDS += [("losses", POINTER), ("sums", POINTER)]


class Steps:
    """The steps of one group as ``gpu.cu`` takes them.

    Args:
        keys: of the data streams, ``(S, 2)``.
        parts: blocks that share a run.
        prompts: that a block takes at a time: a multiple of 8 that divides ``batch_size / parts``.
    """

    def __init__(self, ensemble: Ensemble, task: Any, batch_size: int, keys: Tensor, parts: int, prompts: int) -> None:
        self.ensemble, self.task, self.parts, self.prompts = ensemble, task, parts, prompts
        model, of, state = ensemble.model, ensemble.group.optimiser, ensemble.state
        d, n, self.n_heads, runs = task.d, task.n_tasks, len(model.query), len(ensemble.runs)
        self.macros = {"D": d + n, "N": n, "ACT": model.activation.upper(), "LENGTH": task.L, "PARTS": parts}
        sums = torch.zeros(runs * 2 * parts * (self.n_heads * (d + n) ** 2 + n), device=keys.device)
        rates = [ensemble.rates[k].flatten() for k in MATRICES]
        self._kept = rates, keys[ensemble.streams_read].contiguous(), sums  # in place while the GPU may read them
        stacks = [each[k].data_ptr() for each in (ensemble.params, state["first"], state["second"]) for k in MATRICES]
        sizes, betas = (task.normals, batch_size, prompts, self.n_heads, runs, 0, 0), (of.beta1, of.beta2, 1 - of.beta2)
        places = self._kept[1].data_ptr(), (POINTER * 12)(*stacks), (POINTER * 4)(*(r.data_ptr() for r in rates))
        about = _task(task.layout(), 1)
        kind = type("Training", (ctypes.Structure,), {"_fields_": [("task", type(about)), *FIELDS]})
        ends = ensemble.loss_sum.data_ptr(), sums.data_ptr()
        self._about = kind(about, *sizes, model.scale, *betas, of.eps, 0, *places, *ends)

    def after(self, done: int, steps: int) -> ctypes.Structure:
        """``struct training`` for so many steps after the first ``done``."""
        group, t = self.ensemble.group, torch.arange(done + 1, done + steps + 1, dtype=torch.float32)
        factor = torch.ones(steps) if group.schedule is None else group.schedule.factor(t, self.ensemble.steps)
        corrections = torch.stack([factor, *group.optimiser.corrections(t)], 1)
        self._corrections = corrections.to(self.ensemble.loss_sum.device)
        self._about.done, self._about.steps, self._about.corrections = done, steps, self._corrections.data_ptr()
        return self._about

    def launch(self, done: int, steps: int) -> None:
        """Take so many steps on the GPU, in place."""
        here = torch.cuda.get_device_properties(self.ensemble.loss_sum.device)
        blocks, size = self.parts * len(self.ensemble.runs), 4 * floats(self.task, self.n_heads, self.prompts)
        threads = 512 if blocks <= here.multi_processor_count else 256
        function = compiled(f"sm_{here.major}{here.minor}", size, **self.macros, THREADS=threads)
        about = (POINTER * 1)(ctypes.addressof(self.after(done, steps)))
        stream = POINTER(torch.cuda.current_stream().cuda_stream)
        _asked(_driver().cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, size, stream, about, None))


def floats(task: Any, n_heads: int, prompts: int) -> int:
    """Shared memory of a block, in floats (``laid_out`` of ``gpu.cu``)."""
    d, n = task.d, task.n_tasks
    width, numbers = d + n, task.normals + (task.L + 1) * n | 1
    prompt = numbers + (d + 2 * n + n_heads * width * (2 + n) | 1)
    return n_heads * width * (16 * width + d + n) + SLICES * (n_heads * width**2 + n) + prompts * prompt


def steps_on_gpu(data: Any, ensembles: Sequence[Ensemble], keys: Tensor, batch_size: int) -> list[Steps] | None:
    """The steps of all groups; ``None`` where one has none on these data or does not fit a block of this GPU."""
    if type(data) is not Stream or batch_size % LANES or not {"layout", "batch"} <= vars(type(data.task)).keys():
        return None
    task, found = data.task, []
    here = torch.cuda.get_device_properties(keys.device)
    for ensemble in ensembles:
        group, model = ensemble.group, ensemble.model
        plain = group.loss is squared_error and group.gradient is None and not group.blocks
        ours = type(model) is Attention and type(group.optimiser) is Adam and ensemble.loss_sum.dtype is torch.float32
        if not (plain and ours and (model.width, model.n_tasks) == (task.d + task.n_tasks, task.n_tasks)):
            return None
        runs, places = len(ensemble.runs), batch_size // SLICES
        processors, wide = here.multi_processor_count, PARTS if here.major >= 9 else (1,)
        parts = next(p for p in wide if p == 1 or (runs * p <= processors and places % (PAIR * p) == 0))
        # two blocks on a processor where there are more than processors; the system keeps a kibibyte of each
        room = here.shared_memory_per_multiprocessor // (1 + (runs * parts > processors)) - 1024
        each = (w for w in range(PAIR, places // parts + 1, PAIR) if places // parts % w == 0)
        fit = [w for w in each if 4 * floats(task, len(model.query), SLICES * w) <= room]
        if not fit:
            return None
        found.append(Steps(ensemble, task, batch_size, keys, parts, SLICES * fit[-1]))
    return found


class OneLaunch(Trainer):
    """The trainer on a GPU with these steps where all groups have them, and elsewhere as it is."""

    def _choose(self, compile: bool | None, compile_from: int | None) -> None:
        self._launched = None
        if compile is not False and self._jitter is None and self.device.type == "cuda":
            self._launched = steps_on_gpu(self.data, self.ensembles, self._keys, self.batch_size)
        if not self._launched:
            return super()._choose(compile, compile_from)
        self._in_c, self.compiled, self._numbers, self._block = None, True, (), LAUNCH

    @torch.no_grad()
    def _run(self, n: int) -> None:
        if not self._launched:
            return super()._run(n)
        for steps in self._launched:
            steps.launch(self.done, n)
        self._t += n
        self.done += n

    def _seen(self) -> Batch:
        if not self._launched:
            return super()._seen()
        drawn = self._draw(self._keys, torch.tensor([max(self.done, 1)], device=self.device))
        return self.data.batch(tuple(x[:, 0] for x in drawn), self._fixed)


# -- NVRTC and the driver -------------------------------------------------------------------------------------------------


@lru_cache
def _nvrtc() -> ctypes.CDLL:
    """NVRTC: as torch links it, or the system's; what it opens by name alone is loaded before it."""
    site = Path(torch.__file__).parents[1]
    for builtins in site.glob("nvidia/*/lib/libnvrtc-builtins.so.*[0-9]"):
        with suppress(OSError):
            ctypes.CDLL(str(builtins))
    names = [site / "torch/lib/libcaffe2_nvrtc.so", f"libnvrtc.so.{(torch.version.cuda or '')[:2]}"]
    names += site.glob("nvidia/*/lib/libnvrtc.so.*[0-9]")
    for name in names:
        with suppress(OSError):
            library = ctypes.CDLL(str(name))
            if hasattr(library, "nvrtcCompileProgram"):
                return library
    raise UserError("NVRTC was not found", "Install a CUDA build of torch, which carries it.")


@lru_cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _asked(status: int) -> None:
    if status:
        raise UserError(f"the CUDA driver answers {status}", "Repeat it with CUDA_LAUNCH_BLOCKING=1.")


@lru_cache
def cubin(gpu: str, **macros: str | int) -> bytes:
    """``gpu.cu`` compiled for a GPU such as ``sm_90``; needs none."""
    nvrtc, program, size = _nvrtc(), POINTER(), ctypes.c_size_t()
    texts = HEADERS | {f.name: f.read_text(encoding="utf-8") for f in sorted(HERE.glob("*.*")) if f.suffix != ".py"}
    names, bodies = ((ctypes.c_char_p * len(texts))(*map(str.encode, of)) for of in (texts, texts.values()))
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), texts["gpu.cu"].encode(), b"gpu.cu", len(texts), bodies, names)
    flags = [f"--gpu-architecture={gpu}", "--device-as-default-execution-space", "--fmad=false", "--std=c++17"]
    flags += [f"-D{name}={value}" for name, value in macros.items()]
    failed = nvrtc.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*map(str.encode, flags)))
    what = "ProgramLog" if failed else "CUBIN"
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        said = one_line(text.value.decode())[:300]
        raise UserError(f"gpu.cu does not compile for {gpu}: {said}", "Use --device cpu.")
    return text.raw


@lru_cache
def compiled(gpu: str, shared_bytes: int, **macros: str | int) -> ctypes.c_void_p:
    """The kernel in the present context, with room for its shared memory."""
    cuda, module, function = _driver(), POINTER(), POINTER()
    _asked(cuda.cuModuleLoadData(ctypes.byref(module), cubin(gpu, **macros)))
    _asked(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"train"))
    _asked(cuda.cuFuncSetAttribute(function, 8, shared_bytes))  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    return function
