"""Which device a run uses, and whether its steps can be compiled there."""

from __future__ import annotations

import os
import shutil
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


def compile_method(method: types.MethodType) -> Callable:
    """torch.compile for a bound method, of a code object of its own.

    Compiled code is cached by code object, and after eight recompilations of one the rest silently runs uncompiled: without the copy,
    the ninth trainer of a process would be slow.
    """
    f = method.__func__
    own = types.FunctionType(f.__code__.replace(), f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    return torch.compile(types.MethodType(own, method.__self__), dynamic=False)
