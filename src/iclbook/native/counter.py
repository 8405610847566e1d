"""Numbers by counter in C, for :mod:`iclbook.random`, which says what they are."""

from __future__ import annotations

import ctypes
from functools import lru_cache

import torch
from torch import Tensor

from .build import library

_POINTER, _LONG = ctypes.c_void_p, ctypes.c_int64


@lru_cache
def functions() -> ctypes.CDLL | None:
    """``normals`` and ``words`` of ``counter.c``; ``None`` where they cannot be had."""
    found = library("counter.c")
    for name in ("normals", "words") if found else ():
        function = getattr(found, name)
        function.argtypes = [_POINTER, _POINTER, _LONG, _POINTER, _LONG, ctypes.c_uint32, _LONG]
        function.restype = None
    return found


def can_draw(keys: Tensor) -> bool:
    """Whether numbers for these keys are drawn here: on a CPU, and not in the midst of tracing a program."""
    return keys.device.type == "cpu" and not torch.compiler.is_compiling() and functions() is not None


def draw(kind: str, keys: Tensor, steps: Tensor, purpose: int, n: int) -> Tensor:
    """``n`` ``normals`` (float32) or ``words`` (int64) for keys ``(S, 2)`` and steps ``(K,)``, ``(S, K, n)``."""
    dtype = {"normals": torch.float32, "words": torch.int64}[kind]
    out = torch.empty((len(keys), len(steps), n), dtype=dtype, device="cpu")
    whole = (x.to("cpu", torch.int64).contiguous() for x in (keys, steps))
    fill(kind, out, *whole, purpose)
    return out


def fill(kind: str, out: Tensor, keys: Tensor, steps: Tensor, purpose: int) -> None:
    """The same into ``out``; all three are contiguous and on the CPU, keys and steps int64."""
    function = getattr(functions(), kind)
    sizes = len(steps), purpose, out.shape[-1]
    function(out.data_ptr(), keys.data_ptr(), len(keys), steps.data_ptr(), *sizes)
