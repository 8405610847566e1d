"""Which device a run uses, and whether its steps can be compiled there."""

from __future__ import annotations

import os
import shutil
import tempfile
import types
from collections.abc import Callable

import torch

from ..errors import UserError


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
        return torch.utils._triton.has_triton()
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
